//! A thousand workers without their machines: a server in this process answers each action after a time, as a worker would,
//! and the real `orch` is its client. Shows how many workers one orch keeps busy, and what that takes.
//!
//!     cargo bench --features remote --bench crowd -- 20000 1000 10     # steps, workers, seconds that a step takes
//!
//! Every hundredth step reads the 99 before it. Prints a row of a table in Markdown, and what of it each phase took: planning
//! and look-up until the first step is submitted, execution until the last one is done, and what is written then.

#![allow(clippy::print_stdout, reason = "it is what a benchmark is for")]

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;
use bazel_remote_apis::google::longrunning::{Operation, operation};
use bazel_remote_apis::google::protobuf::Any;
use bazel_remote_apis::google::rpc;
use futures_util::stream::BoxStream;
use orch::base::Digest as Content;
use orch::key::KeyDoc;
use orch::store::{Manifest, ManifestFile};
use prost::Message;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use api::action_cache_server::{ActionCache, ActionCacheServer};
use api::capabilities_server::{Capabilities, CapabilitiesServer};
use api::content_addressable_storage_server::{
    ContentAddressableStorage, ContentAddressableStorageServer,
};
use api::execution_server::{Execution, ExecutionServer};
use api::execution_stage::Value as Stage;

#[path = "harness/threads.rs"]
mod threads;

use threads::Sample;

/// BLAKE3, as the API numbers it: orch's own digests are the server's then.
const BLAKE3: i32 = 9;

struct Crowd {
    blobs: Mutex<HashMap<String, Vec<u8>>>,
    workers: Semaphore,
    takes: Duration,
    /// Microseconds that workers were busy, all together.
    busy: AtomicU64,
    submitted: AtomicU32,
    done: AtomicU32,
}

#[derive(Clone)]
struct Lab(Arc<Crowd>);

fn digest_of(bytes: &[u8]) -> api::Digest {
    api::Digest {
        hash: Content::of(bytes).to_string(),
        size_bytes: bytes.len() as i64,
    }
}

impl Lab {
    fn put(&self, bytes: Vec<u8>) -> api::Digest {
        let digest = digest_of(&bytes);
        self.0
            .blobs
            .lock()
            .unwrap()
            .insert(digest.hash.clone(), bytes);
        digest
    }

    fn message<M: Message + Default>(&self, digest: Option<&api::Digest>) -> M {
        let blobs = self.0.blobs.lock().unwrap();
        M::decode(blobs[&digest.unwrap().hash].as_slice()).unwrap()
    }

    /// What orch on a worker leaves, without orch and the worker.
    fn perform(&self, action: &api::Digest) -> api::ActionResult {
        let action: api::Action = self.message(Some(action));
        let root: api::Directory = self.message(action.input_root_digest.as_ref());
        let order = root
            .files
            .iter()
            .find(|file| file.name == "order.json")
            .unwrap()
            .digest
            .clone()
            .unwrap();
        let order: Value =
            serde_json::from_slice(&self.0.blobs.lock().unwrap()[&order.hash]).unwrap();
        let key: KeyDoc = serde_json::from_value(order["key"].clone()).unwrap();
        let content = order["step"].as_str().unwrap().as_bytes().to_vec();
        let file = ManifestFile {
            path: "out".into(),
            size: content.len() as u64,
            digest: Content::of(&content),
            executable: false,
        };
        let origin = json!({"host": "nobody", "fingerprint": "none", "cpu": "none", "started": "2026-01-01T00:00:00Z",
            "seconds": self.0.takes.as_secs_f64()});
        let answer = json!({"version": 1, "key": key.digest(), "outcome": "PASS", "reason": null, "transient": false,
            "facts": {}, "measure": null, "made": Manifest { files: vec![file] }, "origin": origin});
        let left = [
            ("answer.json", answer.to_string().into_bytes()),
            ("out/out", content),
        ];
        let file = |(path, bytes): (&str, Vec<u8>)| api::OutputFile {
            path: path.into(),
            digest: Some(self.put(bytes)),
            ..api::OutputFile::default()
        };
        api::ActionResult {
            output_files: left.map(file).into(),
            ..api::ActionResult::default()
        }
    }
}

fn operation(stage: Stage, result: Option<api::ActionResult>) -> Result<Operation, Status> {
    let any = |value: Vec<u8>| Any {
        type_url: String::new(),
        value,
    };
    let metadata = api::ExecuteOperationMetadata {
        stage: stage.into(),
        ..Default::default()
    };
    let response = result.map(|result| api::ExecuteResponse {
        result: Some(result),
        ..Default::default()
    });
    Ok(Operation {
        name: "one".into(),
        metadata: Some(any(metadata.encode_to_vec())),
        done: response.is_some(),
        result: response.map(|response| operation::Result::Response(any(response.encode_to_vec()))),
    })
}

type Operations = BoxStream<'static, Result<Operation, Status>>;

#[tonic::async_trait]
impl Execution for Lab {
    type ExecuteStream = Operations;
    type WaitExecutionStream = Operations;

    async fn execute(
        &self,
        request: Request<api::ExecuteRequest>,
    ) -> Result<Response<Operations>, Status> {
        let lab = self.clone();
        let action = request.into_inner().action_digest.unwrap();
        lab.0.submitted.fetch_add(1, Ordering::Relaxed);
        let (says, said) = tokio::sync::mpsc::channel(4);
        tokio::spawn(async move {
            let _ = says.send(operation(Stage::Queued, None)).await;
            let _worker = lab.0.workers.acquire().await.unwrap();
            let _ = says.send(operation(Stage::Executing, None)).await;
            tokio::time::sleep(lab.0.takes).await;
            lab.0
                .busy
                .fetch_add(lab.0.takes.as_micros() as u64, Ordering::Relaxed);
            let _ = says
                .send(operation(Stage::Completed, Some(lab.perform(&action))))
                .await;
            lab.0.done.fetch_add(1, Ordering::Relaxed);
        });
        let said = futures_util::stream::unfold(said, |mut said| async {
            said.recv().await.map(|one| (one, said))
        });
        Ok(Response::new(Box::pin(said)))
    }

    async fn wait_execution(
        &self,
        _: Request<api::WaitExecutionRequest>,
    ) -> Result<Response<Operations>, Status> {
        Err(Status::not_found("nothing is kept"))
    }
}

#[tonic::async_trait]
impl ActionCache for Lab {
    async fn get_action_result(
        &self,
        _: Request<api::GetActionResultRequest>,
    ) -> Result<Response<api::ActionResult>, Status> {
        Err(Status::not_found("nothing is remembered"))
    }

    async fn update_action_result(
        &self,
        _: Request<api::UpdateActionResultRequest>,
    ) -> Result<Response<api::ActionResult>, Status> {
        Err(Status::unimplemented("results"))
    }
}

#[tonic::async_trait]
impl Capabilities for Lab {
    async fn get_capabilities(
        &self,
        _: Request<api::GetCapabilitiesRequest>,
    ) -> Result<Response<api::ServerCapabilities>, Status> {
        let cache = api::CacheCapabilities {
            digest_functions: vec![BLAKE3],
            ..Default::default()
        };
        let execution = api::ExecutionCapabilities {
            exec_enabled: true,
            ..Default::default()
        };
        let cache_capabilities = Some(cache);
        let execution_capabilities = Some(execution);
        Ok(Response::new(api::ServerCapabilities {
            cache_capabilities,
            execution_capabilities,
            ..Default::default()
        }))
    }
}

#[tonic::async_trait]
impl ContentAddressableStorage for Lab {
    type GetTreeStream = BoxStream<'static, Result<api::GetTreeResponse, Status>>;
    type GetChunkMappingStream = BoxStream<'static, Result<api::GetChunkMappingResponse, Status>>;

    async fn find_missing_blobs(
        &self,
        request: Request<api::FindMissingBlobsRequest>,
    ) -> Result<Response<api::FindMissingBlobsResponse>, Status> {
        let blobs = self.0.blobs.lock().unwrap();
        let asked = request.into_inner().blob_digests.into_iter();
        let missing_blob_digests = asked
            .filter(|digest| !blobs.contains_key(&digest.hash))
            .collect();
        Ok(Response::new(api::FindMissingBlobsResponse {
            missing_blob_digests,
        }))
    }

    async fn batch_update_blobs(
        &self,
        request: Request<api::BatchUpdateBlobsRequest>,
    ) -> Result<Response<api::BatchUpdateBlobsResponse>, Status> {
        let take = |one: api::batch_update_blobs_request::Request| {
            let digest = Some(self.put(one.data));
            let status = Some(rpc::Status::default());
            api::batch_update_blobs_response::Response { digest, status }
        };
        let responses = request
            .into_inner()
            .requests
            .into_iter()
            .map(take)
            .collect();
        Ok(Response::new(api::BatchUpdateBlobsResponse { responses }))
    }

    async fn batch_read_blobs(
        &self,
        request: Request<api::BatchReadBlobsRequest>,
    ) -> Result<Response<api::BatchReadBlobsResponse>, Status> {
        let blobs = self.0.blobs.lock().unwrap();
        let give = |digest: api::Digest| {
            let data = blobs[&digest.hash].clone();
            let status = Some(rpc::Status::default());
            api::batch_read_blobs_response::Response {
                digest: Some(digest),
                data,
                status,
                ..Default::default()
            }
        };
        let responses = request.into_inner().digests.into_iter().map(give).collect();
        Ok(Response::new(api::BatchReadBlobsResponse { responses }))
    }

    async fn get_tree(
        &self,
        _: Request<api::GetTreeRequest>,
    ) -> Result<Response<Self::GetTreeStream>, Status> {
        Err(Status::unimplemented("trees"))
    }

    async fn split_blob(
        &self,
        _: Request<api::SplitBlobRequest>,
    ) -> Result<Response<api::SplitBlobResponse>, Status> {
        Err(Status::unimplemented("parts"))
    }

    async fn get_chunk_mapping(
        &self,
        _: Request<api::GetChunkMappingRequest>,
    ) -> Result<Response<Self::GetChunkMappingStream>, Status> {
        Err(Status::unimplemented("parts"))
    }

    async fn splice_blob(
        &self,
        _: Request<api::SpliceBlobRequest>,
    ) -> Result<Response<api::SpliceBlobResponse>, Status> {
        Err(Status::unimplemented("parts"))
    }

    async fn register_chunk_mapping(
        &self,
        _: Request<Streaming<api::RegisterChunkMappingRequest>>,
    ) -> Result<Response<api::RegisterChunkMappingResponse>, Status> {
        Err(Status::unimplemented("parts"))
    }
}

fn spec(steps: u32) -> String {
    let mut text = String::from("version: 1\ncommands:\n");
    for at in 0..steps {
        let _ = write!(text, "  c{at}: {{argv: [echo, '{at}'], outputs: [out]");
        if at % 100 == 99 {
            text.push_str(", inputs: {");
            for of in at - 99..at {
                let _ = write!(text, "i{of}: {{step: 'command:c{of}'}}, ");
            }
            text.push('}');
        }
        text.push_str("}\n");
    }
    text
}

/// CPU seconds, and the most resident memory of one, of the children that have ended.
fn of_children() -> (f64, f64) {
    // SAFETY: all-zero is a value of this plain structure, and getrusage fills it in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (
        seconds(usage.ru_utime) + seconds(usage.ru_stime),
        usage.ru_maxrss as f64 * 1024.0,
    )
}

fn main() {
    let given: Vec<u32> = std::env::args()
        .skip(1)
        .filter_map(|arg| arg.parse().ok())
        .collect();
    let [steps, workers, seconds] = given[..] else {
        println!("usage: cargo bench --features remote --bench crowd -- STEPS WORKERS SECONDS");
        return;
    };
    let lab = Lab(Arc::new(Crowd {
        blobs: Mutex::default(),
        workers: Semaphore::new(workers as usize),
        takes: Duration::from_secs(seconds.into()),
        busy: AtomicU64::new(0),
        submitted: AtomicU32::new(0),
        done: AtomicU32::new(0),
    }));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let services = Server::builder()
        .tcp_nodelay(true)
        .add_service(CapabilitiesServer::new(lab.clone()))
        .add_service(ContentAddressableStorageServer::new(lab.clone()))
        .add_service(ActionCacheServer::new(lab.clone()))
        .add_service(ExecutionServer::new(lab.clone()));
    runtime.spawn(services.serve(([127, 0, 0, 1], port).into()));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("spec.yaml"), spec(steps)).unwrap();
    let executor = format!(
        "[executor]\nurl = 'grpc://127.0.0.1:{port}'\nwhere = 'remote'\nprogram = '/nobody'\nslots = {}\ntimeout = 600\n",
        workers.min(1024)
    );
    std::fs::write(folder.path().join("orch.toml"), executor).unwrap();
    let start = Instant::now();
    let phases = run(folder.path(), &lab.0, steps);
    let wall = start.elapsed().as_secs_f64();
    let (cpu, memory) = of_children();
    let busy = lab.0.busy.load(Ordering::Relaxed) as f64 / 1e6;
    println!(
        "| steps | workers | a step takes | wall | steps/s | workers busy | orch: CPU a step | orch: peak memory |"
    );
    println!(
        "| {steps} | {workers} | {seconds} s | {wall:.1} s | {:.0} | {:.0} % | {:.2} ms | {:.0} MB |",
        f64::from(steps) / wall,
        100.0 * busy / wall / f64::from(workers),
        cpu / f64::from(steps) * 1e3,
        memory / 1e6
    );
    println!(
        "| phase | wall | CPU: main thread | its job threads | its connection | memory at the end |"
    );
    let mut before = Sample::default();
    for Phase { name, seconds, end } in phases {
        // Threads of the connection that have ended are counted with the others.
        let [main, named] = [end.main - before.main, (end.named - before.named).max(0.0)];
        let [main, jobs, wire] = [main, end.all - before.all - main - named, named]
            .map(|seconds| format!("{seconds:.1} s"));
        println!(
            "| {name} | {seconds:.1} s | {main} | {jobs} | {wire} | {:.0} MB |",
            end.memory / 1e6
        );
        before = end;
    }
}

/// What a phase ended with.
struct Phase {
    name: &'static str,
    seconds: f64,
    end: Sample,
}

/// Runs orch, and looks at it five times a second.
fn run(folder: &Path, crowd: &Crowd, steps: u32) -> Vec<Phase> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orch"));
    command
        .args(["run", "spec.yaml", "--quiet", "--step", "command:*"])
        .current_dir(folder);
    command
        .env("ORCH_CACHE_DIR", folder.join("cache"))
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let phase = |name| Phase {
        name,
        seconds: 0.0,
        end: Sample::default(),
    };
    let mut phases = ["before the first step", "steps", "after the last step"].map(phase);
    let mut start = Instant::now();
    let mut last = 0;
    while child.try_wait().unwrap().is_none() {
        let [submitted, done] =
            [&crowd.submitted, &crowd.done].map(|count| count.load(Ordering::Relaxed));
        let at = if done == steps {
            2
        } else {
            usize::from(submitted > 0)
        };
        if at != last {
            (start, last) = (Instant::now(), at);
        }
        if let Some(sample) = Sample::of(child.id(), "orch-executor") {
            (phases[at].seconds, phases[at].end) = (start.elapsed().as_secs_f64(), sample);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let status = child.wait().unwrap();
    assert!(status.success(), "orch: {status}");
    phases.into()
}

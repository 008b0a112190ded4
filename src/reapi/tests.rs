//! The client against a server in this process that does what no real one of `tests/remote` does: it wants tokens,
//! refuses for a while, speaks one digest function alone, and answers wrongly.

use std::collections::{BTreeMap, HashMap};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bazel_remote_apis::build::bazel::remote::execution::v2::capabilities_server::{
    Capabilities, CapabilitiesServer,
};
use bazel_remote_apis::build::bazel::remote::execution::v2::content_addressable_storage_server::{
    ContentAddressableStorage, ContentAddressableStorageServer,
};
use bazel_remote_apis::google::bytestream as stream;
use bazel_remote_apis::google::bytestream::byte_stream_server::{ByteStream, ByteStreamServer};
use bazel_remote_apis::google::rpc;
use futures_util::stream::{BoxStream, iter};
use tonic::transport::Server;
use tonic::transport::server::Router;
use tonic::{Request, Response, Status, Streaming};

use crate::base::{Digest as Content3, ensure};
use crate::reapi::proto::*;
use crate::reapi::{Address, Blob, Client, Fault, Function, Patience, Wanted, runtime};

/// What a server does, and what it has seen.
#[derive(Default)]
struct Manner {
    functions: Vec<i32>,
    zstd: bool,
    most_in_batch: i64,
    token: Option<String>,
    /// So many requests for blobs are refused first.
    refuses: AtomicU32,
    hangs: bool,
    /// Whether it changes what it sends.
    lies: bool,
    /// Whether it sends less than it should.
    cuts: bool,
    blobs: Mutex<HashMap<String, Vec<u8>>>,
    seen: Mutex<Vec<String>>,
}

#[derive(Clone)]
struct Fake(Arc<Manner>);

impl Fake {
    async fn enter<T>(&self, what: &str, request: &Request<T>) -> Result<(), Status> {
        self.0.seen.lock().unwrap().push(what.to_owned());
        let given = request
            .metadata()
            .get("authorization")
            .and_then(|value| value.to_str().ok());
        if let Some(token) = &self.0.token
            && given != Some(&format!("Bearer {token}"))
        {
            return Err(Status::unauthenticated("no such token"));
        }
        if self.0.hangs {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        let more = |left: u32| left.checked_sub(1);
        let answers = || {
            self.0
                .refuses
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, more)
                .is_err()
        };
        ensure(what == "capabilities" || answers(), || {
            Status::resource_exhausted("slow down")
        })
    }

    fn content(&self, hash: &str) -> Result<Vec<u8>, Status> {
        let found = self.0.blobs.lock().unwrap().get(hash).cloned();
        let mut bytes = found.ok_or_else(|| Status::not_found("no such blob"))?;
        if self.0.lies {
            bytes[0] ^= 1;
        }
        if self.0.cuts {
            bytes.pop();
        }
        Ok(bytes)
    }
}

pub(super) type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Capabilities for Fake {
    async fn get_capabilities(
        &self,
        request: Request<GetCapabilitiesRequest>,
    ) -> Answer<ServerCapabilities> {
        self.enter("capabilities", &request).await?;
        let zstd = self.0.zstd.then(|| compressor::Value::Zstd.into());
        let cache = CacheCapabilities {
            digest_functions: self.0.functions.clone(),
            max_batch_total_size_bytes: self.0.most_in_batch,
            supported_compressors: zstd.into_iter().collect(),
            ..CacheCapabilities::default()
        };
        Ok(Response::new(ServerCapabilities {
            cache_capabilities: Some(cache),
            ..ServerCapabilities::default()
        }))
    }
}

#[tonic::async_trait]
impl ContentAddressableStorage for Fake {
    type GetTreeStream = BoxStream<'static, Result<GetTreeResponse, Status>>;
    type GetChunkMappingStream = BoxStream<'static, Result<GetChunkMappingResponse, Status>>;

    async fn find_missing_blobs(
        &self,
        request: Request<FindMissingBlobsRequest>,
    ) -> Answer<FindMissingBlobsResponse> {
        self.enter("missing", &request).await?;
        let blobs = self.0.blobs.lock().unwrap();
        let queried = request.into_inner().blob_digests.into_iter();
        let missing_blob_digests = queried
            .filter(|digest| !blobs.contains_key(&digest.hash))
            .collect();
        Ok(Response::new(FindMissingBlobsResponse {
            missing_blob_digests,
        }))
    }

    async fn batch_update_blobs(
        &self,
        request: Request<BatchUpdateBlobsRequest>,
    ) -> Answer<BatchUpdateBlobsResponse> {
        self.enter("batch", &request).await?;
        let requests = request.into_inner().requests;
        let size: usize = requests.iter().map(|one| one.data.len()).sum();
        ensure(size as i64 <= self.0.most_in_batch, || {
            Status::invalid_argument("too large a batch")
        })?;
        let take = |one: batch_update_blobs_request::Request| {
            let digest = one.digest.unwrap();
            self.0
                .blobs
                .lock()
                .unwrap()
                .insert(digest.hash.clone(), one.data);
            let status = Some(rpc::Status::default());
            batch_update_blobs_response::Response {
                digest: Some(digest),
                status,
            }
        };
        Ok(Response::new(BatchUpdateBlobsResponse {
            responses: requests.into_iter().map(take).collect(),
        }))
    }

    async fn batch_read_blobs(
        &self,
        request: Request<BatchReadBlobsRequest>,
    ) -> Answer<BatchReadBlobsResponse> {
        self.enter("read batch", &request).await?;
        let one = |digest: Digest| {
            let (data, code) = self
                .content(&digest.hash)
                .map_or((vec![], 5), |data| (data, 0));
            let status = Some(rpc::Status {
                code,
                ..rpc::Status::default()
            });
            batch_read_blobs_response::Response {
                digest: Some(digest),
                data,
                status,
                ..Default::default()
            }
        };
        let responses = request.into_inner().digests.into_iter().map(one).collect();
        Ok(Response::new(BatchReadBlobsResponse { responses }))
    }

    async fn get_tree(&self, _: Request<GetTreeRequest>) -> Answer<Self::GetTreeStream> {
        Err(Status::unimplemented("trees"))
    }

    async fn split_blob(&self, _: Request<SplitBlobRequest>) -> Answer<SplitBlobResponse> {
        Err(Status::unimplemented("parts"))
    }

    async fn get_chunk_mapping(
        &self,
        _: Request<GetChunkMappingRequest>,
    ) -> Answer<Self::GetChunkMappingStream> {
        Err(Status::unimplemented("parts"))
    }

    async fn splice_blob(&self, _: Request<SpliceBlobRequest>) -> Answer<SpliceBlobResponse> {
        Err(Status::unimplemented("parts"))
    }

    async fn register_chunk_mapping(
        &self,
        _: Request<Streaming<RegisterChunkMappingRequest>>,
    ) -> Answer<RegisterChunkMappingResponse> {
        Err(Status::unimplemented("parts"))
    }
}

#[tonic::async_trait]
impl ByteStream for Fake {
    type ReadStream = BoxStream<'static, Result<stream::ReadResponse, Status>>;

    async fn read(&self, request: Request<stream::ReadRequest>) -> Answer<Self::ReadStream> {
        let name = request.get_ref().resource_name.clone();
        self.enter(&format!("read {name}"), &request).await?;
        let hash = name.rsplit('/').nth(1).unwrap();
        let mut bytes = self.content(hash)?;
        if name.contains("zstd") {
            bytes = zstd::encode_all(bytes.as_slice(), 1).unwrap();
        }
        let pieces: Vec<_> = bytes
            .chunks(100_000)
            .map(|data| {
                Ok(stream::ReadResponse {
                    data: data.to_vec(),
                })
            })
            .collect();
        Ok(Response::new(Box::pin(iter(pieces))))
    }

    async fn write(
        &self,
        request: Request<Streaming<stream::WriteRequest>>,
    ) -> Answer<stream::WriteResponse> {
        self.enter("write", &request).await?;
        let mut name = String::new();
        let mut bytes = Vec::new();
        let mut stream = request.into_inner();
        while let Some(piece) = stream.message().await? {
            name = if name.is_empty() {
                piece.resource_name
            } else {
                name
            };
            assert_eq!(piece.write_offset as usize, bytes.len());
            bytes.extend(piece.data);
        }
        self.0
            .seen
            .lock()
            .unwrap()
            .push(format!("write {} {}", bytes.len(), name));
        let committed_size = bytes.len() as i64;
        if name.contains("zstd") {
            bytes = zstd::decode_all(bytes.as_slice()).unwrap();
        }
        let hash = name.rsplit('/').nth(1).unwrap().to_owned();
        self.0.blobs.lock().unwrap().insert(hash, bytes);
        Ok(Response::new(stream::WriteResponse { committed_size }))
    }

    async fn query_write_status(
        &self,
        _: Request<stream::QueryWriteStatusRequest>,
    ) -> Answer<stream::QueryWriteStatusResponse> {
        Err(Status::unimplemented("status"))
    }
}

/// Serves on a port of its own.
pub(super) fn serve(runtime: &tokio::runtime::Runtime, router: Router) -> u16 {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    runtime.spawn(router.serve(([127, 0, 0, 1], port).into()));
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::sleep(Duration::from_millis(5));
    }
    port
}

/// A usual server.
fn usual() -> Manner {
    Manner {
        functions: vec![Function::Sha256.number()],
        most_in_batch: 1 << 20,
        ..Manner::default()
    }
}

/// A server on a port of its own, and what a client gets of it.
struct Running {
    runtime: tokio::runtime::Runtime,
    manner: Arc<Manner>,
    port: u16,
    dir: tempfile::TempDir,
}

impl Running {
    fn new(manner: Manner) -> Self {
        let runtime = runtime("test").unwrap();
        let manner = Arc::new(manner);
        let fake = Fake(manner.clone());
        let router = Server::builder()
            .add_service(CapabilitiesServer::new(fake.clone()))
            .add_service(ContentAddressableStorageServer::new(fake.clone()))
            .add_service(ByteStreamServer::new(fake));
        let port = serve(&runtime, router);
        Self {
            runtime,
            manner,
            port,
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn client(&self, options: &[(&str, &str)]) -> Client {
        let options: BTreeMap<_, _> = options
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect();
        let url = format!("grpc://127.0.0.1:{}/main", self.port);
        let address = Address::of("the remote", &url, &options).unwrap();
        let _inside = self.runtime.enter();
        Client::open(
            &address,
            Patience {
                timeout: Duration::from_secs(2),
                retries: 3,
            },
        )
        .unwrap()
    }

    fn send(&self, client: &Client, contents: &[Vec<u8>]) -> Result<u64, Fault> {
        self.runtime.block_on(async {
            let function = client.function().await?;
            let blob = |bytes: &Vec<u8>| Blob::of_bytes(bytes.clone(), function);
            client.upload(contents.iter().map(blob).collect()).await
        })
    }

    fn fetch(&self, client: &Client, contents: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Fault> {
        let to = |at: usize| -> PathBuf { self.dir.path().join(at.to_string()) };
        self.runtime.block_on(async {
            let function = client.function().await?;
            let wanted = |(at, bytes): (usize, &Vec<u8>)| Wanted {
                digest: function.of(bytes),
                content: Some(Content3::of(bytes)),
                to: to(at),
            };
            client
                .fetch(contents.iter().enumerate().map(wanted).collect())
                .await
        })?;
        Ok((0..contents.len())
            .map(|at| std::fs::read(to(at)).unwrap())
            .collect())
    }

    fn seen(&self, what: &str) -> Vec<String> {
        self.manner
            .seen
            .lock()
            .unwrap()
            .iter()
            .filter(|seen| seen.starts_with(what))
            .cloned()
            .collect()
    }
}

/// Nothing, little, many of some size, and much.
fn contents() -> Vec<Vec<u8>> {
    let some = (0..20u8).map(|at| vec![at; 100_000]);
    let much = (0..3_000_000u32).map(|at| (at / 7 % 251) as u8).collect();
    [vec![], b"little".to_vec()]
        .into_iter()
        .chain(some)
        .chain([much])
        .collect()
}

#[test]
fn blobs_go_and_come_in_batches_and_streams_by_what_the_server_offers() {
    for (functions, zstd) in [
        (vec![9, 1], false),
        (vec![1, 9], true),
        (vec![1], false),
        (vec![9], true),
    ] {
        let speaks_blake3 = functions[0] == 9;
        let running = Running::new(Manner {
            functions,
            zstd,
            ..usual()
        });
        let client = running.client(&[]);
        let all = contents();
        let size: usize = all.iter().map(Vec::len).sum();
        assert_eq!(running.send(&client, &all).unwrap(), size as u64);
        assert_eq!(
            running.send(&client, &all).unwrap(),
            0,
            "what is there is not sent again"
        );
        assert_eq!(running.fetch(&client, &all).unwrap(), all);
        assert_eq!(running.seen("batch").len(), 2, "2 MB in batches of 1 MiB");
        let [written] = running.seen("write ").try_into().unwrap();
        assert!(written.contains(" main/uploads/"), "{written}");
        assert_eq!(
            written.contains("/compressed-blobs/zstd/"),
            zstd,
            "{written}"
        );
        assert_eq!(written.contains("/blake3/"), speaks_blake3, "{written}");
        let sent: usize = written.split(' ').nth(1).unwrap().parse().unwrap();
        assert_eq!(sent < 1_000_000, zstd, "{written}");
    }
}

#[test]
fn a_server_s_own_digest_function_goes_before_a_faster_one() {
    let of = |own: i32, offered: &[i32]| Function::of_server(own, offered);
    assert_eq!(of(1, &[9, 1]), Some(Function::Sha256));
    assert_eq!(of(9, &[1, 9]), Some(Function::Blake3));
    assert_eq!(of(0, &[1, 9]), Some(Function::Sha256));
    assert_eq!(
        of(1, &[9]),
        Some(Function::Blake3),
        "its store does not have its own"
    );
    assert_eq!(of(3, &[3, 9]), Some(Function::Blake3));
    assert_eq!(of(1, &[]), None);
}

#[test]
fn a_server_that_speaks_another_digest_is_refused() {
    let running = Running::new(Manner {
        functions: vec![3],
        ..usual()
    });
    let error = running.send(&running.client(&[]), &contents()).unwrap_err();
    assert!(
        error.to_string().contains("neither BLAKE3 nor SHA-256"),
        "{error}"
    );
}

#[test]
fn a_refusal_that_may_pass_is_waited_out_and_one_that_does_not_is_an_error() {
    let little = [b"little".to_vec()];
    let running = Running::new(Manner {
        refuses: 3.into(),
        ..usual()
    });
    let start = Instant::now();
    assert_eq!(running.send(&running.client(&[]), &little).unwrap(), 6);
    assert!(
        start.elapsed() > Duration::from_millis(300),
        "with growing pauses: {:?}",
        start.elapsed()
    );
    let running = Running::new(Manner {
        refuses: 1_000.into(),
        ..usual()
    });
    let error = running.send(&running.client(&[]), &little).unwrap_err();
    assert!(
        matches!(&error, Fault::Passing(why) if why.contains("slow down")),
        "{error:?}"
    );
}

#[test]
fn what_never_comes_is_waited_for_no_longer_than_configured() {
    let running = Running::new(Manner {
        hangs: true,
        ..usual()
    });
    let start = Instant::now();
    let error = running
        .send(&running.client(&[]), &[b"little".to_vec()])
        .unwrap_err();
    assert!(
        matches!(error, Fault::Timeout) && start.elapsed() < Duration::from_secs(5),
        "{error:?}"
    );
}

#[test]
fn what_comes_wrong_or_short_is_no_blob() {
    let all = contents();
    for zstd in [false, true] {
        for (lies, cuts) in [(true, false), (false, true)] {
            let running = Running::new(Manner {
                zstd,
                lies,
                cuts,
                ..usual()
            });
            let client = running.client(&[]);
            running.send(&client, &all).unwrap();
            for one in [&all[1], &all[22]] {
                let error = running
                    .fetch(&client, std::slice::from_ref(one))
                    .unwrap_err();
                assert!(
                    matches!(error, Fault::WrongContent | Fault::Passing(_)),
                    "{error:?}"
                );
            }
        }
    }
    let running = Running::new(usual());
    let error = running.fetch(&running.client(&[]), &all).unwrap_err();
    assert!(matches!(error, Fault::Absent), "{error:?}");
}

#[test]
fn a_token_comes_from_an_option_or_from_a_file_that_may_change() {
    let little = [b"little".to_vec()];
    let running = Running::new(Manner {
        token: Some("right".into()),
        ..usual()
    });
    for options in [&[][..], &[("token", "wrong")]] {
        let error = running.send(&running.client(options), &little).unwrap_err();
        assert!(matches!(error, Fault::Denied(_)), "{error:?}");
        assert!(!error.to_string().contains("wrong"), "{error}");
    }
    running
        .send(&running.client(&[("token", "right")]), &little)
        .unwrap();
    let file = running.dir.path().join("token");
    std::fs::write(&file, "old").unwrap();
    let client = running.client(&[("token_file", file.to_str().unwrap())]);
    running.send(&client, &little).unwrap_err();
    std::fs::write(&file, "right\n").unwrap();
    running.send(&client, &little).unwrap();
    std::fs::remove_file(&file).unwrap();
    let error = running.send(&client, &little).unwrap_err();
    assert!(
        error.to_string().contains("failed to read the token"),
        "{error}"
    );
}

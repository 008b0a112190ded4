//! Executions on a server that says what a script says: queues without a worker, workers that are lost, servers that forget.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bazel_remote_apis::build::bazel::remote::execution::v2::capabilities_server::{
    Capabilities, CapabilitiesServer,
};
use bazel_remote_apis::build::bazel::remote::execution::v2::execution_server::{
    Execution, ExecutionServer,
};
use bazel_remote_apis::google::protobuf::Any;
use futures_util::stream::{BoxStream, StreamExt as _, iter, once, pending};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use super::*;
use crate::reapi::proto::{
    CacheCapabilities, ExecutionCapabilities, GetCapabilitiesRequest, ServerCapabilities,
};
use crate::reapi::tests::{Answer, serve};
use crate::reapi::{Address, Patience, runtime};

#[path = "../../tests/remote/proxy.rs"]
#[expect(dead_code, reason = "nobody here asks what went through it")]
mod proxy;

/// Longer than a client takes to drop a stream, and shorter than a slow network takes to say so.
const LINGERS: Duration = Duration::from_millis(60);

/// What one answer holds, in its order.
#[derive(Clone)]
enum Says {
    At(Stage),
    Done(Box<ExecuteResponse>),
    /// The connection breaks.
    Breaks,
    /// Nothing more, for ever.
    Waits,
    /// Nothing more, and a little later the end.
    Lingers,
    /// A refusal instead of any answer.
    No(Status),
}

/// One answer for each request, whichever it is.
#[derive(Clone)]
struct Script(
    Arc<Mutex<VecDeque<Vec<Says>>>>,
    Arc<Mutex<Vec<&'static str>>>,
);

type Operations = BoxStream<'static, Result<Operation, Status>>;

impl Script {
    fn next(&self, what: &'static str) -> Answer<Operations> {
        self.1.lock().unwrap().push(what);
        let answer = self
            .0
            .lock()
            .unwrap()
            .pop_front()
            .expect("no further request is expected");
        if let [Says::No(status)] = answer.as_slice() {
            return Err(status.clone());
        }
        let waits = answer.iter().any(|says| matches!(says, Says::Waits));
        let lingers = answer.iter().any(|says| matches!(says, Says::Lingers));
        let events = answer.into_iter().filter_map(|says| match says {
            Says::At(stage) => Some(Ok(operation(stage, None))),
            Says::Done(response) => Some(Ok(operation(Stage::Completed, Some(*response)))),
            Says::Breaks => Some(Err(Status::unavailable("going away"))),
            Says::Waits | Says::Lingers | Says::No(_) => None,
        });
        let events = iter(events.collect::<Vec<_>>());
        let later = once(tokio::time::sleep(LINGERS)).filter_map(|()| std::future::ready(None));
        Ok(Response::new(match (waits, lingers) {
            (true, _) => Box::pin(events.chain(pending())),
            (_, true) => Box::pin(events.chain(later)),
            _ => Box::pin(events),
        }))
    }
}

fn operation(stage: Stage, response: Option<ExecuteResponse>) -> Operation {
    let any = |value: Vec<u8>| Any {
        type_url: String::new(),
        value,
    };
    let metadata = ExecuteOperationMetadata {
        stage: stage.into(),
        ..ExecuteOperationMetadata::default()
    };
    Operation {
        name: "op".into(),
        metadata: Some(any(metadata.encode_to_vec())),
        done: response.is_some(),
        result: response.map(|response| operation::Result::Response(any(response.encode_to_vec()))),
    }
}

#[tonic::async_trait]
impl Capabilities for Script {
    async fn get_capabilities(
        &self,
        _: Request<GetCapabilitiesRequest>,
    ) -> Answer<ServerCapabilities> {
        let cache = CacheCapabilities {
            digest_functions: vec![1],
            ..CacheCapabilities::default()
        };
        let execution = ExecutionCapabilities {
            exec_enabled: true,
            ..ExecutionCapabilities::default()
        };
        let cache_capabilities = Some(cache);
        let execution_capabilities = Some(execution);
        Ok(Response::new(ServerCapabilities {
            cache_capabilities,
            execution_capabilities,
            ..Default::default()
        }))
    }
}

#[tonic::async_trait]
impl Execution for Script {
    type ExecuteStream = Operations;
    type WaitExecutionStream = Operations;

    async fn execute(&self, _: Request<ExecuteRequest>) -> Answer<Operations> {
        self.next("execute")
    }

    async fn wait_execution(&self, _: Request<WaitExecutionRequest>) -> Answer<Operations> {
        self.next("wait")
    }
}

/// A server, and a client of it.
struct Running {
    runtime: tokio::runtime::Runtime,
    script: Script,
    client: Client,
}

impl Running {
    /// `by`: over a network that is slow.
    fn new(answers: Vec<Vec<Says>>, by: Option<proxy::Way>) -> Self {
        let runtime = runtime("test").unwrap();
        let script = Script(Arc::new(Mutex::new(answers.into())), Arc::default());
        let services = Server::builder()
            .add_service(CapabilitiesServer::new(script.clone()))
            .add_service(ExecutionServer::new(script.clone()));
        let port = serve(&runtime, services);
        let port = by.map_or(port, |way| proxy::Proxy::new(port, way).port);
        let address = Address::of(
            "the executor",
            &format!("grpc://127.0.0.1:{port}"),
            &Default::default(),
        )
        .unwrap();
        let client = {
            let _inside = runtime.enter();
            Client::open(
                &address,
                Patience {
                    timeout: Duration::from_secs(5),
                    retries: 0,
                },
            )
            .unwrap()
        };
        Self {
            runtime,
            script,
            client,
        }
    }
}

/// How it ends, what was reported, and what was requested. What the server lost is reported too.
fn ran(
    answers: Vec<Vec<Says>>,
    queue: f64,
) -> (Result<Ending, Fault>, Vec<String>, Vec<&'static str>) {
    let Running {
        runtime,
        script,
        client,
    } = Running::new(answers, None);
    let bounds = Bounds {
        queue: Duration::from_secs_f64(queue),
        execution: Duration::from_secs(1),
        away: Duration::from_secs(5),
        losses: 2,
    };
    let reports = Mutex::new(Vec::new());
    let tell = |text: &str| reports.lock().unwrap().push(text.to_owned());
    let action = Function::Sha256.of(b"action");
    let mut lost = vec![];
    let ending =
        runtime.block_on(client.execute(&action, false, bounds, &|| true, &tell, &mut lost));
    let reports = reports.into_inner().unwrap();
    let requests = script.1.lock().unwrap().clone();
    assert!(
        lost.iter().all(|one| reports.contains(one)),
        "{lost:?} of {reports:?}"
    );
    assert_eq!(
        lost.len(),
        reports
            .iter()
            .filter(|text| text.contains("was lost") || text.contains("submitted again"))
            .count(),
        "{lost:?} of {reports:?}"
    );
    (ending, reports, requests)
}

fn done() -> Says {
    Says::Done(Box::new(ExecuteResponse {
        result: Some(ActionResult::default()),
        ..ExecuteResponse::default()
    }))
}

fn ended_by(code: i32, message: &str) -> Says {
    let status = bazel_remote_apis::google::rpc::Status {
        code,
        message: message.into(),
        details: vec![],
    };
    Says::Done(Box::new(ExecuteResponse {
        status: Some(status),
        ..ExecuteResponse::default()
    }))
}

#[test]
fn a_queue_that_nobody_serves_is_left() {
    let (ending, ..) = ran(vec![vec![Says::At(Stage::Queued), Says::Waits]], 0.3);
    assert!(matches!(ending, Ok(Ending::NeverBegan(_))), "{ending:?}");
    let refused = Status::failed_precondition("no workers for platform orch-device=qnn");
    for answer in [
        Says::No(refused),
        ended_by(9, "no workers for platform orch-device=qnn"),
    ] {
        let (ending, ..) = ran(vec![vec![answer]], 5.0);
        assert!(
            matches!(&ending, Ok(Ending::NoWorker(why)) if why.contains("orch-device=qnn")),
            "{ending:?}"
        );
    }
}

#[test]
fn what_began_has_its_own_limit() {
    // Longer than the queue's, which is over.
    let (ending, ..) = ran(
        vec![vec![
            Says::At(Stage::Queued),
            Says::At(Stage::Executing),
            Says::Waits,
        ]],
        0.1,
    );
    assert!(matches!(ending, Ok(Ending::TooLong(_))), "{ending:?}");
}

#[test]
fn a_worker_that_was_lost_is_reported() {
    let stages = [
        Stage::Queued,
        Stage::Executing,
        Stage::Queued,
        Stage::Executing,
    ]
    .map(Says::At);
    let (ending, reports, _) = ran(vec![stages.into_iter().chain([done()]).collect()], 5.0);
    assert!(matches!(ending, Ok(Ending::Done { .. })), "{ending:?}");
    assert_eq!(
        reports,
        ["its worker was lost; the server has put it in line again"]
    );
    for (code, why) in [
        (13, "the worker crashed"),
        (14, "the worker went"),
        (10, "aborted"),
        (9, "blob is missing"),
    ] {
        let (ending, ..) = ran(vec![vec![ended_by(code, why)]], 5.0);
        assert!(
            matches!(&ending, Ok(Ending::Lost(reason)) if reason.contains(why)),
            "{code}: {ending:?}"
        );
    }
}

#[test]
fn a_connection_that_breaks_is_made_again_and_what_a_server_forgot_is_submitted_again() {
    let begins = vec![Says::At(Stage::Executing), Says::Breaks];
    let (ending, reports, requests) = ran(vec![begins.clone(), vec![done()]], 5.0);
    assert!(matches!(ending, Ok(Ending::Done { .. })), "{ending:?}");
    assert_eq!(requests, ["execute", "wait"]);
    assert!(reports[0].contains("going away"), "{reports:?}");
    let forgot = vec![Says::No(Status::not_found("no such operation"))];
    let (ending, reports, requests) = ran(vec![begins, forgot, vec![done()]], 5.0);
    assert!(matches!(ending, Ok(Ending::Done { .. })), "{ending:?}");
    assert_eq!(requests, ["execute", "wait", "execute"]);
    assert!(reports[1].contains("submitted again"), "{reports:?}");
}

#[test]
fn a_server_that_loses_every_worker_is_left() {
    let flips = [Stage::Executing, Stage::Queued].map(Says::At);
    let stages: Vec<_> = (0..10).flat_map(|_| flips.clone()).collect();
    let (ending, reports, _) = ran(vec![stages], 5.0);
    assert!(
        matches!(&ending, Ok(Ending::Lost(why)) if why == "it was begun 3 times and lost each time"),
        "{ending:?}"
    );
    assert_eq!(reports.len(), 3, "{reports:?}");
}

#[test]
fn a_server_that_forgets_every_execution_is_left() {
    let begins = vec![Says::At(Stage::Executing), Says::Breaks];
    let forgot = vec![Says::No(Status::not_found("no such operation"))];
    let answers = (0..10).flat_map(|_| [begins.clone(), forgot.clone()]);
    let (ending, _, requests) = ran(answers.collect(), 5.0);
    assert!(matches!(&ending, Ok(Ending::Lost(_))), "{ending:?}");
    let submitted = requests.iter().filter(|call| **call == "execute").count();
    assert_eq!(submitted, 3, "{requests:?}");
}

#[test]
fn who_is_not_let_in_learns_it_at_once() {
    let (ending, _, requests) = ran(
        vec![vec![Says::No(Status::permission_denied("not you"))]],
        5.0,
    );
    assert!(
        matches!(&ending, Err(Fault::Denied(why)) if why.contains("not you")),
        "{ending:?}"
    );
    assert_eq!(requests, ["execute"]);
}

#[test]
fn streams_that_end_after_their_action_do_not_wear_out_the_connection() {
    // What a server says on a stream that its client has reset counts as the server's fault, 1,024 times. A slow network lets
    // the server speak before it hears of the reset.
    const MANY: usize = 1300;
    let way = proxy::Way {
        delay: Duration::from_millis(100),
        bytes_per_second: 1e9,
    };
    let Running {
        runtime,
        script,
        client,
    } = Running::new(vec![vec![done(), Says::Lingers]; MANY], Some(way));
    let long = Duration::from_secs(60);
    let bounds = Bounds {
        queue: long,
        execution: long,
        away: long,
        losses: 2,
    };
    let reports = Mutex::new(Vec::new());
    let tell = |text: &str| reports.lock().unwrap().push(text.to_owned());
    let action = Function::Sha256.of(b"action");
    let execute = async |_| {
        client
            .execute(&action, false, bounds, &|| true, &tell, &mut vec![])
            .await
    };
    runtime.block_on(
        iter(0..MANY)
            .map(execute)
            .buffer_unordered(100)
            .for_each(|ending| {
                assert!(matches!(ending, Ok(Ending::Done { .. })), "{ending:?}");
                std::future::ready(())
            }),
    );
    assert_eq!(*reports.lock().unwrap(), [""; 0]);
    assert_eq!(
        script.1.lock().unwrap().len(),
        MANY,
        "each was requested once"
    );
}

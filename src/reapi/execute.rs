//! Executes actions on a server's workers: submits, waits, and goes on after a lost connection.

use std::time::{Duration, Instant};

use bazel_remote_apis::build::bazel::remote::execution::v2::execution_client::ExecutionClient;
use bazel_remote_apis::google::longrunning::operation;
use bazel_remote_apis::google::longrunning::operations_client::OperationsClient;
use bazel_remote_apis::google::longrunning::{CancelOperationRequest, Operation};
use prost::Message as _;
use tonic::Streaming;

use crate::base::ensure;
use crate::reapi::client::Client;
use crate::reapi::fault::Fault;
use crate::reapi::hash::Function;
use crate::reapi::proto::{
    ActionResult, Digest, ExecuteOperationMetadata, ExecuteRequest, ExecuteResponse,
    WaitExecutionRequest, execution_stage::Value as Stage,
};

/// How often who waits looks whether it must end.
const TICK: Duration = Duration::from_millis(100);
/// The pauses between attempts to reach a server again.
const PAUSE: Duration = Duration::from_millis(250);

/// Receives what happens.
pub(super) type Hears<'a> = &'a (dyn Fn(&str) + Sync);

/// How long is waited for what.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The time for a worker to begin.
    pub queue: Duration,
    /// The time for it to end, once it has begun.
    pub execution: Duration,
    /// The time for a server that is not reached.
    pub away: Duration,
    /// How often, in all, a worker may be lost or the execution forgotten. Each such loss begins the other clocks anew, so
    /// that without this bound a server that loses every worker would be waited for without end.
    pub losses: u32,
}

/// How an execution came to its end.
#[derive(Debug)]
pub enum Ending {
    Done {
        result: Box<ActionResult>,
        /// Nobody executed it now.
        is_cached: bool,
    },
    /// No worker began in time, and so long it was waited for.
    NeverBegan(Duration),
    /// No worker can, in the server's words.
    NoWorker(String),
    /// It began and did not end in time.
    TooLong(Duration),
    /// The worker was lost, in the server's words: another attempt may do.
    Lost(String),
    Cancelled,
}

/// What is known of an execution that goes on.
struct Watched {
    name: String,
    submitted: Instant,
    begun: Option<Instant>,
    /// The server says that it waits for a worker; not all of them say anything.
    is_queued: bool,
    /// The moment since which the server is not reached.
    silent: Option<Instant>,
    /// How often it was begun anew, because its worker was lost or the server forgot it.
    losses: u32,
}

impl Client {
    /// The digest function of a server that executes; an error if it does not.
    pub(super) async fn executes(&self) -> Result<Function, Fault> {
        let abilities = self.abilities().await?;
        let never = || Fault::Failed("the server says that it executes nothing".into());
        abilities
            .executes
            .then_some(abilities.function)
            .ok_or_else(never)
    }

    /// Executes an action whose blobs are there. `goes_on` is called now and then; `tell` hears what happens, and `lost` gets a
    /// line for each worker in whose place the server took another one, and for each time that the server forgot the execution.
    pub async fn execute(
        &self,
        action: &Digest,
        skip_cache: bool,
        bounds: Bounds,
        goes_on: &(dyn Fn() -> bool + Sync),
        tell: Hears<'_>,
        lost: &mut Vec<String>,
    ) -> Result<Ending, Fault> {
        let request = ExecuteRequest {
            instance_name: self.instance.clone(),
            skip_cache_lookup: skip_cache,
            action_digest: Some(action.clone()),
            digest_function: self.executes().await?.number(),
            ..ExecuteRequest::default()
        };
        let mut watched = Watched {
            name: String::new(),
            submitted: Instant::now(),
            begun: None,
            is_queued: false,
            silent: None,
            losses: 0,
        };
        let mut stream = None;
        loop {
            if let Some(ending) = watched.must_end(bounds, goes_on) {
                self.cancel(&watched.name).await;
                return Ok(ending);
            }
            let next = match stream.as_mut() {
                None => self
                    .listen(&request, &watched.name)
                    .await
                    .map(|opened| drop(stream.replace(opened)))
                    .map(|()| None),
                Some(open) => match tokio::time::timeout(TICK, Streaming::message(open)).await {
                    Err(_) => continue,
                    Ok(Ok(Some(operation))) => Ok(Some(operation)),
                    Ok(Ok(None)) => Err(Fault::Passing(
                        "the server ended the stream before the action".into(),
                    )),
                    Ok(Err(status)) => Err(Fault::from(status)),
                },
            };
            match next {
                Ok(operation) => {
                    watched.silent = None;
                    if let Some(ending) =
                        operation.and_then(|operation| watched.take_in(operation, tell, lost))
                    {
                        if let Some(stream) = stream {
                            read_out(stream);
                        }
                        return ending;
                    }
                }
                // Another server, or the same one anew: the action is submitted once more.
                Err(Fault::Absent) if !watched.name.is_empty() => {
                    stream = None;
                    watched.name = String::new();
                    watched.begins_anew(
                        "the server does not know the execution any more; it is submitted again",
                        tell,
                        lost,
                    );
                }
                Err(Fault::Passing(why)) => {
                    stream = None;
                    let since = *watched.silent.get_or_insert_with(|| {
                        tell(&format!(
                            "the server cannot be reached ({why}); trying again"
                        ));
                        Instant::now()
                    });
                    let seconds = bounds.away.as_secs();
                    let gone = || {
                        Fault::Failed(format!("the server was not reached for {seconds} s: {why}"))
                    };
                    ensure(since.elapsed() <= bounds.away, gone)?;
                    tokio::time::sleep(PAUSE).await;
                }
                Err(Fault::Precondition(why)) => return Ok(refused(why)),
                Err(fault) => return Err(fault),
            }
        }
    }

    /// The stream of an execution: of a new one, or of one that is known by name.
    async fn listen(
        &self,
        request: &ExecuteRequest,
        name: &str,
    ) -> Result<Streaming<Operation>, Fault> {
        let mut client = ExecutionClient::new(self.wire.clone());
        let opened = async {
            Ok(match name {
                "" => client.execute(request.clone()).await?.into_inner(),
                name => client
                    .wait_execution(WaitExecutionRequest {
                        name: name.to_owned(),
                    })
                    .await?
                    .into_inner(),
            })
        };
        // A server that takes the request and says nothing is as good as none.
        let patience = self.patience.timeout;
        tokio::time::timeout(patience, opened)
            .await
            .unwrap_or_else(|_| Err(Fault::Passing("no answer in time".into())))
    }

    /// Not every server can; then the worker goes on until its own limit.
    async fn cancel(&self, name: &str) {
        if name.is_empty() {
            return;
        }
        let mut client = OperationsClient::new(self.wire.clone());
        let cancelled = client.cancel_operation(CancelOperationRequest {
            name: name.to_owned(),
        });
        let _ = tokio::time::timeout(Duration::from_secs(2), cancelled).await;
    }
}

/// Reads a stream to its end, for which nobody waits. One that is dropped before is reset, and after a thousand of those HTTP/2
/// takes the whole connection for broken.
fn read_out(mut stream: Streaming<Operation>) {
    let end = async move { while let Ok(Some(_)) = stream.message().await {} };
    tokio::spawn(tokio::time::timeout(Duration::from_secs(10), end));
}

impl Watched {
    fn must_end(&self, bounds: Bounds, goes_on: &(dyn Fn() -> bool + Sync)) -> Option<Ending> {
        if !goes_on() {
            return Some(Ending::Cancelled);
        }
        if self.losses > bounds.losses {
            return Some(Ending::Lost(format!(
                "it was begun {} times and lost each time",
                self.losses
            )));
        }
        // A server that cannot be reached is no sign of anything.
        if self.silent.is_some() {
            return None;
        }
        match self.begun {
            None if self.is_queued && self.submitted.elapsed() > bounds.queue => {
                Some(Ending::NeverBegan(bounds.queue))
            }
            None if self.submitted.elapsed() > bounds.queue + bounds.execution => {
                Some(Ending::TooLong(bounds.execution))
            }
            Some(begun) if begun.elapsed() > bounds.execution => {
                Some(Ending::TooLong(bounds.execution))
            }
            _ => None,
        }
    }

    /// Notes that what was done so far is lost.
    fn begins_anew(&mut self, why: &str, tell: Hears<'_>, lost: &mut Vec<String>) {
        tell(why);
        lost.push(why.to_owned());
        self.begun = None;
        self.submitted = Instant::now();
        self.losses += 1;
    }

    /// What the server says of it; its end, if that is what it says.
    fn take_in(
        &mut self,
        operation: Operation,
        tell: Hears<'_>,
        lost: &mut Vec<String>,
    ) -> Option<Result<Ending, Fault>> {
        self.name = operation.name;
        let metadata = operation
            .metadata
            .map(|any| ExecuteOperationMetadata::decode(any.value.as_slice()));
        let stage = metadata
            .and_then(Result::ok)
            .map(|metadata| metadata.stage());
        self.is_queued = stage.map_or(self.is_queued, |stage| stage == Stage::Queued);
        match stage {
            Some(Stage::Executing) if self.begun.is_none() => self.begun = Some(Instant::now()),
            Some(Stage::Queued) if self.begun.is_some() => {
                self.begins_anew(
                    "its worker was lost; the server has put it in line again",
                    tell,
                    lost,
                );
            }
            _ => {}
        }
        if !operation.done {
            return None;
        }
        Some(match operation.result {
            Some(operation::Result::Response(any)) => {
                match ExecuteResponse::decode(any.value.as_slice()) {
                    Ok(response) => ended(response),
                    Err(e) => Err(Fault::Failed(format!("its answer cannot be read: {e}"))),
                }
            }
            Some(operation::Result::Error(status)) => judged(status.code, &status.message),
            None => Err(Fault::Failed("it ended and says nothing of how".into())),
        })
    }
}

fn ended(response: ExecuteResponse) -> Result<Ending, Fault> {
    let is_cached = response.cached_result;
    match (
        response.status.filter(|status| status.code != 0),
        response.result,
    ) {
        (Some(status), _) => judged(status.code, &status.message),
        (None, Some(result)) => Ok(Ending::Done {
            result: Box::new(result),
            is_cached,
        }),
        (None, None) => Err(Fault::Failed("it ended well and has no result".into())),
    }
}

const OVER: &str = "the server ended it, because its time was over; hint: `limit` in [executor], and the server's own limits";

fn judged(code: i32, message: &str) -> Result<Ending, Fault> {
    match Fault::of_code(code, message) {
        Fault::Precondition(why) => Ok(refused(why)),
        Fault::Timeout => Ok(Ending::Lost(OVER.into())),
        // CANCELLED, UNKNOWN, INTERNAL: something broke on the other side that is not the action.
        Fault::Failed(why) if [1, 2, 13].contains(&code) => Ok(Ending::Lost(why)),
        Fault::Passing(why) => Ok(Ending::Lost(why)),
        fault => Err(fault),
    }
}

/// A precondition that fails is a blob that went meanwhile, or that no worker has the properties.
fn refused(why: String) -> Ending {
    let lower = why.to_lowercase();
    let is_blob = ["missing", "blob", "not found"]
        .iter()
        .any(|word| lower.contains(word));
    if is_blob {
        Ending::Lost(why)
    } else {
        Ending::NoWorker(why)
    }
}

#[cfg(test)]
#[path = "execute_tests.rs"]
mod tests;

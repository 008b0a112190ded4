//! What can go wrong with a server, by what is to be done about it.

use std::error::Error as _;
use std::io;
use std::path::Path;

use tonic::{Code, Status};

use crate::base::text::with_causes;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    #[error("the server does not have it")]
    Absent,
    #[error("what arrived is not what was requested")]
    WrongContent,
    /// It does not know the client, or does not let it.
    #[error("credentials were refused: {0}")]
    Denied(String),
    /// It cannot do that as things are: an input is missing, or no worker fits. With the details' types and bytes.
    #[error("{0}")]
    Precondition(String),
    /// Another attempt may do: it is overloaded, restarts, or the connection broke.
    #[error("{0}")]
    Passing(String),
    #[error("no answer in time")]
    Timeout,
    #[error("{0}")]
    Failed(String),
    /// This machine's own files.
    #[error("{0}")]
    Local(String),
}

impl Fault {
    pub(super) fn io(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |e| Self::Local(format!("failed to {action} {}: {e}", path.display()))
    }

    /// The fault by the number that travels in messages.
    pub(super) fn of_code(code: i32, message: &str) -> Self {
        Self::from(Status::new(Code::from_i32(code), message))
    }
}

impl From<Status> for Fault {
    fn from(status: Status) -> Self {
        if let Some(fault) = of_proxy(status.message()) {
            return fault;
        }
        let text = message(&status);
        match status.code() {
            Code::NotFound => Self::Absent,
            Code::Unauthenticated | Code::PermissionDenied => Self::Denied(text),
            Code::FailedPrecondition => Self::Precondition(text),
            Code::Unavailable | Code::ResourceExhausted | Code::Aborted => Self::Passing(text),
            Code::DeadlineExceeded => Self::Timeout,
            // What the transport itself says: the connection broke.
            Code::Unknown | Code::Internal | Code::Cancelled if status.source().is_some() => {
                Self::Passing(text)
            }
            _ => Self::Failed(text),
        }
    }
}

impl From<tonic::transport::Error> for Fault {
    fn from(error: tonic::transport::Error) -> Self {
        Self::Failed(with_causes(error.to_string(), &error))
    }
}

/// A proxy before the server answers with a page, which tonic takes for a broken message; it names the HTTP status last.
fn of_proxy(message: &str) -> Option<Fault> {
    let (_, answer) = message.split_once("while receiving response with status: ")?;
    let text = format!("a proxy before the server answered {answer}");
    Some(match answer.get(..3)? {
        "401" | "403" => Fault::Denied(text),
        "429" | "502" | "503" | "504" => Fault::Passing(text),
        _ => Fault::Failed(text),
    })
}

/// One line: what the server says, the kind, and what lies below.
fn message(status: &Status) -> String {
    let line = status.message().lines().next().unwrap_or_default();
    let text = if line.is_empty() {
        status.code().description().to_owned()
    } else {
        line.to_owned()
    };
    let text: String = with_causes(text, status).chars().take(300).collect();
    format!("{text} ({:?})", status.code())
}

//! What can go wrong with a server, by what is to be done about it.

use std::error::Error;
use std::fmt;

use tonic::{Code, Status};

#[derive(Debug, Clone)]
pub enum Fault {
    /// The server does not have it.
    Absent,
    /// What came is not what was asked for.
    WrongContent,
    /// It does not know the client, or does not let it.
    Denied(String),
    /// It cannot do that as things are: an input is missing, or no worker fits. With the details' types and bytes.
    Precondition(String),
    /// Another attempt may do: it is overloaded, restarts, or the connection broke.
    Passing(String),
    /// No answer in time.
    Timeout,
    Failed(String),
    /// This machine's own files.
    Local(String),
}

impl Fault {
    pub(super) fn read(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |e| Self::Local(format!("failed to read {}: {e}", path.display()))
    }

    pub(super) fn write(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |e| Self::Local(format!("failed to write {}: {e}", path.display()))
    }

    /// By the number that travels in messages.
    pub(super) fn of_code(code: i32, message: &str) -> Self {
        Self::from(Status::new(Code::from_i32(code), message))
    }
}

impl From<Status> for Fault {
    fn from(status: Status) -> Self {
        let text = message(&status);
        match status.code() {
            Code::NotFound => Self::Absent,
            Code::Unauthenticated | Code::PermissionDenied => Self::Denied(text),
            Code::FailedPrecondition => Self::Precondition(text),
            Code::Unavailable | Code::ResourceExhausted | Code::Aborted => Self::Passing(text),
            Code::DeadlineExceeded => Self::Timeout,
            // What the transport itself says: the connection broke.
            Code::Unknown | Code::Internal | Code::Cancelled if status.source().is_some() => Self::Passing(text),
            _ => Self::Failed(text),
        }
    }
}

impl From<tonic::transport::Error> for Fault {
    fn from(error: tonic::transport::Error) -> Self {
        Self::Failed(chain(&error))
    }
}

/// One line: what the server says, the kind, and what lies below.
fn message(status: &Status) -> String {
    let said = status.message().lines().next().unwrap_or_default();
    let mut text = if said.is_empty() { status.code().description().to_owned() } else { said.to_owned() };
    if let Some(source) = status.source() {
        let below = chain(source);
        if !text.contains(&below) {
            text = format!("{text}: {below}");
        }
    }
    let text: String = text.chars().take(300).collect();
    format!("{text} ({:?})", status.code())
}

fn chain(error: &dyn Error) -> String {
    let (mut text, mut source) = (error.to_string(), error.source());
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        source = cause.source();
    }
    text
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("the server does not have it"),
            Self::WrongContent => f.write_str("what arrived is not what was requested"),
            Self::Denied(why) => write!(f, "credentials were refused: {why}"),
            Self::Timeout => f.write_str("no answer in time"),
            Self::Precondition(why) | Self::Passing(why) | Self::Failed(why) | Self::Local(why) => f.write_str(why),
        }
    }
}

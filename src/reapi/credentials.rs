//! What every request carries: who asks, by a bearer token, and with which tool.

use std::sync::Arc;

use bazel_remote_apis::build::bazel::remote::execution::v2::{RequestMetadata, ToolDetails};
use prost::Message as _;
use tonic::metadata::{AsciiMetadataValue, BinaryMetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::base::fs::read_text;
use crate::reapi::address::Token;

const MOST_TOKEN: u64 = 64 << 10;

#[derive(Clone)]
pub(super) struct Credentials {
    token: Option<Arc<Token>>,
    tool: BinaryMetadataValue,
}

impl Credentials {
    pub(super) fn new(token: Option<Token>) -> Self {
        let tool_name = "orch".to_owned();
        let tool_version = env!("CARGO_PKG_VERSION").to_owned();
        let tool = RequestMetadata {
            tool_details: Some(ToolDetails {
                tool_name,
                tool_version,
            }),
            ..RequestMetadata::default()
        };
        Self {
            token: token.map(Arc::new),
            tool: BinaryMetadataValue::from_bytes(&tool.encode_to_vec()),
        }
    }
}

impl Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let headers = request.metadata_mut();
        headers.insert_bin(
            "build.bazel.remote.execution.v2.requestmetadata-bin",
            self.tool.clone(),
        );
        if let Some(token) = &self.token {
            headers.insert(
                "authorization",
                bearer(token).map_err(Status::unauthenticated)?,
            );
        }
        Ok(request)
    }
}

/// The error does not hold the token.
fn bearer(token: &Token) -> Result<AsciiMetadataValue, String> {
    let text = match token {
        Token::Text(text) => text.clone(),
        Token::File(path) => read_text(path, MOST_TOKEN)
            .map_err(|e| format!("failed to read the token {}: {e}", path.display()))?,
    };
    let mut value: AsciiMetadataValue = format!("Bearer {}", text.trim())
        .parse()
        .map_err(|_| "the token is not a line of plain text".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

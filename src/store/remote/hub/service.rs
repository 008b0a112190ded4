//! The only home of opendal: objects by path, with bounds on time and size. Knows nothing of what they mean.

#![expect(clippy::disallowed_methods, reason = "writes what it fetches")]

use std::future::Future;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use opendal::layers::{RetryLayer, TimeoutLayer};
use opendal::{Error, ErrorKind, HttpTransporter, Operator, services};
use opendal_http_transport_reqwest::ReqwestTransport;
use serde::Serialize;

use crate::base::text::{with_causes, without_secrets};
use crate::base::{Hasher, ensure};
use crate::config::RemoteConfig;
use crate::store::remote::hub::address::Address;
use crate::store::remote::hub::sealed;
use crate::store::remote::hub::trouble::{Refusal, Trouble};
use crate::store::{ManifestFile, StoreError};

/// Slower than this no transfer is waited for, beyond the time that any answer has.
const SLOWEST: u64 = 128 << 10;
/// What is longer is sent in parts, where the service takes parts.
const PART: u64 = 8 << 20;

pub(super) struct Service {
    operator: Operator,
    timeout: Duration,
    /// The source of the credentials.
    credentials: &'static str,
    /// Whether objects lie in a bucket that may itself be missing.
    has_bucket: bool,
    /// A lock for large objects: where a service takes no parts, one is in memory while it is sent.
    large: tokio::sync::Mutex<()>,
}

/// The names of a service's settings, read off its own defaults.
pub(super) fn settings(scheme: &str) -> Vec<String> {
    fn names(config: impl Serialize) -> Vec<String> {
        let value = serde_json::to_value(config).unwrap_or_default();
        value
            .as_object()
            .map(|object| object.keys().cloned().collect())
            .unwrap_or_default()
    }
    match scheme {
        "s3" => names(services::S3Config::default()),
        "gcs" => names(services::GcsConfig::default()),
        "azblob" => names(services::AzblobConfig::default()),
        "webdav" => names(services::WebdavConfig::default()),
        "http" => names(services::HttpConfig::default()),
        _ => names(services::FsConfig::default()),
    }
}

impl Service {
    /// Opens no connection yet; a setting that is no good is found here.
    pub(super) fn open(address: &Address, config: &RemoteConfig) -> Result<Self, String> {
        if address.scheme != "fs" {
            speak_http(config.timeout)
                .map_err(|e| format!("the remote {} is not used: {e}", address.shown))?;
        }
        opendal::init_default_registry();
        let operator =
            Operator::via_iter(address.scheme, address.settings.clone()).map_err(|e| {
                format!(
                    "the remote {} cannot be opened: {}",
                    address.shown,
                    message(&e)
                )
            })?;
        let patience = TimeoutLayer::new()
            .with_timeout(config.timeout)
            .with_io_timeout(config.timeout);
        let retry = RetryLayer::new()
            .with_max_times(config.retries as usize)
            .with_min_delay(Duration::from_millis(100))
            .with_max_delay(Duration::from_secs(2))
            .with_jitter();
        let operator = operator.layer(patience).layer(retry);
        Ok(Self {
            operator,
            timeout: config.timeout,
            credentials: address.credentials(),
            has_bucket: matches!(address.scheme, "s3" | "gcs" | "azblob"),
            large: tokio::sync::Mutex::default(),
        })
    }

    /// Bounds everything about one object, retries included.
    async fn within<T>(
        &self,
        size: u64,
        work: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        let limit = self.timeout + Duration::from_secs(size / SLOWEST);
        tokio::time::timeout(limit, work)
            .await
            .unwrap_or(Err(Trouble::Timeout))
            .map_err(|trouble| match trouble {
                Trouble::Failed(why) if why.contains("failed to load signing credential") => {
                    Trouble::Failed(format!(
                        "no credentials were found: they come from {}",
                        self.credentials
                    ))
                }
                other => other,
            })
    }

    /// An error if the bucket is known not to be there: on a request for an object, some say only "not found" either way. Who
    /// may read and not list is believed.
    pub(super) async fn find_bucket(&self) -> Result<(), Trouble> {
        if !self.has_bucket {
            return Ok(());
        }
        let first = async {
            let listed = async {
                self.operator
                    .lister_with("")
                    .limit(1)
                    .await?
                    .try_next()
                    .await
            };
            match listed.await {
                Err(e) if e.kind() == ErrorKind::NotFound || names_no_bucket(&e) => {
                    Err(Trouble::Failed(format!(
                        "it has no such bucket or container: {}",
                        message(&e)
                    )))
                }
                _ => Ok(()),
            }
        };
        self.within(0, first).await
    }

    /// A small object, or None if there is none; more than a result may have is not read.
    pub(super) async fn get(&self, path: &str) -> Result<Option<Vec<u8>>, Trouble> {
        let mut bytes = Vec::new();
        let take = |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            Ok(ensure(bytes.len() as u64 <= sealed::MOST, || {
                Refusal::TooLarge
            })?)
        };
        let found = self.within(0, self.read(path, take)).await?;
        Ok(found.then_some(bytes))
    }

    /// Writes an object of known content to the file `to`. Nothing else than that content is ever completed there.
    pub(super) async fn download(
        &self,
        path: &str,
        wanted: &ManifestFile,
        to: &Path,
    ) -> Result<(), Trouble> {
        let mut file = std::fs::File::create(to).map_err(StoreError::io("write", to))?;
        let mut hasher = Hasher::default();
        let mut got = 0;
        let take = |piece: &[u8]| {
            got += piece.len() as u64;
            ensure(got <= wanted.size, || Refusal::WrongContent)?;
            hasher.update(piece);
            Ok(file.write_all(piece).map_err(StoreError::io("write", to))?)
        };
        ensure(
            self.within(wanted.size, self.read(path, take)).await?,
            || Refusal::Incomplete,
        )?;
        Ok(ensure(hasher.digest() == wanted.digest, || {
            Refusal::WrongContent
        })?)
    }

    /// Hands an object over piece by piece; false if there is none.
    async fn read(
        &self,
        path: &str,
        mut take: impl FnMut(&[u8]) -> Result<(), Trouble>,
    ) -> Result<bool, Trouble> {
        let pieces = async {
            let mut stream = self.operator.reader(path).await?.into_stream(..).await?;
            let mut taken = Ok(());
            // The request is made with the first piece.
            while taken.is_ok()
                && let Some(mut buffer) = stream.try_next().await?
            {
                taken = Iterator::try_for_each(&mut buffer, |piece| take(&piece));
            }
            Ok(taken)
        };
        Ok(found(pieces.await)?.transpose()?.is_some())
    }

    /// The size of an object, if it is there.
    pub(super) async fn size(&self, path: &str) -> Result<Option<u64>, Trouble> {
        let meta = self
            .within(0, async { found(self.operator.stat(path).await) })
            .await?;
        Ok(meta.map(|meta| meta.content_length()))
    }

    pub(super) async fn put(&self, path: &str, bytes: Vec<u8>) -> Result<(), Trouble> {
        let size = bytes.len() as u64;
        self.within(size, async {
            self.operator
                .write(path, bytes)
                .await
                .map(drop)
                .map_err(trouble)
        })
        .await
    }

    pub(super) async fn upload(&self, path: &str, file: &Path, size: u64) -> Result<(), Trouble> {
        let local = |e| StoreError::io("read", file)(e);
        let is_large = size > PART;
        if !is_large || !self.operator.info().capability().write_can_multi {
            let _turn = if is_large {
                Some(self.large.lock().await)
            } else {
                None
            };
            return self.put(path, std::fs::read(file).map_err(local)?).await;
        }
        let parts = async {
            let mut from = std::fs::File::open(file).map_err(local)?;
            let mut writer = self
                .operator
                .writer_with(path)
                .chunk(PART as usize)
                .concurrent(4)
                .await
                .map_err(trouble)?;
            loop {
                let mut part = Vec::with_capacity(PART as usize);
                std::io::Read::read_to_end(&mut std::io::Read::take(&mut from, PART), &mut part)
                    .map_err(local)?;
                if part.is_empty() {
                    return writer.close().await.map(drop).map_err(trouble);
                }
                writer.write(part).await.map_err(trouble)?;
            }
        };
        self.within(size, parts).await
    }
}

/// The first caller in a process decides for all.
fn speak_http(timeout: Duration) -> Result<(), String> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().connect_timeout(timeout).build().map_err(|e| {
        let cause = std::error::Error::source(&e).map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("{e}{cause}\n  hint: HTTPS needs the certificates of authorities (Debian: apt install ca-certificates)")
    })?;
    HttpTransporter::install_default(ReqwestTransport::new(client));
    Ok(())
}

/// None of an object that is not there, in a bucket that is.
fn found<T>(answer: Result<T, Error>) -> Result<Option<T>, Trouble> {
    match answer {
        Err(e) if e.kind() == ErrorKind::NotFound && !names_no_bucket(&e) => Ok(None),
        other => other.map(Some).map_err(trouble),
    }
}

/// The words of S3, Azure and Google.
fn names_no_bucket(error: &Error) -> bool {
    ["NoSuchBucket", "ContainerNotFound", "bucket does not exist"]
        .iter()
        .any(|words| error.message().contains(words))
}

fn trouble(error: Error) -> Trouble {
    // The layer that ends what takes too long has no kind of its own for that.
    let is_timeout =
        error.kind() == ErrorKind::Unexpected && error.message().contains("timeout reached");
    if is_timeout {
        Trouble::Timeout
    } else {
        Trouble::Failed(message(&error))
    }
}

/// One line: opendal's own form lists all of a request.
fn message(error: &Error) -> String {
    let text = with_causes(
        code_and_message(error.message().lines().next().unwrap_or_default()),
        error,
    );
    // An error of the connection names the whole address, signature and all.
    format!("{} ({})", without_secrets(&text), error.kind())
}

/// Code and message of a service's answer, which opendal hands on in the form that Rust prints for debugging.
fn code_and_message(text: &str) -> String {
    let after = |name: &str| text.split_once(name).map(|(_, rest)| rest);
    let code = after(" code: ")
        .and_then(|rest| rest.split([',', ' ']).next())
        .map(|code| code.trim_matches('"'));
    // Azure goes on with the request's number, on a line of its own.
    let message = after(" message: \"").and_then(|rest| rest.split(['"', '\\']).next());
    let message =
        message.map(|message| message.split("RequestId").next().unwrap_or_default().trim());
    let text = match (code, message) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        _ => text.to_owned(),
    };
    text.trim_end_matches([':', ' '])
        .chars()
        .take(200)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_service_answered_is_reported_in_its_words() {
        for (text, expected) in [
            (
                "AzblobError { code: \"ContainerNotFound\", message: \"The container does not exist.\\nRequestId:06\\nTime:2\" }",
                "ContainerNotFound: The container does not exist.",
            ),
            (
                "AzblobError { code: \"AuthorizationFailure\", message: \"\" }",
                "AuthorizationFailure",
            ),
            (
                "GcsErrorResponse { error: GcsError { code: 400, message: \"invalid uploadType\", errors: [GcsErrorDetail {",
                "400: invalid uploadType",
            ),
            (
                "S3Error { code: \"NoSuchBucket\", message: \"It is not there\", resource: \"\" }",
                "NoSuchBucket: It is not there",
            ),
            ("connection refused", "connection refused"),
        ] {
            assert_eq!(code_and_message(text), expected);
        }
    }
}

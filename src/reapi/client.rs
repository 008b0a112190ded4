//! A connection to one server: what it can do, and how a request is repeated.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use bazel_remote_apis::build::bazel::remote::execution::v2::capabilities_client::CapabilitiesClient;
use tokio::sync::OnceCell;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::reapi::address::Address;
use crate::reapi::connect;
use crate::reapi::credentials::Credentials;
use crate::reapi::fault::Fault;
use crate::reapi::hash::Function;
use crate::reapi::proto::{GetCapabilitiesRequest, ServerCapabilities, compressor};

/// Slower than this no transfer is waited for, beyond the time that any answer has; bytes per second.
const SLOWEST: u64 = 128 << 10;
/// No batch is larger, whatever a server allows: gRPC's own limit for a message is 4 MiB.
const MOST_IN_BATCH: u64 = 2 << 20;
/// The first pause before a request is repeated; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The wire as the generated clients see it.
pub(super) type Wire = InterceptedService<Channel, Credentials>;

#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// The time within which an answer must be there, repetitions included.
    pub timeout: Duration,
    /// How often a request is repeated after an error that may pass.
    pub retries: u32,
}

/// The capabilities that a server reported.
#[derive(Debug, Clone, Copy)]
pub(super) struct Abilities {
    pub(super) function: Function,
    /// Bytes of one batch.
    pub(super) most_in_batch: u64,
    /// Whether streams may be compressed with Zstandard.
    pub(super) zstd: bool,
    pub(super) executes: bool,
    pub(super) updates_results: bool,
}

pub struct Client {
    pub(super) instance: String,
    pub(super) patience: Patience,
    /// A clone of it is the same connection.
    pub(super) wire: Wire,
    abilities: OnceCell<Abilities>,
}

impl Client {
    /// Opens no connection yet, but files that are named are read. Must be called inside a runtime of tokio's.
    pub fn open(address: &Address, patience: Patience) -> Result<Self, String> {
        let bad = |e: tonic::transport::Error| {
            format!("{} cannot be used: {}", address.shown, Fault::from(e))
        };
        let mut endpoint = Endpoint::from_shared(address.uri.clone())
            .map_err(bad)?
            .connect_timeout(patience.timeout)
            .http2_keep_alive_interval(Duration::from_secs(20))
            .keep_alive_timeout(Duration::from_secs(20));
        if address.is_encrypted {
            endpoint = endpoint.tls_config(tls(address)?).map_err(bad)?;
        }
        let channel = endpoint.connect_with_connector_lazy(connect::connector());
        let wire = InterceptedService::new(channel, Credentials::new(address.token.clone()));
        Ok(Self {
            instance: address.instance.clone(),
            patience,
            wire,
            abilities: OnceCell::new(),
        })
    }

    /// Queried once.
    pub(super) async fn abilities(&self) -> Result<Abilities, Fault> {
        self.abilities
            .get_or_try_init(|| self.query())
            .await
            .copied()
    }

    async fn query(&self) -> Result<Abilities, Fault> {
        let request = GetCapabilitiesRequest {
            instance_name: self.instance.clone(),
        };
        let answer = self.calling(0, || async {
            let mut client = CapabilitiesClient::new(self.wire.clone());
            Ok(client.get_capabilities(request.clone()).await?.into_inner())
        });
        abilities(&answer.await?)
    }

    /// The digest function that both sides speak.
    pub async fn function(&self) -> Result<Function, Fault> {
        Ok(self.abilities().await?.function)
    }

    /// Whether the server says that results may be put there, by this client.
    pub async fn updates_results(&self) -> Result<bool, Fault> {
        Ok(self.abilities().await?.updates_results)
    }

    /// Makes a request of `size` bytes, and repeats it as long as its errors may pass, with growing pauses.
    pub(super) async fn calling<T, F>(
        &self,
        size: u64,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let Patience { timeout, retries } = self.patience;
        let all = async {
            let mut pause = FIRST_PAUSE;
            for _ in 0..retries {
                match attempt().await {
                    Err(Fault::Passing(_)) => tokio::time::sleep(jittered(pause)).await,
                    other => return other,
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            attempt().await
        };
        tokio::time::timeout(timeout + Duration::from_secs(size / SLOWEST), all)
            .await
            .unwrap_or(Err(Fault::Timeout))
    }
}

/// A pause between half of it and all: clients that were refused together do not come back together.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.5..=1.0))
}

fn abilities(answer: &ServerCapabilities) -> Result<Abilities, Fault> {
    let cache = answer.cache_capabilities.clone().unwrap_or_default();
    let execution = answer.execution_capabilities.clone().unwrap_or_default();
    let function = Function::of_server(execution.digest_function, &cache.digest_functions)
        .ok_or_else(|| {
            Fault::Failed(format!(
                "it supports neither BLAKE3 nor SHA-256, only functions {:?}",
                cache.digest_functions
            ))
        })?;
    let most = u64::try_from(cache.max_batch_total_size_bytes)
        .ok()
        .filter(|most| *most > 0);
    Ok(Abilities {
        function,
        most_in_batch: most.unwrap_or(MOST_IN_BATCH).min(MOST_IN_BATCH),
        zstd: cache
            .supported_compressors
            .contains(&compressor::Value::Zstd.into()),
        executes: execution.exec_enabled,
        updates_results: cache
            .action_cache_update_capabilities
            .is_some_and(|update| update.update_enabled),
    })
}

fn tls(address: &Address) -> Result<ClientTlsConfig, String> {
    let read = |path: &Path| {
        std::fs::read(path)
            .map_err(|e| format!("{}: failed to read {}: {e}", address.shown, path.display()))
    };
    let mut config = ClientTlsConfig::new();
    config = match &address.ca {
        Some(path) => config.ca_certificate(Certificate::from_pem(read(path)?)),
        None => config.with_native_roots(),
    };
    if let Some((cert, key)) = &address.identity {
        config = config.identity(Identity::from_pem(read(cert)?, read(key)?));
    }
    if let Some(name) = &address.name {
        config = config.domain_name(name);
    }
    Ok(config)
}

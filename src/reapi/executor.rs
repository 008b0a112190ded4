//! A server that executes, for threads that wait: tasks in, files out. Has the runtime in which all of it happens.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::base::{ensure, lock};
use crate::reapi;
use crate::reapi::action::{self, Input, Task};
use crate::reapi::address::Address;
use crate::reapi::blobs::{Blob, Content, Wanted};
use crate::reapi::client::{Client, Patience};
use crate::reapi::execute::{Bounds, Ending, Hears};
use crate::reapi::fault::Fault;
use crate::reapi::hash::Function;
use crate::reapi::proto::{ActionResult, Digest};

pub struct Executor {
    client: Client,
    runtime: tokio::runtime::Runtime,
    /// Digests of files whose content never changes.
    sums: Mutex<HashMap<PathBuf, Digest>>,
    pub shown: String,
}

/// What an action left.
pub struct Left {
    pub exit_code: i32,
    pub files: BTreeMap<String, Digest>,
    /// The last of what it printed.
    pub printed: String,
    /// Who executed it, as the server calls it.
    pub worker: String,
    /// Nobody executed it now.
    pub is_cached: bool,
}

/// How a task ended.
pub enum Came {
    Back(Left),
    Not(Ending),
}

impl Executor {
    /// Opens no connection yet.
    pub fn open(address: &Address, patience: Patience) -> Result<Self, String> {
        let runtime = reapi::runtime("orch-executor").map_err(|e| {
            format!(
                "the executor {} is not used: no thread could be started: {e}",
                address.shown
            )
        })?;
        let client = {
            let _inside = runtime.enter();
            Client::open(address, patience).map_err(|why| format!("the executor {why}"))?
        };
        Ok(Self {
            client,
            runtime,
            sums: Mutex::default(),
            shown: address.shown.clone(),
        })
    }

    /// Whether it is there and executes.
    pub fn reach(&self) -> Result<Function, Fault> {
        self.runtime.block_on(self.client.executes())
    }

    /// A file as an input. `is_fixed`: its content is that of its name, so it is read once.
    pub fn input(
        &self,
        path: String,
        from: &Path,
        is_executable: bool,
        is_fixed: bool,
    ) -> Result<Input, Fault> {
        let function = self.reach()?;
        let known = lock(&self.sums).get(from).cloned();
        let digest = match known.filter(|_| is_fixed) {
            Some(digest) => digest,
            None => function.of_file(from)?,
        };
        if is_fixed {
            lock(&self.sums).insert(from.to_owned(), digest.clone());
        }
        Ok(Input {
            path,
            blob: Blob {
                digest,
                content: Content::File(from.to_owned()),
            },
            is_executable,
        })
    }

    /// A file of these bytes as an input.
    pub fn text(&self, path: String, bytes: Vec<u8>) -> Result<Input, Fault> {
        Ok(Input {
            path,
            blob: Blob::of_bytes(bytes, self.reach()?),
            is_executable: false,
        })
    }

    /// Executes a task, or finds out that it was executed before. `warn` hears what went wrong and was made good; of workers
    /// that the server lost, `lost` gets it too.
    pub fn run(
        &self,
        task: Task,
        skip_cache: bool,
        bounds: Bounds,
        goes_on: &(dyn Fn() -> bool + Sync),
        (tell, warn): (Hears<'_>, Hears<'_>),
        lost: &mut Vec<String>,
    ) -> Result<Came, Fault> {
        self.runtime.block_on(async {
            let function = self.client.function().await?;
            let (digest, blobs) = task.close(function);
            if !skip_cache
                && let Some(result) = self.client.result(&digest, &[]).await?
                && result.exit_code == 0
            {
                return Ok(Came::Back(self.left(result, true, function).await?));
            }
            let sent = self.client.upload(blobs).await?;
            if sent > 0 {
                tell(&format!("sent {}", crate::base::figures::bytes(sent)));
            }
            match self
                .client
                .execute(&digest, skip_cache, bounds, goes_on, warn, lost)
                .await?
            {
                Ending::Done { result, is_cached } => {
                    Ok(Came::Back(self.left(*result, is_cached, function).await?))
                }
                ending => Ok(Came::Not(ending)),
            }
        })
    }

    async fn left(
        &self,
        result: ActionResult,
        is_cached: bool,
        function: Function,
    ) -> Result<Left, Fault> {
        let mut files = BTreeMap::new();
        for file in result.output_files {
            files.insert(file.path, file.digest.ok_or(Fault::WrongContent)?);
        }
        for folder in result.output_directories {
            let tree = self
                .bytes(folder.tree_digest.ok_or(Fault::WrongContent)?)
                .await?;
            let found = action::files_of(&tree, function).ok_or(Fault::WrongContent)?;
            files.extend(
                found
                    .into_iter()
                    .map(|(path, digest)| (format!("{}/{path}", folder.path), digest)),
            );
        }
        let mut printed = match (result.stderr_raw, result.stderr_digest) {
            (raw, None) => raw,
            (raw, Some(_)) if !raw.is_empty() => raw,
            (_, Some(digest)) => self.bytes(digest).await.unwrap_or_default(),
        };
        printed.drain(..printed.len().saturating_sub(4096));
        Ok(Left {
            exit_code: result.exit_code,
            files,
            printed: String::from_utf8_lossy(&printed).trim().to_owned(),
            worker: result
                .execution_metadata
                .map(|metadata| metadata.worker)
                .unwrap_or_default(),
            is_cached,
        })
    }

    /// A small blob.
    async fn bytes(&self, digest: Digest) -> Result<Vec<u8>, Fault> {
        ensure(digest.size_bytes <= 64 << 20, || Fault::WrongContent)?;
        let dir = tempfile::tempdir()
            .map_err(|e| Fault::Local(format!("failed to make a folder: {e}")))?;
        self.client.read(digest, dir.path()).await
    }

    /// The content of a small file that an action left.
    pub fn read(&self, digest: &Digest) -> Result<Vec<u8>, Fault> {
        self.runtime.block_on(self.bytes(digest.clone()))
    }

    pub fn fetch(&self, wanted: Vec<Wanted>) -> Result<u64, Fault> {
        self.runtime.block_on(self.client.fetch(wanted))
    }
}

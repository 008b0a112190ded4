//! Results in the action cache of a server that speaks the Remote Execution API, their contents in its store.
//!
//! An action that nobody executes stands for a key: its command names the key, and its result lists the sealed result and
//! every content by its BLAKE3 name. So a server's own rules hold for them: what a result names is kept as long as the
//! result, and a result whose content is gone is none. Digests of the server's are its own; orch's are checked besides.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::base::{Digest, ensure, fs as bfs};
use crate::config::RemoteConfig;
use crate::reapi::proto::{self, Action, ActionResult, Command, OutputFile};
use crate::reapi::{self, Blob, Client, Content, Fault, Function, Patience, Wanted};
use crate::store::ManifestFile;
use crate::store::blobs::name;
use crate::store::remote::hub::sealed;
use crate::store::remote::hub::trouble::{Refusal, Trouble};

/// The name of the sealed result among the files of an action's result.
const RESULT: &str = "orch-result-2";

pub(super) struct Actions {
    client: Client,
}

/// A result that a server holds.
pub(super) struct Held {
    pub(super) sealed: Vec<u8>,
    /// The digests of its contents, by name.
    contents: HashMap<String, proto::Digest>,
}

impl Held {
    /// One whose contents are at paths of their own.
    pub(super) fn of(sealed: Vec<u8>) -> Self {
        Self {
            sealed,
            contents: HashMap::new(),
        }
    }
}

impl Actions {
    /// Opens no connection yet.
    pub(super) fn open(address: &reapi::Address, config: &RemoteConfig) -> Result<Self, String> {
        let patience = Patience {
            timeout: config.timeout,
            retries: config.retries,
        };
        let client = Client::open(address, patience).map_err(|why| format!("the remote {why}"))?;
        Ok(Self { client })
    }

    /// An error if the server does not answer, or not to this client.
    pub(super) async fn reach(&self, writes: bool) -> Result<(), Trouble> {
        let nothing = Stand::of(
            &Digest::of(b"is anybody there"),
            self.client.function().await?,
        );
        self.client.result(&nothing.action.digest, &[]).await?;
        if writes {
            self.takes_results().await
        } else {
            Ok(())
        }
    }

    async fn takes_results(&self) -> Result<(), Trouble> {
        let none = "the server takes no results from this client; hint: mode = \"read-only\"";
        ensure(self.client.updates_results().await?, || {
            Trouble::Failed(none.into())
        })
    }

    /// `dir` gives a new folder for what does not come inline.
    pub(super) async fn find(
        &self,
        key: &Digest,
        dir: impl Fn() -> Result<PathBuf, Trouble>,
    ) -> Result<Option<Held>, Trouble> {
        let function = self.client.function().await?;
        let action = Stand::of(key, function).action.digest;
        let Some(result) = self.client.result(&action, &[RESULT]).await? else {
            return Ok(None);
        };
        let mut contents = HashMap::new();
        let mut found = None;
        for file in result.output_files {
            match file.digest {
                Some(digest) if file.path == RESULT => found = Some((digest, file.contents)),
                Some(digest) => drop(contents.insert(file.path, digest)),
                None => return Err(Refusal::Unreadable.into()),
            }
        }
        let Some((digest, inline)) = found else {
            return Err(Refusal::Unreadable.into());
        };
        ensure(
            (0..=sealed::MOST as i64).contains(&digest.size_bytes),
            || Refusal::TooLarge,
        )?;
        if function.of(&inline) == digest {
            return Ok(Some(Held {
                sealed: inline,
                contents,
            }));
        }
        let dir = dir()?;
        let sealed = self.client.read(digest, &dir).await;
        let _ = bfs::remove_dir(&dir);
        Ok(Some(Held {
            sealed: sealed?,
            contents,
        }))
    }

    /// Fetches contents to the files beside them; nothing else than what is named is ever completed there.
    pub(super) async fn bring(
        &self,
        held: &Held,
        files: &[(PathBuf, ManifestFile)],
    ) -> Result<(), Trouble> {
        let empty = self.client.function().await?.of(b"");
        let wanted = files.iter().map(|(to, file)| {
            let digest = match file.size {
                // An empty blob is never sent.
                0 => empty.clone(),
                _ => held
                    .contents
                    .get(&name(&file.blob()))
                    .cloned()
                    .ok_or(Refusal::Incomplete)?,
            };
            let is_right = digest.size_bytes == file.size as i64;
            ensure(is_right, || Trouble::from(Refusal::WrongContent)).map(|()| Wanted {
                digest,
                content: Some(file.digest),
                to: to.clone(),
            })
        });
        self.client.fetch(wanted.collect::<Result<_, _>>()?).await?;
        Ok(())
    }

    /// Sends what the server lacks of a result, and the result last; how many bytes went out.
    pub(super) async fn publish(
        &self,
        key: &Digest,
        sealed: Vec<u8>,
        files: Vec<(PathBuf, ManifestFile)>,
    ) -> Result<u64, Trouble> {
        self.takes_results().await?;
        let function = self.client.function().await?;
        let stand = Stand::of(key, function);
        let mut outputs = Vec::new();
        let mut blobs = vec![stand.command, stand.action.clone()];
        for (path, file) in files {
            let digest = function.of_file(&path)?;
            outputs.push(output(name(&file.blob()), digest.clone(), file.executable));
            blobs.push(Blob {
                digest,
                content: Content::File(path),
            });
        }
        let sealed = Blob::of_bytes(sealed, function);
        outputs.push(output(RESULT.into(), sealed.digest.clone(), false));
        blobs.push(sealed);
        // The API wants them sorted.
        outputs.sort_by(|one, other| one.path.cmp(&other.path));
        let sent = self.client.upload(blobs).await?;
        let result = ActionResult {
            output_files: outputs,
            ..ActionResult::default()
        };
        self.client.set_result(&stand.action.digest, result).await?;
        Ok(sent)
    }
}

fn output(path: String, digest: proto::Digest, is_executable: bool) -> OutputFile {
    OutputFile {
        path,
        digest: Some(digest),
        is_executable,
        ..OutputFile::default()
    }
}

/// The action that stands for a key, with its command.
struct Stand {
    command: Blob,
    action: Blob,
}

impl Stand {
    fn of(key: &Digest, function: Function) -> Self {
        let command = Command {
            arguments: vec![RESULT.into(), key.to_string()],
            ..Command::default()
        };
        let command = Blob::of_message(&command, function);
        let action = Action {
            command_digest: Some(command.digest.clone()),
            // A folder without anything in it is a message without anything in it.
            input_root_digest: Some(function.of(b"")),
            ..Action::default()
        };
        Self {
            action: Blob::of_message(&action, function),
            command,
        }
    }
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Absent => Refusal::Incomplete.into(),
            Fault::WrongContent => Refusal::WrongContent.into(),
            Fault::Timeout => Self::Timeout,
            Fault::Local(why) => Self::Local(why),
            other => Self::Failed(other.to_string()),
        }
    }
}

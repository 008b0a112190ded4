//! Returned by a server of the Remote Execution API: an order becomes an action, its result an answer.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use crate::base::{fs as bfs, lock};
use crate::config::ExecutorConfig;
use crate::exec::away::order::Answer;
use crate::exec::away::serve::{ANSWER, LOG, ORDER, OUT};
use crate::exec::away::{Content, RemoteExecutor, Returned, Submission};
use crate::exec::perform::ended::ServerFile;
use crate::exec::perform::outcome::set_fact;
use crate::exec::routing::listed;
use crate::reapi::proto::Digest;
use crate::reapi::{
    Address, Blob, Bounds, Came, Ending, Executor, Fault, Input, Left, Patience, Task, Wanted,
};
use crate::store::{Manifest, ManifestFile};

/// The name of orch among the files of an action.
const PROGRAM: &str = "orch";
/// How long a step waits for a worker after another one with the same requirements has waited in vain. All of them together
/// would hold the slots for hours that others could use.
const ONCE_MORE: Duration = Duration::from_secs(5);

pub struct Away {
    executor: Executor,
    config: ExecutorConfig,
    /// orch there; None where it is sent along.
    program: Option<PathBuf>,
    /// orch here.
    own: PathBuf,
    requested: Mutex<Requested>,
}

/// What was requested in this run: the API has no list of workers.
#[derive(Default)]
struct Requested {
    /// A worker had it.
    taken: BTreeSet<String>,
    /// Nobody took it as long as a step waits, and nobody has since.
    in_vain: BTreeSet<String>,
}

impl Requested {
    fn take(&mut self, what: String) {
        self.in_vain.remove(&what);
        self.taken.insert(what);
    }

    /// Why nobody took it.
    fn leave(&mut self, what: String, waited: Duration) -> String {
        let mut why = format!(
            "no worker took it within {} s: none offers this, or all are busy",
            waited.as_secs()
        );
        if self.in_vain.contains(&what) {
            why += ", as before in this run";
        }
        self.in_vain.insert(what);
        if !self.taken.is_empty() {
            let all: Vec<_> = self.taken.iter().map(String::as_str).collect();
            why += &format!("; workers did take requests for {}", all.join(" | "));
        }
        why + "; hint: `queue` in [executor]"
    }
}

impl Away {
    /// Opens no connection yet.
    pub fn open(config: ExecutorConfig) -> Result<Self, String> {
        let address = Address::of("the executor", &config.url, &config.options)?;
        let patience = Patience {
            timeout: config.timeout,
            retries: config.retries,
        };
        let executor = Executor::open(&address, patience)?;
        let own = crate::base::program::for_workers()
            .map_err(|e| format!("failed to find orch's own executable: {e}"))?;
        Ok(Self {
            executor,
            program: config.program.clone(),
            config,
            own,
            requested: Mutex::default(),
        })
    }

    fn task(&self, submission: &Submission<'_>) -> Result<Task, Fault> {
        let mut files: Vec<Input> = Vec::new();
        for file in &submission.inputs {
            let path = file.path.clone();
            let is_executable = file.is_executable;
            files.push(match &file.content {
                Content::Here { at, is_fixed } => {
                    self.executor.input(path, at, is_executable, *is_fixed)?
                }
                Content::There(file) => Input {
                    path,
                    blob: Blob::there(digest_of(file)),
                    is_executable,
                },
            });
        }
        files.push(
            self.executor
                .text(ORDER.into(), submission.order.to_bytes())?,
        );
        let program = match &self.program {
            Some(path) => path.display().to_string(),
            None => {
                files.push(self.executor.input(PROGRAM.into(), &self.own, true, true)?);
                format!("./{PROGRAM}")
            }
        };
        let mut env = self.config.env.clone();
        // Workers begin with an empty environment.
        env.entry("PATH".into())
            .or_insert_with(|| "/usr/local/bin:/usr/bin:/bin".into());
        Ok(Task {
            argv: vec![program, "worker".into(), "order".into()],
            env,
            properties: submission.properties.clone(),
            files,
            outputs: [ANSWER, LOG, OUT].map(str::to_owned).into(),
            timeout: self.config.limit,
        })
    }

    fn run(&self, submission: &Submission<'_>) -> Result<Returned, Fault> {
        let properties = listed(&submission.properties);
        let is_in_vain = lock(&self.requested).in_vain.contains(&properties);
        let queue = if is_in_vain {
            self.config.queue.min(ONCE_MORE)
        } else {
            self.config.queue
        };
        let mut bounds = Bounds {
            queue,
            execution: submission.timeout,
            away: self.config.queue,
            losses: self.config.retries,
        };
        let goes_on = || !submission.cancel.is_cancelled();
        let reads_there = submission
            .inputs
            .iter()
            .any(|file| matches!(file.content, Content::There(_)));
        let mut is_anew = submission.is_anew;
        let mut attempts = 0;
        let mut lost = Vec::new();
        loop {
            let reporters = (submission.progress, submission.warn);
            let came = match self.executor.run(
                self.task(submission)?,
                is_anew,
                bounds,
                &goes_on,
                reporters,
                &mut lost,
            ) {
                Err(Fault::Absent) if reads_there => return Ok(Returned::InputGone),
                came => came?,
            };
            let why = match came {
                Came::Back(left) => match self.answer(&left) {
                    Ok(answer) if left.is_cached && !answer.outcome.may_be_shared() => {
                        "an older failure was answered".to_owned()
                    }
                    Ok(answer) => {
                        let is_cached = left.is_cached;
                        if !is_cached {
                            lock(&self.requested).take(properties.clone());
                        }
                        match self.bring(answer, left, submission, &lost) {
                            Err(Fault::Absent | Fault::WrongContent) if is_cached => {
                                "the server's older result is not whole any more".to_owned()
                            }
                            other => return other,
                        }
                    }
                    Err(Some(fault)) => return Err(fault),
                    Err(None) => format!(
                        "orch ended there with code {} and no answer: {}",
                        left.exit_code, left.printed
                    ),
                },
                Came::Not(Ending::Lost(why)) => why,
                Came::Not(Ending::NoWorker(why)) => {
                    return Ok(Returned::Unavailable(format!(
                        "no worker offers that: {why}"
                    )));
                }
                Came::Not(Ending::NeverBegan(waited)) => {
                    return Ok(Returned::Unavailable(
                        lock(&self.requested).leave(properties, waited),
                    ));
                }
                Came::Not(Ending::TooLong(limit)) => return Ok(Returned::TooLong(limit)),
                Came::Not(Ending::Cancelled) => return Ok(Returned::Interrupted),
                Came::Not(Ending::Done { .. }) => panic!("BUG: what is done has come back"),
            };
            if !goes_on() {
                return Ok(Returned::Interrupted);
            }
            // A remembered answer is not a result.
            is_anew = true;
            // What the server itself began anew counts too.
            let losses = u32::try_from(lost.len()).unwrap_or(u32::MAX);
            attempts = attempts.max(losses);
            bounds.losses = self.config.retries.saturating_sub(attempts);
            if attempts >= self.config.retries {
                let times = lost.len() + 1;
                return Ok(Returned::Failed(
                    format!("its worker was lost {times} times; the last time: {why}"),
                    true,
                ));
            }
            attempts += 1;
            (submission.warn)(&format!("{why}; it is executed again"));
            lost.push(why);
        }
    }

    /// What the worker's orch says; None if it printed nothing.
    fn answer(&self, left: &Left) -> Result<Answer, Option<Fault>> {
        let digest = left.files.get(ANSWER).ok_or(None)?;
        let bytes = self.executor.read(digest).map_err(Some)?;
        let bad = |e: serde_json::Error| {
            Some(Fault::Failed(format!(
                "the worker's answer cannot be read: {e}"
            )))
        };
        serde_json::from_slice(&bytes).map_err(bad)
    }

    /// Fetches what it made, unless that is to stay there.
    fn bring(
        &self,
        mut answer: Answer,
        left: Left,
        submission: &Submission<'_>,
        lost: &[String],
    ) -> Result<Returned, Fault> {
        if let Some(digest) = left.files.get(LOG) {
            let log = Wanted {
                digest: digest.clone(),
                content: None,
                to: submission.log.to_owned(),
            };
            // It is reported, and decides nothing.
            let _ = self.executor.fetch(vec![log]);
        }
        let files = match &answer.made {
            Some(made) => named(made, &left)?,
            None => Vec::new(),
        };
        let leaves = submission.leaves && answer.made.is_some();
        if !leaves {
            self.fetch_files(&files, submission.out)?;
        }
        let execution = serde_json::json!({
            "server": self.executor.shown, "worker": left.worker, "cached": left.is_cached, "lost": lost,
        });
        set_fact(&mut answer.facts, "execution", execution);
        let names = leaves.then(|| files.into_iter().map(|(name, _)| name).collect());
        Ok(Returned::Performed {
            answer: Box::new(answer),
            is_remembered: left.is_cached,
            left: names,
        })
    }

    /// Fetches files to a folder, each by its own content.
    fn fetch_files(&self, files: &[(ServerFile, ManifestFile)], out: &Path) -> Result<(), Fault> {
        let mut wanted = Vec::new();
        for (name, file) in files {
            let to = out.join(&file.path);
            let folder = to.parent().expect("BUG: it lies in a folder");
            std::fs::create_dir_all(folder)
                .map_err(|e| Fault::Local(format!("failed to make {}: {e}", folder.display())))?;
            wanted.push(Wanted {
                digest: digest_of(name),
                content: Some(file.digest),
                to,
            });
        }
        self.executor.fetch(wanted)?;
        for (_, file) in files.iter().filter(|(_, file)| file.executable) {
            bfs::make_executable(&out.join(&file.path)).map_err(|e| Fault::Local(e.to_string()))?;
        }
        Ok(())
    }
}

/// What a worker made, as it says, with what the server calls each file.
fn named(made: &Manifest, left: &Left) -> Result<Vec<(ServerFile, ManifestFile)>, Fault> {
    if let Some(what) = made.fault() {
        return Err(Fault::Failed(format!("the worker's list of files {what}")));
    }
    let named = |file: &ManifestFile| {
        let Digest { hash, size_bytes } = left
            .files
            .get(&format!("{OUT}/{}", file.path))
            .ok_or_else(|| Fault::Failed(format!("`{}` did not come back", file.path)))?;
        match *size_bytes == file.size as i64 {
            true => Ok((
                ServerFile {
                    hash: hash.clone(),
                    size: *size_bytes,
                },
                file.clone(),
            )),
            false => Err(Fault::WrongContent),
        }
    };
    made.files.iter().map(named).collect()
}

fn digest_of(file: &ServerFile) -> Digest {
    Digest {
        hash: file.hash.clone(),
        size_bytes: file.size,
    }
}

impl RemoteExecutor for Away {
    fn perform(&self, submission: Submission<'_>) -> Returned {
        self.run(&submission).unwrap_or_else(|fault| {
            let may_pass = matches!(fault, Fault::Passing(_) | Fault::Timeout | Fault::Absent);
            Returned::Failed(fault.to_string(), may_pass)
        })
    }

    fn fetch(&self, files: &[(ServerFile, ManifestFile)], out: &Path) -> Result<(), String> {
        self.fetch_files(files, out)
            .map_err(|fault| fault.to_string())
    }

    fn name(&self) -> &str {
        &self.executor.shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_nobody_took_says_what_was_taken_and_the_next_one_waits_less() {
        let mut requested = Requested::default();
        assert!(
            !requested
                .leave("a=1".into(), Duration::from_secs(600))
                .contains("workers did take")
        );
        requested.take("b=1".into());
        let why = requested.leave("a=1".into(), ONCE_MORE);
        assert!(
            why.contains("within 5 s")
                && why.contains("as before")
                && why.contains("requests for b=1;"),
            "{why}"
        );
        assert!(requested.in_vain.contains("a=1"));
        requested.take("a=1".into());
        assert!(requested.in_vain.is_empty(), "somebody has it now");
    }
}

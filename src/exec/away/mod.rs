//! Steps that execute elsewhere: which these are, what a worker must have, and what is believed of what comes back.
//!
//! A step travels as an [`Order`] with its inputs; orch itself is what a worker executes (`serve`), so a step is performed
//! and judged there by the same code as here. What comes back is an [`Answer`] and files. Files are taken for what they
//! hash to, and the answer for the word of a worker that the user trusts (docs/remote-execution.md, "Trust").

mod absent;
mod order;
mod perform;
#[cfg(feature = "remote")]
mod send;
mod serve;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::{Download, ExecutorConfig, Where};
use crate::device::Backend;
use crate::step::{Params, Step};
use crate::store::ManifestFile;
use crate::worker::Cancel;

pub(in crate::exec) use absent::Absent;
pub use order::{Answer, Order, Origin};
#[cfg(feature = "remote")]
pub use send::Away;
pub use serve::{Site, offered, serve};

/// The property that names a device, by its backend.
pub const DEVICE: &str = "orch-device";
/// Stands for that backend in a user's property: servers differ in how a worker with several devices says so.
const PLACE: &str = crate::config::DEVICE_PLACE;

/// The steps that go away, and what their workers must have. The same for all of a run.
#[derive(Debug, Clone)]
pub struct Routing {
    pub whereabouts: Where,
    pub download: Download,
    /// Asked of every worker, or of those with a device (`{device}` in its name or value). An empty value takes away one
    /// of orch's own.
    pub properties: BTreeMap<String, String>,
    /// The environment of orch there.
    pub env: BTreeMap<String, String>,
    /// Steps that may be away at a time.
    pub slots: u32,
}

impl Routing {
    pub fn of(config: &ExecutorConfig) -> Self {
        let ExecutorConfig {
            whereabouts,
            download,
            properties,
            env,
            slots,
            ..
        } = config;
        let properties = properties.clone();
        let env = env.clone();
        Self {
            whereabouts: *whereabouts,
            download: *download,
            properties,
            env,
            slots: *slots,
        }
    }

    /// Whether a step goes away, on a host with this inventory.
    pub fn sends(&self, step: &Step, inventory: &[Backend]) -> bool {
        let lacks_device = || {
            let backend = step.run().backend.name;
            !inventory
                .iter()
                .any(|known| known.name == backend && known.available)
        };
        match self.whereabouts {
            Where::Local => false,
            Where::Remote => travels(step),
            Where::Auto => {
                step.kind.runs_on_device() && (step.run().is_elsewhere() || lacks_device())
            }
        }
    }

    /// Whether what a step made stays there until something here reads it. `is_top`: it is a result of the run.
    pub(super) fn leaves(&self, is_top: bool) -> bool {
        self.download.leaves(is_top)
    }

    /// What a worker must offer for this step, by name.
    pub fn asked(&self, step: &Step) -> BTreeMap<String, String> {
        let mut asked = BTreeMap::from([("cpu".to_owned(), std::env::consts::ARCH.to_owned())]);
        let device = step.kind.runs_on_device().then(|| step.run().backend.name);
        if let Some(device) = device {
            asked.insert(DEVICE.into(), device.into());
        }
        if let Some(memory) = step.memory {
            asked.insert("mem_mb".into(), memory.get().div_ceil(1 << 20).to_string());
        }
        asked.extend(filled(&self.properties, device));
        if device.is_some() {
            asked.extend(step.run().properties.clone());
        }
        asked.retain(|_, value| !value.is_empty());
        asked
    }

    /// What stands for the host in the key of a run that goes away: who may run it, and with which environment.
    pub(super) fn described(&self, step: &Step) -> String {
        // Where something is installed changes no result.
        let env = self
            .env
            .iter()
            .filter(|(name, _)| !name.starts_with("ORCH_") && *name != "PATH");
        format!(
            "executor {} {}",
            listed(&self.asked(step)),
            listed(&env.map(own).collect())
        )
        .trim_end()
        .to_owned()
    }
}

/// Who takes the steps of a run that go away.
#[derive(Clone, Copy)]
pub(in crate::exec) struct Departing<'a> {
    pub(in crate::exec) away: &'a dyn Elsewhere,
    pub(in crate::exec) routing: &'a Routing,
    /// The probers' answers about this host.
    pub(in crate::exec) inventory: &'a [Backend],
    /// What stayed there.
    pub(in crate::exec) absent: &'a Absent,
}

/// The user's properties for a step on this device; without one those that name a device are not required.
fn filled(properties: &BTreeMap<String, String>, device: Option<&str>) -> BTreeMap<String, String> {
    let is_plain =
        |(name, value): &(&String, &String)| !name.contains(PLACE) && !value.contains(PLACE);
    match device {
        Some(device) => {
            let fill = |text: &String| text.replace(PLACE, device);
            properties
                .iter()
                .map(|(name, value)| (fill(name), fill(value)))
                .collect()
        }
        None => properties.iter().filter(is_plain).map(own).collect(),
    }
}

fn own((name, value): (&String, &String)) -> (String, String) {
    (name.clone(), value.clone())
}

/// `cpu=x86_64, orch-device=qnn`
pub fn listed(properties: &BTreeMap<String, String>) -> String {
    properties
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Whether a step can execute elsewhere at all. What orch does by itself is quicker done than sent; a command that reads
/// variables of this machine or writes to its folders belongs here.
fn travels(step: &Step) -> bool {
    match &step.params {
        Params::Program(program) => program.env.is_empty() && program.writable.is_empty(),
        _ => !step.kind.requires(step).is_empty() || step.kind.runs_on_device(),
    }
}

/// One step that is to be done elsewhere.
pub struct Submission<'a> {
    pub order: Order,
    pub inputs: Vec<Given>,
    pub properties: BTreeMap<String, String>,
    /// An older result of the same action will not do.
    pub is_anew: bool,
    /// What it makes stays there, and only its name comes back.
    pub leaves: bool,
    pub timeout: Duration,
    /// An empty folder for what comes back.
    pub out: &'a Path,
    pub log: &'a Path,
    pub cancel: &'a Cancel,
    pub progress: &'a (dyn Fn(&str) + Sync),
    /// Hears what went wrong and was made good.
    pub warn: &'a (dyn Fn(&str) + Sync),
}

/// A file that a step reads.
pub struct Given {
    /// The path at which the step finds it.
    pub path: String,
    pub content: Content,
    pub is_executable: bool,
}

#[derive(Clone)]
pub enum Content {
    /// `is_fixed`: its content is that of its name.
    Here {
        at: PathBuf,
        is_fixed: bool,
    },
    There(ServerFile),
}

/// A file that stayed on the server, by the server's name for it: a digest by a function of the server's, and a size in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFile {
    pub hash: String,
    pub size: i64,
}

/// What came of a submission.
pub enum Returned {
    /// A worker performed it, now or before this run. What it made lies in the folder `out`, unless it is `left` on the
    /// server: then these are its files, in the order of the answer.
    Performed {
        answer: Box<Answer>,
        is_remembered: bool,
        left: Option<Vec<ServerFile>>,
    },
    /// An input that was to be on the server is not there any more.
    InputGone,
    /// No worker did, or could, for this reason.
    Unavailable(String),
    TooLong(Duration),
    Interrupted,
    /// A reason, and whether another attempt may succeed.
    Failed(String, bool),
}

/// A server with workers.
pub trait Elsewhere: Sync {
    fn perform(&self, submission: Submission<'_>) -> Returned;

    /// Fetches what was left there to the folder `out`. Each file is what the tree's manifest says, or there is an error.
    fn fetch(&self, files: &[(ServerFile, ManifestFile)], out: &Path) -> Result<(), String>;

    /// The name as it may be shown.
    fn name(&self) -> &str;
}

#[cfg(test)]
mod tests;

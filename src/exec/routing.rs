//! The steps that go away, and what a worker must offer for them.

use std::collections::BTreeMap;

use crate::config::{Download, ExecutorConfig, Where};
use crate::device::Backend;
use crate::step::{Params, Step};

/// The property that names a device, by its backend.
pub const DEVICE: &str = "orch-device";
/// Stands for that backend in a user's property: servers differ in how a worker with several devices says so.
const PLACE: &str = crate::config::DEVICE_PLACE;

/// The steps that go away, and what their workers must have. The same for all of a run.
#[derive(Debug, Clone)]
pub struct Routing {
    pub whereabouts: Where,
    pub download: Download,
    /// Required of every worker, or of those with a device (`{device}` in its name or value). An empty value takes away one
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
        // Workers elsewhere have the locks of their own orch.
        if step.toolchain.is_some() {
            return false;
        }
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
    pub fn required(&self, step: &Step) -> BTreeMap<String, String> {
        let mut required = BTreeMap::from([("cpu".to_owned(), std::env::consts::ARCH.to_owned())]);
        let device = step.kind.runs_on_device().then(|| step.run().backend.name);
        if let Some(device) = device {
            required.insert(DEVICE.into(), device.into());
        }
        if let Some(memory) = step.memory {
            required.insert("mem_mb".into(), memory.get().div_ceil(1 << 20).to_string());
        }
        required.extend(filled(&self.properties, device));
        if device.is_some() {
            required.extend(step.run().properties.clone());
        }
        required.retain(|_, value| !value.is_empty());
        required
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
            listed(&self.required(step)),
            listed(&env.map(own).collect())
        )
        .trim_end()
        .to_owned()
    }
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
pub(super) fn listed(properties: &BTreeMap<String, String>) -> String {
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::exec::tests::command;
    use crate::spec::Program;

    fn routing(whereabouts: Where) -> Routing {
        let properties =
            [("pool", "lab"), ("cpu", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let download = Download::default();
        Routing {
            whereabouts,
            download,
            properties: properties.into(),
            env: BTreeMap::new(),
            slots: 2,
        }
    }

    #[test]
    fn what_belongs_to_this_machine_stays() {
        let plain = command(Program::default());
        assert!(routing(Where::Remote).sends(&plain, &[]));
        assert!(!routing(Where::Local).sends(&plain, &[]));
        assert!(
            !routing(Where::Auto).sends(&plain, &[]),
            "it needs no device"
        );
        let secret = command(Program {
            env: ["TOKEN".into()].into(),
            ..Program::default()
        });
        assert!(
            !routing(Where::Remote).sends(&secret, &[]),
            "the value of a variable may be a secret"
        );
        let writes = command(Program {
            writable: [("x".into(), Path::new("/x").into())].into(),
            ..Program::default()
        });
        assert!(!routing(Where::Remote).sends(&writes, &[]));
    }

    #[test]
    fn what_is_fetched_at_once_is_what_was_requested() {
        let leaves = |download| {
            [false, true].map(|is_top| {
                Routing {
                    download,
                    ..routing(Where::Remote)
                }
                .leaves(is_top)
            })
        };
        assert_eq!(leaves(Download::All), [false, false]);
        assert_eq!(leaves(Download::Toplevel), [true, false]);
        assert_eq!(leaves(Download::None), [true, true]);
    }

    #[test]
    fn properties_are_orch_s_and_the_user_s() {
        let required = routing(Where::Remote).required(&command(Program::default()));
        assert_eq!(
            listed(&required),
            "mem_mb=6, pool=lab",
            "an empty value takes one of orch's away"
        );
        assert_eq!(
            routing(Where::Remote).described(&command(Program::default())),
            "executor mem_mb=6, pool=lab"
        );
    }

    #[test]
    fn a_property_may_name_the_device_and_is_required_of_runs_alone() {
        let given = [
            ("pool", "lab"),
            ("orch-device", ""),
            ("has-{device}", "1"),
            ("Pool", "of-{device}"),
        ];
        let given = given
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        assert_eq!(
            listed(&filled(&given, Some("qnn"))),
            "Pool=of-qnn, has-qnn=1, orch-device=, pool=lab"
        );
        assert_eq!(listed(&filled(&given, None)), "orch-device=, pool=lab");
    }
}

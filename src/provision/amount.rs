//! How much there is to install, and how long that takes: printed before it begins, and before the disk is full.

use std::collections::BTreeSet;

use crate::base::figures::bytes;
use crate::catalogue::Requirement;
use crate::provision::{Provision, titled, torch_worker};
use crate::step::Required;
use crate::toolchain::EnvName;

/// The worker with what its build leaves.
const TORCH_WORKER: u64 = 80_000_000;
/// The minutes that two cores take.
const BUILD_MINUTES: u64 = 3;
/// Wheels are archives of about half the size of what is in them, and the line is one of 100 Mbit/s.
const BYTES_A_MINUTE: u64 = 2 * 60 * 12_500_000;

/// What of the requirements is not there yet.
pub struct Missing {
    /// The parts, with their sizes once they are installed, where these are known.
    parts: Vec<(String, Option<u64>)>,
    builds: bool,
}

impl Provision {
    pub fn missing<R: Into<Required>>(&self, requirements: impl IntoIterator<Item = R>) -> Missing {
        let of = |required: Required| match required.requirement {
            Requirement::Swiftshader => Requirement::Env(EnvName::Browser).into(),
            _ => required,
        };
        let is_missing = |required: &Required| {
            let provision = self.with(required.toolchain.as_ref());
            !provision.is_ready(required.requirement)
        };
        let missing = requirements.into_iter().map(R::into).filter(is_missing);
        let wanted: BTreeSet<_> = missing.map(of).collect();
        let builds = torch_worker::shipped().is_none()
            && wanted
                .iter()
                .any(|required| required.requirement == Requirement::TorchWorker);
        let size = |required: &Required| match required.requirement {
            // orch's sizes are those of its own locks.
            _ if required.toolchain.is_some() => None,
            Requirement::Env(name) if self.locks.is_users(name) => None,
            Requirement::Env(name) => name.megabytes().map(|size| size * 1_000_000),
            Requirement::TorchWorker => Some(TORCH_WORKER),
            Requirement::Swiftshader => None,
        };
        let parts = wanted
            .into_iter()
            .map(|required| (titled(&required), size(&required)));
        Missing {
            parts: parts.collect(),
            builds,
        }
    }
}

impl Missing {
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The bytes of the parts whose size is known.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().filter_map(|(_, size)| *size).sum()
    }

    /// `python environment `torch` (4.7 GiB), …: 5.0 GiB in all, about 4 min at 100 Mbit/s`
    pub fn summary(&self) -> String {
        let shown = |(what, size): &(String, Option<u64>)| {
            format!(
                "{what} ({})",
                size.map_or_else(|| "size unknown".to_owned(), bytes)
            )
        };
        let parts: Vec<_> = self.parts.iter().map(shown).collect();
        let all = if parts.len() > 1 {
            format!(": {} in all", bytes(self.bytes()))
        } else {
            String::new()
        };
        let minutes = self.bytes().div_ceil(BYTES_A_MINUTE).max(1);
        let build = if self.builds {
            format!(" and {BUILD_MINUTES} min of compiling")
        } else {
            String::new()
        };
        format!(
            "{}{all}, about {minutes} min at 100 Mbit/s{build}",
            parts.join(", ")
        )
    }
}

/// `1.2 GiB of 4.7 GiB`; beyond what was expected, as where archives are kept too, only what there is.
pub(super) fn of(written: u64, total: Option<u64>) -> String {
    match total.filter(|total| *total >= written) {
        Some(total) => format!("{} of {}", bytes(written), bytes(total)),
        None => bytes(written),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::Cancel;

    #[test]
    fn what_is_missing_is_reported_with_its_size_and_time() {
        let folder = tempfile::tempdir().unwrap();
        let provision = Provision::new(folder.path().to_owned(), None, Cancel::default()).unwrap();
        let one = provision.missing([
            Requirement::Env(EnvName::Ort),
            Requirement::Env(EnvName::Ort),
        ]);
        assert_eq!(
            one.summary(),
            "python environment `ort` (238 MiB), about 1 min at 100 Mbit/s"
        );
        let two = provision.missing([Requirement::Env(EnvName::Torch), Requirement::TorchWorker]);
        let expected = "python environment `torch` (4.7 GiB), tch worker `orch-torch` (76 MiB): 4.8 GiB in all, about 4 min at \
            100 Mbit/s and 3 min of compiling";
        assert_eq!(
            (two.summary(), two.is_empty()),
            (expected.to_owned(), false)
        );
        assert!(provision.missing::<Required>([]).is_empty());
    }

    #[test]
    fn what_is_there_is_shown_as_a_part_of_the_whole_while_it_is_one() {
        assert_eq!(of(1_300_000_000, Some(5_100_000_000)), "1.2 GiB of 4.7 GiB");
        assert_eq!(of(6_000_000_000, Some(5_100_000_000)), "5.6 GiB");
        assert_eq!(of(300_000_000, None), "286 MiB");
    }

    #[test]
    fn the_page_of_installation_says_the_same_sizes() {
        let page = include_str!("../../docs/install.md");
        let rows = page
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        let mut seen = 0;
        for (name, rest) in rows {
            let Some(env) = EnvName::ALL.into_iter().find(|env| env.name() == name) else {
                continue;
            };
            let size = env.megabytes().unwrap();
            let forms = [
                format!("{size} MB"),
                format!("{:.1} GB", size as f64 / 1000.0),
            ];
            assert!(
                forms.iter().any(|form| rest.contains(form)),
                "{name}: {size} MB, and docs/install.md: {rest}"
            );
            seen += 1;
        }
        assert_eq!(seen, 10);
    }
}

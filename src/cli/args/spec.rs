//! Arguments that say which part of which spec, and how it is looked at.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;

use super::selection::SelectionArgs;
use super::{complete, count};
use crate::cli::args::SPEC;
use crate::exec::MaxAge;
use crate::matrix::{Fallback, Partition};
use crate::session::{Request, Sweep};
use crate::spec::ROUNDS;

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct SpecArgs {
    /// The spec
    #[arg(default_value = SPEC)]
    pub(in crate::cli) spec: PathBuf,
    /// Run a case on other hardware if its own is missing or fails, and say so: CUDA, ROCm and MPS fall back to OpenVINO,
    /// then the CPU; WebGPU to WebNN, then the CPU; WebNN, OpenVINO and QNN to the CPU (a target's `fallback` overrides this)
    #[arg(long)]
    pub(in crate::cli) fallback: bool,
    /// Check only: one inference for each case, judged but not timed, in parallel with other steps
    #[arg(long)]
    pub(in crate::cli) check: bool,
    /// Measure every timed case N times, each in its own process, interleaved with the others in random order
    /// [default: `rounds` of the spec's `measure`, else 1]
    #[arg(long, value_name = "N", conflicts_with = "check", value_parser = rounds)]
    pub(in crate::cli) rounds: Option<u32>,
    /// A round of this case takes 1,000 samples, or as many as fit into 0.2 s: `orch compare --confirm` asks for it
    #[arg(long, value_name = "CASE", hide = true)]
    longer: Vec<String>,
    /// These batch sizes instead of the spec's `matrix: {batch: …}`, e.g. 1,4,16
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = count::<u64>)]
    batch: Vec<u64>,
    /// These sequence lengths instead of the spec's `matrix: {seq: …}`, e.g. 32,128
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = count::<u64>)]
    seq: Vec<u64>,
    #[command(flatten)]
    pub(in crate::cli) selection: SelectionArgs,
}

fn rounds(text: &str) -> Result<u32, String> {
    let rounds = text.parse::<u32>().ok();
    rounds
        .filter(|rounds| ROUNDS.contains(rounds))
        .ok_or_else(|| {
            format!(
                "give a whole number from {} to {}",
                ROUNDS.start(),
                ROUNDS.end()
            )
        })
}

impl SpecArgs {
    /// Asks for all selected cases.
    pub(in crate::cli) fn request(&self) -> Request {
        let fallback = if self.fallback {
            Fallback::Usual
        } else {
            Fallback::AsDeclared
        };
        let Self { check, rounds, .. } = *self;
        let selection = self.selection.selection();
        let sweep = Sweep {
            batch: self.batch.clone(),
            seq: self.seq.clone(),
        };
        let longer = self.longer.iter().cloned().collect();
        Request {
            selection,
            sweep,
            fallback,
            check,
            rounds,
            longer,
            ..Request::all(&self.spec)
        }
    }

    /// Asks for the selected cases within the scope.
    pub(in crate::cli) fn scoped(&self, scope: &ScopeArgs) -> Request {
        let ScopeArgs {
            affected,
            partition,
            durations,
            max_age,
        } = scope.clone();
        Request {
            affected,
            partition,
            durations,
            max_age,
            ..self.request()
        }
    }
}

#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Scope and execution")]
pub(in crate::cli) struct ScopeArgs {
    /// Only steps that differ from this git revision, and what they need
    #[arg(long, value_name = "BASE")]
    pub(in crate::cli) affected: Option<String>,
    /// Only one of several parts that together make up the whole: model:1/4 keeps the cases of a model together; hash:1/4 and
    /// slice:1/4 do not
    #[arg(long, value_name = "METHOD:N/M")]
    pub(in crate::cli) partition: Option<Partition>,
    /// The report of an earlier run (its matrix.json), so that the parts of --partition model:N/M take about as long as each
    /// other; all parts need the same file
    #[arg(long, value_name = "FILE", requires = "partition")]
    pub(in crate::cli) durations: Option<PathBuf>,
    /// Repeat measurements that are older than this: 30m, 12h, 7d, 2w
    #[arg(long, value_name = "AGE")]
    pub(in crate::cli) max_age: Option<MaxAge>,
}

/// The step or case in question, and its spec.
#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct NameArgs {
    /// A step, e.g. convert:bert:openvino-fp16, or a case: bert:cpu-fp32, 'bert on cpu-fp32', 'bert cpu'; a glob selects
    /// every match
    #[arg(value_name = "STEP|CASE", add = complete::cases_and_steps())]
    name: String,
    /// The spec
    #[arg(value_name = "SPEC", default_value = SPEC)]
    place: PathBuf,
    /// The spec, as an option: copied-out tests and `orch.json` give it this way
    #[arg(
        long = "spec",
        value_name = "FILE",
        conflicts_with = "place",
        hide = true
    )]
    named: Option<PathBuf>,
}

impl NameArgs {
    pub(in crate::cli) fn name(&self) -> &str {
        self.spec_first()
            .map_or(self.name.as_str(), |(_, name)| name)
    }

    pub(in crate::cli) fn spec(&self) -> &Path {
        match (&self.named, self.spec_first()) {
            (Some(named), _) => named,
            (None, Some((spec, _))) => spec,
            (None, None) => &self.place,
        }
    }

    /// The spec and the name, where they were given in this order, in which `orch run` takes a spec; None where not.
    fn spec_first(&self) -> Option<(&Path, &str)> {
        let spec = Path::new(&self.name);
        let is_yaml = spec
            .extension()
            .is_some_and(|ending| ending == "yaml" || ending == "yml");
        let name = self.place.to_str()?;
        (self.named.is_none() && is_yaml && spec.is_file() && !self.place.is_file())
            .then_some((spec, name))
    }
}

//! Arguments that say which part of which spec, and how it is looked at.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::SelectionArgs;
use crate::exec::MaxAge;
use crate::matrix::{Fallback, Partition};
use crate::session::Request;

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct SpecArgs {
    /// The spec
    #[arg(default_value = "specs/all.yaml")]
    pub(in crate::cli) spec: PathBuf,
    /// Run a case on other hardware if its own is missing or fails, and say so: CUDA, ROCm and MPS on OpenVINO, then
    /// the CPU; WebGPU on WebNN, then the CPU; WebNN, OpenVINO and QNN on the CPU (a target's `fallback` overrides this)
    #[arg(long)]
    pub(in crate::cli) fallback: bool,
    /// Check only: one inference for each case, judged and not timed, beside other steps
    #[arg(long)]
    pub(in crate::cli) check: bool,
    #[command(flatten)]
    pub(in crate::cli) selection: SelectionArgs,
}

impl SpecArgs {
    /// Asks for all selected cases.
    pub(in crate::cli) fn request(&self) -> Request {
        let fallback = if self.fallback { Fallback::Usual } else { Fallback::AsDeclared };
        Request { selection: self.selection.selection(), fallback, check: self.check, ..Request::all(&self.spec) }
    }

    /// Asks for the selected cases within the scope.
    pub(in crate::cli) fn scoped(&self, scope: &ScopeArgs) -> Request {
        let ScopeArgs { affected, partition, max_age } = scope.clone();
        Request { affected, partition, max_age, ..self.request() }
    }
}

#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Scope and execution")]
pub(in crate::cli) struct ScopeArgs {
    /// Only steps that differ from this git revision, and what they need
    #[arg(long, value_name = "BASE")]
    pub(in crate::cli) affected: Option<String>,
    /// Only one of several parts that together are complete: hash:1/4, slice:1/4
    #[arg(long, value_name = "METHOD:N/M")]
    pub(in crate::cli) partition: Option<Partition>,
    /// Repeat measurements that are older than this: 30m, 12h, 7d, 2w
    #[arg(long, value_name = "AGE")]
    pub(in crate::cli) max_age: Option<MaxAge>,
}

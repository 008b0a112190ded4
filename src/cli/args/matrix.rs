//! Arguments of `orch matrix`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::selection::expression;
use crate::matrix::{Facet, Query};

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct MatrixArgs {
    /// The table [if this file does not exist: the one built into orch]
    #[arg(long, default_value = "specs/capabilities.yaml", value_name = "FILE")]
    pub(in crate::cli) table: PathBuf,
    /// Add what a run measured to the table: the run's matrix.json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["select", "families", "targets", "backends", "tasks", "types"])]
    pub(in crate::cli) update: Option<PathBuf>,
    /// The spec of that run, if it is not where the report says
    #[arg(long, value_name = "FILE", requires = "update")]
    pub(in crate::cli) spec: Option<PathBuf>,
    /// Only these families
    #[arg(long = "family", value_name = "GLOB")]
    families: Vec<String>,
    /// Only these backends
    #[arg(long = "backend", value_name = "GLOB")]
    backends: Vec<String>,
    /// Only results of these targets
    #[arg(long = "target", short = 't', value_name = "GLOB")]
    targets: Vec<String>,
    /// Only results of these tasks
    #[arg(long = "task", value_name = "GLOB")]
    tasks: Vec<String>,
    /// Only what an expression selects, by model, type, family, task, target, backend, precision or case:
    /// 'family:vision & backend:openvino & !precision:int8'
    #[arg(long, value_name = "EXPR", value_parser = expression)]
    select: Vec<Query>,
    /// Also list each model type, task and exporter
    #[arg(long)]
    pub(in crate::cli) types: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

impl MatrixArgs {
    /// All of them must be met.
    pub(in crate::cli) fn queries(&self) -> Vec<Query> {
        let lists = [
            (Facet::Family, &self.families),
            (Facet::Backend, &self.backends),
            (Facet::Target, &self.targets),
            (Facet::Task, &self.tasks),
        ];
        let given = lists.into_iter().filter(|(_, globs)| !globs.is_empty());
        given.map(|(facet, globs)| Query::any_of(facet, globs)).chain(self.select.iter().cloned()).collect()
    }
}

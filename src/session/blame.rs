//! `orch blame`: makes what a case loads, as a run would, and asks what makes it wrong. The case's record stays as it is.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::base::{Precision, fs as bfs};
use crate::event::Listener;
use crate::exec::Bench;
use crate::exec::alone::blame::{CUTTER, environment};
use crate::session::one_case::{OneCase, maker_of};
use crate::session::{Request, Session, Settings, Tell, UsageError};
use crate::step::{JudgeParams, Requirement, Source, Step, StepId};
use crate::store::LaidAs;

pub use crate::exec::alone::blame::{Finding, Pass, Verdict};

/// The file of a graph in its tree.
const GRAPH: &str = "model.onnx";
/// The folder of what shows the faults, in that for generated tests and pages.
const FOLDER: &str = "blame";

/// What is to blame for a case.
pub struct Blamed {
    pub case: String,
    pub finding: Finding,
    /// Whether the case has less than single precision, whose rounding alone may make a file wrong.
    pub is_rounded: bool,
    /// The folder that shows it without orch, where there is one.
    pub repro: Option<PathBuf>,
}

impl Session {
    /// Finds out what makes the one case wrong that `case` matches.
    pub fn blame(
        &self,
        request: &Request,
        case: &str,
        settings: &Settings,
        (listener, tell): (&dyn Listener, Tell<'_>),
    ) -> anyhow::Result<Blamed> {
        let OneCase {
            planned,
            name,
            run,
            judge,
        } = self.one_case(request, case, tell)?;
        let plan = &planned.project.plan;
        let run = plan.step(run).clone();
        let env = environment(&run)
            .map_err(|why| UsageError(format!("nothing can be found out about `{name}`: {why}")))?;
        let judge = plan.step(judge);
        let JudgeParams { tolerance, .. } = judge.params.parse()?;
        let artefact = maker_of(&run, "artefact")?;
        let source = source_of(plan.step(artefact)).unwrap_or(artefact);
        let reference = maker_of(judge, "model")?;
        let [artefact, source, right] =
            self.made(planned, [artefact, source, reference], settings, listener)?;
        // What is loaded is the file itself, or was converted from it.
        let mut graph = None;
        for tree in [artefact, source] {
            let files = self.store.manifest(&tree)?.files;
            if graph.is_none() && files.iter().any(|file| &*file.path == GRAPH) {
                graph = Some(tree);
            }
        }
        let graph = graph.ok_or_else(|| {
            UsageError(format!(
                "nothing can be found out about `{name}`: what it loads is made of no ONNX file"
            ))
        })?;
        for needed in [CUTTER, env] {
            self.provision.ensure(Requirement::Env(needed), tell)?;
        }
        let scratch = self.store.scratch()?;
        let [graph_folder, reference] = [scratch.dir("graph")?, scratch.dir("reference")?];
        for (tree, folder) in [(graph, &graph_folder), (right, &reference)] {
            self.store.lay_out(&tree, folder, LaidAs::Copies)?;
        }
        let folder = scratch.dir("blame")?;
        let bench = Bench {
            provision: &self.provision,
            inventory: self.inventory(),
            cancel: &self.cancel,
            scratch: &folder,
        };
        tell(&format!("{name}: looking for the part that is wrong"));
        let (finding, made) = bench
            .blame(&run, env, (&graph_folder, &reference), &tolerance)
            .with_context(|| format!("nothing was found out about `{name}`"))?;
        let repro = made
            .map(|made| hand_out(&made, &settings.out_dir, &name))
            .transpose()?;
        Ok(Blamed {
            case: name,
            finding,
            is_rounded: run.run().precision != Precision::Fp32,
            repro,
        })
    }
}

/// The step whose output another one converts.
fn source_of(step: &Step) -> Option<StepId> {
    let mut sources = step.inputs.iter();
    sources.find_map(|(_, source)| match source {
        Source::Step(id) => Some(*id),
        Source::File(_) => None,
    })
}

/// Copies the files to a folder that the user finds; those of an earlier time are replaced.
fn hand_out(made: &Path, out_dir: &Path, case: &str) -> anyhow::Result<PathBuf> {
    let to = out_dir.join(FOLDER).join(case.replace([':', '/'], "_"));
    std::fs::create_dir_all(&to).with_context(|| format!("failed to make `{}`", to.display()))?;
    for name in bfs::files_below(made)? {
        let content = std::fs::read(made.join(&name))?;
        bfs::write_atomic(&to.join(&name), &content)
            .with_context(|| format!("failed to write `{}`", to.join(&name).display()))?;
    }
    Ok(to)
}

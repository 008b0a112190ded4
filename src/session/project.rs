//! A spec's plan, and the files that it came from.

use std::collections::BTreeSet;
use std::path::Path;

use crate::base::figures::counted;
use crate::base::glob;
use crate::exec::Options;
use crate::matrix::{AUTO, Matrix, Selection};
use crate::plan::{self, Clock, Plan};
use crate::session::half::{self, Ask};
use crate::session::request::OUT_DIR;
use crate::session::{Request, Session, Sweep, UsageError, auto};
use crate::spec::{SourceFile, Spec, SpecErrors};
use crate::step::{Stage, StepId};

pub struct Project {
    pub plan: Plan,
    pub name: String,
    /// Every YAML file that was read.
    pub files: Vec<SourceFile>,
    /// Which of its runs are timed.
    pub(super) clock: Clock,
    /// Sizes that replace the spec's.
    pub(super) sweep: Sweep,
    /// What its cases are depends on what devices answered.
    pub(super) probes: bool,
}

impl Project {
    /// As it is on every host: cases of targets with `half` at each precision that it may come to.
    pub fn load(request: &Request) -> anyhow::Result<Self> {
        Self::of(&swept(request)?, request, None)
    }

    /// As [`Self::load`], for who looks for its results on this host: they are timed where they are here.
    pub fn load_here(request: &Request, session: &Session) -> anyhow::Result<Self> {
        let spec = swept(request)?;
        Self::clocked(&spec, request, None, clock(&spec, request, session))
    }

    /// As [`Self::load`], timed as another project.
    pub(super) fn load_as(request: &Request, clock: &Clock) -> anyhow::Result<Self> {
        Self::clocked(&swept(request)?, request, None, clock.clone())
    }

    /// The plan of a spec that was read already; for one host, or as it is on every host.
    pub fn of(spec: &Spec, request: &Request, here: Option<(&Session, Ask<'_>)>) -> anyhow::Result<Self> {
        let clock = match here {
            Some((session, _)) => clock(spec, request, session),
            None => request.clock(),
        };
        Self::clocked(spec, request, here, clock)
    }

    fn clocked(
        spec: &Spec,
        request: &Request,
        here: Option<(&Session, Ask<'_>)>,
        clock: Clock,
    ) -> anyhow::Result<Self> {
        if request.chooses() && here.is_none() {
            let hint = "hint: name the targets instead of `-t auto`";
            return Err(UsageError(format!("this command knows no host to choose a target for\n  {hint}")).into());
        }
        let mut selection: Selection = request.selection.clone();
        let matrix = Matrix::with(spec, &selection.targets);
        matrix.each_expectation_counts(spec).map_err(|e| UsageError(e.to_string()))?;
        selection.targets.retain(|target| target != AUTO);
        let mut matrix = matrix.select(spec, &selection).map_err(|e| UsageError(e.to_string()))?;
        let probes = matrix.asks_for_half(spec);
        if let Some((session, ask)) = here {
            half::resolve_half(&mut matrix, spec, session, ask);
            if request.chooses() {
                auto::choose(&mut matrix, spec, session);
            }
        }
        let plan = plan::build_with(spec, &matrix, request.fallback, &clock);
        let plan = plan.map_err(|e| UsageError(e.to_string()))?;
        let sweep = request.sweep.clone();
        Ok(Self { plan, clock, sweep, name: request.spec.display().to_string(), files: spec.files.clone(), probes })
    }

    /// Options of who looks and does not touch.
    pub fn idle_options(&self) -> Options {
        Options {
            jobs: 1,
            memory: u64::MAX,
            spec: self.name.clone(),
            routing: crate::session::away::usual_routing(),
            out_dir: OUT_DIR.into(),
            ..Options::default()
        }
    }

    /// Steps by glob; one that names nothing is an error, with the nearest name.
    pub fn steps(&self, globs: &[String]) -> anyhow::Result<BTreeSet<StepId>> {
        let mut found = BTreeSet::new();
        for pattern in globs {
            let chosen = self.matching(pattern);
            if chosen.is_empty() {
                let hint = crate::base::suggest::nearest(pattern, self.plan.names())
                    .map_or("`orch plan --all` lists the steps".to_owned(), |name| format!("did you mean `{name}`?"));
                return Err(UsageError(format!("no step is called `{pattern}`\n  hint: {hint}")).into());
            }
            found.extend(chosen);
        }
        Ok(found)
    }

    pub(super) fn matching(&self, pattern: &str) -> Vec<StepId> {
        let plan = &self.plan;
        let stages = [Stage::Generate, Stage::Convert, Stage::Run, Stage::Judge, Stage::Command];
        if let Some(stage) = stages.into_iter().find(|stage| stage.word() == pattern) {
            return plan.ids().filter(|id| plan.step(*id).stage == stage).collect();
        }
        if let Some(case) = pattern.strip_prefix("case:") {
            return plan
                .cases
                .iter()
                .filter(|planned| glob::matches(case, &planned.case.id()))
                .map(|planned| planned.run)
                .collect();
        }
        plan.ids().filter(|id| glob::matches(pattern, &plan.step(*id).name)).collect()
    }
}

fn clock(spec: &Spec, request: &Request, session: &Session) -> Clock {
    request.clock().on(session.inventory_for(!spec.models.is_empty()))
}

/// The spec with the sizes that are asked for.
pub(super) fn swept(request: &Request) -> anyhow::Result<Spec> {
    let mut spec = spec(&request.spec)?;
    request.sweep.apply(&mut spec);
    Ok(spec)
}

pub fn spec(path: &Path) -> anyhow::Result<Spec> {
    let told = |e: SpecErrors| UsageError(format!("{} has {}\n\n{e}\n", path.display(), counted(e.0.len(), "error")));
    Ok(Spec::load(path).map_err(told)?)
}

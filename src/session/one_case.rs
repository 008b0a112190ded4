//! The one case that a command is about, and what its steps make.

use std::collections::BTreeSet;

use anyhow::Context as _;

use crate::base::figures::counted;
use crate::base::{Bug, Digest};
use crate::event::Listener;
use crate::matrix::{Facet, Query};
use crate::session::{Ask, Planned, Request, Session, Settings, Tell, usage};
use crate::step::{Source, Step, StepId};

/// At most so many names are listed where several cases match.
const MAX_NAMED: usize = 12;

/// A plan of one case.
pub(super) struct OneCase {
    pub(super) planned: Planned,
    pub(super) name: String,
    pub(super) run: StepId,
}

impl Session {
    /// Plans the one case that `case` matches.
    pub(super) fn one_case(
        &self,
        request: &Request,
        case: &str,
        tell: Tell<'_>,
    ) -> anyhow::Result<OneCase> {
        let mut request = request.clone();
        request.selection.queries.push(Query::Is {
            facet: Facet::Case,
            glob: case.to_owned(),
        });
        let planned = self.plan(&request, Ask::Installing(tell), tell)?;
        let cases = &planned.project.plan.cases;
        let [chosen] = &cases[..] else {
            let names: Vec<_> = cases
                .iter()
                .take(MAX_NAMED)
                .map(|planned| planned.case.id())
                .collect();
            let count = counted(cases.len(), "case");
            let names = names.join("`, `");
            usage!("`{case}` matches {count}: name one, such as `{names}`");
        };
        let name = chosen.case.id();
        let run = chosen.run;
        Ok(OneCase { planned, name, run })
    }

    /// Makes what these steps make, as a run would, and gives the trees in the same order.
    pub(super) fn made<const N: usize>(
        &self,
        mut planned: Planned,
        steps: [StepId; N],
        settings: &Settings,
        listener: &dyn Listener,
    ) -> anyhow::Result<[Digest; N]> {
        planned.options.wanted = Some(BTreeSet::from(steps));
        planned.has_pages = false;
        let ended = self.run(planned, settings, listener, &|_| {})?;
        let mut trees = Vec::new();
        for step in steps {
            let tree = ended.finished.results[step.0 as usize].output().context(
                "what the case loads could not be made\n  hint: `orch run --case` says why",
            )?;
            trees.push(tree);
        }
        Ok(trees.try_into().expect("BUG: a tree for each step"))
    }
}

/// The step that makes an input of another one.
pub(super) fn maker_of(step: &Step, input: &str) -> anyhow::Result<StepId> {
    let mut inputs = step.inputs.iter();
    inputs
        .find_map(|(name, source)| match source {
            Source::Step(id) if &**name == input => Some(*id),
            _ => None,
        })
        .with_context(|| {
            Bug::new(format!(
                "no step makes the input `{input}` of {}",
                step.name
            ))
        })
}

//! `orch profile`: makes what a case loads, as a run would, and asks its runtime where the time goes. The case's record stays as it is.

use std::collections::BTreeSet;

use anyhow::Context as _;

use crate::base::figures::counted;
use crate::event::Listener;
use crate::exec::Bench;
use crate::exec::profile::can;
use crate::matrix::{Facet, Query};
use crate::runtime::profile::Profile;
use crate::session::{Ask, Request, Session, Settings, Tell, UsageError, usage};
use crate::step::Source;
use crate::store::LaidAs;

/// A case is told no more names than these.
const NAMED: usize = 12;

impl Session {
    /// Of the one case that `case` matches. Gives its name too.
    pub fn profile(
        &self,
        request: &Request,
        case: &str,
        samples: u32,
        settings: &Settings,
        (listener, tell): (&dyn Listener, Tell<'_>),
    ) -> anyhow::Result<(String, Profile)> {
        let mut request = request.clone();
        request.selection.queries.push(Query::Is {
            facet: Facet::Case,
            glob: case.to_owned(),
        });
        let mut planned = self.plan(&request, Ask::Installing(tell), tell)?;
        let plan = &planned.project.plan;
        let [chosen] = &plan.cases[..] else {
            let names: Vec<_> = plan
                .cases
                .iter()
                .take(NAMED)
                .map(|planned| planned.case.id())
                .collect();
            let (count, names) = (counted(plan.cases.len(), "case"), names.join("`, `"));
            usage!("`{case}` matches {count}: name one, such as `{names}`");
        };
        let (run, name) = (plan.step(chosen.run).clone(), chosen.case.id());
        can(&run).map_err(|why| UsageError(format!("`{name}` cannot be profiled: {why}")))?;
        let loads = run.inputs.iter().find(|(label, _)| &**label == "artefact");
        let Some((_, Source::Step(made_by))) = loads else {
            anyhow::bail!("BUG: {name} loads nothing")
        };
        let made_by = *made_by;
        planned.options.wanted = Some(BTreeSet::from([made_by]));
        planned.has_pages = false;
        let ended = self.run(planned, settings, listener, &|_| {})?;
        let tree = ended.finished.results[made_by.0 as usize]
            .output()
            .context("what the case loads could not be made\n  hint: `orch run --case` says why")?;
        for requirement in (run.run().runtime.requires)(run.run()) {
            self.provision.ensure(requirement, tell)?;
        }
        let scratch = self.store.scratch()?;
        let (artefact, folder) = (scratch.dir("artefact")?, scratch.dir("profile")?);
        self.store.lay_out(&tree, &artefact, LaidAs::Copies)?;
        let inventory = self.inventory();
        let bench = Bench {
            provision: &self.provision,
            inventory,
            cancel: &self.cancel,
            scratch: &folder,
        };
        let profile = bench
            .profile(&run, &artefact, samples)
            .with_context(|| format!("`{name}` was not profiled"))?;
        Ok((name, profile))
    }
}

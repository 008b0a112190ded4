//! `orch profile`: makes what a case loads, as a run would, and asks its runtime where the time goes. The case's record stays as it is.

use std::collections::BTreeSet;

use anyhow::Context as _;

use crate::base::Bug;
use crate::base::figures::counted;
use crate::event::Listener;
use crate::exec::Bench;
use crate::exec::alone::profile::can;
use crate::matrix::{Facet, Query};
use crate::plan::asks_for_software;
use crate::report::view::stand_in_for;
use crate::runtime::profile::Profile;
use crate::session::{Ask, Request, Session, Settings, Tell, UsageError, usage};
use crate::step::Source;
use crate::store::LaidAs;

/// A case shows no more names than these.
const NAMED: usize = 12;

/// The profile of a case: what its time is spent on.
pub struct Profiled {
    pub case: String,
    pub profile: Profile,
    /// `emulated` or `software`, where no hardware ran it.
    pub stand_in: Option<&'static str>,
}

impl Session {
    /// Profiles the one case that `case` matches.
    pub fn profile(
        &self,
        request: &Request,
        case: &str,
        samples: u32,
        settings: &Settings,
        (listener, tell): (&dyn Listener, Tell<'_>),
    ) -> anyhow::Result<Profiled> {
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
            let count = counted(plan.cases.len(), "case");
            let names = names.join("`, `");
            usage!("`{case}` matches {count}: name one, such as `{names}`");
        };
        let run = plan.step(chosen.run).clone();
        let name = chosen.case.id();
        can(&run).map_err(|why| UsageError(format!("`{name}` cannot be profiled: {why}")))?;
        let loads = run.inputs.iter().find(|(label, _)| &**label == "artefact");
        let Some((_, Source::Step(made_by))) = loads else {
            anyhow::bail!(Bug::new(format!("{name} loads nothing")))
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
        let artefact = scratch.dir("artefact")?;
        let folder = scratch.dir("profile")?;
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
        let params = run.run();
        let backend = inventory
            .iter()
            .find(|known| known.name == params.backend.name);
        let software =
            asks_for_software(&params.device, params.options.get("adapter")).then_some("software");
        Ok(Profiled {
            case: name,
            profile,
            stand_in: software.or_else(|| stand_in_for(backend?)),
        })
    }
}

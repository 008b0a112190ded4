//! `orch profile`: makes what a case loads, as a run would, and asks its runtime where the time goes. The case's record stays as it is.

use anyhow::Context as _;

use crate::event::Listener;
use crate::exec::Bench;
use crate::exec::alone::profile::can;
use crate::plan::asks_for_software;
use crate::report::view::stand_in_for;
use crate::runtime::profile::Profile;
use crate::session::one_case::{OneCase, maker_of};
use crate::session::{Request, Session, Settings, Tell, UsageError};
use crate::store::LaidAs;

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
        let OneCase {
            planned, name, run, ..
        } = self.one_case(request, case, tell)?;
        let run = planned.project.plan.step(run).clone();
        can(&run).map_err(|why| UsageError(format!("`{name}` cannot be profiled: {why}")))?;
        let artefact = maker_of(&run, "artefact")?;
        let [tree] = self.made(planned, [artefact], settings, listener)?;
        let provision = self.provision.with(run.toolchain.as_ref());
        for requirement in (run.run().runtime.requires)(run.run()) {
            provision.ensure(requirement, tell)?;
        }
        let scratch = self.store.scratch()?;
        let artefact = scratch.dir("artefact")?;
        let folder = scratch.dir("profile")?;
        self.store.lay_out(&tree, &artefact, LaidAs::Copies)?;
        let inventory = self.inventory();
        let bench = Bench {
            provision: &provision,
            inventory,
            cancel: &self.cancel,
            scratch: &folder,
            waits: Some(tell),
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

//! PyTorch without CUDA, decided before anything has a key: once for a folder of environments, on a machine that works alone.

use std::collections::BTreeSet;

use crate::session::{Ask, Request, Session, Settings, Tell, away, machine, sharing};
use crate::step::Required;

impl Session {
    /// Goes over to [locks without CUDA](crate::provision::Provision::do_without_cuda) where what is wanted is to be installed by such.
    /// Not where results or steps are shared: keys hold what is locked, so everybody who shares needs the same locks.
    pub fn without_cuda(
        &mut self,
        wanted: &BTreeSet<Required>,
        settings: &Settings,
        tell: Tell<'_>,
    ) -> anyhow::Result<()> {
        // What the configuration says wrongly is reported by whoever uses it.
        let is_alone = matches!(sharing::configured(), Ok(None))
            && matches!(away::configured(settings), Ok(None));
        if is_alone && self.provision.do_without_cuda(wanted, tell) {
            self.provision = machine::provision(&self.locations, self.cancel.clone())?;
        }
        Ok(())
    }

    /// The same for what the steps of a request need.
    pub fn without_cuda_for(
        &mut self,
        request: &Request,
        settings: &Settings,
        tell: Tell<'_>,
    ) -> anyhow::Result<()> {
        if !self.provision.may_do_without_cuda() {
            return Ok(());
        }
        let wanted = self.requirements(&self.project(request, Ask::Installed)?);
        self.without_cuda(&wanted, settings, tell)
    }
}

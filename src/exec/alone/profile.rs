//! Measures by a runtime where the time of a case goes: its run once more, on the same device with the same options, counted.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;

use crate::base::Bug;
use crate::catalogue::{Places, RunRequest};
use crate::exec::alone::Bench;
use crate::runtime::profile::Profile;
use crate::step::Step;

/// Whether the runtime of a run has counters; if not, why.
pub fn can(run: &Step) -> Result<(), String> {
    let runtime = run.run().runtime;
    if runtime.profiles {
        Ok(())
    } else {
        Err(format!(
            "`{}` has no counters that orch reads",
            runtime.name
        ))
    }
}

impl Bench<'_> {
    /// `artefact` is what the run loads; `samples` is how many inferences are counted.
    pub fn profile(&self, run: &Step, artefact: &Path, samples: u32) -> anyhow::Result<Profile> {
        let [out, scratch] = self.folders(["out", "work"])?;
        let params = run.run();
        let inputs = BTreeMap::from([("artefact".to_owned(), artefact.to_owned())]);
        let places = Places {
            inputs,
            out: out.clone(),
            scratch,
            ..Places::default()
        };
        let timeout = run.timeout_seconds;
        let mut call = (params.runtime.lower)(&RunRequest {
            run: params,
            timeout_seconds: timeout,
            places: &places,
        })?;
        call.op = "profile";
        call.params["measure"] =
            serde_json::json!({"warmup": 0, "samples": samples, "max_seconds": timeout});
        self.succeed(&call, places, params, timeout)?;
        Profile::read(&out).context(Bug::new("a worker that succeeded left no profile"))
    }
}

//! The steps of a case: each key is the digest of its document, each input is what a step before made, and the run is one of
//! this case, on this machine, by this runtime and its packages.

use std::collections::{BTreeMap, BTreeSet};

use super::{Case, Checked};
use crate::catalogue::RunParams;
use crate::record::Outcome;
use crate::report::contribution::make::packages;
use crate::report::contribution::{DEVICE, INPUT, StepEvidence, TOOL, params};
use crate::spec::Tolerance;

/// The line of a document with the digest of the kind of machine.
const HOST: &str = "host";
/// No step takes longer, s.
const LONGEST: f64 = 30.0 * 86_400.0;

/// The stages of the steps of a case, as their names begin, each with what reports call it.
const STAGES: &[(&str, &str)] = &[
    ("inputs", "generate"),
    ("generate", "generate"),
    ("convert", "convert"),
    ("run", "run"),
    ("judge", "run"),
];

impl Case<'_> {
    pub(super) fn steps(&self) -> Checked {
        let case = self.case;
        if case.steps.is_empty() {
            return Err(self.no("steps", (), "a result rests on steps"));
        }
        let mut names = BTreeSet::new();
        let mut made: BTreeMap<&str, &str> = BTreeMap::new();
        for (at, step) in case.steps.iter().enumerate() {
            let field = |name: &str| format!("steps[{at}].{name}");
            if !names.insert(step.step.as_str()) {
                return Err(self.no(&field("step"), &step.step, "a step is contributed once"));
            }
            self.step(step, &field)?;
            let is_last = at + 1 == case.steps.len();
            self.outcome(step, is_last, &field)?;
            for (name, digest) in step.lines(INPUT) {
                self.input(step, name, digest, &made, &field)?;
            }
            if let Some(output) = &step.output {
                made.insert(&step.step, output);
            }
        }
        self.end()?;
        let of_steps = packages(&case.steps);
        if let Some((name, version)) = case
            .packages
            .iter()
            .find(|(name, version)| of_steps.get(*name) != Some(version))
        {
            let why = format!("the keys of its steps have {:?}", of_steps.get(name));
            return Err(self.no(&format!("packages.{name}"), version, why));
        }
        if let Some(name) = of_steps
            .keys()
            .find(|name| !case.packages.contains_key(*name))
        {
            let why = "a package of its steps' keys is missing";
            return Err(self.no("packages", name, why));
        }
        for (at, step) in case.steps.iter().enumerate() {
            let field = |name: &str| format!("steps[{at}].document.{name}");
            match step.stage() {
                "run" => self.run(step, &field)?,
                "judge" => self.judge(step, &field)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The step by itself.
    fn step(&self, step: &StepEvidence, field: &dyn Fn(&str) -> String) -> Checked {
        let (instance, variant) = self.instance();
        let mut parts = step.step.split(':');
        let stage = parts.next().unwrap_or_default();
        if !STAGES.iter().any(|(known, _)| *known == stage) {
            return Err(self.no(&field("step"), &step.step, "no step of a case is called so"));
        }
        let model = parts.next();
        let is_of_model = model.is_some_and(|name| name == instance || name == self.case.model);
        let is_of_case = parts.next() == Some(&variant);
        let needs_case = stage == "run" || stage == "judge";
        if !is_of_model || (needs_case && !is_of_case) {
            let why = format!("it is no step of the case `{}`", self.case.case);
            return Err(self.no(&field("step"), &step.step, why));
        }
        self.digest(&field("key"), &step.key)?;
        let key = step.key_doc().digest().to_string();
        if step.key != key {
            let why = format!("the digest of its document is {key}");
            return Err(self.no(&field("key"), &step.key, why));
        }
        if let Some(output) = &step.output {
            self.digest(&field("output"), output)?;
        }
        if !step.seconds.is_finite() || !(0.0..=LONGEST).contains(&step.seconds) {
            return Err(self.no(&field("seconds"), step.seconds, "no step takes so long"));
        }
        Ok(())
    }

    /// Each step but the last one passed, and made something.
    fn outcome(
        &self,
        step: &StepEvidence,
        is_last: bool,
        field: &dyn Fn(&str) -> String,
    ) -> Checked {
        let outcome = step.outcome;
        if outcome.is_made() && step.output.is_none() {
            return Err(self.no(&field("output"), (), "a step that passed made something"));
        }
        if !outcome.is_made() && step.output.is_some() {
            let why = format!("a step that is {} made nothing", outcome.label());
            return Err(self.no(&field("output"), &step.output, why));
        }
        let is_end = is_last || step.stage() == "judge";
        if !outcome.is_made() && !is_end {
            let why = "steps behind it were executed";
            return Err(self.no(&field("outcome"), outcome.label(), why));
        }
        Ok(())
    }

    /// An input is what a step before it made; of a run and a verdict nothing else.
    fn input(
        &self,
        step: &StepEvidence,
        name: &str,
        digest: &str,
        made: &BTreeMap<&str, &str>,
        field: &dyn Fn(&str) -> String,
    ) -> Checked {
        let field = field(&format!("document.{INPUT}{name}"));
        self.digest(&field, digest)?;
        let of_stage = |stage: &str| {
            made.iter()
                .find(|(step, _)| step.split(':').next() == Some(stage))
                .map(|(_, output)| *output)
        };
        let is_known = made.values().any(|output| *output == digest);
        let is_right = match (step.stage(), name) {
            ("judge", "result") => of_stage("run") == Some(digest),
            ("run" | "judge", _) => is_known,
            // A file of the user's is an input of no step's making.
            ("generate" | "inputs", _) => true,
            _ => is_known,
        };
        if !is_right {
            return Err(self.no(&field, digest, "no step before it made this"));
        }
        Ok(())
    }

    /// The last step is the one that the result is of.
    fn end(&self) -> Checked {
        let case = self.case;
        let judge = case.steps.iter().find(|step| step.stage() == "judge");
        let end = judge.or(case.steps.last());
        let Some(end) = end else { return Ok(()) };
        let status = case.status;
        let is_judged = matches!(
            status,
            Outcome::Pass | Outcome::Numerics | Outcome::Indecisive
        );
        let may_be = is_judged
            || matches!(
                status,
                Outcome::Fail
                    | Outcome::Crash
                    | Outcome::Oom
                    | Outcome::Timeout
                    | Outcome::SkipUnsupported
            );
        if !may_be {
            return Err(self.no("status", status.label(), "such a result is not contributed"));
        }
        if is_judged != judge.is_some() {
            let why = match judge {
                Some(_) => "a run that was judged ends otherwise",
                None => "there is no verdict on a run",
            };
            return Err(self.no("status", status.label(), why));
        }
        if end.outcome != status {
            let why = format!("its last step `{}` is {}", end.step, end.outcome.label());
            return Err(self.no("status", status.label(), why));
        }
        let stage = STAGES.iter().find(|(name, _)| *name == end.stage());
        let stage = stage
            .map(|(_, stage)| *stage)
            .filter(|_| status != Outcome::Pass);
        if case.stage.as_deref() != stage {
            let why = format!("its last step is `{}`", end.step);
            return Err(self.no("stage", &case.stage, why));
        }
        Ok(())
    }

    /// The run is one of this case, by a runtime of its backend with the runtime's packages, on a device of the machine.
    fn run(&self, step: &StepEvidence, field: &dyn Fn(&str) -> String) -> Checked {
        let case = self.case;
        let run: RunParams = params(step)
            .and_then(|params| serde_json::from_value(params).ok())
            .ok_or_else(|| self.no(&field("param"), (), "these are no parameters of a run"))?;
        for (name, own, of_run) in [
            ("runtime", case.runtime.as_str(), run.runtime.name),
            ("backend", &case.backend, run.backend.name),
            ("precision", &case.precision, run.precision.word()),
        ] {
            if own != of_run {
                let why = format!("its run has {of_run:?}");
                return Err(self.no(name, own, why));
            }
        }
        if run.is_elsewhere() {
            return Err(self.no(
                &field("param.properties"),
                (),
                "another machine performed it",
            ));
        }
        let runs_there = run
            .runtime
            .pairs
            .iter()
            .any(|pair| pair.backend == run.backend);
        if !runs_there {
            let why = format!("`{}` does not run there", run.runtime.name);
            return Err(self.no("backend", &case.backend, why));
        }
        let Some(devices) = self.contribution.devices.get(run.backend.name) else {
            let why = "the machine has no device of this backend";
            return Err(self.no("backend", run.backend.name, why));
        };
        let wanted: BTreeSet<&str> = (run.runtime.tools)(&run)
            .iter()
            .map(|tool| tool.package)
            .collect();
        let found: BTreeSet<&str> = step.lines(TOOL).map(|(name, _)| name).collect();
        if wanted != found {
            let why = format!("`{}` computes there with {wanted:?}", run.runtime.name);
            return Err(self.no(&field(TOOL), found, why));
        }
        let machine = &self.contribution.machine;
        let own = match run.measure.is_timed() {
            true => &machine.fingerprint,
            false => &machine.computing,
        };
        if step.line(HOST) != Some(own) {
            let why = format!("the contribution is of a machine whose digest there is {own}");
            return Err(self.no(&field(HOST), step.line(HOST), why));
        }
        if case.untimed == run.measure.is_timed() && run.round.is_none() {
            return Err(self.no("untimed", case.untimed, "its run says otherwise"));
        }
        if run.backend.is_host {
            return Ok(());
        }
        let keyed: BTreeSet<&str> = step.lines(DEVICE).map(|(id, _)| id).collect();
        for device in devices {
            if !keyed.contains(device.id.as_str()) {
                let why = format!("the run's key names {keyed:?}");
                return Err(self.no(&field(DEVICE), &device.id, why));
            }
        }
        Ok(())
    }

    /// The verdict is by the bounds that are stated.
    fn judge(&self, step: &StepEvidence, field: &dyn Fn(&str) -> String) -> Checked {
        let params = params(step).unwrap_or_default();
        let precision = params["precision"].as_str();
        if precision != Some(&self.case.precision) {
            let why = format!("the case is at {}", self.case.precision);
            return Err(self.no(&field("param.precision"), precision, why));
        }
        let Some(numerics) = &self.case.numerics else {
            return Ok(());
        };
        let stated = numerics.tolerance;
        let judged: Option<Tolerance> = serde_json::from_value(params["tolerance"].clone()).ok();
        if judged.is_none() || stated != judged {
            let why = format!("it was judged by {judged:?}");
            return Err(self.no("numerics.tolerance", stated, why));
        }
        Ok(())
    }
}

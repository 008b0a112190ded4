//! What `half:` of targets is resolved by: probes on the devices of this host, and what they answered before.
//!
//! An answer of the device itself is kept beside the environments, under all that it could depend on: the kind of machine
//! with its devices, the packages, the driver and the boot. A crash or a missing device is probed again.
//!
//! A probe is a small run like any other, by the runtime and the worker that run models there, in a child process: a crash
//! of a driver becomes a reason.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::json;

use crate::base::Bug;
use crate::base::fs as bfs;
use crate::catalogue::{
    Half, HalfProbe, Places, RUNTIMES, Requirement, RunParams, RunRequest, Runtime, TestMeasure,
};
use crate::device::machine_lock::Share;
use crate::device::probed::{HalfAnswer, HalfQuestion};
use crate::device::{Backend, BackendRow, Fingerprint};
use crate::exec::Bench;
use crate::matrix::{Computes, Matrix};
use crate::provision::{self, Provision};
use crate::record::Outcome;
use crate::runtime::half;
use crate::session::{Session, Tell, probed};
use crate::spec::{Precision, Spec, Target};
use crate::store::DiskStore;
use crate::toolchain::Tool;
use crate::worker::Cancel;

/// How far probing may go.
#[derive(Clone, Copy)]
pub enum Ask<'a> {
    /// What is installed is probed; what is not is named.
    Installed,
    /// What is missing is installed first, and reported here.
    Installing(Tell<'a>),
}

/// Probes the devices.
struct Halves<'a> {
    provision: &'a Provision,
    store: &'a DiskStore,
    inventory: &'a [Backend],
    host: &'a str,
    cancel: &'a Cancel,
    /// Hears that another orch process is waited for; None waits for none.
    waits: Option<Tell<'a>>,
}

/// Leaves one precision of each case of a target with `half`.
pub(super) fn resolve_half(matrix: &mut Matrix, spec: &Spec, session: &Session, ask: Ask<'_>) {
    if !matrix.asks_for_half(spec) {
        return;
    }
    let halves = Halves {
        provision: &session.provision,
        store: &session.store,
        inventory: session.inventory(),
        host: &session.host.fingerprint,
        cancel: &session.cancel,
        waits: match ask {
            Ask::Installed => None,
            Ask::Installing(tell) => Some(tell),
        },
    };
    // A device is probed once, however many models there are.
    let known: RefCell<Vec<(HalfQuestion, Computes)>> = RefCell::default();
    matrix.settle_half(spec, |target, precision| {
        let question = question(target, precision);
        if let Some((_, computes)) = known.borrow().iter().find(|(known, _)| *known == question) {
            return computes.clone();
        }
        let computes = match session.mocked.contains(target.backend.name) {
            true => Computes::No(format!(
                "{} is mocked, and computes nothing",
                target.backend.name
            )),
            false => halves.of(target, &question, ask),
        };
        known.borrow_mut().push((question, computes.clone()));
        computes
    });
}

fn question(target: &Target, precision: Precision) -> HalfQuestion {
    let Target {
        runtime,
        backend,
        device,
        ..
    } = target;
    let probed = match runtime.on(backend).map(|pair| &pair.half) {
        Some(Half::ProbedBy(other)) => other,
        _ => runtime,
    };
    HalfQuestion {
        runtime: probed.name.into(),
        backend: backend.name.into(),
        device: device.clone(),
        precision,
    }
}

impl Halves<'_> {
    fn of(&self, target: &Target, question: &HalfQuestion, ask: Ask<'_>) -> Computes {
        if let Some(why) = target.artefact.always_half {
            return Computes::Yes(why.to_owned());
        }
        let Some(backend) = self
            .inventory
            .iter()
            .find(|known| known.name == question.backend)
        else {
            return Computes::No(format!("orch has no prober for `{}`", question.backend));
        };
        if !backend.available {
            let reason = backend
                .reason
                .as_deref()
                .unwrap_or("its prober gave no reason");
            return Computes::No(format!("no device to ask: {reason}"));
        }
        if let Some(kept) = self.kept(question) {
            return computes(kept);
        }
        let missing: Vec<_> = requirements(question)
            .into_iter()
            .filter(|r| !self.provision.is_ready(*r))
            .collect();
        for requirement in missing {
            let what = provision::title(requirement);
            let Ask::Installing(tell) = ask else {
                return Computes::No(format!(
                    "not known yet: the {what} is not installed; `orch run` installs it and asks"
                ));
            };
            tell(&format!(
                "{what}: installing, to ask {} what it computes in",
                question.device
            ));
            if let Err(e) = self
                .provision
                .ensure(requirement, &|line| tell(&format!("  {line}")))
            {
                return Computes::No(format!("not known: the {what} could not be set up: {e:#}"));
            }
        }
        computes(self.probe(question))
    }

    /// What the device answered before.
    fn kept(&self, question: &HalfQuestion) -> Option<HalfAnswer> {
        serde_json::from_slice(&std::fs::read(self.place(question)).ok()?).ok()
    }

    /// Probes it. Everything that this requires must be installed.
    fn probe(&self, question: &HalfQuestion) -> HalfAnswer {
        let (found, lasts) = match self
            .store
            .scratch()
            .and_then(|scratch| Ok((scratch.dir("half")?, scratch)))
        {
            Err(e) => (Computes::No(format!("no folder to work in: {e}")), false),
            Ok((folder, _scratch)) => {
                let Self {
                    provision,
                    inventory,
                    cancel,
                    ..
                } = *self;
                let bench = Bench {
                    provision,
                    inventory,
                    cancel,
                    scratch: &folder,
                    waits: self.waits,
                };
                let tried = answer(&bench, question);
                (tried.computes, tried.lasts)
            }
        };
        let (computes, why) = match found {
            Computes::Yes(how) => (true, how),
            Computes::No(why) => (false, why),
        };
        let answer = HalfAnswer {
            question: question.clone(),
            computes,
            why,
        };
        if lasts {
            let place = self.place(question);
            // An answer that cannot be kept costs the next call a probe.
            let _ = bfs::write_atomic(&place, json!(answer).to_string().as_bytes());
        }
        answer
    }

    fn place(&self, question: &HalfQuestion) -> PathBuf {
        let tools: Vec<_> = tools(question)
            .into_iter()
            .map(|tool| self.provision.identity(tool))
            .collect();
        let libraries = libraries(question, self.provision);
        let all = json!({"question": question, "host": self.host, "tools": tools, "libraries": libraries});
        probed::place(&self.provision.dir().join("probes"), "half", &all)
    }
}

fn computes(answer: HalfAnswer) -> Computes {
    if answer.computes {
        Computes::Yes(answer.why)
    } else {
        Computes::No(answer.why)
    }
}

/// What is known of every device, and with `probes` also the answers of those whose runtime is installed.
pub fn add_half(
    backends: &mut [Backend],
    host: &Fingerprint,
    base: (&Provision, &DiskStore),
    (probes, tell): (bool, Tell<'_>),
) {
    let inventory = backends.to_vec();
    let (provision, store) = base;
    let cancel = Cancel::default();
    let halves = Halves {
        provision,
        store,
        inventory: &inventory,
        host: &host.digest,
        cancel: &cancel,
        waits: Some(tell),
    };
    for backend in backends {
        for question in questions(backend) {
            let may_probe = || {
                probes
                    && requirements(&question)
                        .into_iter()
                        .all(|needed| provision.is_ready(needed))
            };
            let answer = halves
                .kept(&question)
                .or_else(|| may_probe().then(|| halves.probe(&question)));
            backend.half.extend(answer);
        }
    }
}

/// A browser's software adapter compiles shaders for up to a minute.
const TIMEOUT: u64 = 90;

/// The answer, and whether the device would give it again.
struct Tried {
    computes: Computes,
    lasts: bool,
}

/// What must be installed to ask.
fn requirements(question: &HalfQuestion) -> Vec<Requirement> {
    run(question)
        .map(|(run, _)| (run.runtime.requires)(&run))
        .unwrap_or_default()
}

/// The packages that would compute.
fn tools(question: &HalfQuestion) -> Vec<Tool> {
    run(question)
        .map(|(run, _)| (run.runtime.tools)(&run))
        .unwrap_or_default()
}

/// The libraries that would be loaded, as far as they are installed.
fn libraries(question: &HalfQuestion, provision: &Provision) -> Vec<PathBuf> {
    let Some((run, probe)) = run(question) else {
        return vec![];
    };
    let call = (probe.lower)(&RunRequest {
        run: &run,
        timeout_seconds: TIMEOUT,
        places: &Places::default(),
    });
    let Ok(call) = call else {
        return vec![];
    };
    call.libraries
        .into_iter()
        .filter_map(|(_, library)| provision.library(library).ok())
        .collect()
}

/// What there is to ask of a backend that is there.
fn questions(backend: &Backend) -> Vec<HalfQuestion> {
    let Some(row) = BackendRow::named(&backend.name).filter(|_| backend.available) else {
        return vec![];
    };
    let probes = RUNTIMES
        .iter()
        .filter_map(|runtime| match runtime.on(row)?.half {
            Half::Shown(probe) => Some((runtime.name, probe)),
            _ => None,
        });
    let questions = probes.flat_map(|(runtime, probe)| {
        (probe.devices)(backend)
            .into_iter()
            .flat_map(move |device| {
                let question = move |precision: &Precision| HalfQuestion {
                    runtime: runtime.to_owned(),
                    backend: row.name.to_owned(),
                    device: device.clone(),
                    precision: *precision,
                };
                probe.precisions.iter().map(question)
            })
    });
    questions.collect()
}

/// How to ask, or why that is not possible.
fn probe(
    question: &HalfQuestion,
) -> Result<(&'static Runtime, &'static BackendRow, &'static HalfProbe), String> {
    let runtime = &question.runtime;
    let backend = &question.backend;
    let known = Runtime::named(runtime).zip(BackendRow::named(backend));
    match known.and_then(|(runtime, backend)| Some((runtime, backend, &runtime.on(backend)?.half)))
    {
        Some((runtime, backend, Half::Shown(probe))) => Ok((runtime, backend, probe)),
        Some((_, _, Half::Unknown(why))) => Err((*why).to_owned()),
        _ => Err(format!(
            "orch has no probe of half precision for {runtime} on {backend}"
        )),
    }
}

/// Performs the small computation. Everything that it requires must be installed.
fn answer(bench: &Bench<'_>, question: &HalfQuestion) -> Tried {
    let probe = probe(question).map_err(anyhow::Error::msg);
    let tried = probe.and_then(|(_, _, probe)| attempt(bench, question, probe));
    tried.unwrap_or_else(|e| Tried {
        computes: Computes::No(format!("{e:#}")),
        lasts: false,
    })
}

fn attempt(bench: &Bench<'_>, question: &HalfQuestion, probe: &HalfProbe) -> anyhow::Result<Tried> {
    let precision = question.precision.word();
    let [tree, out, scratch] = bench.folders(["artefact", "out", "scratch"])?;
    half::lay(&tree, probe.tensors)?;
    let inputs = BTreeMap::from([("artefact".to_owned(), tree)]);
    let places = Places {
        inputs,
        out: out.clone(),
        scratch,
        ..Places::default()
    };
    let (run, _) = run(question).context(Bug::new("there is nothing to ask"))?;
    let call = (probe.lower)(&RunRequest {
        run: &run,
        timeout_seconds: TIMEOUT,
        places: &places,
    })?;
    let answer = bench.perform(&call, places, (&run, Share::Together), TIMEOUT)?;
    let place = format!("{} on {}", question.runtime, question.device);
    Ok(match answer.outcome {
        Outcome::Pass => {
            let kernel = answer.facts["kernel"].as_str();
            let off = match kernel {
                Some(_) => Ok(answer.facts["max_abs"]
                    .as_f64()
                    .context(Bug::new("the op `half` tells no error"))?),
                None => half::judge(&out, question.precision)?,
            };
            let by = kernel
                .map(|kernel| format!(", by {kernel}"))
                .unwrap_or_default();
            let did = format!("{place} computed a matrix product and a layer norm in {precision}");
            let computes = match off {
                Ok(off) => Computes::Yes(format!("{did}, off by {off:.1e} from fp64{by}")),
                Err(why) => Computes::No(format!("{place}: {why}")),
            };
            Tried {
                computes,
                lasts: true,
            }
        }
        outcome => {
            let reason = answer
                .reason
                .unwrap_or_else(|| "no reason was given".to_owned());
            let lasts = matches!(outcome, Outcome::SkipUnsupported | Outcome::Numerics);
            Tried {
                computes: Computes::No(format!("{place} at {precision}: {reason}")),
                lasts,
            }
        }
    })
}

/// The run of the small model on this backend. None where there is nothing to test.
fn run(question: &HalfQuestion) -> Option<(RunParams, &'static HalfProbe)> {
    let (runtime, backend, probe) = probe(question).ok()?;
    let run = RunParams {
        runtime,
        backend,
        device: question.device.clone(),
        precision: question.precision,
        options: Default::default(),
        properties: Default::default(),
        measure: TestMeasure::Times {
            warmup: 0,
            samples: 1,
            max_seconds: 1.0,
        },
        round: None,
        computes: (runtime.computes)(question.precision, true).map(str::to_owned),
        test: None,
    };
    Some((run, probe))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::probed::HalfAnswer;
    use crate::device::{Host, inventory_cheap, render};

    fn questions_of(host: &str) -> Vec<String> {
        let backends = inventory_cheap(&Host::recorded(host));
        let line = |q: HalfQuestion| format!("{} {} {}", q.runtime, q.device, q.precision.word());
        backends.iter().flat_map(questions).map(line).collect()
    }

    #[test]
    fn only_devices_that_are_there_are_probed_and_each_by_its_runtimes() {
        let cpu = [
            "ort cpu fp16",
            "python cpu fp16",
            "python cpu bf16",
            "openvino CPU fp16",
            "openvino CPU bf16",
        ];
        assert!(
            cpu.iter()
                .all(|one| questions_of("neither").iter().any(|known| known == one))
        );
        assert!(
            !questions_of("neither")
                .iter()
                .any(|one| one.contains("cuda") || one.contains("rocm"))
        );
        assert!(
            ["ort cuda fp16", "python cuda bf16"]
                .iter()
                .all(|one| questions_of("nvidia").iter().any(|q| q == one))
        );
        assert!(
            questions_of("amd")
                .iter()
                .any(|one| one == "python rocm fp16")
        );
        assert!(
            questions_of("mac")
                .iter()
                .any(|one| one == "python mps fp16")
        );
    }

    #[test]
    fn what_a_device_answered_stands_in_the_list_beside_it() {
        let host = Host::recorded("nvidia");
        let mut backends = inventory_cheap(&host);
        let cuda = backends
            .iter_mut()
            .find(|backend| backend.name == "cuda")
            .unwrap();
        let answer = |question: HalfQuestion, computes, why: &str| HalfAnswer {
            question,
            computes,
            why: why.to_owned(),
        };
        let [ort, python, ..] = &questions(cuda)[..] else {
            panic!("a GPU is probed")
        };
        cuda.half = vec![
            answer(ort.clone(), true, "it was seen"),
            answer(python.clone(), false, "the driver died"),
        ];
        let page = render::devices(&crate::device::fingerprint(&host), &backends, 100);
        assert!(page.contains("half: yes: it was seen\n"), "{page}");
        assert!(page.contains("half: no: the driver died\n"), "{page}");
        let json = serde_json::to_value(&backends[1]).unwrap();
        assert_eq!(
            (&json["half"][0]["runtime"], &json["half"][0]["computes"]),
            (&"ort".into(), &true.into())
        );
    }
}

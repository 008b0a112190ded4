//! What `half:` of targets is resolved by: probes on the devices of this host, and what they answered before.
//!
//! An answer of the device itself is kept beside the environments, under all that it could depend on: the kind of machine
//! with its devices, the packages, the driver and the boot. A crash or a missing device is probed again.

use std::cell::RefCell;

use serde_json::json;

use crate::base::fs as bfs;
use crate::catalogue::Half;
use crate::device::half::{HalfAnswer, HalfQuestion};
use crate::device::{Backend, Fingerprint};
use crate::exec::Bench;
use crate::exec::alone::half;
use crate::matrix::{Computes, Matrix};
use crate::provision::{self, Provision};
use crate::session::{Session, Tell, probed};
use crate::spec::{Precision, Spec, Target};
use crate::store::DiskStore;
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
        let missing: Vec<_> = half::requirements(question)
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
                let tried = Bench {
                    provision,
                    inventory,
                    cancel,
                    scratch: &folder,
                }
                .answer(question);
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

    fn place(&self, question: &HalfQuestion) -> std::path::PathBuf {
        let tools: Vec<_> = half::tools(question)
            .into_iter()
            .map(|tool| self.provision.identity(tool))
            .collect();
        let libraries = half::libraries(question, self.provision);
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
    probes: bool,
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
    };
    for backend in backends {
        for question in half::questions(backend) {
            let may_probe = || {
                probes
                    && half::requirements(&question)
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

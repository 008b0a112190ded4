//! Tests half precision: a small computation on a device, by the runtime and the worker that run models there.
//!
//! It is a run like any other, in a child process, so a crash of a driver becomes a reason. Only answers of the device
//! itself are worth keeping; the caller decides where.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context as _;

use crate::base::Bug;
use crate::catalogue::{
    Half, HalfProbe, Places, RUNTIMES, Requirement, RunParams, RunRequest, Runtime, TestMeasure,
};
use crate::device::half::HalfQuestion;
use crate::device::{Backend, BackendRow};
use crate::exec::alone::Bench;
use crate::matrix::Computes;
use crate::provision::Provision;
use crate::record::Outcome;
use crate::runtime::half;
use crate::spec::Precision;
use crate::toolchain::Tool;

/// A browser's software adapter compiles shaders for up to a minute.
const TIMEOUT: u64 = 90;

/// The answer, and whether the device would give it again.
pub struct Tried {
    pub computes: Computes,
    pub lasts: bool,
}

/// What must be installed to ask.
pub fn requirements(question: &HalfQuestion) -> Vec<Requirement> {
    run(question)
        .map(|(run, _)| (run.runtime.requires)(&run))
        .unwrap_or_default()
}

/// The packages that would compute.
pub fn tools(question: &HalfQuestion) -> Vec<Tool> {
    run(question)
        .map(|(run, _)| (run.runtime.tools)(&run))
        .unwrap_or_default()
}

/// The libraries that would be loaded, as far as they are installed.
pub fn libraries(question: &HalfQuestion, provision: &Provision) -> Vec<PathBuf> {
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
pub fn questions(backend: &Backend) -> Vec<HalfQuestion> {
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

impl Bench<'_> {
    /// Everything that it requires must be installed.
    pub fn answer(&self, question: &HalfQuestion) -> Tried {
        let probe = probe(question).map_err(anyhow::Error::msg);
        let tried = probe.and_then(|(_, _, probe)| self.attempt(question, probe));
        tried.unwrap_or_else(|e| Tried {
            computes: Computes::No(format!("{e:#}")),
            lasts: false,
        })
    }

    fn attempt(&self, question: &HalfQuestion, probe: &HalfProbe) -> anyhow::Result<Tried> {
        let precision = question.precision.word();
        let [tree, out, scratch] = self.folders(["artefact", "out", "scratch"])?;
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
        let judged = self.perform(&call, places, &run, TIMEOUT)?;
        let place = format!("{} on {}", question.runtime, question.device);
        Ok(match judged.outcome {
            Outcome::Pass => {
                let kernel = judged.facts["kernel"].as_str();
                let off = match kernel {
                    Some(_) => Ok(judged.facts["max_abs"]
                        .as_f64()
                        .context(Bug::new("the op `half` tells no error"))?),
                    None => half::judge(&out, question.precision)?,
                };
                let by = kernel
                    .map(|kernel| format!(", by {kernel}"))
                    .unwrap_or_default();
                let did =
                    format!("{place} computed a matrix product and a layer norm in {precision}");
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
                let reason = judged
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
    use crate::device::half::HalfAnswer;
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

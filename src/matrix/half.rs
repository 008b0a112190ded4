//! `half:` of a target: which of its precisions a case has on this machine.
//!
//! Until then a matrix has a case for each that it may come to, the same on every host. Pure: what the devices compute in
//! is given by the caller.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::{Case, Matrix, carried};
use crate::spec::{Half, Precision, Spec, Target};

/// What a target computes in, by a probe on its device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Computes {
    /// It computes in that precision, and how that was seen.
    Yes(String),
    /// Not in that precision, or nobody knows: why.
    No(String),
}

/// What was requested, what it came to, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct HalfChoice {
    /// What the target's row says.
    pub asked: Half,
    pub got: Precision,
    pub why: String,
}

impl HalfChoice {
    /// `asked for half: auto, got fp32: …`
    pub fn summary(&self) -> String {
        format!(
            "asked for half: {}, got {}: {}",
            self.asked.word(),
            self.got.word(),
            self.why
        )
    }
}

impl Target {
    /// Whether a probe of its device decides which precision it computes in.
    pub fn asks_for_half(&self) -> bool {
        matches!(self.half, Some(Half::Auto | Half::Always))
    }
}

impl Matrix {
    /// Whether a device must be probed before it is known which cases there are.
    pub fn asks_for_half(&self, spec: &Spec) -> bool {
        self.cases
            .iter()
            .any(|case| spec.targets[&case.target].asks_for_half())
    }

    /// Leaves of the precisions of a target with `half` the one that its device computes in, with the reason for it.
    pub fn settle_half(&mut self, spec: &Spec, computes: impl Fn(&Target, Precision) -> Computes) {
        let asks = |case: &Case| spec.targets[&case.target].asks_for_half();
        // One case at each of its precisions. Groups keep the place of their first case; a case of another target is a group
        // of its own.
        let mut groups: IndexMap<_, Self> = IndexMap::new();
        let group = |case: &Case| {
            let precision = (!asks(case)).then_some(case.precision);
            (
                case.model.clone(),
                case.target.clone(),
                case.dims.clone(),
                precision,
            )
        };
        for case in std::mem::take(&mut self.cases) {
            groups.entry(group(&case)).or_default().cases.push(case);
        }
        for excluded in std::mem::take(&mut self.excluded) {
            match asks(&excluded.case) {
                true => groups
                    .entry(group(&excluded.case))
                    .or_default()
                    .excluded
                    .push(excluded),
                false => self.excluded.push(excluded),
            }
        }
        for alternatives in groups.into_values() {
            let target = alternatives
                .cases
                .first()
                .map(|case| &spec.targets[&case.target]);
            match target {
                // None can be run anywhere: the last says so, which is the plain one.
                None => self
                    .excluded
                    .extend(alternatives.excluded.into_iter().next_back()),
                Some(target) if !target.asks_for_half() => self.cases.extend(alternatives.cases),
                Some(target) => self.cases.extend(resolved(target, alternatives, &computes)),
            }
        }
    }
}

fn resolved(
    target: &Target,
    all: Matrix,
    computes: &impl Fn(&Target, Precision) -> Computes,
) -> Option<Case> {
    let mut against: Vec<String> = Vec::new();
    let carried = carried(target);
    for precision in target
        .precisions
        .iter()
        .copied()
        .filter(|precision| *precision != Precision::Fp32)
    {
        if let Some(case) = all.cases.iter().find(|case| case.precision == precision) {
            match computes(target, precision) {
                Computes::Yes(how) => return Some(with(case, target, how)),
                // Of a device that is not there both precisions say the same.
                Computes::No(why) if against.contains(&why) => {}
                Computes::No(why) => against.push(why),
            }
        } else if let Some(excluded) = all
            .excluded
            .iter()
            .find(|excluded| excluded.case.precision == precision)
            && carried.contains(&precision)
        {
            against.push(format!(
                "{} is excluded: {}",
                precision.word(),
                excluded.reason
            ));
        }
    }
    if carried
        .iter()
        .all(|precision| *precision == Precision::Fp32)
    {
        against = without_artefact(target, computes);
    }
    let why = against.join("; ");
    let plain = all
        .cases
        .iter()
        .find(|case| case.precision == Precision::Fp32);
    match (plain, all.cases.first()) {
        (Some(case), _) => Some(with(case, target, why)),
        // It is half precision or nothing: what the device makes of it, the run says.
        (None, first) => first.map(|case| with(case, target, format!("there is no other; {why}"))),
    }
}

/// Why it is fp32 where orch makes nothing else, which is no word about the device.
fn without_artefact(
    target: &Target,
    computes: &impl Fn(&Target, Precision) -> Computes,
) -> Vec<String> {
    let own = format!(
        "orch makes the `{}` artefact at fp32 only",
        target.artefact.name
    );
    match computes(target, Precision::Fp16) {
        Computes::Yes(how) => vec![format!("{own}, although {how}")],
        Computes::No(why) => vec![why, own],
    }
}

fn with(case: &Case, target: &Target, why: String) -> Case {
    let half = target.half.map(|half| HalfChoice {
        asked: half,
        got: case.precision,
        why,
    });
    Case {
        half,
        ..case.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::matrix::tests::loaded;

    const SPEC: &str = "version: 1
pipelines: {text: {description: x, tasks: [fill-mask]}}
targets:
  gpu: {runtime: openvino, backend: openvino, device: GPU, artefact: openvino, half: auto}
  eager: {runtime: python, backend: cpu, artefact: model, half: always}
  ort: {runtime: ort, backend: cpu, artefact: onnx, half: auto}
  qnn: {runtime: ort, backend: qnn, device: htp, artefact: qnn, half: auto}
  off: {runtime: python, backend: cpu, artefact: model, half: false}
  tasks: {runtime: transformers-js, backend: webgpu-browser, device: webgpu, artefact: transformers-js, half: auto}
  both: {runtime: openvino, backend: openvino, device: CPU, artefact: openvino, precisions: [fp16, fp32]}
models:
  bert: {class: BertModel, family: encoder-only, task: fill-mask, pipeline: text, inputs: {x: {dtype: int64, shape: [1], value: 1}}}
";

    /// The cases that are left with why, and the questions that were put.
    fn resolved(
        more: &str,
        computes: impl Fn(&str, Precision) -> Computes,
    ) -> (Vec<String>, Vec<String>) {
        let spec = loaded(&format!("{SPEC}{more}"));
        let mut matrix = Matrix::of(&spec);
        assert!(matrix.asks_for_half(&spec));
        let queried = RefCell::new(Vec::new());
        matrix.settle_half(&spec, |target, precision| {
            queried
                .borrow_mut()
                .push(format!("{} {}", target.name, precision.word()));
            computes(&target.name, precision)
        });
        let text = |case: &Case| match &case.half {
            Some(half) => format!("{} {}", case.name, half.summary()),
            None => case.name.clone(),
        };
        let excluded = matrix
            .excluded
            .iter()
            .map(|excluded| format!("{}: {}", excluded.case.name, excluded.reason));
        (
            matrix.cases.iter().map(text).chain(excluded).collect(),
            queried.into_inner(),
        )
    }

    fn no(target: &str, precision: Precision) -> Computes {
        Computes::No(format!("{target} has no {}", precision.word()))
    }

    #[test]
    fn a_device_with_half_precision_gets_it_and_one_without_says_why_not() {
        let (cases, queried) = resolved("", |target, precision| match (target, precision) {
            ("gpu" | "qnn", Precision::Fp16) | ("eager", Precision::Bf16) => {
                Computes::Yes("it was seen".into())
            }
            _ => no(target, precision),
        });
        let expected = [
            "gpu-fp16 asked for half: auto, got fp16: it was seen",
            "eager-bf16 asked for half: always, got bf16: it was seen",
            "ort-fp32 asked for half: auto, got fp32: ort has no fp16",
            "qnn-fp16 asked for half: auto, got fp16: it was seen",
            "off-fp32",
            "tasks-fp32 asked for half: auto, got fp32: tasks has no fp16; \
             orch makes the `transformers-js` artefact at fp32 only",
            "both-fp16",
            "both-fp32",
        ];
        assert_eq!(cases, expected);
        assert_eq!(
            queried,
            [
                "gpu fp16",
                "eager fp16",
                "eager bf16",
                "ort fp16",
                "qnn fp16",
                "tasks fp16"
            ]
        );
    }

    #[test]
    fn without_half_precision_it_is_fp32_or_what_was_insisted_on() {
        let (cases, _) = resolved("", no);
        assert_eq!(
            cases[0],
            "gpu-fp32 asked for half: auto, got fp32: gpu has no fp16; gpu has no bf16"
        );
        let insisted = "eager-fp16 asked for half: always, got fp16: there is no other; eager has no fp16; eager has no bf16";
        assert_eq!(cases[1], insisted);
        assert!(
            cases[3].starts_with("qnn-fp16 asked for half: auto, got fp16: there is no other"),
            "{}",
            cases[3]
        );
    }

    #[test]
    fn an_exclusion_holds_and_one_of_everything_stays_in_the_report() {
        let yes = |_: &str, _| Computes::Yes("it was seen".into());
        let (cases, queried) = resolved(
            "matrix: {exclude: [{target: gpu, precision: fp16, reason: slow}]}",
            yes,
        );
        assert_eq!(
            cases[0],
            "gpu-bf16 asked for half: auto, got bf16: it was seen"
        );
        assert!(!queried.contains(&"gpu fp16".to_owned()), "{queried:?}");
        let (cases, _) = resolved("matrix: {exclude: [{target: gpu, reason: gone}]}", yes);
        assert_eq!(
            cases
                .iter()
                .filter(|case| case.starts_with("gpu"))
                .collect::<Vec<_>>(),
            ["gpu-fp32: gone"]
        );
        assert_eq!(
            cases[1],
            "ort-fp16 asked for half: auto, got fp16: it was seen"
        );
        let although = "tasks-fp32 asked for half: auto, got fp32: orch makes the `transformers-js` artefact at fp32 \
             only, although it was seen";
        assert_eq!(cases[4], although);
    }
}

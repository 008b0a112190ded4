//! `-t auto`: one target for each model, out of those that the matrix has, with all its precisions and sizes there.
//!
//! Pure: which devices are here and what was measured on this kind of machine is given by the caller.

use indexmap::IndexMap;

use super::{Case, Matrix};
use crate::spec::Spec;

/// The word that stands for the best target.
pub const AUTO: &str = "auto";
/// The row of `prefer` for families without one of their own.
pub const ANY: &str = "any";

/// What is known of one case on this machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Known {
    /// Why it cannot be chosen: its device is not here, or is a stand-in.
    Out(String),
    /// Median of its latest measurement on this kind of machine, milliseconds, and that measurement's day.
    Measured {
        median_ms: f64,
        day: String,
    },
    /// It did not pass when it was last executed here: the outcome.
    Failed(String),
    Unmeasured,
}

impl Matrix {
    /// Leaves of each model the cases of one target, the best, with the reason for it: the fastest that was measured; else
    /// the first in the family's order of preference whose device is here. Where no device is here, the first, whose cells
    /// then say so.
    pub fn choose(&mut self, spec: &Spec, known: impl Fn(&Case) -> Known) {
        // Groups keep the place of their first case.
        let mut models: IndexMap<_, IndexMap<_, Vec<Case>>> = IndexMap::new();
        for case in std::mem::take(&mut self.cases) {
            models
                .entry(case.model.clone())
                .or_default()
                .entry(case.target.clone())
                .or_default()
                .push(case);
        }
        for targets in models.into_values() {
            let group: Vec<_> = targets
                .values()
                .map(|cases| of_target(cases, &known))
                .collect();
            let (chosen, why) = best(spec, group);
            let cases = targets[&chosen.target].iter();
            self.cases.extend(cases.map(|case| Case {
                chosen: Some(why.clone()),
                ..case.clone()
            }));
        }
    }
}

/// What is known of a target for one model, and of which of its cases: the first that was measured; else one that failed;
/// else the first.
fn of_target(cases: &[Case], known: impl Fn(&Case) -> Known) -> (&Case, Known) {
    let all: Vec<_> = cases.iter().map(|case| (case, known(case))).collect();
    let first = |is: fn(&Known) -> bool| all.iter().position(|(_, known)| is(known));
    let measured = first(|known| matches!(known, Known::Measured { .. }));
    let failed = || first(|known| matches!(known, Known::Failed(_)));
    all[measured.or_else(failed).unwrap_or(0)].clone()
}

fn best<'a>(spec: &Spec, mut group: Vec<(&'a Case, Known)>) -> (&'a Case, String) {
    let family = &spec.models[&group[0].0.model].family;
    let row = [family.as_str(), ANY]
        .into_iter()
        .find(|row| spec.prefer.contains_key(*row));
    let order = row.map_or(&[][..], |row| &spec.prefer[row]);
    let place = |case: &Case| {
        order
            .iter()
            .position(|target| *target == case.target)
            .unwrap_or(order.len())
    };
    group.sort_by_key(|(case, _)| place(case)); // stable: targets that are not in the row follow in the order of the spec
    let listed = |pick: &dyn Fn(&Case, &Known) -> Option<String>| {
        group
            .iter()
            .filter_map(|(case, known)| pick(case, known))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let measured = group.iter().filter_map(|(case, known)| match known {
        Known::Measured { median_ms, day } => Some((*case, *median_ms, day)),
        _ => None,
    });
    if let Some((fastest, ..)) = measured.clone().min_by(|a, b| a.1.total_cmp(&b.1)) {
        let figures = measured
            .map(|(case, median_ms, day)| format!("{} {median_ms:.3} ms ({day})", case.name));
        let figures = figures.collect::<Vec<_>>().join(", ");
        let unmeasured =
            listed(&|case, known| (*known == Known::Unmeasured).then(|| case.target.clone()));
        let rest = if unmeasured.is_empty() {
            String::new()
        } else {
            format!("; not measured: {unmeasured}")
        };
        return (
            fastest,
            format!("the fastest that was measured on this kind of machine: {figures}{rest}"),
        );
    }
    let out = listed(&|case, known| match known {
        Known::Out(why) => Some(format!("{}: {why}", case.target)),
        Known::Failed(outcome) => Some(format!("{}: {outcome} when last executed", case.name)),
        _ => None,
    });
    let order = row.map_or("in the order of the spec".to_owned(), |row| {
        format!("by `prefer.{row}`")
    });
    let passed_over = if out.is_empty() {
        String::new()
    } else {
        format!("; passed over: {out}")
    };
    let first = |wanted: &dyn Fn(&Known) -> bool| {
        group
            .iter()
            .find(|(_, known)| wanted(known))
            .map(|(case, _)| *case)
    };
    if let Some(case) = first(&|known| *known == Known::Unmeasured) {
        return (case, format!("the first {order}{passed_over}"));
    }
    match first(&|known| matches!(known, Known::Failed(_))) {
        Some(case) => (
            case,
            format!("the first {order}, though none passed when last executed; {out}"),
        ),
        None => (
            group[0].0,
            format!("the first {order}, though none of the devices is here; {out}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::tests::loaded;

    const SPEC: &str = "version: 1
pipelines: {text: {description: x, tasks: [fill-mask]}}
targets:
  cuda: {runtime: torch, backend: cuda, artefact: torchscript, precisions: [fp32]}
  ov: {runtime: openvino, backend: openvino, artefact: openvino, precisions: [fp32, fp16]}
  cpu: {runtime: ort, backend: cpu, artefact: onnx, precisions: [fp32]}
models:
  bert: {class: BertModel, family: encoder-only, task: fill-mask, pipeline: text, inputs: {x: {dtype: int64, shape: [1], value: 1}}}
  vit: {class: ViTModel, family: vision, task: fill-mask, pipeline: text, inputs: {x: {dtype: int64, shape: [1], value: 1}}}
";

    /// Each case that is left, with its reason.
    fn chosen(prefer: &str, known: impl Fn(&str) -> Known) -> Vec<(String, String)> {
        let spec = loaded(&format!("{SPEC}{prefer}"));
        let mut matrix = Matrix::of(&spec);
        matrix.choose(&spec, |case| known(&case.target));
        matrix
            .cases
            .iter()
            .map(|case| (case.id(), case.chosen.clone().unwrap()))
            .collect()
    }

    fn ids(chosen: &[(String, String)]) -> Vec<&str> {
        chosen.iter().map(|(id, _)| id.as_str()).collect()
    }

    #[test]
    fn without_measurements_the_order_of_the_family_decides_among_what_is_here() {
        let prefer = "prefer: {vision: [cuda, cpu], any: [ov]}";
        let unmeasured = chosen(prefer, |_| Known::Unmeasured);
        assert_eq!(
            ids(&unmeasured),
            ["bert:ov-fp32", "bert:ov-fp16", "vit:cuda-fp32"]
        );
        assert_eq!(unmeasured[0].1, "the first by `prefer.any`");
        let no_gpu = |target: &str| {
            if target == "cuda" {
                Known::Out("no GPU".into())
            } else {
                Known::Unmeasured
            }
        };
        let without = chosen(prefer, no_gpu);
        assert_eq!(without[2].0, "vit:cpu-fp32");
        assert_eq!(
            without[2].1,
            "the first by `prefer.vision`; passed over: cuda: no GPU"
        );
        assert_eq!(
            chosen("", no_gpu)[0].1,
            "the first in the order of the spec; passed over: cuda: no GPU"
        );
    }

    #[test]
    fn what_was_measured_decides_before_any_order() {
        let measured = |target: &str| match target {
            "ov" => Known::Measured {
                median_ms: 2.0,
                day: "2026-01-02".into(),
            },
            "cpu" => Known::Measured {
                median_ms: 1.0,
                day: "2026-01-03".into(),
            },
            _ => Known::Unmeasured,
        };
        let all = chosen("prefer: {any: [cuda, ov]}", measured);
        assert_eq!(
            ids(&all),
            ["bert:cpu-fp32", "vit:cpu-fp32"],
            "one choice for a model, whatever precisions others have"
        );
        let why = &all[0].1;
        let figures =
            "ov-fp32 2.000 ms (2026-01-02), cpu-fp32 1.000 ms (2026-01-03); not measured: cuda";
        assert_eq!(
            *why,
            format!("the fastest that was measured on this kind of machine: {figures}")
        );
    }

    #[test]
    fn failures_come_last_and_where_nothing_is_here_the_first_says_so() {
        let failed = |target: &str| {
            if target == "cpu" {
                Known::Unmeasured
            } else {
                Known::Failed("CRASH".into())
            }
        };
        let all = chosen("", failed);
        assert_eq!(ids(&all), ["bert:cpu-fp32", "vit:cpu-fp32"]);
        let none = chosen("", |_| Known::Failed("CRASH".into())).remove(0);
        assert!(
            none.1
                .contains("though none passed when last executed; cuda-fp32: CRASH"),
            "{}",
            none.1
        );
        let nothing = chosen("prefer: {any: [cpu]}", |_| Known::Out("gone".into()));
        assert_eq!(nothing[0].0, "bert:cpu-fp32");
        assert!(
            nothing[0]
                .1
                .contains("though none of the devices is here; cpu: gone, cuda: gone"),
            "{}",
            nothing[0].1
        );
    }
}

//! Tests of the runs that are timed, case by case.

use serde_json::json;

use super::*;
use crate::catalogue::TestMeasure;
use crate::device::Device;
use crate::matrix::{Fallback, Matrix};
use crate::plan::build_with;
use crate::spec::Spec;

const SPEC: &str = "version: 1
pipelines:
  tabular: {description: numbers, tasks: [regression], template: text}
targets:
  cpu: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32]}
  qnn: {runtime: ort, backend: qnn, device: htp, artefact: qnn, precisions: [fp16], options: {soc_model: 60}}
  sampled: {runtime: ort, backend: qnn, device: htp, artefact: qnn, precisions: [fp16], options: {soc_model: 60},
    measure: {samples: 2}}
  limited: {runtime: ort, backend: qnn, device: htp, artefact: qnn, precisions: [fp16], options: {soc_model: 60},
    measure: {timeout_seconds: 5}}
  lab: {runtime: ort, backend: qnn, device: htp, artefact: qnn, precisions: [fp16], options: {soc_model: 60},
    properties: {pool: phones}}
  webgpu: {runtime: ort, backend: webgpu, device: webgpu, artefact: onnx, precisions: [fp32]}
  software: {runtime: ort, backend: webgpu, device: software, artefact: onnx, precisions: [fp32]}
  page: {runtime: browser, backend: webgpu-browser, device: webgpu, artefact: onnx, precisions: [fp32],
    options: {adapter: software}}
models:
  m: {onnx: m.onnx, family: other, task: regression, pipeline: tabular,
    inputs: {x: {dtype: float32, shape: [1], value: 1}}}
";

/// The targets whose runs are timed.
fn timed(spec: &str, clock: &Clock) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.yaml");
    std::fs::write(&path, spec).unwrap();
    let spec = Spec::load(&path).unwrap_or_else(|e| panic!("{e}"));
    let plan = build_with(&spec, &Matrix::of(&spec), Fallback::default(), clock).unwrap();
    let is_timed = |case: &&crate::plan::PlannedCase| {
        let run = plan.step(case.run);
        let is_timed = run.run().measure.is_timed();
        assert_eq!(run.kind.is_timed(run), is_timed);
        assert_eq!(
            run.params.parse::<serde_json::Value>().unwrap()["measure"] == "none",
            !is_timed,
            "its key says so"
        );
        is_timed
    };
    plan.cases
        .iter()
        .filter(is_timed)
        .map(|case| case.case.target.clone())
        .collect()
}

fn host(qnn: DeviceKind, webgpu: &[DeviceKind]) -> Vec<Backend> {
    let devices = |backend: &str, kinds: &[DeviceKind]| {
        let device = |(at, kind): (usize, &DeviceKind)| {
            Device::new(format!("{backend}:{at}"), "a device", *kind)
        };
        Backend::available(backend, kinds.iter().enumerate().map(device).collect())
    };
    vec![
        devices("cpu", &[DeviceKind::Hardware]),
        devices("qnn", &[qnn]),
        devices("webgpu", webgpu),
        devices("webgpu-browser", &[DeviceKind::Hardware]),
    ]
}

#[test]
fn what_stands_for_hardware_is_timed_only_where_its_target_requests_it() {
    use DeviceKind::{Emulator, Hardware, Software};
    let on = |inventory: &[Backend]| timed(SPEC, &Clock::default().on(inventory));
    assert_eq!(
        on(&host(Emulator, &[Software])),
        ["cpu", "sampled", "lab"],
        "what is here says nothing of the lab"
    );
    assert_eq!(
        on(&host(Hardware, &[Hardware, Software])),
        ["cpu", "qnn", "sampled", "limited", "lab", "webgpu"]
    );
    // A backend that is not here is a stand-in for nothing.
    assert_eq!(
        on(&[]),
        ["cpu", "qnn", "sampled", "limited", "lab", "webgpu"]
    );
    assert!(
        timed(
            SPEC,
            &Clock {
                is_stopped: true,
                ..Clock::default()
            }
            .on(&host(Hardware, &[Hardware]))
        )
        .is_empty()
    );
}

#[test]
fn a_target_s_word_is_over_the_general_and_a_model_s_over_both() {
    let clock = Clock::default();
    assert_eq!(
        timed(&format!("{SPEC}measure: none\n"), &clock),
        ["sampled"]
    );
    assert_eq!(
        timed(&format!("{SPEC}measure: {{samples: 9}}\n"), &clock),
        timed(SPEC, &clock)
    );
    assert!(
        timed(
            &SPEC.replace("family: other,", "family: other, measure: none,"),
            &clock
        )
        .is_empty()
    );
    let limited = SPEC.replace("measure: {timeout_seconds: 5}", "measure: none");
    assert!(!timed(&limited, &clock).contains(&"limited".to_owned()));
}

#[test]
fn a_round_of_a_case_that_is_requested_samples_for_longer() {
    let clock = Clock {
        longer: BTreeSet::from(["m:cpu-fp32".to_owned()]),
        ..Clock::default()
    };
    let usual = TestMeasure::Times {
        warmup: 3,
        samples: 30,
        max_seconds: 10.0,
    };
    assert_eq!(
        clock.measure("m:cpu-fp32", usual),
        TestMeasure::Times {
            warmup: 3,
            samples: 1000,
            max_seconds: 0.2
        }
    );
    assert_eq!(clock.measure("m:qnn-fp16", usual), usual);
    assert_eq!(
        clock.measure("m:cpu-fp32", TestMeasure::NONE),
        TestMeasure::NONE
    );
    // More than that, where the spec says so; and never for longer than it allows.
    let own = TestMeasure::Times {
        warmup: 3,
        samples: 5000,
        max_seconds: 0.1,
    };
    assert_eq!(clock.measure("m:cpu-fp32", own), own);
}

#[test]
fn an_untimed_run_says_so_in_one_word_and_a_timed_one_as_ever() {
    assert_eq!(
        serde_json::to_value(TestMeasure::NONE).unwrap(),
        json!("none")
    );
    let times = json!({"warmup": 1, "samples": 2, "max_seconds": 3.0});
    let read: TestMeasure = serde_json::from_value(times.clone()).unwrap();
    assert_eq!(
        (read.is_timed(), serde_json::to_value(read).unwrap()),
        (true, times)
    );
    assert!(serde_json::from_value::<TestMeasure>(json!("never")).is_err());
}

//! The runtime against the real library, where one is named: `ORCH_TEST_OPENVINO=…/libopenvino_c.so.* cargo test -- --ignored`.

use serde_json::{Value, json};

use super::*;
use crate::runtime::JobStatus;
use crate::runtime::tensors::{Element, Tensor};

/// An ONNX model of one Identity node over a 2×2 float tensor, from `inputs` to `outputs`.
const IDENTITY: &[u8] = b"\x08\x07\x12\nonnx-wally:j\n*\n\x06inputs\x12\x07outputs\x1a\ridentity_node\"\x08Identity\
\x12\x0bno-op-modelZ\x16\n\x06inputs\x12\x0c\n\n\x08\x01\x12\x06\n\x00\n\x02\x08\x02b\x17\n\x07outputs\x12\x0c\n\n\x08\
\x01\x12\x06\n\x00\n\x02\x08\x02B\x02\x10\x0c";

struct Bench {
    folder: tempfile::TempDir,
    values: Tensor,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["artefact", "out"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let tree = folder.path().join("artefact");
        std::fs::write(tree.join("model.onnx"), IDENTITY).unwrap();
        std::fs::write(
            tree.join("manifest.json"),
            r#"{"inputs":["inputs"],"outputs":["same"]}"#,
        )
        .unwrap();
        let values = Tensor::of(Element::Float32, &[2, 2], &[1.0, -2.5, 3.25, 0.0]).unwrap();
        tensors::write(
            &tree.join("inputs.safetensors"),
            &[("inputs".to_owned(), values.clone())].into(),
        )
        .unwrap();
        Self { folder, values }
    }

    /// Runs with these parameters over the usual ones.
    fn run(&self, own: Value) -> JobOutput {
        let mut params = json!({
            "library": std::env::var("ORCH_TEST_OPENVINO").expect("ORCH_TEST_OPENVINO names the library"),
            "device": "CPU",
            "inference_precision": "f32",
            "measure": {"warmup": 1, "samples": 3, "max_seconds": 5.0},
        });
        params
            .as_object_mut()
            .unwrap()
            .extend(own.as_object().unwrap().clone());
        let inputs = [("artefact".to_owned(), self.folder.path().join("artefact"))].into();
        let out = self.folder.path().join("out");
        execute(
            &Job {
                op: "run".into(),
                params,
                inputs,
                out,
                ..Job::default()
            },
            &|_| (),
        )
    }
}

#[test]
#[ignore = "needs OpenVINO: ORCH_TEST_OPENVINO names libopenvino_c"]
fn a_model_runs_where_and_how_it_was_requested() {
    let bench = Bench::new();
    let output = bench.run(json!({"threads": 1}));
    assert_eq!(output.status, JobStatus::Ok, "{:?}", output.reason);
    let measure = output.measure.unwrap();
    assert_eq!(measure.actual_device, "CPU");
    let samples = measure.times.unwrap().samples_ms.len();
    assert!(samples >= 3, "{samples}");
    assert_eq!(output.facts["precision"], "f32");
    assert_eq!(output.facts["properties"]["INFERENCE_NUM_THREADS"], "1");
    let written = tensors::read(&bench.folder.path().join("out/outputs.safetensors")).unwrap();
    assert_eq!(written["same"], bench.values);
}

#[test]
#[ignore = "needs OpenVINO: ORCH_TEST_OPENVINO names libopenvino_c"]
fn what_cannot_be_done_as_requested_is_not_done() {
    let bench = Bench::new();
    let refused = |own: Value| {
        let output = bench.run(own);
        (output.status, output.reason.unwrap_or_default())
    };
    let (status, reason) = refused(json!({"device": "NPU.7"}));
    assert!(
        status == JobStatus::Unavailable && reason.contains("has no device NPU.7"),
        "{status:?} {reason}"
    );
    let (status, reason) = refused(json!({"device": "HETERO:CPU"}));
    assert!(
        status == JobStatus::Error && reason.contains("lets OpenVINO spread the work"),
        "{status:?} {reason}"
    );
    let (status, reason) = refused(json!({"options": {"num_streams": "all"}}));
    assert!(status == JobStatus::Error, "{status:?} {reason}");
    let (status, reason) = refused(json!({"library": "/nowhere/libopenvino_c.so"}));
    assert!(
        status == JobStatus::Unavailable && reason.contains("/nowhere/libopenvino_c.so"),
        "{status:?} {reason}"
    );
    assert!(!bench.folder.path().join("out/outputs.safetensors").exists());
}

/// What a column is compiled with beside what OpenVINO does by itself: what docs/hardware.md lists, and nothing else.
#[test]
#[ignore = "needs OpenVINO: ORCH_TEST_OPENVINO names libopenvino_c"]
fn only_listed_properties_differ_from_openvino_s_own() {
    let library =
        std::env::var("ORCH_TEST_OPENVINO").expect("ORCH_TEST_OPENVINO names the library");
    load_library(Path::new(&library)).unwrap();
    let core = Core::new().unwrap();
    let bench = Bench::new();
    let model = bench.folder.path().join("artefact/model.onnx");
    let read = |properties: &[(String, String)]| {
        let model = core.read(&model, None).unwrap();
        options::read_back(&core.compile(&model, "CPU", properties).unwrap())
    };
    let plain = read(&[]);
    let mut settings = options::properties(&Default::default(), "f32", None).unwrap();
    settings.extend(options::defaults(
        &Default::default(),
        "PERFORMANCE_HINT EXECUTION_MODE_HINT",
    ));
    let ours = read(&settings);
    let changed: Vec<&str> = ours
        .iter()
        .filter(|(name, value)| plain.get(*name) != Some(value))
        .map(|(name, _)| name.as_str())
        .collect();
    assert!(
        changed.iter().all(|name| *name == options::PRECISION),
        "{changed:?}: {plain:?} {ours:?}"
    );
}

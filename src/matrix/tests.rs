//! Matrices of small specs, whole.

use pretty_assertions::assert_eq;

use super::*;

const COMMON: &str = "
version: 1
pipelines:
  text: {description: x, tasks: [fill-mask]}
targets:
  cpu: {runtime: ort, backend: cpu, artefact: onnx, precisions: [fp32]}
  ov: {runtime: openvino, backend: openvino, artefact: openvino, precisions: [fp32, fp16], tags: [intel]}
  ts: {runtime: torch, backend: cpu, artefact: torchscript, precisions: [fp32]}
models:
  bert:
    {class: BertModel, family: encoder-only, task: fill-mask, pipeline: text, priority: high, tags: [key],
    inputs: {ids: {dtype: int64, shape: [batch, seq], randint: [0, 9]}}}
  literal:
    {class: BertModel, family: encoder-only, task: fill-mask, pipeline: text,
    inputs: {ids: {dtype: int64, shape: [batch, 2], data: [1, 2]}}}
  ir:
    {openvino: m.xml, expected: e.npz, family: ready, task: fill-mask, pipeline: text,
    inputs: {ids: {dtype: int64, shape: [1], value: 1}}}
";

fn spec(more: &str) -> Spec {
    loaded(&format!("{COMMON}{more}"))
}

pub(super) fn loaded(text: &str) -> Spec {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spec.yaml");
    std::fs::write(&path, text).unwrap();
    Spec::load(&path).unwrap_or_else(|errors| panic!("{errors}"))
}

fn ids(matrix: &Matrix) -> Vec<String> {
    matrix.cases.iter().map(Case::id).collect()
}

/// `id: reason`
fn excluded(matrix: &Matrix) -> Vec<String> {
    matrix
        .excluded
        .iter()
        .map(|excluded| format!("{}: {}", excluded.case.id(), excluded.reason))
        .collect()
}

#[test]
fn a_target_that_the_matrix_leaves_out_is_there_for_whoever_names_it() {
    let spec = spec("matrix: {targets: [cpu]}");
    assert_eq!(
        ids(&Matrix::of(&spec)),
        ["bert:cpu-fp32", "literal:cpu-fp32"]
    );
    let named = Matrix::with(&spec, &["ts".to_owned(), "o*".to_owned()]);
    assert_eq!(
        ids(&named),
        [
            "bert:cpu-fp32",
            "bert:ts-fp32",
            "literal:cpu-fp32",
            "literal:ts-fp32"
        ]
    );
}

#[test]
fn a_column_is_a_target_at_one_precision() {
    let spec = spec("matrix: {targets: [cpu]}");
    let selected = |name: &str| {
        let selection = Selection {
            targets: vec![name.to_owned()],
            queries: Vec::new(),
        };
        let matrix = Matrix::with(&spec, &selection.targets);
        ids(&matrix.select(&spec, &selection).unwrap())
    };
    assert_eq!(selected("cpu-fp32"), ["bert:cpu-fp32", "literal:cpu-fp32"]);
    // One outside the matrix, of which the other precision stays outside.
    assert_eq!(selected("ov-fp16"), ["bert:ov-fp16", "literal:ov-fp16"]);
}

#[test]
fn naming_a_target_takes_no_more_than_what_is_included_of_it() {
    let spec =
        spec("matrix: {targets: [cpu], include: [{model: literal, target: ov, precision: fp16}]}");
    let all = ["bert:cpu-fp32", "literal:cpu-fp32", "literal:ov-fp16"];
    assert_eq!(ids(&Matrix::of(&spec)), all);
    assert_eq!(ids(&Matrix::with(&spec, &["ov".to_owned()])), all);
    // One that no rule speaks of is there with every model still.
    let ts = ids(&Matrix::with(&spec, &["ts".to_owned()]));
    assert_eq!(
        ts,
        [
            "bert:cpu-fp32",
            "bert:ts-fp32",
            "literal:cpu-fp32",
            "literal:ov-fp16",
            "literal:ts-fp32"
        ]
    );
}

#[test]
fn the_product_is_cases_plus_exclusions_in_spec_order() {
    let matrix = Matrix::of(&spec(""));
    let cases = "bert:cpu-fp32 bert:ov-fp32 bert:ov-fp16 bert:ts-fp32 \
                 literal:cpu-fp32 literal:ov-fp32 literal:ov-fp16 literal:ts-fp32 ir:ov-fp32";
    assert_eq!(ids(&matrix).join(" "), cases);
    assert_eq!(
        excluded(&matrix),
        [
            "ir:cpu-fp32: a ready OpenVINO IR cannot be turned into the `onnx` artefact that this target loads",
            "ir:ov-fp16: a ready OpenVINO IR runs as it is; orch converts none to fp16",
            "ir:ts-fp32: a ready OpenVINO IR cannot be turned into the `torchscript` artefact that this target loads",
        ]
    );
}

#[test]
fn models_of_a_higher_priority_come_first() {
    let common = COMMON.replace(
        "pipeline: text, priority: high",
        "pipeline: text, priority: low",
    );
    let matrix = Matrix::of(&loaded(&format!("{common}matrix: {{targets: [ov]}}")));
    assert_eq!(
        ids(&matrix),
        [
            "literal:ov-fp32",
            "literal:ov-fp16",
            "ir:ov-fp32",
            "bert:ov-fp32",
            "bert:ov-fp16"
        ]
    );
}

#[test]
fn axes_multiply_the_models_that_have_them_and_label_what_differs() {
    let matrix = Matrix::of(&spec(
        "matrix: {targets: [cpu], batch: [1, 4], seq: [16, 128]}",
    ));
    assert_eq!(
        ids(&matrix),
        [
            "bert:cpu-fp32",
            "bert:cpu-fp32-s128",
            "bert:cpu-fp32-b4",
            "bert:cpu-fp32-b4-s128",
            "literal:cpu-fp32"
        ]
    );
    assert_eq!(
        matrix.cases[3].dims,
        BTreeMap::from([("batch".to_owned(), 4), ("seq".to_owned(), 128)])
    );
    assert_eq!(
        excluded(&matrix)[0],
        "literal:cpu-fp32-b4: input `ids` is given as literal values, which fit no other `batch` than 1"
    );
    assert_eq!(matrix.excluded.len(), 2, "and the IR on an ONNX target");
}

#[test]
fn exclusions_give_their_reason_and_inclusions_bring_back() {
    let matrix = Matrix::of(&spec(
        "matrix:
  models: [bert, literal]
  targets: [ov, ts]
  exclude: [{target: ov, reason: slow}]
  include: [{model: bert, precision: fp16, target: ov}, {model: literal, target: ov, precision: int8}]",
    ));
    assert_eq!(
        ids(&matrix),
        [
            "bert:ov-fp16",
            "bert:ts-fp32",
            "literal:ov-int8",
            "literal:ts-fp32"
        ]
    );
    assert_eq!(
        excluded(&matrix),
        [
            "bert:ov-fp32: slow",
            "literal:ov-fp32: slow",
            "literal:ov-fp16: slow"
        ]
    );
    assert!(
        matrix.excluded[0]
            .loc
            .as_ref()
            .unwrap()
            .to_string()
            .ends_with("spec.yaml:22:13")
    );
}

#[test]
fn a_precision_that_no_artefact_carries_is_no_case_under_its_name() {
    let matrix = Matrix::of(&spec(
        "matrix:
  models: [bert]
  targets: [cpu, ts]
  include: [{target: cpu, precision: fp16}, {target: cpu, precision: bf16}, {target: ts, precision: int8}]",
    ));
    assert_eq!(
        ids(&matrix),
        [
            "bert:cpu-fp32",
            "bert:cpu-fp16",
            "bert:ts-fp32",
            "literal:cpu-fp16"
        ]
    );
    let reason = "bert:cpu-bf16: orch makes the `onnx` artefact at fp32, fp16, int8, int8-static, a16w8, int4 only: \
                  at bf16 it would be another precision under this name";
    assert!(excluded(&matrix).iter().any(|text| text == reason));
    assert!(
        excluded(&matrix)
            .iter()
            .any(|text| text.starts_with("bert:ts-int8: "))
    );
}

#[test]
fn a_selection_takes_what_meets_every_list() {
    let spec = spec("");
    let matrix = Matrix::of(&spec);
    let select = |queries: &[&str]| {
        matrix
            .select(&spec, &selection(queries))
            .map(|matrix| ids(&matrix))
    };

    assert_eq!(
        select(&["tag:intel", "priority:high"]).unwrap(),
        ["bert:ov-fp32", "bert:ov-fp16"]
    );
    assert_eq!(
        select(&["tag:intel & !precision:fp16 & !tag:key"]).unwrap(),
        ["literal:ov-fp32", "ir:ov-fp32"]
    );
    let cases = ["bert:cpu-fp32", "literal:cpu-fp32", "ir:ov-fp32"];
    assert_eq!(select(&["case:*:cpu-* | case:ir:*"]).unwrap(), cases);
    assert_eq!(
        select(&["backend:cpu & !target:ts | !type:*"]).unwrap(),
        cases
    );
    assert_eq!(
        select(&["type:bert & pipeline:text & task:fill-* & family:enc*"])
            .unwrap()
            .len(),
        8
    );
    assert_eq!(select(&[]).unwrap().len(), matrix.cases.len());
    let targets = Selection {
        targets: vec!["cpu".into(), "o*".into()],
        ..selection(&["ir"])
    };
    assert_eq!(
        ids(&matrix.select(&spec, &targets).unwrap()),
        ["ir:ov-fp32"]
    );
}

fn selection(queries: &[&str]) -> Selection {
    Selection {
        targets: Vec::new(),
        queries: queries.iter().map(|text| text.parse().unwrap()).collect(),
    }
}

#[test]
fn a_selection_of_nothing_says_what_there_is() {
    let spec = spec("matrix: {targets: [cpu, ov]}");
    let matrix = Matrix::of(&spec);
    let error = |query: &str| {
        matrix
            .select(&spec, &selection(&[query]))
            .unwrap_err()
            .to_string()
    };

    assert_eq!(
        error("brt"),
        "no model matches `brt`\n  hint: did you mean `bert`?"
    );
    assert_eq!(
        error("family:zebra"),
        "no family matches `zebra`\n  hint: known: `encoder-only`, `ready`"
    );
    assert!(error("literal & priority:high").starts_with("no case meets the whole selection"));
    assert_eq!(
        error("target:ts | bert"),
        "no target matches `ts`\n  hint: the matrix has no case of it; `-t ts` adds them"
    );
    assert_eq!(
        error("target:cpux"),
        "no target matches `cpux`\n  hint: did you mean `cpu`?"
    );
    assert_eq!(
        error("target:tss"),
        "no target matches `tss`\n  hint: did you mean `ts`?"
    );
    assert_eq!(
        error("target:int8"),
        "no target matches `int8`\n  hint: that is a precision: `--precision int8` selects by it"
    );
    assert_eq!(
        error("org/name"),
        "no model matches `org/name`\n  hint: `orch add org/name` writes a row for a model of the Hub with this id"
    );
    assert_eq!(
        error("precision=fp32"),
        "no model matches `precision=fp32`\n  hint: `precision:fp32` selects by precision"
    );
    // What is left out must exist too, or a slip would run what it was to leave out.
    assert_eq!(
        error("!brt"),
        "no model matches `brt`\n  hint: did you mean `bert`?"
    );
    assert!(
        matrix
            .select(&spec, &selection(&["!priority:low & !target:ts"]))
            .is_ok()
    );
    assert!(error("ir & target:cpu").starts_with(
        "every selected case is excluded (1)\n  hint: `ir:cpu-fp32`: a ready OpenVINO IR"
    ));
}

#[test]
fn the_same_spec_expands_the_same_way() {
    let spec = spec("matrix: {batch: [1, 2]}");
    assert_eq!(Matrix::of(&spec), Matrix::of(&spec));
}

/// `target: chain`, for each target of a spec with one model.
fn chains(targets: &str, fallback: Fallback) -> Vec<String> {
    let text = format!(
        "version: 1
pipelines: {{text: {{description: x, tasks: [fill-mask]}}}}
targets:
{targets}
models:
  bert: {{class: BertModel, family: encoder-only, task: fill-mask, pipeline: text, dims: {{batch: 4}},
    inputs: {{ids: {{dtype: int64, shape: [batch, seq], randint: [0, 9]}}}}}}
"
    );
    let spec = loaded(&text);
    let text = |case: &Case| {
        let chain: Vec<_> = case
            .fallbacks(&spec, fallback)
            .into_iter()
            .map(|instead| instead.case.name)
            .collect();
        format!("{}: {}", case.name, chain.join(" "))
    };
    Matrix::of(&spec).cases.iter().map(text).collect()
}

#[test]
fn the_usual_chains_are_those_of_the_hardware_at_the_same_precision() {
    let targets = "  cuda: {runtime: ort, backend: cuda, artefact: onnx, precisions: [fp32], halve_batch: false}
  eager: {runtime: python, backend: cuda, artefact: model, precisions: [fp16], halve_batch: false}
  mps: {runtime: python, backend: mps, artefact: model, precisions: [fp32], halve_batch: false}
  webgpu: {runtime: ort, backend: webgpu, artefact: onnx, precisions: [fp32]}
  webnn: {runtime: browser, backend: webnn, artefact: onnx, precisions: [fp32], fallback: []}
  browser: {runtime: browser, backend: webgpu-browser, artefact: onnx, precisions: [fp32], halve_batch: false}
  qnn: {runtime: ort, backend: qnn, artefact: qnn, precisions: [fp16], halve_batch: false}
  ov: {runtime: openvino, backend: openvino, artefact: openvino, precisions: [fp16, fp32], halve_batch: false}
  cpu: {runtime: ort, backend: cpu, artefact: onnx, precisions: [fp32], halve_batch: false}";
    let usual = [
        "cuda-fp32: ov-fp32 cpu-fp32",
        // The CPU's target has no fp16, and another precision would be another case.
        "eager-fp16: ov-fp16",
        "mps-fp32: ov-fp32 cpu-fp32",
        "webgpu-fp32: webgpu-fp32-b2 webgpu-fp32-b1 webnn-fp32 cpu-fp32",
        "webnn-fp32: webnn-fp32-b2 webnn-fp32-b1",
        "browser-fp32: webnn-fp32 cpu-fp32",
        // A context binary is never fp32, and the model that it was made of is.
        "qnn-fp16: cpu-fp32",
        "ov-fp16: ",
        "ov-fp32: cpu-fp32",
        "cpu-fp32: ",
    ];
    assert_eq!(chains(targets, Fallback::Usual), usual);
    assert!(
        chains(targets, Fallback::AsDeclared)
            .iter()
            .all(|text| text.ends_with(": ")),
        "off unless requested"
    );
}

#[test]
fn a_declared_chain_leaves_out_what_has_no_such_case() {
    let targets = "  a: {runtime: ort, backend: cuda, artefact: onnx, precisions: [fp32], fallback: [c, b, d]}
  b: {runtime: ort, backend: cpu, artefact: onnx, precisions: [fp32]}
  c: {runtime: openvino, backend: openvino, artefact: openvino, precisions: [fp16]}
  d: {runtime: torch, backend: cpu, artefact: torchscript, precisions: [fp32]}
matrix: {exclude: [{target: d, reason: none}]}";
    assert_eq!(
        chains(targets, Fallback::AsDeclared),
        ["a-fp32: b-fp32", "b-fp32: ", "c-fp16: "]
    );
}

#[test]
fn a_task_in_a_browser_is_stood_in_for_by_tasks() {
    let targets =
        "  gpu: {runtime: transformers-js, backend: webgpu-browser, artefact: transformers-js, precisions: [fp32]}
  webnn: {runtime: browser, backend: webnn, artefact: onnx, precisions: [fp32], halve_batch: false}
  cpu: {runtime: ort, backend: cpu, artefact: onnx, precisions: [fp32], halve_batch: false}
  tasks: {runtime: transformers-js, backend: webnn, artefact: transformers-js, precisions: [fp32], halve_batch: false}";
    let chains = chains(
        &targets.replacen(
            "precisions: [fp32]",
            "precisions: [fp32], halve_batch: false",
            1,
        ),
        Fallback::Usual,
    );
    assert_eq!(
        chains,
        [
            "gpu-fp32: tasks-fp32",
            "webnn-fp32: cpu-fp32",
            "cpu-fp32: ",
            "tasks-fp32: "
        ]
    );
}

#[test]
fn what_stands_in_for_qnn_is_at_its_precision_if_it_can_be() {
    let targets =
        "  a: {runtime: ort, backend: qnn, artefact: qnn, precisions: [fp16], fallback: [c, b]}
  b: {runtime: ort, backend: cpu, artefact: onnx, precisions: [fp32]}
  c: {runtime: openvino, backend: openvino, artefact: openvino, precisions: [fp32, fp16]}";
    assert_eq!(
        chains(targets, Fallback::AsDeclared)[0],
        "a-fp16: c-fp16 b-fp32"
    );
}

/// A spec beside a lock of ONNX Runtime 1.24.4.
fn with_lock(text: &str) -> Spec {
    let folder = tempfile::tempdir().unwrap();
    let lock = "onnxruntime==1.24.4 \\\n    --hash=sha256:aaaa\n";
    std::fs::write(folder.path().join("ort.txt"), lock).unwrap();
    let path = folder.path().join("spec.yaml");
    std::fs::write(&path, text).unwrap();
    Spec::load(&path).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn each_toolchain_of_a_target_is_a_column() {
    let text = COMMON.replace(
        "artefact: onnx, precisions: [fp32]}",
        "artefact: onnx, precisions: [fp32, int8], toolchains: [default, old]}",
    );
    let more = "
toolchains: {old: {locks: {ort: ort.txt}}}
matrix:
  models: [bert, literal]
  targets: [cpu]
  exclude:
    - {target: cpu, precision: int8, reason: everywhere}
    - {target: 'cpu@old', precision: fp32, model: literal, reason: there alone}
  expect:
    - {target: cpu, model: bert, status: NUMERICS, reason: of this version}
";
    let spec = with_lock(&format!("{text}{more}"));
    let matrix = Matrix::of(&spec);
    assert_eq!(
        ids(&matrix),
        ["bert:cpu-fp32", "bert:cpu@old-fp32", "literal:cpu-fp32"]
    );
    assert_eq!(
        excluded(&matrix),
        [
            "bert:cpu-int8: everywhere",
            "bert:cpu@old-int8: everywhere",
            "literal:cpu-int8: everywhere",
            "literal:cpu@old-fp32: there alone",
            "literal:cpu@old-int8: everywhere",
        ]
    );
    let expected: Vec<_> = matrix
        .cases
        .iter()
        .map(|case| case.expect.is_some())
        .collect();
    assert_eq!(
        expected,
        [true, false, false],
        "another version is expected to pass"
    );
    assert_eq!(matrix.cases[1].instance(), "bert");
}

//! Ready files that were seen to matter: what is brought, what is refused.

use super::*;

/// A field of a protobuf message that has a length.
fn field(tag: u8, content: &[u8]) -> Vec<u8> {
    [&[tag << 3 | 2, content.len() as u8], content].concat()
}

#[test]
fn external_data_is_taken_only_where_the_plan_knows_of_it() {
    let dir = tempfile::tempdir().unwrap();
    // ModelProto { graph: { initializer: { external_data: { key: "location", value: "w.data" } } } }
    let entry = [field(1, b"location"), field(2, b"w.data")].concat();
    let file = dir.path().join("m.onnx");
    std::fs::write(&file, field(7, &field(5, &field(13, &entry)))).unwrap();
    let data = dir.path().join("w.data");
    std::fs::write(&data, "weights").unwrap();
    let out = dir.path().join("out");
    std::fs::create_dir(&out).unwrap();

    let error = bring_onnx(&file, &BTreeMap::new(), &out, &[]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("keeps weights in `w.data`, which it did not when the plan was made"),
        "{error}"
    );
    let inputs = BTreeMap::from([(external("w.data"), data.clone())]);
    bring_onnx(&file, &inputs, &out, &[]).unwrap();
    assert_eq!(std::fs::read(out.join("w.data")).unwrap(), b"weights");

    // A file of somebody else's is not followed to.
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::remove_file(&data).unwrap();
    std::os::unix::fs::symlink(secret.path(), &data).unwrap();
    let error = bring_onnx(&file, &inputs, &out, &[]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("a link that leads out of the model's folder"),
        "{error}"
    );
}

/// `{ graph: { output, input } }`, all of them tensors of floats.
fn onnx(inputs: &[(&str, u8)], outputs: &[&str]) -> Vec<u8> {
    let value = |name: &str, kind: u8| {
        let tensor_type = field(1, &[1 << 3, kind]);
        [field(1, name.as_bytes()), field(2, &tensor_type)].concat()
    };
    let inputs = inputs
        .iter()
        .flat_map(|(name, kind)| field(11, &value(name, *kind)));
    let outputs = outputs.iter().flat_map(|name| field(12, &value(name, 1)));
    field(7, &inputs.chain(outputs).collect::<Vec<_>>())
}

/// A scene with a model and files of tensors of one float each; gives what is reported of it, or its manifest.
fn brought(
    model: &[u8],
    inputs: &[&str],
    expected: Option<&[&str]>,
    outputs: &[&str],
) -> Result<Manifest, String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("m.onnx");
    std::fs::write(&file, model).unwrap();
    let tensors = |name: &str, names: &[&str]| {
        let path = dir.path().join(name);
        let one = |value: f32| {
            tensors::Tensor::new(
                tensors::Element::Float32,
                vec![1],
                value.to_le_bytes().into(),
            )
            .unwrap()
        };
        let all: Tensors = names
            .iter()
            .map(|name| ((*name).to_owned(), one(1.0)))
            .collect();
        tensors::write(&path, &all).unwrap();
        path
    };
    let mut sources =
        BTreeMap::from([("inputs_from".to_owned(), tensors("in.safetensors", inputs))]);
    if let Some(expected) = expected {
        sources.insert(
            "expected".to_owned(),
            tensors("expected.safetensors", expected),
        );
    }
    let out = dir.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let outputs: Vec<_> = outputs.iter().map(|name| (*name).to_owned()).collect();
    bring_onnx(&file, &sources, &out, &outputs)
        .map_err(|error| format!("{error:#}").replace(&*dir.path().to_string_lossy(), ""))?;
    if expected.is_some() {
        let reference = tensors::read(&out.join("reference.safetensors")).unwrap();
        assert_eq!(reference.keys().cloned().collect::<Vec<_>>(), outputs);
    }
    Ok(Manifest::read(&out).unwrap())
}

const FLOAT: u8 = 1;

#[test]
fn outputs_may_be_a_part_of_the_file_s() {
    let model = onnx(&[("x", FLOAT)], &["a", "b"]);
    assert_eq!(
        brought(&model, &["x"], None, &[]).unwrap().outputs,
        ["a", "b"]
    );
    assert_eq!(
        brought(&model, &["x"], Some(&["a", "b"]), &["b"])
            .unwrap()
            .outputs,
        ["b"]
    );
    let error = brought(&model, &["x"], None, &["c"]).unwrap_err();
    assert_eq!(
        error,
        "`outputs` names `c`, which `/m.onnx` does not give; it gives: a, b"
    );
    let error = brought(&model, &["x"], Some(&["a"]), &[]).unwrap_err();
    assert_eq!(
        error,
        "`/expected.safetensors` says nothing of the output `b`; name those that are compared: `outputs: [a]`"
    );
    let error = brought(&model, &["x"], Some(&["a", "z"]), &["a"]).unwrap_err();
    assert_eq!(
        error,
        "`/expected.safetensors` expects an output `z`, which the model does not give; it gives: a, b"
    );
}

#[test]
fn a_tensor_that_the_model_does_not_take_is_named() {
    let model = onnx(&[("x", FLOAT)], &["a"]);
    let error = brought(&model, &["x", "mask"], None, &[]).unwrap_err();
    assert_eq!(
        error,
        "the inputs hold `mask`, which the model does not take; it takes: x"
    );
}

#[test]
fn what_no_tensor_file_holds_is_refused_by_its_name() {
    let strings = 8;
    let error = brought(&onnx(&[("words", strings)], &["a"]), &["words"], None, &[]).unwrap_err();
    assert_eq!(
        error,
        "`/m.onnx` cannot be tested here: its input `words` is a tensor of strings; inputs and outputs must be tensors of \
         numbers or bools"
    );
}

#[test]
fn a_control_stands_beside_the_inputs_or_the_manifest_says_why_not() {
    let model = onnx(&[("x", FLOAT)], &["a"]);
    assert_eq!(
        brought(&model, &["x"], None, &[])
            .unwrap()
            .rest
            .get("no_control"),
        None
    );
    let constant = brought(&onnx(&[], &["a"]), &[], None, &[]).unwrap();
    assert_eq!(constant.rest["no_control"], "the model takes no input");
}

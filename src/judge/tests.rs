//! Verdicts on files: the table that the Python package is held to as well, and what a case rests on.

use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, TensorView};

use super::*;
use crate::spec::Precision;

struct Folder(tempfile::TempDir);

impl Folder {
    fn ids(&self, name: &str, ids: &[i64], shape: &[usize]) -> PathBuf {
        let bytes = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        self.written(name, Dtype::I64, &[("ids", shape.to_vec(), bytes)])
    }

    fn file(&self, name: &str, tensors: &[(&str, &[f32])]) -> PathBuf {
        let bytes = |values: &[f32]| {
            values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect()
        };
        let tensors: Vec<_> = tensors
            .iter()
            .map(|(name, values)| (*name, vec![values.len()], bytes(values)))
            .collect();
        self.written(name, Dtype::F32, &tensors)
    }

    fn written(
        &self,
        name: &str,
        dtype: Dtype,
        tensors: &[(&str, Vec<usize>, Vec<u8>)],
    ) -> PathBuf {
        let view =
            |shape: &Vec<usize>, bytes| TensorView::new(dtype, shape.clone(), bytes).unwrap();
        let views = tensors
            .iter()
            .map(|(name, shape, bytes)| (*name, view(shape, bytes)));
        let path = self.0.path().join(name);
        safetensors::serialize_to_file(views, None, &path).unwrap();
        path
    }
}

const RIGHT: &[f32] = &[1.0, -2.0, 0.5, 3.0];
const OTHER: &[f32] = &[-1.0, 2.5, 0.25, 1.0];

fn judged(
    outputs: &[(&str, &[f32])],
    control: Option<(&[f32], &[f32])>,
    dropped: Option<&[f32]>,
) -> (Verdict, String) {
    let folder = Folder(tempfile::tempdir().unwrap());
    let outputs = folder.file("outputs", outputs);
    let reference = folder.file("reference", &[("y", RIGHT)]);
    let control = control.map(|(ours, theirs)| {
        (
            folder.file("control-outputs", &[("y", ours)]),
            folder.file("control-reference", &[("y", theirs)]),
        )
    });
    let dropped = dropped.map(|values| folder.file("dropped", &[("y", values)]));
    let evidence = Evidence {
        outputs: &outputs,
        reference: &reference,
        control_outputs: control.as_ref().map(|(ours, _)| ours.as_path()),
        control_reference: control.as_ref().map(|(_, theirs)| theirs.as_path()),
        dropped: dropped.as_deref().map(|path: &Path| (path, "layers.1")),
        tokens: &[],
        generation: None,
        decoded: None,
    };
    let (verdict, numerics, reason) = evidence
        .judge("torch", &Tolerance::usual(Precision::Fp32))
        .unwrap();
    assert_eq!(verdict == Verdict::Pass, reason.is_none());
    assert!(verdict != Verdict::Pass || numerics.passed);
    (verdict, reason.unwrap_or_default())
}

#[test]
fn a_pass_has_a_control_that_fails() {
    let near: &[f32] = &[1.0001, -2.0001, 0.5, 3.0001];
    let same = "the outputs of another input are the same, so a wrong run could not be told from a right one";
    let dropped = "the outputs without the weights of layer `layers.1` differ by";
    let on_control = "right on the inputs that it was made with, wrong on the control's inputs";
    for (ours, theirs, without_layer, expected, start) in [
        (OTHER, OTHER, Some(OTHER), Verdict::Pass, ""),
        (RIGHT, RIGHT, None, Verdict::Indecisive, same),
        (
            near,
            near,
            None,
            Verdict::Indecisive,
            "the outputs of another input differ by 1.0",
        ),
        (OTHER, OTHER, Some(near), Verdict::Indecisive, dropped),
        (RIGHT, OTHER, None, Verdict::Numerics, on_control),
    ] {
        let (verdict, reason) = judged(&[("y", RIGHT)], Some((ours, theirs)), without_layer);
        assert_eq!(verdict, expected, "{reason}");
        assert!(reason.starts_with(start), "{reason}");
        assert_eq!(
            reason.contains("so they would pass as the answer"),
            start.contains("differ by"),
            "{reason}"
        );
    }
}

#[test]
fn tensors_that_lack_or_are_too_many_are_wrong() {
    let (verdict, reason) = judged(&[("x", RIGHT)], None, None);
    assert_eq!(verdict, Verdict::Numerics);
    assert_eq!(
        reason,
        "the outputs lack tensor `y`; they hold [x]; and 1 more of this kind"
    );
    assert_eq!(
        judged(&[("y", RIGHT), ("z", RIGHT)], None, None).0,
        Verdict::Numerics
    );
    assert_eq!(
        judged(&[("y", &RIGHT[..3])], None, None).0,
        Verdict::Numerics
    );
}

#[test]
fn a_tolerance_names_what_it_loosens() {
    let usual = Tolerance::usual(Precision::Fp32);
    assert!(usual.looser_than(&usual).is_empty());
    let loose = Tolerance {
        atol: 1.0,
        snr: 10.0,
        ..usual
    };
    assert_eq!(loose.looser_than(&usual), ["atol", "snr"]);
    assert!(usual.looser_than(&loose).is_empty());
}

/// What tempts a share of equal places to a pass: padding, constants, rows and sequences out of their place. Each is
/// [ours, ours on the control, the reference, the control's reference].
#[test]
fn tokens_pass_only_where_wrong_ones_would_not() {
    let padded = |real: &[i64]| [real, &[0; 27]].concat();
    let right = padded(&[17, 4, 92]);
    let other = padded(&[5, 60, 3]);
    let text: Vec<i64> = (0..30).map(|at| at * 7919 % 101).collect();
    let next: Vec<i64> = (0..30).map(|at| at * 104_729 % 97).collect();
    let swapped = [&text[10..20], &text[..10], &text[20..]].concat();
    let shifted = [&text[29..], &text[..29]].concat();
    let mut near = text.clone();
    near[3] += 1;
    let shorter = [&[5, 60, 3, 8, 9, 11][..], &[0; 24]].concat();
    for (what, [ours, ours_other, theirs, theirs_other], expected) in [
        ("right", [&text, &next, &text, &next], Verdict::Pass),
        ("one off", [&near, &next, &text, &next], Verdict::Pass),
        (
            "one off on the control",
            [&next, &near, &next, &text],
            Verdict::Pass,
        ),
        ("another's", [&next, &next, &text, &next], Verdict::Numerics),
        (
            "the same to every input",
            [&text, &text, &text, &next],
            Verdict::Numerics,
        ),
        (
            "rows swapped",
            [&swapped, &next, &text, &next],
            Verdict::Numerics,
        ),
        (
            "shifted",
            [&shifted, &next, &text, &next],
            Verdict::Numerics,
        ),
        (
            "nearly the control's",
            [&text, &near, &text, &near],
            Verdict::Indecisive,
        ),
        ("constant", [&vec![5; 30]; 4], Verdict::Indecisive),
        ("all padding", [&vec![0; 30]; 4], Verdict::Indecisive),
        (
            "padded and right",
            [&right, &other, &right, &other],
            Verdict::Pass,
        ),
        (
            "padding right, the rest another's",
            [&other, &other, &right, &other],
            Verdict::Numerics,
        ),
        (
            "the same, and the control is shorter",
            [&other, &shorter, &right, &shorter],
            Verdict::Numerics,
        ),
        (
            "nothing but padding",
            [&vec![0; 30], &other, &right, &other],
            Verdict::Numerics,
        ),
    ] {
        let folder = Folder(tempfile::tempdir().unwrap());
        let file = |name: &str, ids: &[i64]| folder.ids(name, ids, &[3, 10]);
        let [outputs, reference] = [file("outputs", ours), file("reference", theirs)];
        let [control_outputs, control_reference] =
            [file("control", ours_other), file("other", theirs_other)];
        let evidence = Evidence {
            outputs: &outputs,
            reference: &reference,
            control_outputs: Some(&control_outputs),
            control_reference: Some(&control_reference),
            dropped: None,
            tokens: &["ids".to_owned()],
            generation: None,
            decoded: None,
        };
        let tolerance = Tolerance::usual(Precision::Fp16);
        let (verdict, numerics, reason) = evidence.judge("torch", &tolerance).unwrap();
        assert_eq!(verdict, expected, "{what}: {reason:?} {numerics:#?}");
        let shares = (
            numerics.tokens,
            numerics.control.and_then(|control| control.tokens),
        );
        assert!(shares.0.is_some() && shares.1.is_some());
        let without = Evidence {
            tokens: &[],
            ..evidence
        };
        let exact = without.judge("torch", &tolerance).unwrap();
        assert!(
            exact.0 != Verdict::Pass || ours == theirs,
            "{what}: whole numbers that are no tokens"
        );
    }
}

/// A tensor of the table: its values as JSON, with words for what JSON has no numbers for.
pub(super) fn tensor(dtype: &str, values: &[serde_json::Value]) -> (Dtype, Vec<u8>) {
    let float = |value: &serde_json::Value| {
        value
            .as_f64()
            .unwrap_or_else(|| value.as_str().unwrap().parse().unwrap())
    };
    let whole = |value: &serde_json::Value| match value {
        serde_json::Value::Bool(value) => i64::from(*value),
        value => value.as_i64().unwrap(),
    };
    let floats = values.iter().map(float);
    match dtype {
        "float64" => (Dtype::F64, floats.flat_map(f64::to_le_bytes).collect()),
        "float32" => (
            Dtype::F32,
            floats.flat_map(|v| (v as f32).to_le_bytes()).collect(),
        ),
        "float16" => (
            Dtype::F16,
            floats
                .flat_map(|v| half::f16::from_f64(v).to_le_bytes())
                .collect(),
        ),
        "bfloat16" => (
            Dtype::BF16,
            floats
                .flat_map(|v| half::bf16::from_f64(v).to_le_bytes())
                .collect(),
        ),
        "uint16" => (
            Dtype::U16,
            values
                .iter()
                .flat_map(|v| (whole(v) as u16).to_le_bytes())
                .collect(),
        ),
        "int16" => (
            Dtype::I16,
            values
                .iter()
                .flat_map(|v| (whole(v) as i16).to_le_bytes())
                .collect(),
        ),
        "uint32" => (
            Dtype::U32,
            values
                .iter()
                .flat_map(|v| (whole(v) as u32).to_le_bytes())
                .collect(),
        ),
        "uint64" => (
            Dtype::U64,
            values
                .iter()
                .flat_map(|v| v.as_u64().unwrap().to_le_bytes())
                .collect(),
        ),
        "int64" => (
            Dtype::I64,
            values.iter().flat_map(|v| whole(v).to_le_bytes()).collect(),
        ),
        "int32" => (
            Dtype::I32,
            values
                .iter()
                .flat_map(|v| (whole(v) as i32).to_le_bytes())
                .collect(),
        ),
        "int8" => (
            Dtype::I8,
            values.iter().map(|v| whole(v) as i8 as u8).collect(),
        ),
        "uint8" => (Dtype::U8, values.iter().map(|v| whole(v) as u8).collect()),
        "bool" => (Dtype::BOOL, values.iter().map(|v| whole(v) as u8).collect()),
        other => panic!("the table has a dtype {other}: give it a row here"),
    }
}

#[test]
fn verdicts_and_figures_are_those_of_the_table() {
    let table = include_str!("../../tests/fixtures/judge/cases.json");
    let table: Vec<serde_json::Value> = serde_json::from_str(table).unwrap();
    assert!(table.len() > 40);
    for case in &table {
        let name = case["name"].as_str().unwrap();
        let tolerance: Tolerance = serde_json::from_value(case["tolerance"].clone()).unwrap();
        let shape = |key: &str| -> Vec<usize> {
            let shape = case.get(key).unwrap_or(&case["shape"]);
            shape
                .as_array()
                .unwrap()
                .iter()
                .map(|size| size.as_u64().unwrap() as usize)
                .collect()
        };
        let dtype = case["dtype"].as_str().unwrap();
        let ours_dtype = case
            .get("ours_dtype")
            .and_then(|dtype| dtype.as_str())
            .unwrap_or(dtype);
        let (theirs_dtype, theirs) = tensor(dtype, case["reference"].as_array().unwrap());
        let (ours_dtype, ours) = tensor(ours_dtype, case["ours"].as_array().unwrap());
        let theirs = TensorView::new(theirs_dtype, shape("shape"), &theirs).unwrap();
        let ours = TensorView::new(ours_dtype, shape("ours_shape"), &ours).unwrap();
        let found = one(
            &ours,
            &theirs,
            known(&theirs).as_ref(),
            &tolerance,
            case.get("tokens") == Some(&true.into()),
        );
        let verdict = match &found {
            Err(_) | Ok((_, Some(_))) => "wrong",
            Ok((figures, None)) if figures.decides => "agrees",
            Ok(_) => "nothing",
        };
        assert_eq!(verdict, case["expect"], "{name}: {found:?}");
        let (Ok((figures, _)), Some(expected)) = (&found, case.get("figures")) else {
            continue;
        };
        let figures = serde_json::to_value(figures).unwrap();
        for (key, expected) in expected.as_object().unwrap() {
            assert!(
                is_near(&figures[key], expected),
                "{name}: {key} is {}, not {expected}",
                figures[key]
            );
        }
    }
}

/// Sums are in another order in numpy.
fn is_near(ours: &serde_json::Value, theirs: &serde_json::Value) -> bool {
    match (ours, theirs) {
        (serde_json::Value::Object(ours), serde_json::Value::Object(theirs)) => theirs
            .iter()
            .all(|(key, theirs)| is_near(&ours[key], theirs)),
        _ => match (ours.as_f64(), theirs.as_f64()) {
            (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * b.abs().max(1e-3),
            (None, None) => ours == theirs,
            _ => false,
        },
    }
}

#[test]
fn a_reason_names_the_place_and_both_values_in_few_digits() {
    let (_, reason) = judged(&[("y", &[1.0, -2.0, 0.575_781_2, 3.0])], None, None);
    assert!(
        reason.contains("the farthest at [2]: 0.575781 where the reference is 0.5; "),
        "{reason}"
    );
}

#[test]
fn slices_are_judged_as_those_of_the_table() {
    let table = include_str!("../../tests/fixtures/judge/slices.json");
    let table: Vec<serde_json::Value> = serde_json::from_str(table).unwrap();
    assert!(table.len() > 30);
    for case in &table {
        let name = case["name"].as_str().unwrap();
        let shape = case["shape"].as_array().unwrap().iter();
        let shape: Vec<usize> = shape.map(|size| size.as_u64().unwrap() as usize).collect();
        let folder = Folder(tempfile::tempdir().unwrap());
        let file = |key: &str| {
            let values = case[key].as_array()?;
            let (dtype, bytes) = tensor("float32", values);
            Some(folder.written(key, dtype, &[("y", shape.clone(), bytes)]))
        };
        let [control_outputs, control_reference] = ["control_ours", "control_reference"].map(file);
        let evidence = Evidence {
            outputs: &file("ours").unwrap(),
            reference: &file("reference").unwrap(),
            control_outputs: control_outputs.as_deref(),
            control_reference: control_reference.as_deref(),
            dropped: None,
            tokens: &[],
            generation: None,
            decoded: None,
        };
        let tolerance: Tolerance = serde_json::from_value(case["tolerance"].clone()).unwrap();
        let (verdict, numerics, reason) = evidence.judge("torch", &tolerance).unwrap();
        let verdict = serde_json::to_value(verdict)
            .unwrap()
            .as_str()
            .unwrap()
            .to_uppercase();
        assert_eq!(verdict, case["expect"], "{name}: {reason:?}");
        let expected: Vec<Slices> = serde_json::from_value(case["slices"].clone()).unwrap();
        assert_eq!(
            numerics.slices.get("y").cloned().unwrap_or_default(),
            expected,
            "{name}"
        );
    }
}

#[test]
fn figures_are_the_same_however_many_threads_there_are() {
    let value = |at: usize, step: f64| (at as f64 * step).sin();
    let bytes = |step: f64| -> Vec<u8> {
        let values = (0..3 * values::BLOCK + 1).map(|at| value(at, step) as f32);
        values.flat_map(f32::to_le_bytes).collect()
    };
    let reference = bytes(0.1);
    let ours = bytes(0.100_000_01);
    let judged = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().unwrap().install(|| {
            let shape = vec![reference.len() / 4 / 7, 7];
            let theirs = TensorView::new(Dtype::F32, shape.clone(), &reference).unwrap();
            let ours = TensorView::new(Dtype::F32, shape, &ours).unwrap();
            let tolerance = Tolerance::usual(Precision::Fp32);
            one(&ours, &theirs, known(&theirs).as_ref(), &tolerance, false).unwrap()
        })
    };
    let (figures, reason) = judged(1);
    assert!(figures.worst > 0.0 && figures.row_cosine.is_some());
    assert_eq!(judged(3), (figures, reason));
}

//! Tests of the comparison: one per way in which two tensors can disagree.

use pretty_assertions::assert_eq;

use super::*;

const LOOSE: Tolerance = Tolerance { max_abs: 1e-2, mae: 1e-2, cosine: 0.99 };

type Tensor<'a> = (&'a str, Dtype, Vec<usize>, Vec<u8>);

fn file(tensors: &[Tensor<'_>]) -> Vec<u8> {
    let views =
        tensors.iter().map(|(name, dtype, shape, data)| (*name, TensorView::new(*dtype, shape.clone(), data).unwrap()));
    safetensors::serialize(views, None).unwrap()
}

fn f32s<'a>(name: &'a str, values: &[f32]) -> Tensor<'a> {
    (name, Dtype::F32, vec![values.len()], values.iter().flat_map(|v| v.to_le_bytes()).collect())
}

fn judged(ours: &[Tensor<'_>], theirs: &[Tensor<'_>], tolerance: &Tolerance) -> (Numerics, Option<String>) {
    let (ours, theirs) = (file(ours), file(theirs));
    let (ours, theirs) = (SafeTensors::deserialize(&ours).unwrap(), SafeTensors::deserialize(&theirs).unwrap());
    let (numerics, reason) = compare_tensors(&ours, &theirs, "torch 2.13.0 cpu fp32", tolerance);
    assert_eq!(numerics.passed, reason.is_none());
    // What is stored must survive JSON, which has neither NaN nor infinity.
    let text = serde_json::to_string(&numerics).unwrap();
    assert_eq!(serde_json::from_str::<Numerics>(&text).unwrap(), numerics);
    (numerics, reason)
}

fn reason(ours: &[f32], theirs: &[f32]) -> String {
    judged(&[f32s("y", ours)], &[f32s("y", theirs)], &LOOSE).1.unwrap_or_default()
}

#[test]
fn equal_tensors_pass_with_exact_figures() {
    let (numerics, reason) = judged(&[f32s("y", &[1.0, -2.0])], &[f32s("y", &[1.0, -2.0])], &LOOSE);
    assert_eq!(reason, None);
    assert_eq!((numerics.max_abs, numerics.mae), (0.0, 0.0));
    assert_eq!(numerics.cosine, Some(1.0));
    assert_eq!(numerics.tensors["y"].scale, 2.0);
    assert_eq!((numerics.tensors["y"].dtype.as_str(), &numerics.tensors["y"].shape[..]), ("F32", &[2][..]));
}

#[test]
fn figures_are_those_of_the_definition() {
    let (numerics, reason) = judged(&[f32s("y", &[3.0, 4.0])], &[f32s("y", &[4.0, 3.0])], &LOOSE);
    assert_eq!((numerics.max_abs, numerics.mae), (1.0, 1.0));
    assert!((numerics.cosine.unwrap() - 0.96).abs() < 1e-12);
    let reason = reason.unwrap();
    for part in [
        "tensor `y`",
        "max_abs 2.500e-1 is above 1e-2",
        "mae",
        "cosine 0.960000 is below 0.99",
        "reference value 4.0000",
    ] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
}

#[test]
fn bounds_are_absolute_up_to_one_and_relative_beyond() {
    assert!(reason(&[0.02, 0.5], &[0.0, 0.5]).contains("max_abs 2.000e-2"));
    assert_eq!(reason(&[500.0, 1002.0], &[500.0, 1000.0]), "");
    // The bound itself still holds: 1/128 is exact in f32 and f64.
    let exact = Tolerance { max_abs: 1.0 / 128.0, mae: 1.0, cosine: 0.9 };
    assert_eq!(judged(&[f32s("y", &[0.5078125])], &[f32s("y", &[0.5])], &exact).1, None);
}

#[test]
fn nan_and_infinity_must_stand_on_both_sides() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    assert_eq!(reason(&[1.0, nan, inf], &[1.0, nan, inf]), "");
    assert_eq!(reason(&[1.0, nan], &[1.0, 2.0]), "tensor `y`: at [1] it is NaN where the reference is 2");
    assert_eq!(reason(&[1.0, 2.0], &[1.0, nan]), "tensor `y`: at [1] it is 2 where the reference is NaN");
    assert_eq!(reason(&[-inf, 2.0], &[inf, 2.0]), "tensor `y`: at [0] it is -inf where the reference is inf");
    assert_eq!(reason(&[inf, 2.0], &[nan, 2.0]), "tensor `y`: at [0] it is inf where the reference is NaN");
}

#[test]
fn the_place_is_told_in_the_tensors_own_indices() {
    let data = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let ours = ("y", Dtype::F32, vec![2, 1, 3], data(&[0.0, 0.0, 0.0, 0.0, 0.0, f32::NAN]));
    let theirs = ("y", Dtype::F32, vec![2, 1, 3], data(&[0.0; 6]));
    assert!(judged(&[ours], &[theirs], &LOOSE).1.unwrap().contains("at [1, 0, 2] it is NaN"));
}

#[test]
fn missing_extra_and_no_tensors_fail() {
    let (a, b) = (f32s("a", &[1.0]), f32s("b", &[1.0]));
    assert_eq!(
        judged(std::slice::from_ref(&a), &[a.clone(), b.clone()], &LOOSE).1.unwrap(),
        "the outputs lack tensor `b`; they hold [a]"
    );
    assert_eq!(
        judged(&[a.clone(), b], std::slice::from_ref(&a), &LOOSE).1.unwrap(),
        "the outputs hold tensor `b`, which the reference lacks"
    );
    assert!(judged(&[], &[], &LOOSE).1.unwrap().contains("nothing was compared"));
    assert!(judged(&[], &[a, f32s("c", &[1.0])], &LOOSE).1.unwrap().ends_with("; and 1 more of this kind"));
}

#[test]
fn shape_and_dtype_must_match() {
    let flat = f32s("y", &[1.0, 2.0]);
    let tall = ("y", Dtype::F32, vec![2, 1], flat.3.clone());
    assert_eq!(judged(&[flat], &[tall], &LOOSE).1.unwrap(), "tensor `y`: shape is [2], the reference's is [2, 1]");
    let half = ("y", Dtype::F16, vec![1], half::f16::from_f32(1.0).to_le_bytes().to_vec());
    let (numerics, reason) = judged(&[half], &[f32s("y", &[1.0])], &LOOSE);
    assert_eq!(reason.unwrap(), "tensor `y`: dtype is F16, the reference's is F32");
    assert!(numerics.tensors.is_empty());
}

#[test]
fn halves_are_decoded() {
    let f16 = |v: f32| half::f16::from_f32(v).to_le_bytes().to_vec();
    let bf16 = |v: f32| half::bf16::from_f32(v).to_le_bytes().to_vec();
    let (numerics, reason) = judged(
        &[("a", Dtype::F16, vec![1], f16(1.5)), ("b", Dtype::BF16, vec![1], bf16(-3.0))],
        &[("a", Dtype::F16, vec![1], f16(1.0)), ("b", Dtype::BF16, vec![1], bf16(-3.0))],
        &LOOSE,
    );
    assert_eq!(numerics.tensors["a"].max_abs, 0.5);
    assert_eq!((numerics.tensors["b"].max_abs, numerics.tensors["b"].scale), (0.0, 3.0));
    assert!(reason.unwrap().starts_with("tensor `a`: max_abs 5.000e-1"));
}

#[test]
fn integers_and_booleans_are_exact() {
    let i64s = |values: &[i64]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    // These two are one number in f64.
    let (near, far) = (9_007_199_254_740_993, 9_007_199_254_740_992);
    let ours = ("ids", Dtype::I64, vec![3], i64s(&[1, near, 7]));
    let theirs = ("ids", Dtype::I64, vec![3], i64s(&[1, far, 9]));
    assert_eq!(
        judged(std::slice::from_ref(&ours), &[theirs], &Tolerance { max_abs: 1e30, mae: 1e30, cosine: -1.0 })
            .1
            .unwrap(),
        "tensor `ids`: 2 of 3 values differ, the first at [1]: 9007199254740993 where the reference is 9007199254740992"
    );
    assert_eq!(judged(std::slice::from_ref(&ours), std::slice::from_ref(&ours), &LOOSE).1, None);
    let bools = |bytes: &[u8]| ("mask", Dtype::BOOL, vec![bytes.len()], bytes.to_vec());
    assert_eq!(judged(&[bools(&[1, 0])], &[bools(&[255, 0])], &LOOSE).1, None);
    assert!(judged(&[bools(&[1, 1])], &[bools(&[1, 0])], &LOOSE).1.unwrap().contains("at [1]: 1 where"));
}

#[test]
fn zeros_are_no_answer_to_small_numbers() {
    assert_eq!(reason(&[0.0, 0.0], &[1e-6, 2e-6]), "tensor `y`: all values are zero, the reference's are not");
    // The other way round the cosine means nothing, and the absolute bounds judge.
    assert_eq!(reason(&[1e-6, 0.0], &[0.0, 0.0]), "");
    assert_eq!(reason(&[0.0, 0.0], &[0.0, 0.0]), "");
    assert_eq!(judged(&[f32s("y", &[0.0])], &[f32s("y", &[1e-6])], &LOOSE).0.cosine, None);
}

#[test]
fn an_overflow_is_a_failure_and_stays_valid_json() {
    let f64s = |v: f64| ("y", Dtype::F64, vec![1], v.to_le_bytes().to_vec());
    let (numerics, reason) = judged(&[f64s(f64::MAX)], &[f64s(-f64::MAX)], &LOOSE);
    assert_eq!(numerics.max_abs, f64::MAX);
    assert!(reason.unwrap().contains("the cosine overflows"));
}

#[test]
fn dtypes_without_arithmetic_are_refused_and_empty_tensors_are_equal() {
    let odd = ("y", Dtype::F8_E4M3, vec![1], vec![0x38]);
    assert!(
        judged(std::slice::from_ref(&odd), std::slice::from_ref(&odd), &LOOSE)
            .1
            .unwrap()
            .contains("F8_E4M3 cannot be compared")
    );
    assert_eq!(judged(&[f32s("y", &[])], &[f32s("y", &[])], &LOOSE).1, None);
}

#[test]
fn files_that_cannot_be_read_are_errors_with_their_path() {
    let dir = tempfile::tempdir().unwrap();
    let (good, bad) = (dir.path().join("good.safetensors"), dir.path().join("bad.safetensors"));
    std::fs::write(&good, file(&[f32s("y", &[1.0])])).unwrap();
    std::fs::write(&bad, b"no tensors").unwrap();
    assert!(compare(&good, &good, "r", &LOOSE).unwrap().1.is_none());
    let error = compare(&bad, &good, "r", &LOOSE).unwrap_err().to_string();
    assert!(error.contains("bad.safetensors` is not a safetensors file"), "{error}");
    let error = compare(&good, &dir.path().join("none"), "r", &LOOSE).unwrap_err().to_string();
    assert!(error.contains("cannot read"), "{error}");
}

//! Recipes: the same bytes everywhere, one stream per input.

use super::*;
use crate::base::Digest;

fn input(dtype: Element, shape: &[u64], fill: Fill) -> Input {
    Input {
        dtype,
        shape: shape.iter().map(|size| Dim::Fixed(*size)).collect(),
        fill,
    }
}

fn one(seed: u64, name: &str, input: Input) -> Tensor {
    tensor(seed, name, &input, &BTreeMap::new()).unwrap()
}

fn floats(tensor: &Tensor) -> Vec<f64> {
    tensor
        .bytes
        .chunks_exact(4)
        .map(|four| f32::from_le_bytes(four.try_into().unwrap()).into())
        .collect()
}

fn ints(tensor: &Tensor) -> Vec<i64> {
    tensor
        .bytes
        .chunks_exact(8)
        .map(|eight| i64::from_le_bytes(eight.try_into().unwrap()))
        .collect()
}

/// A digest that changes means that every user's inputs change: such a change needs a new version of the recipe.
#[test]
fn the_bytes_are_the_same_for_ever() {
    for (name, recipe, expected) in [
        (
            "ids",
            input(Element::Int64, &[2, 16], Fill::Randint(5, 128)),
            "66cef658ce34",
        ),
        (
            "pixels",
            input(Element::Float32, &[3, 8, 8], Fill::Normal(0.5, 2.0)),
            "3f672f2b8f20",
        ),
        (
            "wave",
            input(Element::Float16, &[100], Fill::Uniform(-1.0, 1.0)),
            "dba4c3f19cb1",
        ),
        (
            "half",
            input(Element::Float16, &[100], Fill::Normal(0.0, 1.0)),
            "ae44f4c78e51",
        ),
        (
            "wide",
            input(Element::Int64, &[50], Fill::Randint(i64::MIN, i64::MAX)),
            "ccf06af8afe6",
        ),
        (
            "mask",
            input(Element::Bool, &[64], Fill::Randint(0, 2)),
            "2a59e9e73012",
        ),
    ] {
        assert_eq!(
            Digest::of(&one(7, name, recipe).bytes).short(),
            expected,
            "{name}"
        );
    }
}

#[test]
fn plain_fills() {
    assert_eq!(
        ints(&one(0, "a", input(Element::Int64, &[2, 3], Fill::Arange))),
        [0, 1, 2, 0, 1, 2]
    );
    assert_eq!(
        ints(&one(0, "a", input(Element::Int64, &[2], Fill::Value(-3.0)))),
        [-3, -3]
    );
    assert_eq!(
        floats(&one(
            0,
            "a",
            input(Element::Float32, &[2], Fill::Data(vec![0.5, -1e9]))
        )),
        [0.5, -1e9]
    );
    assert_eq!(
        one(
            0,
            "a",
            input(Element::Bool, &[3], Fill::Data(vec![1.0, 0.0, 1.0]))
        )
        .bytes,
        [1, 0, 1]
    );
    assert_eq!(
        one(0, "a", input(Element::Uint8, &[2], Fill::Value(255.0))).bytes,
        [255, 255]
    );
    assert_eq!(
        one(0, "a", input(Element::Int8, &[1], Fill::Value(-128.0))).bytes,
        [0x80]
    );
    assert_eq!(
        one(0, "a", input(Element::Float32, &[], Fill::Value(1.0))).bytes,
        1f32.to_le_bytes()
    );
    assert_eq!(
        one(
            0,
            "a",
            input(Element::Float32, &[0, 4], Fill::Normal(0.0, 1.0))
        )
        .bytes,
        [0u8; 0]
    );
}

#[test]
fn random_fills_stay_in_their_bounds_and_reach_them() {
    let drawn = ints(&one(
        1,
        "a",
        input(Element::Int64, &[10_000], Fill::Randint(-3, 4)),
    ));
    assert_eq!(
        (drawn.iter().min(), drawn.iter().max()),
        (Some(&-3), Some(&3))
    );
    for value in -3..4 {
        let count = drawn.iter().filter(|drawn| **drawn == value).count();
        assert!(
            (1250..1610).contains(&count),
            "{value} was drawn {count} times of 10000, expected about 1429"
        );
    }
    let drawn = floats(&one(
        1,
        "a",
        input(Element::Float32, &[10_000], Fill::Uniform(2.0, 4.0)),
    ));
    assert!(drawn.iter().all(|value| (2.0..=4.0).contains(value)));
    let mean = drawn.iter().sum::<f64>() / 10_000.0;
    assert!((mean - 3.0).abs() < 0.03, "mean {mean}");
}

#[test]
fn normal_values_are_normal() {
    let drawn = floats(&one(
        3,
        "a",
        input(Element::Float32, &[100_000], Fill::Normal(1.0, 2.0)),
    ));
    let mean = drawn.iter().sum::<f64>() / 1e5;
    let variance = drawn
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>()
        / 1e5;
    let within = |sigmas: f64| {
        drawn
            .iter()
            .filter(|value| (*value - 1.0).abs() < 2.0 * sigmas)
            .count() as f64
            / 1e5
    };
    assert!((mean - 1.0).abs() < 0.03, "mean {mean}");
    assert!((variance - 4.0).abs() < 0.1, "variance {variance}");
    assert!(
        (within(1.0) - 0.6827).abs() < 0.01 && (within(2.0) - 0.9545).abs() < 0.005,
        "shares"
    );
}

#[test]
fn our_logarithm_is_the_logarithm() {
    for step in 1..20_000 {
        let value = f64::from(step) / 20_000.0;
        assert!(
            (ln(value) - value.ln()).abs() <= 4e-16 * value.ln().abs().max(1.0),
            "ln {value}"
        );
    }
    assert!((ln(1e-300) - 1e-300f64.ln()).abs() < 1e-12);
}

#[test]
fn inputs_do_not_disturb_each_other() {
    let random = || input(Element::Int64, &[8], Fill::Randint(0, 1_000_000));
    let alone = IndexMap::from([("a".to_owned(), random())]);
    let more = IndexMap::from([("b".to_owned(), random()), ("a".to_owned(), random())]);
    let dims = BTreeMap::new();
    let alone = tensors(5, &alone, &dims).unwrap();
    let more = tensors(5, &more, &dims).unwrap();
    assert_eq!(alone[0], more[1]);
    assert_ne!(
        more[0].bytes, more[1].bytes,
        "names give streams of their own"
    );
    assert_ne!(
        one(6, "a", random()).bytes,
        alone[0].bytes,
        "and so do seeds"
    );
}

#[test]
fn a_larger_batch_begins_with_the_smaller_one() {
    let rows = |batch| {
        one(
            0,
            "a",
            input(Element::Float32, &[batch, 7], Fill::Normal(0.0, 1.0)),
        )
        .bytes
    };
    assert_eq!(rows(4)[..4 * 7], rows(1)[..]);
}

#[test]
fn texts_are_left_to_the_tokenizer_and_impossible_recipes_named() {
    let dims = BTreeMap::from([("batch".to_owned(), 2)]);
    let shape = vec![Dim::Named("batch".to_owned()), Dim::Fixed(2)];
    let text = Input {
        dtype: Element::Int64,
        shape: shape.clone(),
        fill: Fill::Text(vec!["hi".to_owned()]),
    };
    let data = Input {
        dtype: Element::Int64,
        shape: shape.clone(),
        fill: Fill::Data(vec![1.0; 4]),
    };
    let inputs = IndexMap::from([("ids".to_owned(), text), ("x".to_owned(), data.clone())]);
    let made = tensors(0, &inputs, &dims).unwrap();
    assert_eq!(
        made.iter()
            .map(|tensor| (&*tensor.name, &*tensor.shape))
            .collect::<Vec<_>>(),
        [("x", &[2, 2][..])]
    );

    let small = BTreeMap::from([("batch".to_owned(), 1)]);
    let only = IndexMap::from([("x".to_owned(), data)]);
    assert_eq!(
        tensors(0, &only, &small).unwrap_err(),
        "input `x`: `data` has 4 values, the shape holds 2"
    );
    assert_eq!(
        tensors(0, &only, &BTreeMap::new()).unwrap_err(),
        "input `x`: dim `batch` has no value"
    );
    let huge = IndexMap::from([(
        "y".to_owned(),
        input(Element::Int64, &[u64::MAX, 2], Fill::Value(0.0)),
    )]);
    assert_eq!(
        tensors(0, &huge, &small).unwrap_err(),
        "input `y`: the shape holds too many elements"
    );
}

#[test]
fn a_control_has_other_values_of_the_same_recipe() {
    let of = |inputs: &[(&str, Input)]| {
        let inputs = inputs
            .iter()
            .map(|(name, input)| ((*name).to_owned(), input.clone()))
            .collect();
        (
            tensors(7, &inputs, &BTreeMap::new()).unwrap(),
            control(7, &inputs, &BTreeMap::new()).unwrap(),
        )
    };
    let random = input(Element::Int64, &[4], Fill::Randint(5, 128));
    let constant = input(Element::Int64, &[4], Fill::Value(1.0));
    let (usual, control) = of(&[("x", random), ("m", constant.clone())]);
    let control = control.unwrap();
    assert_ne!(control[0].bytes, usual[0].bytes);
    assert!(
        ints(&control[0])
            .iter()
            .all(|value| (5..128).contains(value))
    );
    assert_eq!(
        control[1], usual[1],
        "a constant has no other value, and another input differs already"
    );

    // Tokens that occur once change places; padding and an image's tokens stay where they are.
    let tokens = input(
        Element::Int64,
        &[2, 4],
        Fill::Data(vec![3.0, 9.0, 9.0, 4.0, 1.0, 1.0, 5.0, 6.0]),
    );
    assert_eq!(
        ints(&of(&[("x", tokens)]).1.unwrap()[0]),
        [6, 9, 9, 5, 1, 1, 4, 3]
    );
    let floating = input(Element::Float32, &[4], Fill::Value(3.0));
    assert_eq!(floats(&of(&[("x", floating)]).1.unwrap()[0]), [1.5; 4]);
    assert_eq!(of(&[("m", constant)]).1, None);
}

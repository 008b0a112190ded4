//! Loops by the table that Python's are held to too.

use anyhow::bail;
use serde_json::Value;

use super::*;
use crate::runtime::tensors::{Element, Tensor};

fn tensor(given: &Value) -> Tensor {
    fn flat(value: &Value, depth: usize, shape: &mut Vec<usize>, found: &mut Vec<f64>) {
        let Some(items) = value.as_array() else {
            return found.push(value.as_f64().unwrap());
        };
        if shape.len() == depth {
            shape.push(items.len());
        }
        items
            .iter()
            .for_each(|item| flat(item, depth + 1, shape, found));
    }
    let mut shape = Vec::new();
    let mut found = Vec::new();
    flat(given, 0, &mut shape, &mut found);
    let element = if given.to_string().contains('.') {
        Element::Float32
    } else {
        Element::Int64
    };
    Tensor::of(element, &shape, &found).unwrap()
}

fn named(given: &Value) -> Tensors {
    given
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (name.clone(), tensor(value)))
        .collect()
}

/// `y` is `x` twice as large.
fn doubled(name: &str, mut given: Tensors) -> anyhow::Result<Tensors> {
    let (Some(x), "twice") = (given.remove("x"), name) else {
        bail!("there is only `twice`, of `x`")
    };
    let twice: Vec<_> = x.to_f64().iter().map(|value| 2.0 * value).collect();
    Ok(Tensors::from([(
        "y".to_owned(),
        Tensor::of(Element::Float32, x.shape(), &twice)?,
    )]))
}

#[test]
fn loops_give_what_the_table_says() {
    let table: Value =
        serde_json::from_str(include_str!("../../../tests/fixtures/loops.json")).unwrap();
    for case in table.as_array().unwrap() {
        let written: Written = serde_json::from_value(case["loop"].clone()).unwrap();
        let made = Loop {
            written,
            constants: Tensors::new(),
        }
        .run(&named(&case["values"]), doubled);
        match case.get("fails") {
            Some(why) => {
                let message = format!("{:#}", made.unwrap_err());
                assert!(
                    message.contains(why.as_str().unwrap()),
                    "{}: {message}",
                    case["name"]
                );
            }
            None => assert_eq!(made.unwrap(), named(&case["gives"]), "{}", case["name"]),
        }
    }
}

#[test]
fn an_input_that_nobody_gives_is_named() {
    let manifest = Manifest {
        inputs: vec!["x".into(), "t".into()],
        outputs: vec![],
        rest: Default::default(),
    };
    let component = Component {
        name: "twice".into(),
        tree: "/".into(),
        manifest,
    };
    let given = || named(&serde_json::json!({"x": [1.0], "left-out": [1]}));
    let renamed = Manifest {
        inputs: vec!["input.x".into()],
        outputs: vec![],
        rest: Default::default(),
    };
    let renamed = Component {
        name: "twice".into(),
        tree: "/".into(),
        manifest: renamed,
    };
    assert_eq!(
        taken(&renamed, given()).unwrap(),
        named(&serde_json::json!({"input.x": [1.0]}))
    );
    assert_eq!(
        taken(&component, given()).unwrap_err().to_string(),
        "its artefact takes t, which the loop does not give"
    );
}

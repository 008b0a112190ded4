//! An ONNX file changed for who asks for it: its open sizes closed by the tensors that it gets, its inputs and outputs as
//! they were declared.
//!
//! Nothing of the graph's nodes is touched. What does not have to be changed is not, so that the file stays the user's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, bail};
use prost::Message;

use crate::base::Bug;
use crate::runtime::onnx_file::read;
use crate::runtime::onnx_proto::{Dimension, GraphProto, TensorShape, ValueInfoProto};
use crate::runtime::tensors::Tensors;

/// Paddle2ONNX calls every size so that it does not know: it is no name, for each is another.
const UNKNOWN: &str = "?";

/// The sizes of a model that takes certain tensors.
#[derive(Debug, Default)]
pub struct Closed {
    /// Each named size with the number that the tensors give it.
    pub named: BTreeMap<String, usize>,
    /// The model so changed; None where its sizes all have a name or a number.
    pub model: Option<Vec<u8>>,
}

/// Closes what is open in a model's inputs: named sizes by their name, unnamed ones each by its place. An input that has a
/// value, and got no other, is no input any more.
pub fn closed(path: &Path, inputs: &Tensors) -> anyhow::Result<Closed> {
    let mut model = read(path)?;
    let graph = model.graph.get_or_insert_default();
    let mut closed = Closed::default();
    // QNN counts such an input and then misses it.
    let constant: BTreeSet<_> = graph
        .initializer
        .iter()
        .filter_map(|tensor| tensor.name.clone())
        .collect();
    let before = graph.input.len();
    graph.input.retain(|input| {
        input
            .name
            .as_ref()
            .is_none_or(|name| !constant.contains(name))
    });
    let mut changed = graph.input.len() < before;
    for input in &mut graph.input {
        let name = input.name().to_owned();
        let Some(tensor) = inputs.get(&name) else {
            continue;
        };
        let Some(kind) = input
            .r#type
            .as_mut()
            .and_then(|kind| kind.tensor_type.as_mut())
        else {
            continue;
        };
        changed |= kind.shape.is_none();
        let unknown = || {
            tensor
                .shape()
                .iter()
                .map(|_| Dimension::default())
                .collect()
        };
        let shape = kind
            .shape
            .get_or_insert_with(|| TensorShape { dim: unknown() });
        for (dim, size) in shape.dim.iter_mut().zip(tensor.shape()) {
            match open(dim) {
                Open::No => {}
                Open::Named(symbol) => match closed.named.insert(symbol.clone(), *size) {
                    Some(other) if other != *size => {
                        bail!(
                            "the inputs give the size `{symbol}` two values, {other} and {size} (at `{name}`)"
                        )
                    }
                    _ => {}
                },
                Open::Unknown => {
                    *dim = Dimension::of(*size as i64);
                    changed = true;
                }
            }
        }
    }
    if changed {
        // What the exporter did not know of the rest follows from the inputs.
        graph
            .output
            .iter_mut()
            .chain(&mut graph.value_info)
            .for_each(forget);
        closed.model = Some(model.encode_to_vec());
    }
    Ok(closed)
}

enum Open {
    No,
    Named(String),
    Unknown,
}

fn open(dim: &Dimension) -> Open {
    match (dim.dim_value, dim.dim_param.as_deref()) {
        (Some(0..), _) => Open::No,
        (None, Some(name)) if !name.is_empty() && name != UNKNOWN => Open::Named(name.to_owned()),
        _ => Open::Unknown,
    }
}

/// Leaves unknown sizes without a word of their own: two that are called `?` would count as one.
fn forget(value: &mut ValueInfoProto) {
    let shape = value
        .r#type
        .as_mut()
        .and_then(|kind| kind.tensor_type.as_mut()?.shape.as_mut());
    for dim in shape.into_iter().flat_map(|shape| &mut shape.dim) {
        if matches!(open(dim), Open::Unknown) {
            *dim = Dimension::default();
        }
    }
}

/// The model with inputs in place of the initializers `overridden`, and with the outputs `kept`, in that order. None where
/// that is what it has.
pub fn adapted(
    path: &Path,
    overridden: &[String],
    kept: &[String],
) -> anyhow::Result<Option<Vec<u8>>> {
    let mut model = read(path)?;
    let graph = model.graph.get_or_insert_default();
    let before = (graph.initializer.len(), names(graph));
    // Runtimes differ in whether they take a value for what has one already; what has none all of them take.
    graph.initializer.retain(|tensor| {
        tensor
            .name
            .as_ref()
            .is_none_or(|name| !overridden.contains(name))
    });
    let outputs = std::mem::take(&mut graph.output);
    for name in kept {
        let output = outputs
            .iter()
            .find(|output| output.name.as_ref() == Some(name));
        graph.output.push(
            output
                .with_context(|| Bug::new(format!("`{name}` is no output")))?
                .clone(),
        );
    }
    let same = before == (graph.initializer.len(), names(graph));
    Ok((!same).then(|| model.encode_to_vec()))
}

fn names(graph: &GraphProto) -> Vec<String> {
    graph
        .output
        .iter()
        .filter_map(|output| output.name.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::onnx_proto::{ModelProto, TensorProto};
    use crate::runtime::tensors::{Element, Tensor};

    fn dim(of: &str) -> Dimension {
        match of.parse() {
            Ok(size) => Dimension::of(size),
            Err(_) if of.is_empty() => Dimension::default(),
            Err(_) => Dimension {
                dim_param: Some(of.to_owned()),
                ..Default::default()
            },
        }
    }

    fn value(name: &str, sizes: Option<&[&str]>) -> ValueInfoProto {
        let shape = sizes.map(|sizes| TensorShape {
            dim: sizes.iter().map(|size| dim(size)).collect(),
        });
        ValueInfoProto::of(name, 1, shape)
    }

    fn written(graph: GraphProto) -> tempfile::TempPath {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        std::fs::write(&path, ModelProto::of(graph).encode_to_vec()).unwrap();
        path
    }

    fn shapes(bytes: &[u8]) -> Vec<Vec<String>> {
        let written = |dim: &Dimension| {
            dim.dim_value
                .map_or_else(|| dim.dim_param().to_owned(), |size| size.to_string())
        };
        let graph = ModelProto::decode(bytes).unwrap().graph.unwrap();
        let shape = |value: &ValueInfoProto| {
            value
                .tensor()
                .unwrap()
                .shape
                .iter()
                .flat_map(|shape| &shape.dim)
                .map(written)
                .collect()
        };
        graph.input.iter().chain(&graph.output).map(shape).collect()
    }

    fn zeros(shape: &[usize]) -> Tensor {
        Tensor::of(Element::Float32, shape, &vec![0.0; shape.iter().product()]).unwrap()
    }

    #[test]
    fn unnamed_sizes_are_closed_by_their_place_and_named_ones_keep_their_name() {
        let graph = GraphProto {
            input: vec![
                value("x", Some(&["-1", "3", "?", "?"])),
                value("y", Some(&["", "seq"])),
                value("z", None),
            ],
            output: vec![value("out", Some(&["-1", "?", "seq"]))],
            ..Default::default()
        };
        let given = [
            ("x", zeros(&[1, 3, 4, 5])),
            ("y", zeros(&[2, 7])),
            ("z", zeros(&[6])),
        ];
        let inputs: Tensors = given.map(|(name, tensor)| (name.to_owned(), tensor)).into();
        let closed = closed(&written(graph), &inputs).unwrap();
        assert_eq!(closed.named, BTreeMap::from([("seq".to_owned(), 7)]));
        assert_eq!(
            shapes(&closed.model.unwrap()),
            [
                vec!["1", "3", "4", "5"],
                vec!["2", "seq"],
                vec!["6"],
                vec!["", "", "seq"]
            ]
        );
    }

    #[test]
    fn a_model_without_unnamed_sizes_stays_as_it_is() {
        let inputs = Tensors::from([
            ("x".to_owned(), zeros(&[2, 2])),
            ("y".to_owned(), zeros(&[3])),
        ]);
        let of = |sizes: &[&str], other: &str| {
            let input = vec![value("x", Some(sizes)), value("y", Some(&[other]))];
            closed(
                &written(GraphProto {
                    input,
                    ..Default::default()
                }),
                &inputs,
            )
        };
        assert!(of(&["batch", "2"], "3").unwrap().model.is_none());
        let error = of(&["batch", "2"], "batch").unwrap_err().to_string();
        assert_eq!(
            error,
            "the inputs give the size `batch` two values, 2 and 3 (at `y`)"
        );
    }

    #[test]
    fn an_input_with_a_value_of_its_own_is_none() {
        let graph = GraphProto {
            initializer: vec![TensorProto::of("w", 1, &[], vec![])],
            input: vec![value("x", Some(&["2"])), value("w", Some(&["3"]))],
            ..Default::default()
        };
        let inputs = Tensors::from([("x".to_owned(), zeros(&[2]))]);
        let closed = closed(&written(graph), &inputs).unwrap();
        assert_eq!(shapes(&closed.model.unwrap()), [["2"]]);
    }

    #[test]
    fn outputs_are_those_that_are_requested_and_a_given_initializer_is_an_input() {
        let graph = GraphProto {
            initializer: vec![TensorProto::of("w", 1, &[], vec![])],
            input: vec![value("x", None), value("w", None)],
            output: vec![value("a", None), value("b", None)],
            ..Default::default()
        };
        let path = written(graph);
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        assert!(adapted(&path, &[], &names(&["a", "b"])).unwrap().is_none());
        let bytes = adapted(&path, &names(&["w"]), &names(&["b"]))
            .unwrap()
            .unwrap();
        let graph = ModelProto::decode(bytes.as_slice()).unwrap().graph.unwrap();
        assert_eq!((graph.initializer.len(), graph.input.len()), (0, 2));
        assert_eq!(super::names(&graph), ["b"]);
    }
}

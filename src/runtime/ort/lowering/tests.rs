//! The rules on small graphs: what they change, what they leave alone, and that equal graphs give equal bytes.

use super::graph::{BOOL, FLOAT, INT64, with_int, with_ints};
use super::*;
use crate::runtime::onnx_proto::{
    AttributeProto, GraphProto, TensorProto, TensorShape, ValueInfoProto,
};

/// The rules on a model without a folder, by the shapes that it holds itself.
fn low(bytes: &[u8]) -> anyhow::Result<Lowered> {
    lower(bytes, Path::new("/nowhere"), true, |_| Ok(Shapes::new()))
}

fn value(name: &str, element: i32, shape: &[i64]) -> ValueInfoProto {
    ValueInfoProto::of(name, element, Some(TensorShape::of(shape)))
}

fn node(
    operator: &str,
    inputs: &[&str],
    output: &str,
    attribute: Vec<AttributeProto>,
) -> NodeProto {
    NodeProto {
        attribute,
        ..NodeProto::of(operator, &format!("n_{output}"), inputs, output)
    }
}

fn whole(name: &str, dims: &[i64], values: &[i64]) -> TensorProto {
    TensorProto {
        int64_data: values.to_vec(),
        ..TensorProto::of(name, INT64, dims, vec![])
    }
}

fn model(
    nodes: Vec<NodeProto>,
    values: Vec<ValueInfoProto>,
    constants: Vec<TensorProto>,
    output: &str,
) -> Vec<u8> {
    let graph = GraphProto {
        node: nodes,
        initializer: constants,
        output: values
            .iter()
            .filter(|value| value.name() == output)
            .cloned()
            .collect(),
        value_info: values,
        ..Default::default()
    };
    ModelProto {
        ir_version: Some(8),
        ..ModelProto::of(graph)
    }
    .encode_to_vec()
}

/// A model of one node that makes `y`.
fn of_one(node: NodeProto, values: Vec<ValueInfoProto>, constants: Vec<TensorProto>) -> Vec<u8> {
    model(vec![node], values, constants, "y")
}

fn graph(bytes: &[u8]) -> GraphProto {
    ModelProto::decode(bytes).unwrap().graph.unwrap()
}

fn operators(lowered: &Lowered) -> Vec<String> {
    graph(&lowered.bytes)
        .node
        .iter()
        .map(|node| node.op_type().to_owned())
        .collect()
}

#[test]
fn a_gather_of_five_axes_is_flattened_and_one_of_four_is_not() {
    let gather = |index: &[i64], out: &[i64]| {
        let count: i64 = index.iter().product();
        let places: Vec<i64> = (0..count).collect();
        let values = vec![value("x", BOOL, &[32, 1]), value("y", BOOL, out)];
        of_one(
            node("Gather", &["x", "i"], "y", vec![]),
            values,
            vec![whole("i", index, &places)],
        )
    };
    let five = low(&gather(&[2, 1, 1, 16], &[2, 1, 1, 16, 1])).unwrap();
    assert_eq!(five.rules, BTreeMap::from([("gather-flat", 1)]));
    assert_eq!(operators(&five), ["Gather", "Reshape"]);
    let bytes = gather(&[2, 1, 16], &[2, 1, 16, 1]);
    let four = low(&bytes).unwrap();
    assert!(four.rules.is_empty());
    assert_eq!(four.bytes, bytes, "an unchanged model keeps its bytes");
}

#[test]
fn a_transpose_that_moves_no_value_is_a_reshape_and_another_is_not() {
    let turned = |sizes: &[i64], order: &[i64]| {
        let shape: Vec<i64> = order.iter().map(|axis| sizes[*axis as usize]).collect();
        let values = vec![value("x", FLOAT, sizes), value("y", FLOAT, &shape)];
        low(&of_one(
            node(
                "Transpose",
                &["x"],
                "y",
                vec![with_ints("perm", order.to_vec())],
            ),
            values,
            vec![],
        ))
        .unwrap()
    };
    let still = turned(&[1, 1, 1, 7, 7, 8], &[0, 1, 3, 2, 4, 5]);
    assert_eq!(still.rules, BTreeMap::from([("still-transpose", 1)]));
    assert_eq!(operators(&still), ["Reshape"]);
    let shape = &graph(&still.bytes).initializer[0];
    let sizes = shape
        .raw_data
        .as_deref()
        .unwrap()
        .as_chunks::<8>()
        .0
        .iter()
        .map(|bytes| i64::from_le_bytes(*bytes));
    assert_eq!(Vec::from_iter(sizes), [1, 1, 7, 1, 7, 8]);
    assert!(
        turned(&[1, 2, 1, 7, 7, 8], &[0, 3, 2, 1, 4, 5])
            .rules
            .is_empty(),
        "windows change places"
    );
    assert!(
        turned(&[1, 1, 7, 8], &[0, 2, 1, 3]).rules.is_empty(),
        "what is not mistaken is left alone"
    );
}

#[test]
fn an_einsum_becomes_a_product_and_an_odd_one_stays() {
    let einsum = |equation: &str| {
        let equation = AttributeProto {
            name: Some("equation".to_owned()),
            s: Some(equation.as_bytes().to_vec()),
            r#type: Some(3),
            ..Default::default()
        };
        let values = vec![
            value("a", FLOAT, &[2, 4]),
            value("b", FLOAT, &[2, 3, 4]),
            value("y", FLOAT, &[2, 3]),
        ];
        of_one(
            node("Einsum", &["a", "b"], "y", vec![equation]),
            values,
            vec![],
        )
    };
    let lowered = low(&einsum("bd,bkd->bk")).unwrap();
    assert_eq!(
        operators(&lowered),
        ["Reshape", "Transpose", "Reshape", "MatMul", "Reshape"]
    );
    assert_eq!(operators(&low(&einsum("bd,bkd->b")).unwrap()), ["Einsum"]);
}

#[test]
fn a_masked_scatter_counts_rows_and_leaves_no_node_behind() {
    let values = vec![
        value("x", FLOAT, &[1, 8, 4]),
        value("u", BOOL, &[1, 8, 1]),
        value("m", BOOL, &[1, 8, 4]),
        value("s", FLOAT, &[12]),
        value("y", FLOAT, &[1, 8, 4]),
    ];
    let nodes = vec![
        node("Expand", &["u", "shape"], "m", vec![]),
        node("NonZero", &["m"], "z", vec![]),
        node(
            "Transpose",
            &["z"],
            "t",
            vec![with_ints("perm", vec![1, 0])],
        ),
        node("Slice", &["s", "zero", "count", "zero"], "c", vec![]),
        node("ScatterND", &["x", "t", "c"], "y", vec![]),
    ];
    let constants = vec![whole("shape", &[3], &[1, 8, 4]), whole("zero", &[1], &[0])];
    let bytes = model(nodes, values, constants, "y");
    let lowered = low(&bytes).unwrap();
    assert_eq!(lowered.rules, BTreeMap::from([("masked-scatter", 1)]));
    let expected = [
        "Cast", "Reshape", "CumSum", "Sub", "Clip", "Reshape", "Gather", "Reshape", "Where",
    ];
    assert_eq!(operators(&lowered), expected);
    assert_eq!(
        low(&bytes).unwrap().bytes,
        lowered.bytes,
        "the same graph gives the same bytes"
    );
}

#[test]
fn a_table_of_positions_is_repeated_for_a_batch_only() {
    let add = |batch: i64| {
        let table = floats("p", &[1, 2, 1], &[1.0, 2.0]);
        let values = vec![
            value("x", FLOAT, &[batch, 2, 1]),
            value("y", FLOAT, &[batch, 2, 1]),
        ];
        of_one(node("Add", &["x", "p"], "y", vec![]), values, vec![table])
    };
    let graph = graph(&low(&add(3)).unwrap().bytes);
    let table = graph
        .initializer
        .iter()
        .find(|table| table.name() == graph.node[0].input[1])
        .unwrap();
    assert_eq!(table.dims, [3, 2, 1]);
    assert_eq!(table.raw_data().len(), 3 * 2 * 4);
    assert!(low(&add(1)).unwrap().rules.is_empty());
}

fn floats(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    TensorProto {
        float_data: values.to_vec(),
        ..TensorProto::of(name, FLOAT, dims, vec![])
    }
}

#[test]
fn a_power_of_two_becomes_a_product_and_another_stays() {
    let power = |x: &[i64], y: &[i64], exponents| {
        let values = vec![value("x", FLOAT, x), value("y", FLOAT, y)];
        low(&of_one(
            node("Pow", &["x", "e"], "y", vec![]),
            values,
            vec![exponents],
        ))
        .unwrap()
    };
    let lowered = power(&[3], &[3], floats("e", &[], &[2.0]));
    assert_eq!(lowered.rules, BTreeMap::from([("square-mul", 1)]));
    assert_eq!(
        (
            &operators(&lowered)[..],
            &graph(&lowered.bytes).node[0].input[..]
        ),
        (
            &["Mul".to_owned()][..],
            &["x".to_owned(), "x".to_owned()][..]
        )
    );
    assert!(power(&[3], &[3], floats("e", &[], &[3.0])).rules.is_empty());
    // A row of exponents widens what it is applied to.
    assert!(
        power(&[1, 1], &[1, 2], floats("e", &[1, 2], &[2.0; 2]))
            .rules
            .is_empty()
    );
}

#[test]
fn an_exponential_is_of_no_number_far_below_zero() {
    let values = vec![value("x", FLOAT, &[3]), value("y", FLOAT, &[3])];
    let lowered = low(&of_one(node("Exp", &["x"], "y", vec![]), values, vec![])).unwrap();
    assert_eq!(operators(&lowered), ["Clip", "Exp"]);
    assert_eq!(lowered.rules, BTreeMap::from([("exp-floor", 1)]));
    let bound = |tensor: &TensorProto| f32::from_le_bytes(tensor.raw_data().try_into().unwrap());
    let bounds: Vec<_> = graph(&lowered.bytes)
        .initializer
        .iter()
        .map(bound)
        .collect();
    assert_eq!(bounds, [-87.0, f32::MAX]);
    assert!(
        bounds[0].exp() < 1.5 * f32::MIN_POSITIVE,
        "{}",
        bounds[0].exp()
    );
}

#[test]
fn a_softplus_is_its_series_to_a_part_in_four_millions() {
    let values = vec![value("x", FLOAT, &[3]), value("y", FLOAT, &[3])];
    let lowered = low(&of_one(
        node("Softplus", &["x"], "y", vec![]),
        values,
        vec![],
    ))
    .unwrap();
    assert_eq!(lowered.rules, BTreeMap::from([("softplus-series", 1)]));
    assert!(!operators(&lowered).contains(&"Softplus".to_owned()));
    let factor = |term: u32| f64::from(2.0 / (2 * term + 1) as f32);
    for x in [-80.0, -20.0, -7.5, -1.0, -1e-3, 0.0, 0.3, 2.0, 30.0_f64] {
        let small = (-x.abs()).exp();
        let part = small / (2.0 + small);
        let series: f64 = (0..6)
            .map(|term| factor(term) * part.powi(2 * term as i32 + 1))
            .sum();
        let found = x.max(0.0) + series;
        let exact = x.max(0.0) + small.ln_1p();
        assert!(
            (found - exact).abs() <= 2.0_f64.powi(-22) * exact,
            "{x}: {found} and {exact}"
        );
    }
}

#[test]
fn a_running_sum_of_five_axes_is_one_of_three() {
    let sum = |shape: &[i64], axis: i64| {
        let values = vec![value("x", FLOAT, shape), value("y", FLOAT, shape)];
        let sum = node("CumSum", &["x", "a"], "y", vec![with_int("reverse", 1)]);
        low(&of_one(sum, values, vec![whole("a", &[], &[axis])])).unwrap()
    };
    for axis in [2, -3] {
        let lowered = sum(&[2, 3, 4, 5, 6], axis);
        assert_eq!(lowered.rules, BTreeMap::from([("cumsum-flat", 1)]));
        assert_eq!(operators(&lowered), ["Reshape", "CumSum", "Reshape"]);
        let graph = graph(&lowered.bytes);
        let merged = [6i64, 4, 30].map(i64::to_le_bytes).concat();
        assert!(
            graph
                .initializer
                .iter()
                .any(|tensor| tensor.raw_data() == merged)
        );
        assert_eq!(graph.node[1].attribute, [with_int("reverse", 1)]);
    }
    assert!(sum(&[2, 3, 4, 5], 2).rules.is_empty());
}

#[test]
fn an_activation_is_kept_apart_from_its_convolution() {
    let behind = |nodes: Vec<NodeProto>| {
        let values = vec![
            value("x", FLOAT, &[1, 2, 4]),
            value("c", FLOAT, &[1, 2, 4]),
            value("y", FLOAT, &[1, 2, 4]),
        ];
        let nodes = [vec![node("Conv", &["x", "w"], "c", vec![])], nodes].concat();
        low(&model(nodes, values, vec![floats("s", &[], &[1.5])], "y")).unwrap()
    };
    let gelu = behind(vec![
        node("Div", &["c", "s"], "d", vec![]),
        node("Erf", &["d"], "e", vec![]),
        node("Mul", &["c", "e"], "y", vec![]),
    ]);
    assert_eq!(gelu.rules, BTreeMap::from([("activation-apart", 1)]));
    assert_eq!(
        operators(&gelu),
        ["Conv", "Neg", "Neg", "Div", "Erf", "Mul"]
    );
    let silu = behind(vec![
        node("Sigmoid", &["c"], "g", vec![]),
        node("Mul", &["c", "g"], "y", vec![]),
    ]);
    assert_eq!(operators(&silu), ["Conv", "Neg", "Neg", "Sigmoid", "Mul"]);
    assert!(
        behind(vec![node("Relu", &["c"], "y", vec![])])
            .rules
            .is_empty(),
        "a ReLU is exact"
    );
    assert!(
        behind(vec![node("Div", &["c", "s"], "y", vec![])])
            .rules
            .is_empty(),
        "no activation"
    );
}

#[test]
fn gather_nd_by_constants_reads_flattened_axes() {
    let values = vec![value("x", FLOAT, &[2, 16]), value("y", FLOAT, &[3])];
    let index = whole("i", &[3, 2], &[0, 5, 1, 5, -1, -1]);
    let lowered = low(&of_one(
        node("GatherND", &["x", "i"], "y", vec![]),
        values,
        vec![index],
    ))
    .unwrap();
    assert_eq!(operators(&lowered), ["Reshape", "Gather", "Reshape"]);
    let graph = graph(&lowered.bytes);
    let places = graph
        .initializer
        .iter()
        .find(|tensor| tensor.dims == [3] && !tensor.raw_data().is_empty())
        .unwrap();
    assert_eq!(
        places.raw_data(),
        [5i64, 21, 31].map(i64::to_le_bytes).concat()
    );
}

#[test]
fn batched_gathers_are_left_alone() {
    let values = vec![
        value("x", FLOAT, &[2, 16]),
        value("i", INT64, &[2, 1]),
        value("y", FLOAT, &[2]),
    ];
    let batched = node(
        "GatherND",
        &["x", "i"],
        "y",
        vec![with_int("batch_dims", 1)],
    );
    assert!(
        low(&of_one(batched, values, vec![]))
            .unwrap()
            .rules
            .is_empty()
    );
}

#[test]
fn what_is_not_onnx_is_an_error() {
    assert!(low(b"version https://git-lfs.github.com").is_err());
}

#[test]
fn shapes_that_the_model_does_not_hold_are_inferred() {
    let gather = node("Gather", &["x", "i"], "g", vec![]);
    let relu = node("Relu", &["g"], "y", vec![]);
    let index = whole("i", &[2, 1, 1, 2], &[0, 1, 2, 3]);
    let bytes = model(
        vec![gather, relu],
        vec![value("y", FLOAT, &[2, 1, 1, 2, 1])],
        vec![index],
        "y",
    );
    assert!(low(&bytes).unwrap().rules.is_empty());
    let infer = |exposed: &[u8]| {
        let outputs = graph(exposed).output;
        assert!(
            outputs.iter().map(ValueInfoProto::name).eq(["y", "g"]),
            "every value is exposed once"
        );
        Ok(Shapes::from([("x".to_owned(), (FLOAT, vec![4, 1]))]))
    };
    assert_eq!(
        lower(&bytes, Path::new("/nowhere"), true, infer)
            .unwrap()
            .rules,
        BTreeMap::from([("gather-flat", 1)])
    );
}

#[test]
fn a_reciprocal_becomes_a_division_under_the_same_name() {
    let values = vec![value("x", FLOAT, &[2]), value("y", FLOAT, &[2])];
    let lowered = low(&of_one(
        node("Reciprocal", &["x"], "y", vec![]),
        values,
        vec![],
    ))
    .unwrap();
    assert_eq!(operators(&lowered), ["Div"]);
    let division = &graph(&lowered.bytes).node[0];
    assert_eq!(
        (division.input[1].as_str(), division.output[0].as_str()),
        ("x", "y")
    );
}

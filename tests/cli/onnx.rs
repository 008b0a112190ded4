//! ONNX files as small as tests need them, and as much of onnx.proto as they are made of.

use prost::Message;

// As much of onnx.proto as a linear layer needs.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ModelProto {
    #[prost(int64, tag = "1")]
    pub(super) ir_version: i64,
    #[prost(message, optional, tag = "7")]
    pub(super) graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    pub(super) opset_import: Vec<OperatorSetIdProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OperatorSetIdProto {
    #[prost(int64, tag = "2")]
    pub(super) version: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub(super) node: Vec<NodeProto>,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "5")]
    pub(super) initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub(super) input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    pub(super) output: Vec<ValueInfoProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    pub(super) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(super) output: Vec<String>,
    #[prost(string, tag = "4")]
    pub(super) op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub(super) attribute: Vec<AttributeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AttributeProto {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(int64, tag = "3")]
    pub(super) i: i64,
    #[prost(bytes, tag = "4")]
    pub(super) s: Vec<u8>,
    #[prost(int64, repeated, tag = "8")]
    pub(super) ints: Vec<i64>,
    #[prost(int32, tag = "20")]
    pub(super) r#type: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorProto {
    #[prost(int64, repeated, tag = "1")]
    pub(super) dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub(super) data_type: i32,
    #[prost(float, repeated, tag = "4")]
    pub(super) float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    pub(super) int32_data: Vec<i32>,
    #[prost(int64, repeated, tag = "7")]
    pub(super) int64_data: Vec<i64>,
    #[prost(string, tag = "8")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueInfoProto {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, optional, tag = "2")]
    pub(super) r#type: Option<TypeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TypeProto {
    #[prost(message, optional, tag = "1")]
    pub(super) tensor_type: Option<TensorTypeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorTypeProto {
    #[prost(int32, tag = "1")]
    pub(super) elem_type: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) shape: Option<ShapeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ShapeProto {
    #[prost(message, repeated, tag = "1")]
    pub(super) dim: Vec<DimProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DimProto {
    #[prost(oneof = "Dim", tags = "1, 2")]
    pub(super) value: Option<Dim>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Dim {
    #[prost(int64, tag = "1")]
    Value(i64),
    #[prost(string, tag = "2")]
    Param(String),
}

pub(super) const FLOAT: i32 = 1;
pub(super) const BFLOAT16: i32 = 16;
pub(super) const INT64: i32 = 7;

pub(super) fn tensor(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    TensorProto {
        dims: dims.into(),
        data_type: FLOAT,
        float_data: values.into(),
        int32_data: vec![],
        int64_data: vec![],
        name: name.into(),
    }
}

pub(super) fn number(name: &str, value: i64) -> TensorProto {
    TensorProto {
        data_type: INT64,
        float_data: vec![],
        int64_data: vec![value],
        ..tensor(name, &[1], &[])
    }
}

/// A size below 0 is that of the batch.
pub(super) fn value(name: &str, dims: &[i64]) -> ValueInfoProto {
    let dim = |size: &i64| {
        if *size < 0 {
            Dim::Param("batch".into())
        } else {
            Dim::Value(*size)
        }
    };
    let shape = ShapeProto {
        dim: dims
            .iter()
            .map(|size| DimProto {
                value: Some(dim(size)),
            })
            .collect(),
    };
    let tensor_type = Some(TensorTypeProto {
        elem_type: FLOAT,
        shape: Some(shape),
    });
    ValueInfoProto {
        name: name.into(),
        r#type: Some(TypeProto { tensor_type }),
    }
}

pub(super) fn typed(name: &str, dims: &[i64], elem_type: i32) -> ValueInfoProto {
    let mut info = value(name, dims);
    info.r#type
        .as_mut()
        .unwrap()
        .tensor_type
        .as_mut()
        .unwrap()
        .elem_type = elem_type;
    info
}

pub(super) fn node<const N: usize>(op_type: &str, input: [&str; N], output: &str) -> NodeProto {
    let input = input.map(String::from).into();
    let output = vec![output.into()];
    NodeProto {
        input,
        output,
        op_type: op_type.into(),
        attribute: vec![],
    }
}

fn with<const N: usize>(node: NodeProto, numbers: [(&str, i64); N]) -> NodeProto {
    const INT: i32 = 2;
    let attribute = numbers
        .map(|(name, i)| AttributeProto {
            name: name.into(),
            i,
            s: vec![],
            ints: vec![],
            r#type: INT,
        })
        .into();
    NodeProto { attribute, ..node }
}

/// A node that converts a tensor to another type.
pub(super) fn cast(input: &str, output: &str, to: i32) -> NodeProto {
    with(node("Cast", [input], output), [("to", to.into())])
}

/// y = x · w + b, with x of 1 × 2, w of 2 × 3.
pub(super) fn linear() -> Vec<u8> {
    let graph = GraphProto {
        node: vec![
            node("MatMul", ["x", "w"], "xw"),
            node("Add", ["xw", "b"], "y"),
        ],
        name: "linear".into(),
        initializer: vec![
            tensor("w", &[2, 3], &[1., 2., 3., 4., 5., 6.]),
            tensor("b", &[3], &[0.5, -0.5, 0.]),
        ],
        input: vec![value("x", &[1, 2])],
        output: vec![value("y", &[1, 3])],
    };
    let opset_import = vec![OperatorSetIdProto { version: 17 }];
    ModelProto {
        ir_version: 8,
        graph: Some(graph),
        opset_import,
    }
    .encode_to_vec()
}

/// The layer of `linear`, and so many nodes after it that only take time: its outputs are positive.
pub(super) fn slow_linear(nodes: usize) -> Vec<u8> {
    let mut model = ModelProto::decode(&*linear()).unwrap();
    let graph = model.graph.as_mut().unwrap();
    graph.node[1].output = vec!["y0".into()];
    let name = |at: usize| {
        if at == nodes {
            "y".to_owned()
        } else {
            format!("y{at}")
        }
    };
    graph
        .node
        .extend((0..nodes).map(|at| node("Abs", [&name(at)], &name(at + 1))));
    model.encode_to_vec()
}

/// The layer of `linear` with x and y in bfloat16. It computes in fp32: ONNX Runtime's CPU has few kernels for bfloat16.
pub(super) fn bfloat16_linear() -> Vec<u8> {
    let mut model = ModelProto::decode(&*linear()).unwrap();
    let graph = model.graph.as_mut().unwrap();
    graph.node = vec![
        cast("x", "wide", FLOAT),
        node("MatMul", ["wide", "w"], "xw"),
        node("Add", ["xw", "b"], "sum"),
        cast("sum", "y", BFLOAT16),
    ];
    (graph.input, graph.output) = (
        vec![typed("x", &[1, 2], BFLOAT16)],
        vec![typed("y", &[1, 3], BFLOAT16)],
    );
    model.encode_to_vec()
}

/// y = the index of the largest of each of 20 rows of 4.
pub(super) fn labels() -> Vec<u8> {
    let graph = GraphProto {
        node: vec![with(
            node("ArgMax", ["x"], "y"),
            [("axis", 1), ("keepdims", 0)],
        )],
        name: "labels".into(),
        initializer: vec![],
        input: vec![value("x", &[20, 4])],
        output: vec![typed("y", &[20], INT64)],
    };
    let opset_import = vec![OperatorSetIdProto { version: 17 }];
    ModelProto {
        ir_version: 8,
        graph: Some(graph),
        opset_import,
    }
    .encode_to_vec()
}

pub(super) fn expected_labels(values: [i64; 20]) -> Vec<u8> {
    TensorProto {
        data_type: INT64,
        int64_data: values.into(),
        ..tensor("y", &[20], &[])
    }
    .encode_to_vec()
}

/// Values of y, which bfloat16 holds without rounding.
pub(super) fn expected_bfloat16(values: [f32; 3]) -> Vec<u8> {
    let bits = values.map(|value| (value.to_bits() >> 16) as i32).into();
    TensorProto {
        data_type: BFLOAT16,
        int32_data: bits,
        ..tensor("y", &[1, 3], &[])
    }
    .encode_to_vec()
}

/// y = x · w, plus the sum of (batch - 3)²⁰ zeros: next to nothing for a batch of 4, and for one of 8 more memory than any
/// machine can name.
pub(super) fn hungry() -> Vec<u8> {
    let graph = GraphProto {
        node: vec![
            node("Shape", ["x"], "shape"),
            node("Gather", ["shape", "first"], "batch"),
            node("Sub", ["batch", "three"], "base"),
            node("Pow", ["base", "twenty"], "many"),
            node("ConstantOfShape", ["many"], "zeros"),
            node("ReduceSum", ["zeros"], "nothing"),
            node("MatMul", ["x", "w"], "xw"),
            node("Add", ["xw", "nothing"], "y"),
        ],
        name: "hungry".into(),
        initializer: vec![
            tensor("w", &[2, 3], &[1., 2., 3., 4., 5., 6.]),
            number("first", 0),
            number("three", 3),
            number("twenty", 20),
        ],
        input: vec![value("x", &[-1, 2])],
        output: vec![value("y", &[-1, 3])],
    };
    let opset_import = vec![OperatorSetIdProto { version: 17 }];
    ModelProto {
        ir_version: 8,
        graph: Some(graph),
        opset_import,
    }
    .encode_to_vec()
}

/// y = x made larger by `scales`, an input.
pub(super) fn resize() -> Vec<u8> {
    let graph = GraphProto {
        node: vec![node("Resize", ["x", "", "scales"], "y")],
        name: "resize".into(),
        initializer: vec![],
        input: vec![value("x", &[1, 1, 1, 2]), value("scales", &[4])],
        output: vec![value("y", &[1, 1, 2, 2])],
    };
    let opset_import = vec![OperatorSetIdProto { version: 17 }];
    ModelProto {
        ir_version: 8,
        graph: Some(graph),
        opset_import,
    }
    .encode_to_vec()
}

/// y = w + b, both known: a graph of which nothing is left when its constants are computed.
pub(super) fn folding() -> Vec<u8> {
    let graph = GraphProto {
        node: vec![node("Add", ["w", "b"], "y")],
        name: "folding".into(),
        initializer: vec![
            tensor("w", &[1, 3], &[1., 2., 3.]),
            tensor("b", &[3], &[0.5, -0.5, 0.]),
        ],
        input: vec![],
        output: vec![value("y", &[1, 3])],
    };
    let opset_import = vec![OperatorSetIdProto { version: 17 }];
    ModelProto {
        ir_version: 8,
        graph: Some(graph),
        opset_import,
    }
    .encode_to_vec()
}

/// y = x, of two doubles.
pub(super) fn einsum_of_doubles() -> Vec<u8> {
    const STRING: i32 = 3;
    const DOUBLE: i32 = 11;
    let doubles = |name: &str| {
        let mut info = value(name, &[2]);
        info.r#type
            .as_mut()
            .unwrap()
            .tensor_type
            .as_mut()
            .unwrap()
            .elem_type = DOUBLE;
        info
    };
    let equation = AttributeProto {
        name: "equation".into(),
        i: 0,
        ints: vec![],
        s: b"i->i".into(),
        r#type: STRING,
    };
    let graph = GraphProto {
        node: vec![NodeProto {
            attribute: vec![equation],
            ..node("Einsum", ["x"], "y")
        }],
        name: "einsum".into(),
        initializer: vec![],
        input: vec![doubles("x")],
        output: vec![doubles("y")],
    };
    let opset_import = vec![OperatorSetIdProto { version: 17 }];
    ModelProto {
        ir_version: 8,
        graph: Some(graph),
        opset_import,
    }
    .encode_to_vec()
}

/// y = the determinant of x, of 1 × 2 × 2.
pub(super) fn determinant() -> Vec<u8> {
    let graph = GraphProto {
        node: vec![node("Det", ["x"], "y")],
        name: "det".into(),
        initializer: vec![],
        input: vec![value("x", &[1, 2, 2])],
        output: vec![value("y", &[1])],
    };
    let opset_import = vec![OperatorSetIdProto { version: 17 }];
    ModelProto {
        ir_version: 8,
        graph: Some(graph),
        opset_import,
    }
    .encode_to_vec()
}

/// An operator of ONNX that ONNX Runtime has no kernel for on any device.
pub(super) fn image_decoder() -> Vec<u8> {
    const UINT8: i32 = 2;
    let bytes = |name: &str, dims: &[i64]| {
        let mut info = value(name, dims);
        info.r#type
            .as_mut()
            .unwrap()
            .tensor_type
            .as_mut()
            .unwrap()
            .elem_type = UINT8;
        info
    };
    let graph = GraphProto {
        node: vec![node("ImageDecoder", ["x"], "y")],
        name: "picture".into(),
        initializer: vec![],
        input: vec![bytes("x", &[20])],
        output: vec![bytes("y", &[2, 2, 3])],
    };
    let opset_import = vec![OperatorSetIdProto { version: 20 }];
    ModelProto {
        ir_version: 9,
        graph: Some(graph),
        opset_import,
    }
    .encode_to_vec()
}

/// x = (1, 10) by a recipe, so y = (41.5, 51.5, 63).
/// y = MaxPool(Pad(x, 0)), with x of 1 × 1 × 2 × 2: of negative numbers it is 0.
pub(super) fn padded() -> Vec<u8> {
    const INTS: i32 = 7;
    let kernel = AttributeProto {
        name: "kernel_shape".into(),
        i: 0,
        s: vec![],
        ints: vec![3, 3],
        r#type: INTS,
    };
    let pool = NodeProto {
        attribute: vec![kernel],
        ..node("MaxPool", ["p"], "m")
    };
    let pads = TensorProto {
        dims: vec![8],
        int64_data: vec![0, 0, 0, 0, 0, 0, 1, 1],
        ..number("pads", 0)
    };
    let graph = GraphProto {
        node: vec![
            node("Sub", ["x", "one"], "a"),
            node("Pad", ["a", "pads"], "p"),
            pool,
            node("Mul", ["m", "one"], "y"),
        ],
        name: "padded".into(),
        initializer: vec![pads, tensor("one", &[1], &[1.])],
        input: vec![value("x", &[1, 1, 2, 2])],
        output: vec![value("y", &[1, 1, 1, 1])],
    };
    let opset_import = vec![OperatorSetIdProto { version: 13 }];
    ModelProto {
        ir_version: 7,
        graph: Some(graph),
        opset_import,
    }
    .encode_to_vec()
}

/// The outputs of `padded`.
pub(super) fn expected_padded() -> Vec<u8> {
    tensor("y", &[1, 1, 1, 1], &[0.]).encode_to_vec()
}

pub(super) fn expected(values: [f32; 3]) -> Vec<u8> {
    tensor("y", &[1, 3], &values).encode_to_vec()
}

pub(super) const RIGHT: [f32; 3] = [41.5, 51.5, 63.];

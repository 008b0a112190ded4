//! ONNX's messages, as far as orch touches them; what it does not touch is carried as the bytes it came in.
//!
//! Field numbers are those of `onnx.proto`. Every field of the written messages stands here, because the decoder drops
//! what it does not know.

use prost::Message;

/// Messages as `onnx.proto` has them: each field with its number, and how prost reads it.
macro_rules! messages {
    ($($name:ident { $($field:ident: $type:ty = $tag:literal ($($kind:tt)*);)* })*) => {$(
        #[derive(Clone, PartialEq, Message)]
        pub(in crate::runtime) struct $name {
            $(#[prost($($kind)*, tag = $tag)]
            pub(in crate::runtime) $field: $type,)*
        }
    )*};
}

messages! {
    ModelProto {
        ir_version: Option<i64> = 1 (int64, optional);
        producer_name: Option<String> = 2 (string, optional);
        producer_version: Option<String> = 3 (string, optional);
        domain: Option<String> = 4 (string, optional);
        model_version: Option<i64> = 5 (int64, optional);
        doc_string: Option<String> = 6 (string, optional);
        graph: Option<GraphProto> = 7 (message, optional);
        opset_import: Vec<Vec<u8>> = 8 (bytes = "vec", repeated);
        metadata_props: Vec<Vec<u8>> = 14 (bytes = "vec", repeated);
        training_info: Vec<Vec<u8>> = 20 (bytes = "vec", repeated);
        functions: Vec<Vec<u8>> = 25 (bytes = "vec", repeated);
        configuration: Vec<Vec<u8>> = 26 (bytes = "vec", repeated);
    }

    GraphProto {
        node: Vec<NodeProto> = 1 (message, repeated);
        name: Option<String> = 2 (string, optional);
        initializer: Vec<TensorProto> = 5 (message, repeated);
        doc_string: Option<String> = 10 (string, optional);
        input: Vec<ValueInfoProto> = 11 (message, repeated);
        output: Vec<ValueInfoProto> = 12 (message, repeated);
        value_info: Vec<ValueInfoProto> = 13 (message, repeated);
        quantization_annotation: Vec<Vec<u8>> = 14 (bytes = "vec", repeated);
        sparse_initializer: Vec<Vec<u8>> = 15 (bytes = "vec", repeated);
        metadata_props: Vec<Vec<u8>> = 16 (bytes = "vec", repeated);
    }

    NodeProto {
        input: Vec<String> = 1 (string, repeated);
        output: Vec<String> = 2 (string, repeated);
        name: Option<String> = 3 (string, optional);
        op_type: Option<String> = 4 (string, optional);
        attribute: Vec<AttributeProto> = 5 (message, repeated);
        doc_string: Option<String> = 6 (string, optional);
        domain: Option<String> = 7 (string, optional);
        overload: Option<String> = 8 (string, optional);
        metadata_props: Vec<Vec<u8>> = 9 (bytes = "vec", repeated);
        device_configurations: Vec<Vec<u8>> = 10 (bytes = "vec", repeated);
    }

    AttributeProto {
        name: Option<String> = 1 (string, optional);
        f: Option<f32> = 2 (float, optional);
        i: Option<i64> = 3 (int64, optional);
        s: Option<Vec<u8>> = 4 (bytes = "vec", optional);
        t: Option<Vec<u8>> = 5 (bytes = "vec", optional);
        g: Option<Vec<u8>> = 6 (bytes = "vec", optional);
        floats: Vec<f32> = 7 (float, repeated);
        ints: Vec<i64> = 8 (int64, repeated);
        strings: Vec<Vec<u8>> = 9 (bytes = "vec", repeated);
        tensors: Vec<Vec<u8>> = 10 (bytes = "vec", repeated);
        graphs: Vec<Vec<u8>> = 11 (bytes = "vec", repeated);
        doc_string: Option<String> = 13 (string, optional);
        tp: Option<Vec<u8>> = 14 (bytes = "vec", optional);
        type_protos: Vec<Vec<u8>> = 15 (bytes = "vec", repeated);
        r#type: Option<i32> = 20 (int32, optional);
        ref_attr_name: Option<String> = 21 (string, optional);
        sparse_tensor: Option<Vec<u8>> = 22 (bytes = "vec", optional);
        sparse_tensors: Vec<Vec<u8>> = 23 (bytes = "vec", repeated);
    }

    TensorProto {
        dims: Vec<i64> = 1 (int64, repeated);
        data_type: Option<i32> = 2 (int32, optional);
        segment: Option<Vec<u8>> = 3 (bytes = "vec", optional);
        float_data: Vec<f32> = 4 (float, repeated);
        int32_data: Vec<i32> = 5 (int32, repeated);
        string_data: Vec<Vec<u8>> = 6 (bytes = "vec", repeated);
        int64_data: Vec<i64> = 7 (int64, repeated);
        name: Option<String> = 8 (string, optional);
        raw_data: Option<Vec<u8>> = 9 (bytes = "vec", optional);
        double_data: Vec<f64> = 10 (double, repeated);
        uint64_data: Vec<u64> = 11 (uint64, repeated);
        doc_string: Option<String> = 12 (string, optional);
        external_data: Vec<StringStringEntryProto> = 13 (message, repeated);
        data_location: Option<i32> = 14 (int32, optional);
        metadata_props: Vec<Vec<u8>> = 16 (bytes = "vec", repeated);
    }

    StringStringEntryProto {
        key: Option<String> = 1 (string, optional);
        value: Option<String> = 2 (string, optional);
    }

    ValueInfoProto {
        name: Option<String> = 1 (string, optional);
        r#type: Option<TypeProto> = 2 (message, optional);
        doc_string: Option<String> = 3 (string, optional);
        metadata_props: Vec<Vec<u8>> = 4 (bytes = "vec", repeated);
    }

    TypeProto {
        tensor_type: Option<TensorType> = 1 (message, optional);
        sequence_type: Option<Vec<u8>> = 4 (bytes = "vec", optional);
        map_type: Option<Vec<u8>> = 5 (bytes = "vec", optional);
        denotation: Option<String> = 6 (string, optional);
        opaque_type: Option<Vec<u8>> = 7 (bytes = "vec", optional);
        sparse_tensor_type: Option<Vec<u8>> = 8 (bytes = "vec", optional);
        optional_type: Option<Vec<u8>> = 9 (bytes = "vec", optional);
    }

    TensorType {
        elem_type: Option<i32> = 1 (int32, optional);
        shape: Option<TensorShape> = 2 (message, optional);
    }

    TensorShape {
        dim: Vec<Dimension> = 1 (message, repeated);
    }

    Dimension {
        dim_value: Option<i64> = 1 (int64, optional);
        dim_param: Option<String> = 2 (string, optional);
        denotation: Option<String> = 3 (string, optional);
    }
}

impl NodeProto {
    pub(in crate::runtime) fn of(operator: &str, name: &str, inputs: &[&str], output: &str) -> Self {
        Self {
            input: inputs.iter().map(|name| (*name).to_owned()).collect(),
            output: vec![output.to_owned()],
            name: Some(name.to_owned()),
            op_type: Some(operator.to_owned()),
            ..Self::default()
        }
    }
}

impl TensorProto {
    pub(in crate::runtime) fn of(name: &str, element: i32, dims: &[i64], raw: Vec<u8>) -> Self {
        Self {
            name: Some(name.to_owned()),
            dims: dims.to_vec(),
            data_type: Some(element),
            raw_data: Some(raw),
            ..Self::default()
        }
    }
}

impl ValueInfoProto {
    /// A tensor.
    pub(in crate::runtime) fn of(name: &str, element: i32, shape: Option<TensorShape>) -> Self {
        let tensor_type = Some(TensorType { elem_type: Some(element), shape });
        Self { r#type: Some(TypeProto { tensor_type, ..TypeProto::default() }), ..Self::named(name) }
    }

    /// It says no more than its name.
    pub(in crate::runtime) fn named(name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..Self::default() }
    }

    pub(in crate::runtime) fn tensor(&self) -> Option<&TensorType> {
        self.r#type.as_ref()?.tensor_type.as_ref()
    }
}

impl TensorShape {
    pub(in crate::runtime) fn of(sizes: &[i64]) -> Self {
        Self { dim: sizes.iter().map(|size| Dimension::of(*size)).collect() }
    }
}

impl Dimension {
    pub(in crate::runtime) fn of(size: i64) -> Self {
        Self { dim_value: Some(size), ..Self::default() }
    }
}

impl ModelProto {
    pub(in crate::runtime) fn of(graph: GraphProto) -> Self {
        Self { graph: Some(graph), ..Self::default() }
    }
}

//! ONNX's messages, as far as orch touches them; what it does not touch is carried as the bytes it came in.
//!
//! Field numbers are those of `onnx.proto`. Every field of the written messages stands here, because the decoder drops
//! what it does not know.

use prost::Message;

/// Messages as `onnx.proto` has them: fields of one type, each with its number, and how prost reads them.
macro_rules! messages {
    ($($name:ident { $($type:ty as $kind:tt: $($field:ident = $tag:literal),+;)* })*) => {$(
        #[derive(Clone, PartialEq, Message)]
        pub(in crate::runtime) struct $name {
            $($(#[prost $kind]
            #[prost(tag = $tag)]
            pub(in crate::runtime) $field: $type,)+)*
        }
    )*};
}

messages! {
    ModelProto {
        Option<i64> as (int64, optional): ir_version = 1, model_version = 5;
        Option<String> as (string, optional): producer_name = 2, producer_version = 3, domain = 4, doc_string = 6;
        Option<GraphProto> as (message, optional): graph = 7;
        Vec<Vec<u8>> as (bytes = "vec", repeated): opset_import = 8, metadata_props = 14, training_info = 20,
            functions = 25, configuration = 26;
    }

    GraphProto {
        Vec<NodeProto> as (message, repeated): node = 1;
        Option<String> as (string, optional): name = 2, doc_string = 10;
        Vec<TensorProto> as (message, repeated): initializer = 5;
        Vec<ValueInfoProto> as (message, repeated): input = 11, output = 12, value_info = 13;
        Vec<Vec<u8>> as (bytes = "vec", repeated): quantization_annotation = 14, sparse_initializer = 15,
            metadata_props = 16;
    }

    NodeProto {
        Vec<String> as (string, repeated): input = 1, output = 2;
        Option<String> as (string, optional): name = 3, op_type = 4, doc_string = 6, domain = 7, overload = 8;
        Vec<AttributeProto> as (message, repeated): attribute = 5;
        Vec<Vec<u8>> as (bytes = "vec", repeated): metadata_props = 9, device_configurations = 10;
    }

    AttributeProto {
        Option<String> as (string, optional): name = 1, doc_string = 13, ref_attr_name = 21;
        Option<f32> as (float, optional): f = 2;
        Option<i64> as (int64, optional): i = 3;
        Option<Vec<u8>> as (bytes = "vec", optional): s = 4, t = 5, g = 6, tp = 14, sparse_tensor = 22;
        Vec<f32> as (float, repeated): floats = 7;
        Vec<i64> as (int64, repeated): ints = 8;
        Vec<Vec<u8>> as (bytes = "vec", repeated): strings = 9, tensors = 10, graphs = 11, type_protos = 15,
            sparse_tensors = 23;
        Option<i32> as (int32, optional): r#type = 20;
    }

    TensorProto {
        Vec<i64> as (int64, repeated): dims = 1, int64_data = 7;
        Option<i32> as (int32, optional): data_type = 2, data_location = 14;
        Option<Vec<u8>> as (bytes = "vec", optional): segment = 3, raw_data = 9;
        Vec<f32> as (float, repeated): float_data = 4;
        Vec<i32> as (int32, repeated): int32_data = 5;
        Vec<Vec<u8>> as (bytes = "vec", repeated): string_data = 6, metadata_props = 16;
        Option<String> as (string, optional): name = 8, doc_string = 12;
        Vec<f64> as (double, repeated): double_data = 10;
        Vec<u64> as (uint64, repeated): uint64_data = 11;
        Vec<StringStringEntryProto> as (message, repeated): external_data = 13;
    }

    StringStringEntryProto {
        Option<String> as (string, optional): key = 1, value = 2;
    }

    ValueInfoProto {
        Option<String> as (string, optional): name = 1, doc_string = 3;
        Option<TypeProto> as (message, optional): r#type = 2;
        Vec<Vec<u8>> as (bytes = "vec", repeated): metadata_props = 4;
    }

    TypeProto {
        Option<TensorType> as (message, optional): tensor_type = 1;
        Option<Vec<u8>> as (bytes = "vec", optional): sequence_type = 4, map_type = 5, opaque_type = 7,
            sparse_tensor_type = 8, optional_type = 9;
        Option<String> as (string, optional): denotation = 6;
    }

    TensorType {
        Option<i32> as (int32, optional): elem_type = 1;
        Option<TensorShape> as (message, optional): shape = 2;
    }

    TensorShape {
        Vec<Dimension> as (message, repeated): dim = 1;
    }

    Dimension {
        Option<i64> as (int64, optional): dim_value = 1;
        Option<String> as (string, optional): dim_param = 2, denotation = 3;
    }
}

impl NodeProto {
    pub(in crate::runtime) fn of(
        operator: &str,
        name: &str,
        inputs: &[&str],
        output: &str,
    ) -> Self {
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
        let tensor_type = Some(TensorType {
            elem_type: Some(element),
            shape,
        });
        Self {
            r#type: Some(TypeProto {
                tensor_type,
                ..TypeProto::default()
            }),
            ..Self::named(name)
        }
    }

    /// It says no more than its name.
    pub(in crate::runtime) fn named(name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..Self::default()
        }
    }

    pub(in crate::runtime) fn tensor(&self) -> Option<&TensorType> {
        self.r#type.as_ref()?.tensor_type.as_ref()
    }
}

impl TensorShape {
    pub(in crate::runtime) fn of(sizes: &[i64]) -> Self {
        Self {
            dim: sizes.iter().map(|size| Dimension::of(*size)).collect(),
        }
    }
}

impl Dimension {
    pub(in crate::runtime) fn of(size: i64) -> Self {
        Self {
            dim_value: Some(size),
            ..Self::default()
        }
    }
}

impl ModelProto {
    pub(in crate::runtime) fn of(graph: GraphProto) -> Self {
        Self {
            graph: Some(graph),
            ..Self::default()
        }
    }
}

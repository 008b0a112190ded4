//! ONNX's messages, as far as orch touches them; what it does not touch is carried as the bytes it came in.
//!
//! Field numbers are those of `onnx.proto`. Every field of the written messages stands here, because the decoder drops
//! what it does not know.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(in crate::runtime) struct ModelProto {
    #[prost(int64, optional, tag = "1")]
    pub(in crate::runtime) ir_version: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub(in crate::runtime) producer_name: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(in crate::runtime) producer_version: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub(in crate::runtime) domain: Option<String>,
    #[prost(int64, optional, tag = "5")]
    pub(in crate::runtime) model_version: Option<i64>,
    #[prost(string, optional, tag = "6")]
    pub(in crate::runtime) doc_string: Option<String>,
    #[prost(message, optional, tag = "7")]
    pub(in crate::runtime) graph: Option<GraphProto>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub(in crate::runtime) opset_import: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "14")]
    pub(in crate::runtime) metadata_props: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "20")]
    pub(in crate::runtime) training_info: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "25")]
    pub(in crate::runtime) functions: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "26")]
    pub(in crate::runtime) configuration: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::runtime) struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::runtime) node: Vec<NodeProto>,
    #[prost(string, optional, tag = "2")]
    pub(in crate::runtime) name: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub(in crate::runtime) initializer: Vec<TensorProto>,
    #[prost(string, optional, tag = "10")]
    pub(in crate::runtime) doc_string: Option<String>,
    #[prost(message, repeated, tag = "11")]
    pub(in crate::runtime) input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    pub(in crate::runtime) output: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "13")]
    pub(in crate::runtime) value_info: Vec<ValueInfoProto>,
    #[prost(bytes = "vec", repeated, tag = "14")]
    pub(in crate::runtime) quantization_annotation: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "15")]
    pub(in crate::runtime) sparse_initializer: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "16")]
    pub(in crate::runtime) metadata_props: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::runtime) struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    pub(in crate::runtime) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(in crate::runtime) output: Vec<String>,
    #[prost(string, optional, tag = "3")]
    pub(in crate::runtime) name: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub(in crate::runtime) op_type: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub(in crate::runtime) attribute: Vec<AttributeProto>,
    #[prost(string, optional, tag = "6")]
    pub(in crate::runtime) doc_string: Option<String>,
    #[prost(string, optional, tag = "7")]
    pub(in crate::runtime) domain: Option<String>,
    #[prost(string, optional, tag = "8")]
    pub(in crate::runtime) overload: Option<String>,
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub(in crate::runtime) metadata_props: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "10")]
    pub(in crate::runtime) device_configurations: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::runtime) struct AttributeProto {
    #[prost(string, optional, tag = "1")]
    pub(in crate::runtime) name: Option<String>,
    #[prost(float, optional, tag = "2")]
    pub(in crate::runtime) f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub(in crate::runtime) i: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub(in crate::runtime) s: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "5")]
    pub(in crate::runtime) t: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "6")]
    pub(in crate::runtime) g: Option<Vec<u8>>,
    #[prost(float, repeated, tag = "7")]
    pub(in crate::runtime) floats: Vec<f32>,
    #[prost(int64, repeated, tag = "8")]
    pub(in crate::runtime) ints: Vec<i64>,
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub(in crate::runtime) strings: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "10")]
    pub(in crate::runtime) tensors: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "11")]
    pub(in crate::runtime) graphs: Vec<Vec<u8>>,
    #[prost(string, optional, tag = "13")]
    pub(in crate::runtime) doc_string: Option<String>,
    #[prost(bytes = "vec", optional, tag = "14")]
    pub(in crate::runtime) tp: Option<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "15")]
    pub(in crate::runtime) type_protos: Vec<Vec<u8>>,
    #[prost(int32, optional, tag = "20")]
    pub(in crate::runtime) r#type: Option<i32>,
    #[prost(string, optional, tag = "21")]
    pub(in crate::runtime) ref_attr_name: Option<String>,
    #[prost(bytes = "vec", optional, tag = "22")]
    pub(in crate::runtime) sparse_tensor: Option<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "23")]
    pub(in crate::runtime) sparse_tensors: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::runtime) struct TensorProto {
    #[prost(int64, repeated, tag = "1")]
    pub(in crate::runtime) dims: Vec<i64>,
    #[prost(int32, optional, tag = "2")]
    pub(in crate::runtime) data_type: Option<i32>,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub(in crate::runtime) segment: Option<Vec<u8>>,
    #[prost(float, repeated, tag = "4")]
    pub(in crate::runtime) float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    pub(in crate::runtime) int32_data: Vec<i32>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub(in crate::runtime) string_data: Vec<Vec<u8>>,
    #[prost(int64, repeated, tag = "7")]
    pub(in crate::runtime) int64_data: Vec<i64>,
    #[prost(string, optional, tag = "8")]
    pub(in crate::runtime) name: Option<String>,
    #[prost(bytes = "vec", optional, tag = "9")]
    pub(in crate::runtime) raw_data: Option<Vec<u8>>,
    #[prost(double, repeated, tag = "10")]
    pub(in crate::runtime) double_data: Vec<f64>,
    #[prost(uint64, repeated, tag = "11")]
    pub(in crate::runtime) uint64_data: Vec<u64>,
    #[prost(string, optional, tag = "12")]
    pub(in crate::runtime) doc_string: Option<String>,
    #[prost(message, repeated, tag = "13")]
    pub(in crate::runtime) external_data: Vec<StringStringEntryProto>,
    #[prost(int32, optional, tag = "14")]
    pub(in crate::runtime) data_location: Option<i32>,
    #[prost(bytes = "vec", repeated, tag = "16")]
    pub(in crate::runtime) metadata_props: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::runtime) struct StringStringEntryProto {
    #[prost(string, optional, tag = "1")]
    pub(in crate::runtime) key: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(in crate::runtime) value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::runtime) struct ValueInfoProto {
    #[prost(string, optional, tag = "1")]
    pub(in crate::runtime) name: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub(in crate::runtime) r#type: Option<TypeProto>,
    #[prost(string, optional, tag = "3")]
    pub(in crate::runtime) doc_string: Option<String>,
    #[prost(bytes = "vec", repeated, tag = "4")]
    pub(in crate::runtime) metadata_props: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::runtime) struct TypeProto {
    #[prost(message, optional, tag = "1")]
    pub(in crate::runtime) tensor_type: Option<TensorType>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub(in crate::runtime) sequence_type: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "5")]
    pub(in crate::runtime) map_type: Option<Vec<u8>>,
    #[prost(string, optional, tag = "6")]
    pub(in crate::runtime) denotation: Option<String>,
    #[prost(bytes = "vec", optional, tag = "7")]
    pub(in crate::runtime) opaque_type: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "8")]
    pub(in crate::runtime) sparse_tensor_type: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "9")]
    pub(in crate::runtime) optional_type: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::runtime) struct TensorType {
    #[prost(int32, optional, tag = "1")]
    pub(in crate::runtime) elem_type: Option<i32>,
    #[prost(message, optional, tag = "2")]
    pub(in crate::runtime) shape: Option<TensorShape>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::runtime) struct TensorShape {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::runtime) dim: Vec<Dimension>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::runtime) struct Dimension {
    #[prost(int64, optional, tag = "1")]
    pub(in crate::runtime) dim_value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub(in crate::runtime) dim_param: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(in crate::runtime) denotation: Option<String>,
}

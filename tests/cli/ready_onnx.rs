//! Ready ONNX files.

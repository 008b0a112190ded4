"""ONNX and TorchScript files of models, and what is done to them afterwards."""

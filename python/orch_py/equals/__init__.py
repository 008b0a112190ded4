"""Functions of torch by operators that the legacy ONNX exporter has (`orch_py.onnx_equals`)."""

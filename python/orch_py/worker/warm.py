"""What every job of torch would work out for itself, worked out once: the server imports this before its first fork.

It changes no result: transformers keeps the table, and the exporter imports the modules, when they are first needed.
"""

from importlib import import_module

from transformers import conversion_mapping

# How checkpoints of each type are renamed: about 900 regular expressions, compiled as the first type is asked for.
conversion_mapping.get_checkpoint_conversion_mapping("")
for opset in range(7, 21):
    import_module(f"torch.onnx._internal.torchscript_exporter.symbolic_opset{opset}")

"""ONNX with weights of 4 bits in groups, each with its scale and zero point, by ONNX Runtime's own tool.

Activations stay fp32, so nothing is calibrated and nothing saturates. Needs onnx, onnx-ir and onnxruntime.
"""

from __future__ import annotations

import onnx
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer
from onnxruntime.quantization.onnx_model import ONNXModel

from orch_py.worker.protocol import Refused

BITS = 4
# The least that a product may be computed in: 1 is fp32. Left open, a kernel may round activations to 8 bits.
ACCURACY = 1
# Weights of a column that share a scale. The largest that divides every width is taken; a width that none divides stays
# in fp32, because a group would be filled up with weights that are not there.
GROUPS = (32, 16)


def group(model: onnx.ModelProto) -> int:
    """The size of the groups in this model."""
    widths = sorted(set(_widths(model.graph).values()))
    divided = [width for width in widths if width % min(GROUPS) == 0]
    if not divided:
        told = f"; they are of {', '.join(map(str, widths))}" if widths else ""
        reason = f"no product of the model has a matrix of constant weights of a width that {min(GROUPS)} divides{told}"
        raise Refused("unsupported", reason)
    return next(size for size in GROUPS if all(width % size == 0 for width in divided))


def quantised(model: onnx.ModelProto, size: int) -> onnx.ModelProto:
    """With the products of constant matrices as `MatMulNBits`, weights uint4 in groups of `size`."""
    whole = ONNXModel(model)
    # The tool knows no other product.
    whole.replace_gemm_with_matmul()
    widths = _widths(whole.model.graph)
    others = []
    for number, node in enumerate(whole.model.graph.node):
        node.name = node.name or f"node.{number}"
        if widths.get(node.output[0], 0) % size:
            others.append(node.name)
    config = DefaultWeightOnlyQuantConfig(block_size=size, is_symmetric=False, accuracy_level=ACCURACY, bits=BITS)
    tool = MatMulNBitsQuantizer(whole.model, algo_config=config, nodes_to_exclude=others)
    tool.process()
    made: onnx.ModelProto = tool.model.model
    return made


def _widths(graph: onnx.GraphProto) -> dict[str, int]:
    """Over how many values each product with a constant matrix sums: by the name of what it gives."""
    shapes = {tensor.name: tensor.dims for tensor in graph.initializer}
    found = {}
    for node in graph.node:
        if node.op_type in ("MatMul", "Gemm") and len(shape := shapes.get(node.input[1], [])) == 2:
            is_turned = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
            found[node.output[0]] = shape[1 if is_turned else 0]
    return found

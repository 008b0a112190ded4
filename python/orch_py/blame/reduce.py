"""Makes a window smaller that shows a fault: first its sizes, then the numbers of its constants.

Each smaller window is computed by the oracle, and replaces the one before only if the runtime fails on it in the same
way. A window that was reduced says the same about the runtime, in a file that can be attached to an issue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

from orch_py.blame.windows import Oracle, Window, shapes_of
from orch_py.export import onnx_messages, onnx_weights
from orch_py.worker.protocol import first_line
from orch_py.worker.trees import Tensors

# A constant of no more bytes stays as it is.
SMALL_CONSTANT = 1024
# The sizes to try in the place of a larger one, before its half.
SIZES = (1, 2, 3, 4)
# The most smaller windows that are tried.
MAX_TRIALS = 120
SEED = 0

FailsAlike = Callable[[Window], bool]


@dataclass(frozen=True)
class Reduced:
    """A window after it was reduced."""

    window: Window
    # `sizes`, `constants`, or both.
    what: tuple[str, ...]
    # Bytes of the model and its inputs.
    bytes_before: int
    bytes_after: int


class Reduction:
    """The reduction of one window. `fails_alike` runs a smaller window on the runtime, and is True if it fails in the
    same way."""

    def __init__(self, window: Window, oracle: Oracle, fails_alike: FailsAlike) -> None:
        self.window = window
        self._oracle = oracle
        self._fails_alike = fails_alike
        self._trials = 0

    def reduced(self) -> Reduced | None:
        """The reduced window; None where nothing could be made smaller."""
        what = []
        window = self._with_smaller_sizes(_with_initializers(self.window))
        if size_of(window) < size_of(self.window):
            what.append("sizes")
        smaller = self._with_small_constants(window)
        if smaller is not window:
            what.append("constants")
        if not what:
            return None
        return Reduced(smaller, tuple(what), size_of(self.window), size_of(smaller))

    def _with_smaller_sizes(self, window: Window) -> Window:
        is_smaller = True
        while is_smaller:
            is_smaller = False
            for extent in _extents(window):
                resized = (_resized(window, extent, size) for size in _smaller(extent))
                found = self._first_that_fails_alike(resized)
                if found is not None:
                    window = found
                    is_smaller = True
                    break
        return window

    def _with_small_constants(self, window: Window) -> Window:
        tensors = window.model.graph.initializer
        large = [tensor.name for tensor in tensors if onnx_weights.bytes_of(tensor) > SMALL_CONSTANT]
        for name in large:
            found = self._first_that_fails_alike(_generated(window, name))
            if found is not None:
                window = found
        return window

    def _first_that_fails_alike(self, candidates: Iterator[Window | None]) -> Window | None:
        for candidate in candidates:
            if candidate is None:
                continue
            if self._trials >= MAX_TRIALS:
                return None
            self._trials += 1
            computed = self._computed(candidate)
            if computed is not None and self._fails_alike(computed):
                return computed
        return None

    def _computed(self, window: Window) -> Window | None:
        """The window with what the oracle gives for its inputs; None where that is invalid or no control."""
        try:
            shape_inference.infer_shapes(window.model, check_type=True, strict_mode=True, data_prop=True)
            expected = self._oracle(window.model, window.feeds)
        except Exception as error:  # noqa: BLE001 - ONNX and its runtimes raise errors of many types.
            print(f"a smaller window is invalid: {first_line(error)}", flush=True)
            return None
        if expected.keys() != self.window.expected.keys():
            return None
        if not all(_is_control(value, self.window.expected[name]) for name, value in expected.items()):
            return None
        outputs = [_info(name, expected[name]) for name in (value.name for value in window.model.graph.output)]
        onnx_messages.refill(window.model.graph.output, outputs)
        return Window(window.nodes, window.model, window.feeds, expected)


def size_of(window: Window) -> int:
    """Bytes of the model and its inputs."""
    return int(window.model.ByteSize()) + sum(value.nbytes for value in window.feeds.values())


def _is_control(value: np.ndarray, original: np.ndarray) -> bool:
    """Whether an output is finite, and varies if that of the original window does."""
    if value.dtype != original.dtype or value.ndim != original.ndim or not value.size:
        return False
    if value.dtype.kind == "f" and np.isfinite(original).all() and not np.isfinite(value).all():
        return False
    return _is_constant(original) or not _is_constant(value)


def _is_constant(value: np.ndarray) -> bool:
    return bool((value == value.reshape(-1)[:1]).all())


def _with_initializers(window: Window) -> Window:
    """The window with the tensors of its Constant nodes as initializers."""
    nodes = []
    constants = []
    for node in window.model.graph.node:
        value = next((each.t for each in node.attribute if each.name == "value"), None)
        if node.op_type == "Constant" and value is not None and node.output[0] not in window.expected:
            constants.append(numpy_helper.from_array(numpy_helper.to_array(value), node.output[0]))
        else:
            nodes.append(node)
    weights = [*window.model.graph.initializer, *constants]
    return _made(window, nodes, weights, window.feeds) if constants else window


def _extents(window: Window) -> list[int]:
    """The sizes above 1 of inputs and constants, the largest first."""
    shapes = [value.shape for value in window.feeds.values()]
    shapes += [tuple(tensor.dims) for tensor in _sliced(window)]
    return sorted({size for shape in shapes for size in shape if size > 1}, reverse=True)


def _smaller(extent: int) -> list[int]:
    return sorted({size for size in (*SIZES, extent // 2) if 0 < size < extent})


def _sliced(window: Window) -> list[onnx.TensorProto]:
    """The constants that have sizes of their own, and do not give shapes, axes or places."""
    given = _shape_names(window)
    return [tensor for tensor in window.model.graph.initializer if tensor.name not in given]


def _shape_names(window: Window) -> set[str]:
    return {name for node in window.model.graph.node for name in shapes_of(node)}


def _resized(window: Window, extent: int, size: int) -> Window:
    """The window with `size` in the place of `extent`, in all inputs, constants and constant shapes."""
    feeds = {name: _cut(value, extent, size) for name, value in window.feeds.items()}
    given = _shape_names(window)
    weights = []
    for tensor in window.model.graph.initializer:
        value = numpy_helper.to_array(tensor)
        if tensor.name not in given:
            other = _cut(value, extent, size)
        elif value.dtype == np.int64:
            other = np.where(value == extent, size, value)
        else:
            other = value
        weights.append(numpy_helper.from_array(np.asarray(other, value.dtype), tensor.name))
    return _made(window, list(window.model.graph.node), weights, feeds)


def _cut(value: np.ndarray, extent: int, size: int) -> np.ndarray:
    """The first `size` values along each axis of the size `extent`."""
    cut = value[tuple(slice(size) if each == extent else slice(None) for each in value.shape)]
    # A scalar stays one: `ascontiguousarray` would make it a vector.
    return cut.copy()


def _generated(window: Window, name: str) -> Iterator[Window | None]:
    """The window with a constant that nodes make of fewer numbers: of one, or of one row of seeded numbers."""
    tensor = next(each for each in window.model.graph.initializer if each.name == name)
    value = numpy_helper.to_array(tensor)
    rest = [each for each in window.model.graph.initializer if each.name != name]
    nodes = list(window.model.graph.node)
    shape = numpy_helper.from_array(np.array(value.shape, np.int64), f"{name}_shape")
    one = numpy_helper.from_array(_typical(value).reshape(1), "value")
    fill = helper.make_node("ConstantOfShape", [shape.name], [name], f"{name}_filled", value=one)
    yield _made(window, [fill, *nodes], [*rest, shape], window.feeds)
    if tensor.data_type != TensorProto.FLOAT or value.ndim < 2:
        return
    row = _seeded_row(value)
    repeated = helper.make_node("Expand", [f"{name}_row", shape.name], [name], f"{name}_repeated")
    row_tensor = numpy_helper.from_array(row, f"{name}_row")
    yield _made(window, [repeated, *nodes], [*rest, shape, row_tensor], window.feeds)


def _typical(value: np.ndarray) -> np.ndarray:
    """The value whose magnitude is nearest to the root mean square; the first one of whole numbers."""
    flat = value.reshape(-1)
    if value.dtype.kind != "f":
        return flat[0]
    sizes = np.abs(flat.astype(np.float64))
    return flat[np.argmin(np.abs(sizes - np.sqrt(np.mean(sizes**2))))]


def _seeded_row(value: np.ndarray) -> np.ndarray:
    """Seeded numbers along the longest axis, with the mean and the deviation of the constant."""
    axis = int(np.argmax(value.shape))
    shape = [size if at == axis else 1 for at, size in enumerate(value.shape)]
    numbers = np.random.default_rng(SEED).standard_normal(shape)
    return (value.mean() + value.std() * numbers).astype(np.float32)


def _made(window: Window, nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto], feeds: Tensors) -> Window:
    """A window of these parts, with outputs of unknown sizes, which the oracle has not computed yet."""
    model = onnx.ModelProto()
    model.CopyFrom(window.model)
    onnx_messages.refill(model.graph.node, nodes)
    onnx_messages.refill(model.graph.initializer, weights)
    onnx_messages.refill(model.graph.input, [_info(name, value) for name, value in feeds.items()])
    outputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), None)
        for name, value in window.expected.items()
    ]
    onnx_messages.refill(model.graph.output, outputs)
    return Window(window.nodes, model, feeds, window.expected)


def _info(name: str, value: np.ndarray) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)

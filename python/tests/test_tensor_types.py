"""How generated tests read, feed, compare and write tensors of every type, bfloat16 above all. Skipped without numpy
and jinja2."""

from __future__ import annotations

import importlib.util
import math
import runpy
import tempfile
import unittest
from pathlib import Path
from typing import Any

from tests.generated import rendered

MODULES = ("numpy", "jinja2")
# Bits of bfloat16 and the numbers that they are.
BITS = [
    (0x0000, 0.0),
    (0x3F80, 1.0),
    (0xC000, -2.0),
    (0x4049, 3.140625),
    (0x0001, 2.0**-133),
    (0x0080, 2.0**-126),
    (0x7F7F, (2 - 2.0**-7) * 2.0**127),
    (0x7F80, math.inf),
    (0xFF80, -math.inf),
]
TYPES = "float64 float32 float16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool".split()


def has(*modules: str) -> bool:
    return all(importlib.util.find_spec(name) for name in modules)


@unittest.skipUnless(has(*MODULES), "numpy or jinja2 is not installed")
class TensorTypes(unittest.TestCase):
    root: Path

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = Path(folder.name)

    def of(self, hardware: str, **given: Any) -> dict[str, Any]:
        """The functions of a generated test."""
        path = self.root / f"test_{hardware}.py"
        path.write_text(rendered(hardware, **given), "utf-8")
        return runpy.run_path(str(path))

    def bfloat16(self, *shape: int) -> Any:
        import numpy as np

        from orch_py.judge import judge

        return np.array([bits for bits, _ in BITS], "<u2").reshape(shape or -1).view(judge.BFLOAT16)

    def tensors(self) -> dict[str, Any]:
        import numpy as np

        made = {name: np.array([[0, 1, 1], [1, 0, 1]], name) for name in TYPES}
        return made | {
            "bfloat16": self.bfloat16(3, 3),
            "transposed": np.arange(6.0).reshape(2, 3).T,
            "scalar": np.array(7),
            "bfloat16 scalar": self.bfloat16()[3],
            "empty": np.zeros((0, 4), np.float32),
        }

    def test_bits_are_the_numbers_that_they_stand_for(self) -> None:
        from orch_py.judge import judge

        wide = judge.widened(self.bfloat16(3, 3))
        self.assertEqual((wide.dtype.name, wide.shape), ("float32", (3, 3)))
        self.assertEqual(wide.reshape(-1).tolist(), [number for _, number in BITS])
        self.assertEqual(judge.widened(self.bfloat16()[3]).shape, ())
        if has("torch"):
            import torch

            like = torch.tensor([bits for bits, _ in BITS], dtype=torch.uint16).view(torch.bfloat16).float()
            self.assertEqual(like.tolist(), wide.reshape(-1).tolist())

    def test_files_hold_every_type_and_come_back_as_they_were(self) -> None:
        import numpy as np

        functions, path = self.of("ort"), self.root / "all.safetensors"
        tensors = {name: np.asarray(value) for name, value in self.tensors().items()}
        functions["write_tensors"](path, tensors)
        found = functions["read_tensors"](path)
        self.assertEqual(list(found), list(tensors))
        for name, value in tensors.items():
            self.assertEqual((found[name].dtype, found[name].shape), (value.dtype, value.shape), name)
            np.testing.assert_array_equal(found[name], value, name)

    @unittest.skipUnless(has("safetensors", "ml_dtypes"), "safetensors or ml_dtypes is not installed")
    def test_files_are_those_of_the_library(self) -> None:
        import ml_dtypes
        import numpy as np
        from safetensors.numpy import load_file, save_file

        functions, path = self.of("ort"), self.root / "library.safetensors"
        tensors = {name: np.ascontiguousarray(value) for name, value in self.tensors().items()}
        functions["write_tensors"](path, tensors)
        theirs = load_file(path)
        for name, value in tensors.items():
            same = value.view(ml_dtypes.bfloat16) if "bfloat16" in name else value
            self.assertEqual(theirs[name].dtype, same.dtype)
            np.testing.assert_array_equal(theirs[name], same, name)
        save_file(theirs, path, {"format": "np"})
        for name, value in functions["read_tensors"](path).items():
            np.testing.assert_array_equal(value, tensors[name], name)

    @unittest.skipUnless(has("onnxruntime"), "onnxruntime is not installed")
    def test_onnx_runtime_takes_and_gives_them(self) -> None:
        import numpy as np

        functions = self.of("ort")
        for kind, name in (("bfloat16", "bfloat16"), ("float", "float32"), ("int64", "int64")):
            value = functions["as_value"](self.tensors()[name], f"tensor({kind})")
            self.assertEqual((value.data_type(), value.shape()), (f"tensor({kind})", list(self.tensors()[name].shape)))
            np.testing.assert_array_equal(functions["as_array"](value), self.tensors()[name])
        with self.assertRaisesRegex(TypeError, "the model takes bfloat16, not float32"):
            functions["as_value"](self.tensors()["float32"], "tensor(bfloat16)")

    @unittest.skipUnless(has("torch"), "torch is not installed")
    def test_torch_takes_and_gives_them(self) -> None:
        import numpy as np

        functions = self.of("torch")
        for name in ("bfloat16", "bfloat16 scalar", "float16", "float32", "transposed", "bool"):
            value, tensor = np.asarray(self.tensors()[name]), functions["as_tensor"](np.asarray(self.tensors()[name]))
            self.assertEqual(str(tensor.dtype).removeprefix("torch."), functions["type_name"](value))
            back = functions["as_array"](tensor)
            self.assertEqual((back.dtype, back.shape), (value.dtype, value.shape))
            np.testing.assert_array_equal(back, value, name)

    def test_a_type_is_not_another_that_holds_the_same_numbers(self) -> None:
        from orch_py.judge import judge

        ours = self.bfloat16()
        found = judge.tensor_verdict(judge.widened(ours), ours, judge.TOLERANCES["fp32"])
        self.assertEqual(found["wrong"], "its dtype is float32, the reference's is bfloat16")
        self.assertIsNone(judge.tensor_verdict(ours, ours, judge.TOLERANCES["fp32"])["wrong"])

    def test_codes_are_checked_and_shown_as_json_holds_them(self) -> None:
        import json

        import numpy as np

        sound = [{"name": "input_values", "dtype": "float32", "shape": [1, 8]}]
        given = {"template": "audio", "task": "audio-tokenization", "tokens": ["codes"], "inputs": sound}
        functions = self.of("ort", **given, tolerance={})
        codes, values = np.array([[3, 1, 3]]), np.zeros((1, 2), np.float32)
        outputs = {"codes": codes, "values": values}
        self.assertEqual(set(functions["check"]({}, outputs).values()), {True})
        self.assertFalse(functions["check"]({}, outputs | {"codes": -codes})["codes holds whole numbers from 0"])
        self.assertFalse(functions["check"]({}, outputs | {"values": values / np.nan})["no output holds NaN"])
        shown = json.loads(json.dumps([functions["check"]({}, outputs), functions["postprocess"](outputs)]))
        self.assertEqual(shown[1], {"codes": {"shape": [1, 3], "kinds": 2, "first": [3, 1, 3]}})

    def test_rows_are_repeated_and_preprocessing_leaves_them_alone(self) -> None:
        import numpy as np

        value = self.bfloat16(3, 3)
        functions = self.of("ort", template="audio", inputs=[{"name": "x", "dtype": "bfloat16", "shape": [3, 3]}])
        grown = functions["resize_batch"](functions["preprocess"]({"x": value}), 6)["x"]
        self.assertEqual((grown.dtype, grown.shape), (value.dtype, (6, 3)))
        np.testing.assert_array_equal(functions["as_grown"]({"x": value}, {"x": grown})["x"], grown)


if __name__ == "__main__":
    unittest.main()

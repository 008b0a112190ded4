"""Tensors of a tree are brought over byte for byte, whatever their type."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

try:
    import safetensors  # noqa: F401 - the module under test needs it
except ImportError as error:
    raise unittest.SkipTest("safetensors is not installed") from error

from orch_py.worker import trees

# numpy has no bfloat16, so the file is made by hand.
TENSORS = {"b": ("BF16", [2], b"\x80\x3f\x00\x40"), "a": ("I64", [1], b"\x07" + bytes(7)), "c": ("U8", [1], b"\x09")}


def written(path: Path) -> None:
    header, data = {}, b""
    for name, (dtype, shape, content) in TENSORS.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


class Inputs(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree, self.out = Path(folder.name) / "tree", Path(folder.name) / "out"
        self.tree.mkdir()
        self.out.mkdir()
        written(self.tree / trees.INPUTS)

    def test_shapes_are_read_of_types_that_numpy_lacks(self) -> None:
        self.assertEqual(trees.shapes(self.tree, trees.INPUTS), {"a": [1], "b": [2], "c": [1]})

    def test_all_are_the_same_file(self) -> None:
        for names in (None, ["c", "b", "a"]):
            trees.copy_inputs(self.tree, self.out, names)
            self.assertEqual((self.out / trees.INPUTS).read_bytes(), (self.tree / trees.INPUTS).read_bytes())
        self.assertFalse((self.out / trees.CONTROL_INPUTS).exists())

    def test_some_keep_their_bytes(self) -> None:
        trees.copy_inputs(self.tree, self.out, ["c", "a"])
        content = (self.out / trees.INPUTS).read_bytes()
        begin = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:begin])
        self.assertEqual(sorted(header), ["a", "c"])
        for name, entry in header.items():
            first, last = entry["data_offsets"]
            self.assertEqual((entry["dtype"], entry["shape"]), TENSORS[name][:2])
            self.assertEqual(content[begin + first : begin + last], TENSORS[name][2])


if __name__ == "__main__":
    unittest.main()

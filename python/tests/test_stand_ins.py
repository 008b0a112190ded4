"""Which functions stood in for a library's own is counted, and none does where that is forbidden."""

import unittest
from importlib import import_module

from orch_py import stand_ins
from orch_py.stand_ins import Help


class StandIns(unittest.TestCase):
    def test_calls_are_counted_by_name_and_only_inside(self) -> None:
        stand_ins.note("outside")
        with stand_ins.recorded() as counts:
            stand_ins.note("cumsum")
            stand_ins.note("as_strided")
            stand_ins.note("cumsum")
        stand_ins.note("outside")
        self.assertEqual(stand_ins.by_name(counts), {"as_strided": 1, "cumsum": 2})

    def test_none_is_allowed_where_it_is_forbidden(self) -> None:
        for allowed in (Help.NONE, Help.LACKING):
            with stand_ins.recorded(allowed):
                self.assertFalse(stand_ins.are_allowed())
        self.assertTrue(stand_ins.are_allowed())

    def test_torch_itself_computes_where_none_is_allowed(self) -> None:
        try:
            import torch

            from orch_py.stand_ins.onnx_equals import Equals
        except ImportError:
            self.skipTest("needs the environment `torch`")
        values = torch.arange(6.0).reshape(2, 3).t()
        both = {"as_strided", "diff"}
        for allowed, expected in ((Help.ALL, both), (Help.LACKING, {"diff"}), (Help.NONE, set())):
            with stand_ins.recorded(allowed) as counts, Equals():
                torch.as_strided(values, (3, 2), (1, 3))
                torch.diff(values)
            self.assertEqual(set(counts), expected)

    def test_the_exporter_lacks_what_is_replaced_at_once(self) -> None:
        try:
            import torch
            from torch.onnx._internal.torchscript_exporter import registration

            from orch_py.ops.export_onnx import DEFAULT_OPSET
            from orch_py.stand_ins.onnx_equals import EQUALS, LACKING, Equals
        except ImportError:
            self.skipTest("needs the environment `torch`")
        self.assertLessEqual(LACKING, set(EQUALS))
        for opset in range(9, 21):
            import_module(f"torch.onnx._internal.torchscript_exporter.symbolic_opset{opset}")
        invalid = {torch.cumsum, torch.Tensor.cumsum}
        has = [
            func for func in LACKING - invalid if registration.registry.is_registered_op(f"aten::{func.__name__}", 20)
        ]
        self.assertEqual(has, [])
        self.assertTrue(registration.registry.is_registered_op("aten::cumsum", DEFAULT_OPSET))
        with stand_ins.recorded(Help.LACKING) as counts, Equals():
            torch.cumsum(torch.ones(3), 0)
            self.assertEqual(counts, {})
            torch.cumsum(torch.ones(3, dtype=torch.bool), 0)
            self.assertEqual(set(counts), {"cumsum"})


if __name__ == "__main__":
    unittest.main()

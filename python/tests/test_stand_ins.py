"""Which functions stood in for a library's own is counted, and none does where that is forbidden."""

import unittest

from orch_py import stand_ins


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
        with stand_ins.recorded(allowed=False):
            self.assertFalse(stand_ins.are_allowed())
        self.assertTrue(stand_ins.are_allowed())

    def test_torch_itself_computes_where_none_is_allowed(self) -> None:
        try:
            import torch

            from orch_py.onnx_equals import Equals
        except ImportError:
            self.skipTest("needs the environment `torch`")
        values = torch.arange(6.0).reshape(2, 3).t()
        for allowed, expected in ((True, {"as_strided"}), (False, set())):
            with stand_ins.recorded(allowed) as counts, Equals():
                torch.as_strided(values, (3, 2), (1, 3))
            self.assertEqual(set(counts), expected)


if __name__ == "__main__":
    unittest.main()

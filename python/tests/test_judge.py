"""The verdict in Python, on the tables of tensors by which the verdict in Rust is tested too. Skipped without numpy."""

from __future__ import annotations

import importlib.util
import json
import unittest
from pathlib import Path
from typing import Any

CASES = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "judge" / "cases.json"
SLICES = CASES.with_name("slices.json")


def array(values: list[Any], dtype: str, shape: list[int]) -> Any:
    import numpy as np

    from orch_py.judge import judge

    numbers = [float(value) if isinstance(value, str) else value for value in values]
    if dtype == "bfloat16":
        # To the nearest, and of two as near to the even one.
        bits = np.array(numbers, np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").view(judge.BFLOAT16).reshape(shape)
    return np.array(numbers, dtype).reshape(shape)


@unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
class Judge(unittest.TestCase):
    def judged(self, case: dict[str, Any]) -> dict[str, Any]:
        from orch_py.judge import judge

        dtype, shape = case["dtype"], case["shape"]
        ours = array(case["ours"], case.get("ours_dtype", dtype), case.get("ours_shape", shape))
        return judge.tensor_verdict(
            ours, array(case["reference"], dtype, shape), case["tolerance"], case.get("tokens", False)
        )

    def assert_figures(self, found: Any, expected: Any) -> None:
        if isinstance(expected, dict):
            self.assertEqual(sorted(found), sorted(expected))
            for name, value in expected.items():
                self.assert_figures(found[name], value)
        elif expected is None:
            self.assertIsNone(found)
        else:
            self.assertLessEqual(abs(found - expected), 1e-9 * max(1e-15, abs(expected)))

    def test_every_case_of_the_table(self) -> None:
        cases = json.loads(CASES.read_text("utf-8"))
        self.assertGreater(len(cases), 90)
        self.assertEqual(len({case["name"] for case in cases}), len(cases))
        for case in cases:
            with self.subTest(case["name"]):
                found = self.judged(case)
                said = "wrong" if found["wrong"] else "agrees" if found["decides"] else "nothing"
                self.assertEqual(said, case["expect"], found["wrong"])
                self.assert_figures({name: found[name] for name in case["figures"]}, case["figures"])
                json.dumps(found, allow_nan=False)

    def test_every_slice_of_the_table(self) -> None:
        from orch_py.judge import judge

        for case in json.loads(SLICES.read_text("utf-8")):
            tensors = ("ours", "reference", "control_ours", "control_reference")
            given = {
                name: {"y": array(case[name], "float32", case["shape"])} if case[name] is not None else None
                for name in tensors
            }
            ours, reference = given["ours"] or {}, given["reference"] or {}
            control_ours, control_reference = given["control_ours"], given["control_reference"]
            with self.subTest(case["name"]):
                status, reason = judge.decide(ours, reference, case["tolerance"], control_ours, control_reference)
                self.assertEqual(status, case["expect"], reason)
                if case["slices"]:
                    found = judge.small_slices(ours, reference, case["tolerance"], control_ours, control_reference)
                    self.assertEqual(found["y"], case["slices"])

    def test_the_figures_of_a_tensor_reckoned_by_hand(self) -> None:
        import numpy as np

        from orch_py.judge import judge

        tolerance = {"atol": 0.1, "rtol": 0.0, "budget": 0.25, "cosine": 0.9, "snr": 10.0}
        # The median is 3.5, so that 1000 counts as 14: the root of (9 + 16 + 9 + 196) / 4.
        reference = np.array([[3.0, -4.0], [3.0, 1000.0]])
        ours = np.array([[4.0, -4.0], [3.0, 1000.0]])
        found = judge.tensor_verdict(ours, reference, tolerance)
        scale = 57.5**0.5
        expected = {"max_abs": 1.0, "mae": 0.25, "scale": scale, "over": 0.25, "worst": 10 / scale, "sentinels": 0}
        self.assert_figures({name: found[name] for name in expected}, expected)
        self.assert_figures(found["row_cosine"]["worst"], 28 / (5 * 32**0.5))
        self.assertIsNone(found["wrong"])
        self.assertRegex(judge.tensor_verdict(-ours, reference, tolerance)["wrong"], r"^at \[1, 1\] it is -1000 where ")

    def test_outputs_that_are_lacking_or_too_many_disagree(self) -> None:
        import numpy as np

        from orch_py.judge import judge

        one, tolerance = np.ones(3, np.float32), judge.TOLERANCES["fp32"]
        self.assertEqual(judge.verdict({"a": one}, {"a": one}, tolerance)["agrees"], True)
        found = judge.verdict({"b": one}, {"a": one}, tolerance)
        self.assertEqual((found["agrees"], found["reason"]), (False, "the outputs lack `a`; and 1 more"))
        found = judge.verdict({"a": one, "b": one}, {"a": one}, tolerance)
        self.assertEqual(found["reason"], "the reference lacks `b`")
        self.assertFalse(judge.verdict({"a": one[:0]}, {"a": one[:0]}, tolerance)["decides"])

    def test_the_three_verdicts(self) -> None:
        import numpy as np

        from orch_py.judge import judge

        def of(*values: float) -> dict[str, Any]:
            return {"logits": np.array(values, np.float32)}

        right, other, tolerance = of(1.0, -2.0, 3.0), of(2.0, 1.0, -1.0), judge.TOLERANCES["int8"]
        near = of(1.01, -2.02, 3.03)
        for given, expected, said in (
            ((right,), "PASS", ""),
            ((right, other, other), "PASS", ""),
            ((other,), "NUMERICS", "`logits`: at"),
            ((right, right, other), "NUMERICS", "right on the first input, wrong on the control's: `logits`: at"),
            ((right, near, near), "INDECISIVE", "the outputs of another input would pass as well: they differ by 0.03"),
            ((right, None, near), "INDECISIVE", "another input"),
            ((right, other, other, near, "encoder.layer.1"), "INDECISIVE", "without `encoder.layer.1` would pass"),
            ((right, other, other, other), "PASS", ""),
            ((other, near, near), "NUMERICS", ""),
        ):
            outputs, *more = given
            status, reason = judge.decide(outputs, right, tolerance, *more)
            self.assertEqual(status, expected, reason)
            self.assertIn(said, reason or "")

    def test_tokens_pass_only_where_wrong_ones_would_not(self) -> None:
        import numpy as np

        from orch_py.judge import judge

        def of(*ids: int) -> dict[str, Any]:
            return {"ids": np.array(ids).reshape(3, 10)}

        pad, text, following = [0] * 27, [n * 7919 % 101 for n in range(30)], [n * 104729 % 97 for n in range(30)]
        right, other, one_off = of(17, 4, 92, *pad), of(5, 60, 3, *pad), of(*text[:3], text[3] + 1, *text[4:])
        for outputs, control_outputs, reference, control, expected in (
            (one_off, of(*following), of(*text), of(*following), "PASS"),
            (of(*following), one_off, of(*following), of(*text), "PASS"),
            (of(*text), of(*text), of(*text), of(*following), "NUMERICS"),
            (of(*text[10:20], *text[:10], *text[20:]), of(*following), of(*text), of(*following), "NUMERICS"),
            (of(text[29], *text[:29]), of(*following), of(*text), of(*following), "NUMERICS"),
            (of(*text), one_off, of(*text), one_off, "INDECISIVE"),
            (right, other, right, other, "PASS"),
            (other, other, right, other, "NUMERICS"),
            (of(*[5] * 30), of(*[5] * 30), of(*[5] * 30), of(*[5] * 30), "INDECISIVE"),
        ):
            given = (outputs, reference, judge.TOLERANCES["fp16"], control_outputs, control)
            status, reason = judge.decide(*given, tokens=["ids"])
            self.assertEqual(status, expected, reason)
            if status == "INDECISIVE":
                self.assertRegex(reason or "", "; (1|0.966667) of the tokens are the same$")
            same = np.array_equal(outputs["ids"], reference["ids"])
            self.assertTrue(judge.decide(*given)[0] != "PASS" or same)

    def test_no_output_decides_nothing(self) -> None:
        import numpy as np

        from orch_py.judge import judge

        tolerance = judge.TOLERANCES["int8"]
        nothing = {"logits": np.zeros((0, 4), np.float32)}
        self.assertEqual(judge.decide(nothing, nothing, tolerance)[0], "INDECISIVE")


if __name__ == "__main__":
    unittest.main()

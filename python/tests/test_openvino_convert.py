"""What OpenVINO does not convert is its refusal, in its telling words. The real one is asked where it is installed."""

from __future__ import annotations

import importlib.util
import itertools
import json
import shutil
import tempfile
import unittest
from pathlib import Path

from orch_py.export.openvino_words import telling

HERE = all(importlib.util.find_spec(name) for name in ("openvino", "safetensors", "numpy"))
QUANTISES = HERE and bool(importlib.util.find_spec("nncf"))
# `Det` of a float matrix, and `CumSum`.
LACKING = Path(__file__).resolve().parents[2] / "tests/fixtures/browser/lacking.onnx"

REPORT = """Check 'false' failed at src/frontends/common_translators/src/unconverted_ops_report.cpp:151:
FrontEnd API failed with OpConversionFailure:
Model wasn't fully converted."""


class Words(unittest.TestCase):
    """Texts of OpenVINO 2026.4.1, as they are."""

    def test_the_reason_is_told_and_not_the_place(self) -> None:
        grid = """
-- GridSample-22 with a message:
[ONNX Frontend] Conversion failed for GridSample-22
Check '(data_rank.is_dynamic() || data_rank.get_length() == 4)' failed at src/frontends/onnx/op/grid_sample.cpp:27:
While validating ONNX node '<Node(GridSample): Y>':
GridSample is only supported for 4D input tensors. Got rank: 5
"""
        split = """
-- Split-20 with a message:
[ONNX Frontend] Conversion failed for Split-20
While validating ONNX node '<Node(Split): n>': Check 'false' failed at src/frontends/onnx/utils/split.cpp:33:
FrontEnd API failed with GeneralFailure:
The split number is invalid
"""
        detailed = f"{REPORT} Failed operations detailed log:{grid}{split}\nSummary:\n"
        for text, told in (
            (
                f"{REPORT}\nSummary:\n-- No conversion rule found for operations: Det-17\n",
                "No conversion rule found for operations: Det-17",
            ),
            (
                f"{detailed}-- No conversion rule found for operations: Det-17\n"
                "-- Conversion is failed for: GridSample-22, Split-20\n",
                "GridSample-22: GridSample is only supported for 4D input tensors. Got rank: 5; "
                "Split-20: The split number is invalid; No conversion rule found for operations: Det-17",
            ),
            (
                "Check 'false' failed at src/frontends/frontend.cpp:59:\nLoading input model\nUnsupported type\n",
                "Unsupported type",
            ),
            (
                "Exception from src/core/src/partial_shape.cpp:267:\nto_shape was called on a dynamic shape.\n",
                "to_shape was called on a dynamic shape.",
            ),
            # Words that are not known are not lost.
            ("Check 'x' failed at a.cpp:1:\n", "Check 'x' failed at a.cpp:1:"),
            ("", ""),
        ):
            self.assertEqual(telling(text), told)


@unittest.skipUnless(HERE, "openvino is not installed")
class OpenvinoConvert(unittest.TestCase):
    def test_an_operator_without_a_rule_is_refused_by_its_name(self) -> None:
        import numpy as np

        from orch_py.ops import openvino_convert
        from orch_py.worker import trees
        from orch_py.worker.protocol import Job, Refused, outcome_of

        with tempfile.TemporaryDirectory() as folder:
            tree, out = Path(folder) / "onnx", Path(folder) / "out"
            for path in (tree, out):
                path.mkdir()
            shutil.copyfile(LACKING, tree / "model.onnx")
            (tree / trees.MANIFEST).write_text(json.dumps({"inputs": ["x", "n"], "outputs": ["y", "s"]}))
            inputs = {"x": np.ones((1, 2, 2), np.float32), "n": np.ones((1, 4), np.int64)}
            trees.write_tensors(tree, trees.INPUTS, inputs)
            job = Job(params={"precision": "fp32"}, inputs={"onnx": tree}, out=out, progress=print)
            with self.assertRaises(Refused) as caught:
                openvino_convert.run(job)
            outcome = outcome_of(caught.exception)
            self.assertEqual(outcome.status, "unsupported")
            reason = r"OpenVINO \S+ does not convert the model: No conversion rule found for operations: Det-\d+"
            self.assertRegex(outcome.reason or "", f"^{reason}$")
            # What is not OpenVINO's word on a model is no refusal.
            (tree / "model.onnx").unlink()
            with self.assertRaises(Exception) as any_error:
                openvino_convert.run(job)
            self.assertEqual(outcome_of(any_error.exception).status, "error")

    @unittest.skipUnless(QUANTISES, "nncf is not installed")
    def test_calibrated_int8_takes_products_alone_and_keeps_to_its_range(self) -> None:
        import numpy as np

        import openvino
        from openvino import opset13 as ops
        from orch_py.inputs import calibration
        from orch_py.ops import openvino_convert
        from orch_py.worker import trees
        from orch_py.worker.protocol import Job

        random = np.random.default_rng(0)
        # What a causal mask is made of: in 8 bits nothing of the sum would be left.
        mask = np.zeros((1, 16), np.float32)
        mask[0, 3] = -3.4e38
        given = ops.parameter([4, 16], np.float32, name="x")
        weights = ops.constant(random.standard_normal((16, 16)).astype(np.float32))
        product = ops.matmul(given, weights, False, False)
        masked = ops.softmax(ops.add(product, ops.constant(mask)), 1)
        second = ops.matmul(masked, ops.constant(random.standard_normal((16, 16)).astype(np.float32)), False, False)
        with tempfile.TemporaryDirectory() as folder:
            tree, sets = Path(folder) / "onnx", Path(folder) / "sets"
            for path in (tree, sets):
                path.mkdir()
            values = [random.uniform(-1, 1, (4, 16)).astype(np.float32) for _ in range(9)]
            trees.write_tensors(tree, trees.INPUTS, {"x": values[0]})
            for number, value in enumerate(values[1:]):
                trees.write_tensors(sets, f"{number:04}.safetensors", {"x": value})

            def made(range_: str) -> tuple[openvino.Model, dict[str, object], np.ndarray]:
                model = openvino.Model([second], [given], "main")
                model.inputs[0].set_names({"x"})
                facts: dict[str, object] = {}
                params = {"precision": "int8-static", "range": range_}
                job = Job(params=params, inputs={"onnx": tree, "calibration": sets}, out=Path(folder), progress=print)
                data = calibration.sets(job, tree, ["x"])
                model = openvino_convert._calibrated(model, job, data, facts)
                compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
                return model, facts, compiled([values[0]])[0]

            right = openvino.Core().compile_model(openvino.Model([second], [given], "main"), "CPU")([values[0]])[0]
            model, facts, got = made("reduced")
            self.assertLess(float(np.abs(got - right).max()), 0.1 * float(np.abs(right).max()))
            self.assertEqual((facts["range"], openvino_convert._reach(model)), ("reduced", 64))
            self.assertEqual((facts["quantised_weights"], facts["quantised_activations"]), (2, 2))
            self.assertIn("calibrated on 8 other sets of inputs", str(facts["scheme"]))
            model, facts, _ = made("full")
            self.assertEqual((facts["range"], openvino_convert._reach(model)), ("full", 127))
            self.assertIn("without VNNI saturate", str(facts["scheme"]))

    def test_int4_is_counted_by_what_is_multiplied(self) -> None:
        import numpy as np

        import openvino
        from openvino import opset13 as ops
        from orch_py.ops import openvino_convert
        from orch_py.worker.protocol import Refused

        random = np.random.default_rng(0)

        def model(*widths: int) -> openvino.Model:
            given = ops.parameter([4, widths[0]], np.float32, name="x")
            made = given
            for shape in itertools.pairwise(widths):
                weights = ops.constant(random.standard_normal(shape).astype(np.float32))
                made = ops.matmul(made, weights, False, False)
            return openvino.Model([made], [given], "main")

        facts: dict[str, object] = {}
        made = openvino_convert._in_four_bits(model(64, 48, 64, 32), facts)
        # The last product stays in 8 bits, and 48 is a multiple of 16 alone.
        self.assertEqual(facts["weights"], {"int4": 64 * 48 + 48 * 64, "int8": 64 * 32})
        self.assertEqual(facts["nodes"], {"int4": 2, "int8": 1})
        self.assertIn("groups of 32, or 16", str(facts["scheme"]))
        kinds = {n.get_element_type().get_type_name() for n in made.get_ops() if n.get_type_name() == "Constant"}
        self.assertTrue({"u4", "u8"} <= kinds)
        # One product is the last, so nothing is left for 4 bits; of widths that no group divides nothing is taken.
        for widths in ((64, 32), (24, 24, 24)):
            with self.assertRaisesRegex(Refused, "only 0 of .* weights that the model multiplies by became int4"):
                openvino_convert._in_four_bits(model(*widths), {})


if __name__ == "__main__":
    unittest.main()

"""What a runtime refuses, and what ends its process: the class of an error, the windows, and the folder."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

from orch_py.worker.protocol import Job, Refused

HAS_ONNX = all(importlib.util.find_spec(name) for name in ("numpy", "onnx", "onnxruntime", "safetensors"))
if HAS_ONNX:
    import numpy as np

    from orch_py.worker import trees

# A process in the place of OpenVINO's. It dies by a model with a Mod, refuses one with an Elu, and else copies its
# inputs to its outputs.
STAND_IN = """
import json, os, pathlib, shutil, signal, sys
print(json.dumps({"version": "1"}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    model = pathlib.Path(request["model"]).read_bytes()
    if b"Mod" in model:
        os.kill(os.getpid(), signal.SIGSEGV)
    text = "RuntimeError: Exception from src/core.cpp:97:\\nno Elu of 0x7f00 in '/net/Elu_3'"
    error = text if b"Elu" in model else None
    shutil.copy(request["feeds"], request["out"])
    print(json.dumps({"error": error}), flush=True)
"""


@unittest.skipUnless(HAS_ONNX, "onnxruntime is not installed")
class ErrorClasses(unittest.TestCase):
    def test_what_differs_from_window_to_window_is_left_out(self) -> None:
        from orch_py.blame.faults import error_class

        pairs = [
            (
                "RuntimeError: Exception from src/core.cpp:97:\nCheck 'a == 3' failed at src/x/a.cpp:1:\nno rank 3",
                "RuntimeError: Exception from src/other.cpp:9:\nCheck 'b == 4' failed at src/x/a.cpp:12:\nno rank 4",
            ),
            (
                "Fail: Reshape node. Name:'/a/Reshape_1' /onnx/helper.h:39 shape:{1,2,3}, requested shape:{4}",
                "Fail: Reshape node. Name:'/b' /onnx/helper.h:41 shape:{1,2}, requested shape:{40}",
            ),
            ("Fault at 0x7fae0012 of onnx::Add_12", "Fault at 0x12 of onnx::Add_7"),
        ]
        for one, other in pairs:
            self.assertEqual(error_class(one), error_class(other))
        self.assertNotEqual(error_class("Fail: no Elu"), error_class("Fail: no Relu"))
        self.assertEqual(error_class(""), "")


@unittest.skipUnless(HAS_ONNX, "onnxruntime is not installed")
class Refusals(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def model(self, *operators: str) -> Any:
        """A chain of operators of one or two operands, in 64-bit floats."""
        from onnx import TensorProto, helper, numpy_helper

        unary = ("Elu", "Neg", "Abs")
        nodes = []
        last = "x"
        for at, operator in enumerate(operators):
            more = {"fmod": 1} if operator == "Mod" else {}
            inputs = [last] if operator in unary else [last, "two"]
            last = f"value{at}"
            nodes.append(helper.make_node(operator, inputs, [last], f"node{at}", **more))
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.DOUBLE, [2, 3])],
            [helper.make_tensor_value_info(last, TensorProto.DOUBLE, None)],
            [numpy_helper.from_array(np.array([2.0], np.float64), "two")],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def blamed(self, model: Any, **params: Any) -> dict[str, Any]:
        import onnx

        from orch_py.ops import blame

        artefact, out = self.folder / "artefact", self.folder / "out"
        for folder in (artefact, out):
            folder.mkdir()
        onnx.save(model, artefact / "model.onnx")
        trees.write_tensors(artefact, trees.INPUTS, {"x": np.linspace(-2, 3, 6).reshape(2, 3)})
        blame.run(Job({"mode": "refusal"} | params, {"artefact": artefact}, out, lambda _: None))
        finding: dict[str, Any] = json.loads((out / blame.FINDING).read_text("utf-8"))
        return finding

    def shown(self) -> subprocess.CompletedProcess[str]:
        repro = self.folder / "out" / "repro"
        return subprocess.run([sys.executable, "run.py"], cwd=repro, capture_output=True, text=True, check=False)

    def test_the_node_is_found_that_onnx_runtime_has_no_kernel_for(self) -> None:
        finding = self.blamed(self.model("Neg", "Mul", "Elu", "Add", "Abs"))
        self.assertEqual(finding["verdict"], "refused")
        self.assertEqual([node["operator"] for node in finding["nodes"]], ["Elu"])
        self.assertIn("NOT_IMPLEMENTED", finding["error"]["class"])
        self.assertIn("Elu", finding["error"]["message"])
        self.assertIn("without graph optimisation too", finding["pass"]["stage"])
        self.assertRegex(finding["signature"], r"\| refused: .*NOT_IMPLEMENTED.* \| Elu \| float64$")
        shown = self.shown()
        self.assertEqual(shown.returncode, 1, shown.stdout + shown.stderr)
        self.assertIn("Elu", (self.folder / "out" / "repro" / "README.md").read_text("utf-8"))

    def test_two_refused_nodes_are_two_places(self) -> None:
        finding = self.blamed(self.model("Elu", "Mul", "Elu", "Add"))
        self.assertEqual(finding["places"], [["Elu"], ["Elu"]])

    def test_what_runs_is_not_reproduced(self) -> None:
        finding = self.blamed(self.model("Neg", "Mul"))
        self.assertEqual(finding["verdict"], "not_reproduced")
        self.assertFalse((self.folder / "out" / "repro").exists())

    def test_the_node_is_found_by_which_the_process_dies(self) -> None:
        from unittest import mock

        from orch_py.blame.accused import OpenVino

        package = self.folder / "package" / "orch_py" / "blame"
        package.mkdir(parents=True)
        (package / "openvino_process.py").write_text(STAND_IN, "utf-8")

        def stand_in(python: str, _: Path, folder: Path) -> OpenVino:
            return OpenVino(python, self.folder / "package", folder)

        with mock.patch("orch_py.ops.blame.OpenVino", stand_in):
            finding = self.blamed(self.model("Neg", "Mul", "Mod", "Add", "Elu"), interpreter=sys.executable)
        self.assertEqual(finding["verdict"], "crashed")
        self.assertEqual([node["operator"] for node in finding["nodes"]], ["Mod"])
        self.assertEqual(finding["error"]["class"], "SIGSEGV")
        self.assertGreater(finding["unresolved"], 0, "the Elu alone fails in another way")
        self.assertEqual(finding["pass"], {"stage": "front end", "name": None})
        self.assertIn("| crashed: SIGSEGV | Mod |", finding["signature"])

    def test_the_program_tells_a_crash_from_another_failure(self) -> None:
        from orch_py.blame import programs

        def ended(body: str, error: str) -> int:
            text = programs.of_refusal("onnxruntime", "crashed", error)
            last = "session.run(None, inputs)"
            self.assertIn(last, text)
            first = next(line for line in text.splitlines() if "InferenceSession(" in line)
            text = text.replace(first, "    pass").replace(last, body)
            (self.folder / "run.py").write_text(text, "utf-8")
            np.savez(self.folder / "inputs.npz", x=np.ones(3))
            return subprocess.run([sys.executable, "run.py"], cwd=self.folder, capture_output=True).returncode

        kill = "import os; os.kill(os.getpid(), 11)"
        self.assertEqual(ended(kill, "SIGSEGV"), 1)
        self.assertEqual(ended(kill, "SIGABRT"), 125)
        self.assertEqual(ended("raise ValueError('no')", "SIGSEGV"), 125)
        self.assertEqual(ended("pass", "SIGSEGV"), 0)

    def test_an_unknown_mode_is_an_error(self) -> None:
        with self.assertRaisesRegex(Refused, "known: values, refusal"):
            self.blamed(self.model("Neg"), mode="crash")


if __name__ == "__main__":
    unittest.main()

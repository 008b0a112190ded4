"""What is to blame for a wrong case: the search, windows, the pass, and the whole op on small graphs."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from orch_py.blame.search import Answer, Search
from orch_py.worker.protocol import Job

HAS_ONNX = all(importlib.util.find_spec(name) for name in ("numpy", "onnx", "onnxruntime", "safetensors"))
if HAS_ONNX:
    import numpy as np

    from orch_py.worker import trees


def planted(*faults: set[int]) -> Callable[[Sequence[int]], Answer]:
    """Nodes are wrong if they hold all of one fault."""
    return lambda nodes: Answer.WRONG if any(fault <= set(nodes) for fault in faults) else Answer.RIGHT


class Searching(unittest.TestCase):
    def found(self, total: int, *faults: set[int]) -> tuple[list[int] | None, int]:
        search = Search(planted(*faults))
        return search.smallest(range(total)), search.tries

    def test_one_node_is_found_by_halving(self) -> None:
        for place in (0, 1, 63, 127):
            nodes, tries = self.found(128, {place})
            self.assertEqual(nodes, [place])
            self.assertLess(tries, 20)

    def test_nodes_that_are_wrong_together_are_found_wherever_they_stand(self) -> None:
        for fault in ({63, 64}, {3, 40}, {0, 127}, {10, 11, 12}, {20, 60, 100}):
            self.assertEqual(self.found(128, fault)[0], sorted(fault))

    def test_a_right_graph_has_no_window(self) -> None:
        self.assertEqual(self.found(50), (None, 1))

    def test_further_places_are_found_before_and_behind(self) -> None:
        search = Search(planted({5}, {40, 41}, {90}))
        first = search.smallest(range(100))
        assert first is not None
        self.assertEqual(sorted([first, *search.others(100, first)]), [[5], [40, 41], [90]])

    def test_a_place_within_the_span_of_another_is_found(self) -> None:
        for faults in (({10, 80}, {40}), ({40}, {10, 80}), ({10, 50}, {30, 80})):
            search = Search(planted(*faults))
            first = search.smallest(range(100))
            assert first is not None
            self.assertEqual(
                sorted([first, *search.others(100, first)]),
                sorted(sorted(fault) for fault in faults),
            )

    def test_a_search_that_used_up_its_tries_says_so(self) -> None:
        search = Search(planted({3, 60}), max_tries=5)
        nodes = search.smallest(range(64))
        assert nodes is not None
        self.assertLessEqual({3, 60}, set(nodes))
        self.assertGreater(len(nodes), 2)
        self.assertEqual((search.tries, search.is_stopped), (5, True))
        ended = Search(planted({3, 60}))
        ended.smallest(range(64))
        self.assertFalse(ended.is_stopped)

    def test_windows_without_an_answer_do_not_hide_a_smaller_wrong_one(self) -> None:
        """Of the windows between 8 and 60 nodes none runs."""

        def answer(nodes: Sequence[int]) -> Answer:
            return Answer.UNRESOLVED if 8 < len(nodes) < 60 else planted({37})(nodes)

        search = Search(answer)
        self.assertEqual(search.smallest(range(64)), [37])
        self.assertGreater(search.unresolved, 0)

    def test_no_set_of_nodes_is_tried_twice(self) -> None:
        tried: list[Sequence[int]] = []

        def answer(nodes: Sequence[int]) -> Answer:
            tried.append(tuple(nodes))
            return planted({7, 30})(nodes)

        Search(answer).smallest(range(64))
        self.assertEqual(len(tried), len(set(tried)))


@unittest.skipUnless(HAS_ONNX, "onnxruntime is not installed")
class Blaming(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def model(self, pads: bool) -> Any:
        """Relu, then a padding with 0 that ONNX Runtime merges into the MaxPool behind it, then a sum."""
        from onnx import TensorProto, helper, numpy_helper

        nodes = [helper.make_node("Sub", ["x", "shift"], ["a"], "first")]
        pooled = "a"
        if pads:
            nodes.append(helper.make_node("Pad", ["a", "pads"], ["padded"], "pad"))
            pooled = "padded"
        nodes += [
            helper.make_node("MaxPool", [pooled], ["pooled"], "pool", kernel_shape=[3, 3], strides=[2, 2]),
            helper.make_node("Mul", ["pooled", "shift"], ["y"], "last"),
        ]
        weights = [
            numpy_helper.from_array(np.array([3.0], np.float32), "shift"),
            numpy_helper.from_array(np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64), "pads"),
        ]
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 9, 9])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def blamed(self, model: Any, reference: np.ndarray | None = None, **params: Any) -> dict[str, Any]:
        import onnx

        from orch_py.blame.windows import Graph
        from orch_py.ops import blame

        artefact, right, out = (self.folder / name for name in ("artefact", "reference", "out"))
        for folder in (artefact, right, out):
            folder.mkdir()
        onnx.save(model, artefact / "model.onnx")
        inputs = {"x": np.random.default_rng(0).standard_normal((1, 2, 9, 9)).astype(np.float32)}
        trees.write_tensors(artefact, trees.INPUTS, inputs)
        outputs = {"y": Graph(model, inputs).values["y"] if reference is None else reference}
        trees.write_tensors(right, trees.REFERENCE, outputs)
        blame.run(Job(params, {"artefact": artefact, "reference": right}, out, lambda _: None))
        finding: dict[str, Any] = json.loads((out / blame.FINDING).read_text("utf-8"))
        return finding

    def test_a_fusion_is_found_by_its_nodes_and_its_name_and_proven(self) -> None:
        finding = self.blamed(self.model(pads=True))
        self.assertEqual(finding["verdict"], "runtime")
        self.assertEqual([node["name"] for node in finding["nodes"]], ["pad", "pool"])
        self.assertEqual(finding["pass"], {"stage": "graph optimisation from level basic on", "name": "Pad_Fusion"})
        self.assertAlmostEqual(finding["injected"], finding["observed"], places=5)
        self.assertIn("| Pad_Fusion | Pad>MaxPool | float32", finding["signature"])
        self.assertIsNone(finding["file_is_wrong"])
        self.assertNotIn("stopped", finding)

        repro = self.folder / "out" / "repro"
        shown = subprocess.run([sys.executable, "run.py"], cwd=repro, capture_output=True, text=True, check=False)
        self.assertEqual(shown.returncode, 1, shown.stdout + shown.stderr)
        self.assertIn("Pad, MaxPool", (repro / "README.md").read_text("utf-8"))

    def test_a_finding_of_a_search_that_was_stopped_says_so(self) -> None:
        finding = self.blamed(self.model(pads=True), max_tries=1)
        self.assertEqual(finding["verdict"], "runtime")
        self.assertEqual(len(finding["nodes"]), 4)
        self.assertEqual(finding["stopped"], "stopped after 1 windows; 4 nodes left")

    def test_another_answer_that_changes_no_output_is_cleared(self) -> None:
        """The order of equal values, which a runtime may choose: a reduction behind it does not see it."""
        from onnx import TensorProto, helper, numpy_helper

        from orch_py.blame.accused import OnnxRuntime
        from orch_py.blame.windows import Graph
        from orch_py.ops import blame

        model = self.model(pads=True)
        model.graph.node.insert(0, helper.make_node("TopK", ["flat", "k"], ["top", "places"], "top", sorted=0))
        model.graph.node.insert(0, helper.make_node("Flatten", ["x"], ["flat"], "flat"))
        model.graph.node.append(helper.make_node("ReduceSum", ["top"], ["sum"], "sum"))
        model.graph.initializer.append(numpy_helper.from_array(np.array([3], np.int64), "k"))
        model.graph.output.append(helper.make_tensor_value_info("sum", TensorProto.FLOAT, None))

        class Reversing(OnnxRuntime):
            """ONNX Runtime, which lists what TopK gives from the other end."""

            def run(self, model: Any, feeds: trees.Tensors, times: int = 1) -> list[trees.Tensors]:
                names = {name for node in model.graph.node if node.op_type == "TopK" for name in node.output}
                return [
                    {name: value[..., ::-1] if name in names else value for name, value in outputs.items()}
                    for outputs in super().run(model, feeds, times)
                ]

        inputs = {"x": np.random.default_rng(0).standard_normal((1, 2, 9, 9)).astype(np.float32)}
        graph = Graph(model, inputs)
        oracle = {name: graph.values[name] for name in graph.outputs}
        finding = blame._of_runtime(Job({}, {}, self.folder, lambda _: None), graph, oracle, Reversing(self.folder))
        assert finding is not None
        self.assertEqual(finding["cleared"], [["TopK"]])
        self.assertEqual(finding["places"], [["Pad", "MaxPool"]])

    def test_a_crash_on_one_window_says_nothing_of_the_next(self) -> None:
        """The process of the other environment is a stand-in here: it dies on what it is told to, and else copies."""
        from orch_py.blame.accused import OpenVino

        package = self.folder / "package" / "orch_py" / "blame"
        package.mkdir(parents=True)
        (package / "openvino_process.py").write_text(
            "import json, os, shutil, sys\n"
            'print(json.dumps({"version": "1"}), flush=True)\n'
            "for line in sys.stdin:\n"
            "    request = json.loads(line)\n"
            '    if request["how"] == "crash":\n'
            "        os._exit(139)\n"
            '    shutil.copy(request["feeds"], request["out"])\n'
            '    print(json.dumps({"error": None}), flush=True)\n',
            "utf-8",
        )
        accused = OpenVino(sys.executable, self.folder / "package", self.folder)
        self.addCleanup(accused.close)
        model, feeds = self.model(pads=False), {"x": np.ones(3, np.float32)}
        with self.assertRaisesRegex(RuntimeError, "ended with 139"):
            accused._process.run(model, feeds, "crash")
        (outputs,) = accused.run(model, feeds)
        np.testing.assert_array_equal(outputs["x"], feeds["x"])

    def test_what_is_right_is_blamed_on_nobody(self) -> None:
        finding = self.blamed(self.model(pads=False))
        self.assertEqual(finding["verdict"], "not_reproduced")
        self.assertFalse((self.folder / "out" / "repro").exists())

    def test_a_file_that_is_wrong_node_by_node_is_the_exporters(self) -> None:
        finding = self.blamed(self.model(pads=False), np.zeros((1, 2, 4, 4), np.float32))
        self.assertEqual(finding["verdict"], "file")
        self.assertIn("`y`", finding["file_is_wrong"])

    def test_what_depends_on_no_input_is_a_constant_of_a_window(self) -> None:
        from onnx import helper

        from orch_py.blame.windows import Graph, open_session, run

        model = self.model(pads=True)
        # The pads are computed, from constants alone.
        model.graph.node.insert(0, helper.make_node("Abs", ["pads"], ["absolute"], "abs"))
        next(node for node in model.graph.node if node.name == "pad").input[1] = "absolute"
        graph = Graph(model, {"x": np.ones((1, 2, 9, 9), np.float32)})
        window = graph.window([2, 3])
        assert window is not None
        self.assertEqual(list(window.feeds), ["a"])
        self.assertEqual([tensor.name for tensor in window.model.graph.initializer], ["absolute"])
        ours = run(open_session(window.model, optimised=False), window.feeds)
        np.testing.assert_array_equal(ours["pooled"], window.expected["pooled"])
        alone = graph.window([0])
        assert alone is not None
        self.assertEqual(list(alone.feeds), ["pads"], "else the runtime would fold it away")


if __name__ == "__main__":
    unittest.main()

"""What the pipelines of their own families ask: of a state, of routers. On models of numpy alone."""

from __future__ import annotations

import importlib.util
import sys
import types
import unittest
from typing import Any
from unittest import mock

from tests.generated import rendered

MODULES = ("numpy", "jinja2")
INPUTS = [{"name": "input_ids", "dtype": "int64", "shape": [1, 8]}]


def functions(pipeline: str, **given: Any) -> dict[str, Any]:
    """What the generated test of ONNX Runtime defines."""
    given = {"task": "text-generation", "pipeline": pipeline, "template": pipeline, "inputs": INPUTS} | given
    given |= {"runtime": "ort", "variant": "cpu-fp32"}
    module = types.ModuleType("generated_by_orch")
    module.__file__ = "test_tiny.py"
    # Dataclasses look their module up.
    with mock.patch.dict(sys.modules, {module.__name__: module}):
        exec(compile(rendered("ort", **given), module.__file__, "exec", dont_inherit=True), vars(module))
    return vars(module)


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in MODULES), "numpy or jinja2 is not installed")
class State(unittest.TestCase):
    def held(self, state_at: Any) -> list[bool]:
        """Of a model whose output at a place is what `state_at` makes of the row and the place."""
        import numpy as np

        test = functions("state-space", infers_more=True)
        test["bind"] = lambda _, feeds: feeds["input_ids"]
        test["infer"] = lambda _, ids: [[[float(state_at(row, place))] for place in range(len(row))] for row in ids]
        test["fetch"] = lambda _, raw: {"logits": np.array(raw, np.float32)}
        ids = np.array([[5, 3, 8, 3, 9, 7, 5, 6]])
        return list(test["infer_more"](types.SimpleNamespace(), {"input_ids": ids}, {})[1].values())

    def test_a_sum_of_what_came_before_is_a_state(self) -> None:
        self.assertEqual(self.held(lambda row, place: row[: place + 1].sum()), [True, True])

    def test_who_looks_ahead_or_forgets_has_none(self) -> None:
        self.assertEqual(self.held(lambda row, _: row.sum()), [False, True])
        self.assertEqual(self.held(lambda row, place: row[place]), [True, False])


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in MODULES), "numpy or jinja2 is not installed")
class Routers(unittest.TestCase):
    def test_the_experts_of_every_token_are_told_and_routers_that_do_not_route_are_found(self) -> None:
        import numpy as np

        test = functions("mixture-of-experts", experts_per_token=2)
        ids, logits = np.arange(8).reshape(1, 8), np.zeros((1, 8, 16), np.float32)
        scores = np.array([[0.1, 0.7, 0.2], [0.5, 0.4, 0.1]] * 4, np.float32)
        outputs = {"logits": logits, "router_logits.0": scores}
        told = test["postprocess"](outputs)["routers"]["router_logits.0"]
        self.assertEqual(told["experts"], [[1, 2], [0, 1]] * 4)
        self.assertEqual((told["tokens_of_expert"], told["in_use"]), ([4, 8, 4], 3))
        self.assertTrue(all(test["check"]({"input_ids": ids}, outputs).values()))
        for wrong in (scores[:4], scores[:, :1], scores * 0):
            found = test["check"]({"input_ids": ids}, {"logits": logits, "router_logits.0": wrong})
            self.assertFalse(all(found.values()), wrong)
        self.assertIsInstance(test["postprocess"]({"logits": logits})["routers"], str)


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in MODULES), "numpy or jinja2 is not installed")
class Classes(unittest.TestCase):
    def test_one_score_is_a_score_and_no_sure_class(self) -> None:
        import numpy as np

        test = functions("text", task="text-classification", result="classes")
        ids = np.zeros((2, 8), np.int64)
        reranked = {"logits": np.array([[0.25], [-3.0]], np.float32)}
        self.assertEqual(test["postprocess"](reranked), {"score": 0.25})
        self.assertTrue(all(test["check"]({"input_ids": ids}, reranked).values()))
        three = {"logits": np.zeros((3, 1), np.float32)}
        self.assertFalse(all(test["check"]({"input_ids": ids}, three).values()))
        scores = {"logits": np.array([[0.0, 2.0], [1.0, 0.0]], np.float32)}
        self.assertEqual(test["postprocess"](scores)["classes"][0]["class"], 1)


if __name__ == "__main__":
    unittest.main()

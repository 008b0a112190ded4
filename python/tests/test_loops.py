"""Loops: by the table that those in Rust are held to too; and a model of several, whose wrong loops must not pass."""

from __future__ import annotations

import importlib.util
import json
import unittest
from pathlib import Path
from typing import Any

from tests.support import BERT, Worker

MODULES = ("torch", "transformers", "safetensors")
TABLE = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "loops.json"
BART = {"vocab_size": 32, "d_model": 16, "max_position_embeddings": 32, "init_std": 0.3} | {
    f"{side}_{what}": size
    for side in ("encoder", "decoder")
    for what, size in (("layers", 1), ("ffn_dim", 32), ("attention_heads", 2))
}


@unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
class Table(unittest.TestCase):
    def test_loops_give_what_the_table_says(self) -> None:
        import numpy as np

        from orch_py.generate import loops

        def tensor(value: Any) -> np.ndarray:
            made = np.array(value)
            return made.astype(np.float32) if made.dtype.kind == "f" else made

        def doubled(name: str, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            return {"y": {"twice": np.float32(2.0)}[name] * given["x"]}

        for case in json.loads(TABLE.read_text("utf-8")):
            values = {name: tensor(value) for name, value in case["values"].items()}
            with self.subTest(case["name"]):
                if "fails" in case:
                    with self.assertRaises((KeyError, ValueError)):
                        loops.run_loop(case["loop"], values, doubled)
                    continue
                made = loops.run_loop(case["loop"], values, doubled)
                self.assertEqual(list(made), list(case["gives"]))
                for name, value in case["gives"].items():
                    np.testing.assert_array_equal(made[name], tensor(value))
                    self.assertEqual(made[name].dtype, tensor(value).dtype)


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in MODULES), "torch is not installed")
class Rag(unittest.TestCase):
    worker: Worker
    parts: dict[str, Path]

    @classmethod
    def setUpClass(cls) -> None:
        cls.worker = Worker.of_ops(cls, "materialise", "compose")
        sizes = {"question": (2, 4), "context": (6, 5), "generator": (2, 9)}
        cls.parts = {name: cls.part(name, shape) for name, shape in sizes.items()}

    @classmethod
    def part(cls, name: str, shape: tuple[int, int]) -> Path:
        import numpy as np

        chance = np.random.default_rng(3)
        given = {"input_ids": chance.integers(3, 32, shape), "attention_mask": np.ones(shape, np.int64)}
        if name == "generator":
            given["decoder_input_ids"] = chance.integers(3, 32, (2, 3))
            params = {"class": "BartForConditionalGeneration", "config": BART, "outputs": ["logits"]}
        else:
            kind = {"question": "DPRQuestionEncoder", "context": "DPRContextEncoder"}[name]
            params = {"class": kind, "config": BERT}
        output, tree = cls.worker.do("materialise", params | {"seed": 1}, inputs=cls.inputs(f"{name}-inputs", given))
        assert output["status"] == "ok", output["reason"]
        return tree

    @classmethod
    def inputs(cls, name: str, given: dict[str, Any], control: dict[str, Any] | None = None) -> Path:
        from orch_py.worker import trees

        folder = cls.worker.root / name
        folder.mkdir(exist_ok=True)
        trees.write_tensors(folder, trees.INPUTS, given)
        if control is not None:
            trees.write_tensors(folder, trees.CONTROL_INPUTS, control)
        return folder

    def composed(self, name: str, questions: Any, others: Any, **instead: Path) -> tuple[dict[str, Any], Path]:
        inputs = self.inputs(name, {"input_ids": questions}, {"input_ids": others})
        parts = {f"component.{part}": tree for part, tree in (self.parts | instead).items()}
        return self.worker.do("compose", {"loop": "rag", "seed": 0, "task": None}, inputs=inputs, **parts)

    def asked(self) -> tuple[Any, Any]:
        """Questions that retrieve different documents, and the control's."""
        import numpy as np

        chance = np.random.default_rng(5)
        return chance.integers(3, 32, (2, 4)), chance.integers(3, 32, (2, 4))

    def test_what_is_wrong_in_one_place_does_not_pass(self) -> None:
        from orch_py.generate import greedy, rag
        from orch_py.generate.parts import Parts
        from orch_py.judge import judge
        from orch_py.worker import trees

        output, tree = self.composed("right", *self.asked())
        self.assertEqual(output["status"], "ok", output["reason"])
        parts, given = Parts(self.parts), trees.read_tensors(tree, trees.INPUTS)
        control = trees.read_tensors(tree, trees.CONTROL_INPUTS)
        made = rag.make(parts, given, {}, 0)
        reference = trees.read_tensors(tree, trees.REFERENCE)
        text = trees.read_tensors(tree, "generation.safetensors")
        tolerance = judge.TOLERANCES["fp32"]

        def passes(outputs: dict[str, Any]) -> bool:
            told = greedy.generation_verdict(outputs.pop("tokens"), text, tolerance)
            agrees = judge.verdict(outputs, reference, tolerance, ["retrieved"])["agrees"]
            return bool(agrees and not told["wrong"] and not told["undecided"])

        self.assertTrue(passes(made.run(parts, given)))
        self.assertFalse(passes(made.run(parts, control)), "another question")
        for turn in made.turns[1:]:
            self.assertFalse(passes(made.run(parts, given, turn)), f"without turn {turn}")
        for step in (step for step in made.steps if step.get("op") in ("sum", "rows")):
            kept, made.steps = made.steps, [each for each in made.steps if each is not step]
            with self.subTest(without=step):
                try:
                    self.assertFalse(passes(made.run(parts, given)))
                except KeyError:
                    pass
            made.steps = kept

    def test_questions_that_decide_nothing_are_refused(self) -> None:
        questions, _ = self.asked()
        output, _ = self.composed("same-control", questions, questions)
        self.assertEqual(output["status"], "numerics")
        self.assertIn("control's questions retrieve the same documents", output["reason"])
        questions[1] = questions[0]
        output, _ = self.composed("same-questions", questions, self.asked()[1])
        self.assertEqual(output["status"], "numerics")
        self.assertIn("all questions retrieve document", output["reason"])

    def test_sizes_that_do_not_fit_are_told(self) -> None:
        import numpy as np

        questions = np.full((2, 3), 5)
        output, _ = self.composed("short", questions, questions)
        self.assertEqual(output["status"], "error")
        self.assertIn("2 questions of 3 tokens behind documents of 5 make [2, 8]", output["reason"])


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in (*MODULES, "diffusers")), "no diffusers")
class Diffusion(unittest.TestCase):
    worker: Worker
    unet: Path
    inputs: Path

    @classmethod
    def setUpClass(cls) -> None:
        import numpy as np

        from orch_py.worker import trees

        cls.worker = Worker.of_ops(cls, "materialise", "compose")
        chance = np.random.default_rng(0)
        picture, turns = (1, 3, 8, 8), (3, 1, 3, 8, 8)
        cls.inputs = cls.worker.root / "noise"
        cls.inputs.mkdir()
        for name in (trees.INPUTS, trees.CONTROL_INPUTS):
            noise = {"sample": chance.normal(size=picture), "noise": chance.normal(size=turns)}
            trees.write_tensors(cls.inputs, name, {key: value.astype(np.float32) for key, value in noise.items()})
        given = cls.worker.root / "unet-inputs"
        given.mkdir()
        times = {"sample": chance.normal(size=picture).astype(np.float32), "timestep": np.array([7])}
        trees.write_tensors(given, trees.INPUTS, times)
        config = {"sample_size": 8, "block_out_channels": [8, 8], "norm_num_groups": 4, "layers_per_block": 1} | {
            "down_block_types": ["DownBlock2D", "DownBlock2D"],
            "up_block_types": ["UpBlock2D", "UpBlock2D"],
            "attention_head_dim": 4,
        }
        output, cls.unet = cls.worker.do("materialise", {"class": "UNet2DModel", "config": config}, inputs=given)
        assert output["status"] == "ok", output["reason"]

    def composed(self, **config: Any) -> tuple[dict[str, Any], Path]:
        params = {"loop": "ddpm", "config": config}
        return self.worker.do("compose", params, inputs=self.inputs, **{"component.unet": self.unet})

    def test_what_is_wrong_in_one_place_does_not_pass(self) -> None:
        from orch_py.generate import diffusion
        from orch_py.generate.parts import Parts
        from orch_py.judge import judge
        from orch_py.worker import trees

        config = {"clip_sample": False, "timestep_spacing": "trailing", "num_train_timesteps": 100}
        output, tree = self.composed(**config)
        self.assertEqual(output["status"], "ok", output["reason"])
        parts, given = Parts({"unet": self.unet}), trees.read_tensors(tree, trees.INPUTS)
        made = diffusion.Ddpm.make(parts, given, config, 0)
        reference = trees.read_tensors(tree, trees.REFERENCE)

        def passes(outputs: dict[str, Any]) -> bool:
            return bool(judge.verdict(outputs, reference, judge.TOLERANCES["fp32"])["agrees"])

        self.assertTrue(passes(made.run(parts, given)))
        self.assertFalse(passes(made.run(parts, trees.read_tensors(tree, trees.CONTROL_INPUTS))), "other noise")
        for turn in made.turns:
            self.assertFalse(passes(made.run(parts, given, turn)), f"without turn {turn}")
        for step in (step for step in made.steps if step.get("op") == "sum"):
            for place, by in enumerate(step["by"]):
                # What is multiplied by next to nothing is the noise of the last turn.
                if abs(by) > 1e-6:
                    step["by"][place] = 1.02 * by
                    self.assertFalse(passes(made.run(parts, given)), f"number {place} of {step}")
                    step["by"][place] = by
        self.assertTrue(passes(made.run(parts, given)))

    def test_a_turn_that_changes_nothing_is_what_a_run_is_told_from(self) -> None:
        output, tree = self.composed(clip_sample=False)
        self.assertEqual(output["status"], "ok", output["reason"])
        self.assertEqual(json.loads((tree / "manifest.json").read_text("utf-8"))["dropped"], "turn 3 of 3")

    def test_what_no_scheduler_takes_is_told(self) -> None:
        output, _ = self.composed(clip_samples=False)
        self.assertEqual(output["status"], "error")
        self.assertIn("DDPMScheduler refuses the config", output["reason"])

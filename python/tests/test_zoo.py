"""Rows of the zoo: made, tried, written. Skipped where torch is not installed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

from tests.support import BERT, PACKAGE

SPECS = PACKAGE.parent / "specs"
MODULES = ("torch", "transformers", "yaml")
IDS = {"dtype": "int64", "shape": [1, 8], "randint": [3, 30]}


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in MODULES), "torch is not installed")
class Rows(unittest.TestCase):
    def test_what_the_model_ignores_goes(self) -> None:
        from orch_py.zoo import rows

        config = BERT | {"misspelt": 3}
        found = rows.tried(rows.Row("BertForMaskedLM", config, {"input_ids": IDS, "pixel_values": IDS}))
        self.assertEqual((found.row.config, list(found.row.inputs), found.decides), (BERT, ["input_ids"], "int8"))

    def test_weights_grow_until_a_wrong_answer_would_be_caught(self) -> None:
        from orch_py.zoo import rows

        config: dict[str, Any]
        config = {"num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
        config |= {"image_size": 16, "patch_size": 8, "initializer_range": 1e-6}
        pixels = {"dtype": "float32", "shape": [1, 3, 16, 16], "normal": [0, 1]}
        found = rows.tried(rows.Row("ViTForImageClassification", config, {"pixel_values": pixels}))
        self.assertEqual(found.decides, "int8")
        self.assertGreaterEqual(found.row.config["initializer_range"], 0.05)

    def test_a_model_that_answers_everything_alike_never_decides(self) -> None:
        from orch_py.zoo import rows

        config = BERT | {"num_hidden_layers": 0}
        same = {"dtype": "int64", "shape": [1, 8], "value": 3}
        found = rows.tried(rows.Row("BertForMaskedLM", config, {"input_ids": same}))
        self.assertEqual((found.decides, found.why), (None, "another input would pass"))

    def test_a_model_that_draws_numbers_is_refused(self) -> None:
        from orch_py.worker.protocol import Refused
        from orch_py.zoo import derive, rows

        with self.assertRaisesRegex(Refused, "draws random numbers"):
            rows.tried(derive.row("ViTMAEModel"))


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in MODULES), "torch is not installed")
class Derived(unittest.TestCase):
    def test_a_type_becomes_a_small_row_that_decides(self) -> None:
        from orch_py.zoo import derive, families, rows

        for model_type, cls, family in (
            ("gpt2", "GPT2LMHeadModel", "decoder-only"),
            ("clip", "CLIPModel", "vision-text"),
            ("whisper", "WhisperModel", "audio"),
            ("mixtral", "MixtralForCausalLM", "mixture-of-experts"),
            ("t5", "T5ForConditionalGeneration", "encoder-decoder"),
            ("mamba", "MambaModel", "state-space"),
        ):
            with self.subTest(model_type):
                self.assertIn(cls, derive.classes(model_type).values())
                self.assertEqual(families.family(model_type)[0], family)
                found = rows.tried(derive.row(cls))
                self.assertEqual(found.decides, "int8")
                self.assertLess(found.parameters, 1_000_000)

    def test_the_families_of_all_types_are_tags_that_are_derived(self) -> None:
        from orch_py.zoo import families

        listed = (SPECS.parent / "src/spec/data/transformers-types.txt").read_text("utf-8").splitlines()
        of_types = {line.split()[1] for line in listed if len(line.split()) == 2}
        self.assertEqual(of_types, set(families.FAMILIES))

    def test_what_speaks_is_of_sound_and_what_lacks_its_pictures_reads_text_alone(self) -> None:
        from orch_py.zoo import families

        for model_type in ("vits", "musicgen", "fastspeech2_conformer_with_hifigan"):
            self.assertEqual(families.family(model_type)[0], "audio", model_type)
        for family, inputs, tags in (
            ("multimodal", ("input_ids", "decoder_attention_mask"), ["state-space", "text-only"]),
            ("multimodal", ("input_ids", "pixel_values"), ["state-space"]),
            ("decoder-only", ("input_ids",), ["state-space"]),
        ):
            self.assertEqual(families.tags(family, ["state-space"], inputs), tags)

    def test_a_row_stands_for_the_model_on_the_hub_by_which_transformers_describes_its_config(self) -> None:
        from orch_py.zoo import derive

        for cls, known in (
            ("BertForMaskedLM", "google-bert/bert-base-uncased"),
            ("CLIPModel", "openai/clip-vit-base-patch32"),
            # It holds any two models.
            ("EncoderDecoderModel", None),
            # Of timm, without an owner on the Hub.
            ("TimmWrapperModel", None),
        ):
            self.assertEqual(derive.hub(cls), known, cls)

    def test_missing_are_the_types_of_which_no_task_has_a_row(self) -> None:
        from orch_py.zoo import __main__ as zoo

        of_text = {
            "bert": {"class": "BertModel", "task": "feature-extraction"},
            "gpt2-text-generation": {"class": "GPT2LMHeadModel", "task": "text-generation"},
        }
        speaks = {"class": "MusicgenForConditionalGeneration", "task": "text-to-audio"}
        found = zoo._missing({"text": of_text, "audio": {"musicgen-text-to-audio": speaks}})
        self.assertFalse({"bert", "gpt2", "musicgen"} & set(found))
        self.assertNotIn("gpt-sw3", found, "GPT-2 by another name")
        self.assertIn("albert", found)
        self.assertNotIn("align_text_model", found, "a part")

    def test_a_type_whose_config_refuses_its_own_defaults_does_not_end_the_others(self) -> None:
        from argparse import Namespace

        from orch_py.zoo import __main__ as zoo

        asked = Namespace(types=["gemma4_assistant", "berd"], task=None, jobs=1)
        (name, _, why), (other, _, unknown) = zoo._added(asked, {})
        self.assertEqual((name, other), ("gemma4_assistant", "berd"))
        self.assertRegex(str(why), "Error: ")
        self.assertRegex(str(unknown), "no model type `berd`")

    def test_a_type_that_is_not_there_is_refused_by_its_name(self) -> None:
        from orch_py.worker.protocol import Refused
        from orch_py.zoo import derive

        with self.assertRaisesRegex(Refused, "no model type `berd`"):
            derive.classes("berd")


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in MODULES), "torch is not installed")
class Files(unittest.TestCase):
    def test_rows_come_back_as_they_were(self) -> None:
        from orch_py.zoo import files

        row: dict[str, Any] = {
            "class": "BertModel",
            "hub": {"id": "google-bert/bert-base-uncased"},
            "config": BERT | {"eps": 1e-05, "sizes": list(range(100)), "word": "no", "sub": BERT | {"none": None}},
            "inputs": {"input_ids": IDS | {"data": list(range(80))}},
            "tags": ["a"],
        }
        other = row | {"class": "BertForMaskedLM", "tags": ["b c: d"]}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "encoder-only.yaml"
            path.write_text(files.text("encoder-only", {"bert": row, "bert-fill-mask": other}), "utf-8")
            self.assertEqual(files.read(path), {"bert": row, "bert-fill-mask": other})
            self.assertIn("config: *bert\n", path.read_text("utf-8"))
            self.assertLessEqual(max(map(len, path.read_text("utf-8").splitlines())), files.WIDTH + 20)

    def test_added_and_refreshed_by_the_command(self) -> None:
        from orch_py.zoo import files

        with tempfile.TemporaryDirectory() as folder:

            def zoo(*args: str, most: int = 20_000_000) -> subprocess.CompletedProcess[str]:
                main = f"import orch_py.zoo.__main__ as zoo; zoo.MOST_PARAMETERS = {most}; raise SystemExit(zoo.main())"
                command = [sys.executable, "-c", main, *args, "--into", folder]
                return subprocess.run(command, cwd=PACKAGE, capture_output=True, text=True, check=False)

            made = zoo("add", "albert", "berd", "--task", "fill-mask")
            self.assertEqual(made.returncode, 1, made.stderr)
            self.assertIn("added albert-fill-mask in encoder-only.yaml\n", made.stdout)
            self.assertIn("not berd: transformers", made.stdout)
            path = Path(folder) / "encoder-only.yaml"
            text = path.read_text("utf-8")
            self.assertIn("priority: medium\n", text)
            self.assertIn("    hub: {id: albert/albert-xxlarge-v2}\n", text)
            changed = text.replace("      vocab_size: 128", "      misspelt: 3\n      vocab_size: 128")
            path.write_text(changed.replace("priority: medium", "priority: low"), "utf-8")
            again = zoo("refresh")
            self.assertEqual((again.returncode, again.stdout), (0, "changed albert-fill-mask in encoder-only.yaml\n"))
            self.assertEqual(path.read_text("utf-8"), text)
            # In a family that is not its own, with a tag of no type and one by hand; and one whose inputs never differ.
            strange = text.replace("encoder-only", "audio")
            same = strange[strange.index("  albert") :].replace("albert-fill-mask", "same")
            tagged = strange.replace("    priority", "    tags: [state-space, mine]\n    priority")
            text = text.replace("    priority", "    tags: [mine]\n    priority")
            moved = path.with_name("audio.yaml")
            moved.write_text(tagged + "\n" + same.replace("randint: [8, 112]", "value: 9"), "utf-8")
            path.unlink()
            again = zoo("refresh")
            self.assertIn("changed albert-fill-mask in encoder-only.yaml\n", again.stdout)
            self.assertIn("not same: another input would pass at every tolerance", again.stdout)
            self.assertEqual((again.returncode, path.read_text("utf-8")), (1, text))
            self.assertEqual(list(files.read(moved)), ["same"])
            moved.unlink()
            # Nothing that is large is made, and none becomes so.
            for command in (("add", "albert", "--task", "fill-mask"), ("refresh",)):
                large = zoo(*command, most=1000)
                self.assertRegex(large.stdout, r"^not albert-fill-mask: [0-9,]+ parameters are too many")
                self.assertEqual((large.returncode, path.read_text("utf-8")), (1, text))
            # Of a run in which another exporter than the first worked, and then of one in which the first did.
            report = Path(folder) / "matrix.json"
            for route, export in (("dynamo", "    export: {routes: [dynamo, legacy, transformers]}\n"), ("legacy", "")):
                facts = {"convert:albert-fill-mask:onnx": {"route": route}}
                cases = [{"model": "albert-fill-mask", "facts": facts}, {"model": "albert-fill-mask", "facts": {}}]
                report.write_text(json.dumps({"cases": cases}), "utf-8")
                self.assertEqual(zoo("routes", str(report)).returncode, 0)
                self.assertEqual(path.read_text("utf-8"), text + export)


@unittest.skipUnless(importlib.util.find_spec("yaml"), "PyYAML is not installed")
class Priorities(unittest.TestCase):
    """Of the rows as they stand in the specs."""

    def rows(self, *paths: Path) -> list[dict[str, Any]]:
        import yaml

        return [row for path in paths for row in yaml.safe_load(path.read_text("utf-8"))["models"].values()]

    def test_high_are_the_key_models(self) -> None:
        from orch_py.zoo import priorities

        key = self.rows(SPECS / "models.yaml")
        self.assertEqual({row["class"] for row in key}, priorities.KEY)
        self.assertEqual({row["priority"] for row in key}, {"high"})
        self.assertEqual(len(priorities.MOST_USED), 75)

    def test_each_row_of_the_zoo_has_its_own(self) -> None:
        from orch_py.zoo import priorities

        listed = (SPECS.parent / "src/spec/data/transformers-classes.txt").read_text("utf-8").splitlines()
        types = dict(line.split() for line in listed if len(line.split()) == 2)
        for row in self.rows(*sorted((SPECS / "models").glob("*.yaml"))):
            self.assertEqual(row["priority"], priorities.priority(row["class"], types[row["class"]]), row["class"])


if __name__ == "__main__":
    unittest.main()

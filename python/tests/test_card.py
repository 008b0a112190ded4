"""`benches/card.py` on a machine without a card, and its judgements of recorded documents."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

BENCHES = Path(__file__).resolve().parents[2] / "benches"
sys.path.insert(0, str(BENCHES))

from card import judge, machine, nvml, pieces, preconditions, session  # noqa: E402
from card.kit import Kit, Missing, Part, Verdict  # noqa: E402
from card.lifetimes import card_processes, descendants, living  # noqa: E402
from card.parts import PARTS  # noqa: E402

EXPECTED: dict[str, Any] = json.loads((BENCHES / "card" / "expected.json").read_text())


def cell(model: str, **changes: Any) -> dict[str, Any]:
    """A cell of `matrix.json` that is as expected of eager-cuda."""
    right = {
        "model": model,
        "target": "eager-cuda",
        "precision": "fp32",
        "status": "PASS",
        "reason": None,
        "actual_device": "cuda:0",
        "metrics": {"median_ms": 1.0, "peak_device_bytes": 4096},
    }
    return {**right, **changes}


def report(*changed: dict[str, Any], target: str = "eager-cuda", **changes: Any) -> dict[str, Any]:
    """A run of all key models, some of whose cells are replaced."""
    cells = {model: cell(model, target=target, **changes) for model in EXPECTED["models"]}
    cells.update({each["model"]: each for each in changed})
    return {"cases": list(cells.values())}


def trace(started: str, *runs: tuple[str, float, float]) -> dict[str, Any]:
    """A trace with runs, given by their step and the seconds of begin and end, each also on the critical path."""
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name"}]
    for name, begin, end in runs:
        event = {"ph": "X", "cat": "run", "name": name, "ts": begin * 1e6, "dur": (end - begin) * 1e6}
        events += [{**event, "tid": 2}, {**event, "tid": 10}]
    events.append({"ph": "X", "cat": "generate", "name": "generate:bert", "ts": 0, "dur": 9e6, "tid": 10})
    return {"otherData": {"started": started}, "traceEvents": events}


class Sandboxed(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.kit = Kit(
            orch=Path(sys.executable),
            python=Path(sys.executable),
            own_python=Path(sys.executable),
            env_dir=self.folder / "envs",
            work=self.folder / "work",
            expected=EXPECTED,
        )

    def without_card(self) -> None:
        nodes = mock.patch.object(preconditions, "DEVICES", self.folder)
        nodes.start()
        self.addCleanup(nodes.stop)


class Preconditions(Sandboxed):
    def test_each_part_of_the_card_names_the_absent_card_at_once(self) -> None:
        self.without_card()
        for part in PARTS:
            with self.subTest(part.name):
                begin = time.monotonic()
                missing = part.missing(self.kit)
                self.assertLess(time.monotonic() - begin, 1)
                if part.is_of_the_card:
                    self.assertIn("no NVIDIA device node", str(missing))
                else:
                    self.assertIsNone(missing)

    def test_all_that_is_missing_is_named(self) -> None:
        self.without_card()
        self.kit.orch = self.folder / "orch"
        check = preconditions.all_of(preconditions.card, preconditions.orch)
        self.assertEqual(check(self.kit), f"no NVIDIA device node; no program orch at {self.folder / 'orch'}")

    def test_device_nodes_of_control_are_no_card(self) -> None:
        for name in ("nvidiactl", "nvidia-uvm", "nvidia1", "nvidia0"):
            (self.folder / name).touch()
        found = [Path(node).name for node in nvml.device_nodes(self.folder)]
        self.assertEqual(found, ["nvidia0", "nvidia1"])

    def test_a_package_is_found_beside_its_interpreter(self) -> None:
        interpreter = self.folder / "bin" / "python"
        (self.folder / "lib" / "python3.12" / "site-packages" / "torch").mkdir(parents=True)
        self.assertTrue(preconditions.has_package(interpreter, "torch"))
        self.assertFalse(preconditions.has_package(interpreter, "onnxruntime_gpu-*.dist-info"))


class Pieces(Sandboxed):
    def setUp(self) -> None:
        super().setUp()
        self.wheel = self.folder / "some-1.0-py3-none-any.whl"
        self.wheel.write_bytes(bytes(range(256)) * 10)
        self.pieces = self.folder / "pieces"
        self.manifest = pieces.split(self.wheel, self.pieces, 1000)

    def test_joined_pieces_are_the_wheel(self) -> None:
        self.assertEqual([piece["bytes"] for piece in self.manifest["pieces"]], [1000, 1000, 560])
        joined = pieces.join(self.pieces, self.folder / "joined")
        self.assertEqual(joined.name, self.wheel.name)
        self.assertEqual(joined.read_bytes(), self.wheel.read_bytes())

    def test_a_damaged_piece_is_refused(self) -> None:
        damaged = self.pieces / self.manifest["pieces"][1]["name"]
        damaged.write_bytes(b"x" + damaged.read_bytes()[1:])
        with self.assertRaisesRegex(pieces.Damaged, damaged.name):
            pieces.join(self.pieces, self.folder / "joined")

    def test_packages_are_linked_without_those_of_the_wheel(self) -> None:
        for name in ("nvidia", "onnxruntime", "onnxruntime-1.0.dist-info", "numpy"):
            (self.folder / "from" / name).mkdir(parents=True)
        own = self.folder / "to"
        (own / "numpy").mkdir(parents=True)
        pieces.link_packages(self.folder / "from", own)
        self.assertEqual(
            sorted(path.name for path in own.iterdir() if path.is_symlink()), ["nvidia", "onnxruntime-1.0.dist-info"]
        )

    def test_a_missing_piece_is_named(self) -> None:
        absent = self.pieces / self.manifest["pieces"][2]["name"]
        absent.unlink()
        with self.assertRaisesRegex(pieces.Damaged, f"{absent.name} is missing"):
            pieces.join(self.pieces, self.folder / "joined")


class Columns(unittest.TestCase):
    def test_a_right_run_has_no_differences(self) -> None:
        self.assertEqual(judge.matrix(report(), "eager-cuda", EXPECTED), [])
        half = report(target="cuda-half", precision="fp16")
        self.assertEqual(judge.matrix(half, "cuda-half", EXPECTED), [])

    def test_a_failing_cell_is_named(self) -> None:
        wrong = report(cell("bert", status="FAIL_NUMERICS", reason="cosine 0.5"))
        self.assertEqual(
            judge.matrix(wrong, "eager-cuda", EXPECTED),
            ["bert on eager-cuda: FAIL_NUMERICS instead of PASS: cosine 0.5"],
        )

    def test_an_absent_cell_is_named(self) -> None:
        cases = [each for each in report()["cases"] if each["model"] != "vit"]
        self.assertEqual(judge.matrix({"cases": cases}, "eager-cuda", EXPECTED), ["vit on eager-cuda: no cell"])

    def test_a_cell_on_another_device_at_another_precision_without_memory_is_named(self) -> None:
        elsewhere = cell("bert", precision="fp16", actual_device="cpu", metrics={})
        self.assertEqual(len(judge.matrix(report(elsewhere), "eager-cuda", EXPECTED)), 3)

    def test_a_driver_in_software_is_no_card(self) -> None:
        software = report(target="webgpu", actual_device="webgpu-software", metrics=None)
        self.assertEqual(len(judge.matrix(software, "webgpu", EXPECTED)), len(EXPECTED["models"]))
        hardware = report(target="webgpu", actual_device="webgpu", metrics=None)
        self.assertEqual(judge.matrix(hardware, "webgpu", EXPECTED), [])

    def test_a_missing_library_makes_a_column_absent(self) -> None:
        reason = "the Python of ORCH_PYTHON has no onnxruntime-gpu"
        absent = report(target="cuda", status="SKIP_UNAVAILABLE", reason=reason, actual_device=None, metrics=None)
        self.assertEqual(judge.absent_library(absent, "cuda", EXPECTED), reason)
        self.assertEqual(judge.counts(absent, "cuda"), {"SKIP_UNAVAILABLE": len(EXPECTED["models"])})

    def test_another_reason_is_a_difference(self) -> None:
        absent = report(status="SKIP_UNAVAILABLE", reason="no NVIDIA GPU", actual_device=None, metrics=None)
        self.assertIsNone(judge.absent_library(absent, "eager-cuda", EXPECTED))
        self.assertEqual(len(judge.matrix(absent, "eager-cuda", EXPECTED)), len(EXPECTED["models"]))


class Figures(unittest.TestCase):
    def test_tf32_must_be_off_where_it_is_switched_off(self) -> None:
        self.assertEqual(judge.tf32({"relative_error": {"off": 1e-6, "on": 1e-3}}, EXPECTED), [])
        self.assertEqual(len(judge.tf32({"relative_error": {"off": 1e-3, "on": 1e-3}}, EXPECTED)), 1)

    def test_memory_by_nvml_and_by_torch_must_agree(self) -> None:
        size = 2**29
        right = {
            "wanted_bytes": size,
            "allocated_bytes": size + 512,
            "reserved_bytes": size + 2**21,
            "nvml_grown_bytes": size,
            "nvml_kept_bytes": 0,
        }
        self.assertEqual(judge.memory(right, EXPECTED), [])
        self.assertEqual(len(judge.memory({**right, "nvml_grown_bytes": 0}, EXPECTED)), 1)
        self.assertEqual(len(judge.memory({**right, "nvml_kept_bytes": size}, EXPECTED)), 1)

    def test_overhead_is_bounded(self) -> None:
        self.assertEqual(judge.overhead(1.02, EXPECTED), [])
        self.assertEqual(len(judge.overhead(1.05, EXPECTED)), 1)

    def test_packages_that_differ_from_the_locks_are_named(self) -> None:
        locked = {"torch": "2.13.0", "onnx": "1.23.2", "transformers": "5.23.0"}
        found = judge.package_differences({"torch": "2.13.0+cu130", "onnx": "1.23.0", "transformers": None}, locked)
        self.assertEqual(found, ["onnx 1.23.0 (lock: 1.23.2)", "transformers absent (lock: 5.23.0)"])

    def test_versions_of_a_column_are_those_of_its_records(self) -> None:
        facts = {"generate:bert": {"versions": {"torch": "2.11.0", "numpy": "2.4.6"}}, "cached": True, "run:bert": {}}
        found = judge.column_versions(report(cell("bert", facts=facts)), "eager-cuda", ["torch", "onnx"])
        self.assertEqual(found, {"torch": "2.11.0"})

    def test_the_locks_name_each_package(self) -> None:
        wanted = {package for names in machine.LOCKS.values() for package in names}
        self.assertEqual(set(machine.locked()), wanted)


class Lifetimes(unittest.TestCase):
    def test_intervals_of_two_processes_must_not_overlap(self) -> None:
        bert = trace("2026-01-01T00:00:00.000Z", ("run:bert:eager-cuda-fp32", 1.0, 3.0))
        later = trace("2026-01-01T00:00:02.500Z", ("run:vit:eager-cuda-fp32", 1.0, 2.0))
        at_once = trace("2026-01-01T00:00:00.500Z", ("run:vit:eager-cuda-fp32", 1.0, 2.0))
        first, second, third = (judge.run_intervals(each, "eager-cuda") for each in (bert, later, at_once))
        self.assertEqual(len(first), 1)
        self.assertEqual(judge.exclusive(first, second, EXPECTED), [])
        found = judge.exclusive(first, third, EXPECTED)
        self.assertEqual(found, ["run:bert:eager-cuda-fp32 and run:vit:eager-cuda-fp32 ran at once for 1.00 s"])

    def test_a_run_without_an_interval_proves_nothing(self) -> None:
        self.assertEqual(len(judge.exclusive([], [], EXPECTED)), 2)

    def test_what_a_killed_run_leaves_is_named(self) -> None:
        clean = {
            "signal": "SIGKILL",
            "is_ended": True,
            "processes_left": [],
            "card_processes_left": [],
            "nvml_kept_bytes": 0,
        }
        self.assertEqual(judge.kill(clean, EXPECTED), [])
        left = {**clean, "is_ended": False, "processes_left": [7], "card_processes_left": [7], "nvml_kept_bytes": 2**30}
        self.assertEqual(len(judge.kill(left, EXPECTED)), 4)

    def test_a_driver_may_list_no_processes(self) -> None:
        readings = {"cards": [{"processes": [{"pid": 7}]}, {"processes": None}, {"error": "broken"}]}
        self.assertEqual(card_processes(readings), {7})

    @unittest.skipUnless(sys.platform == "linux", "reads /proc")
    def test_a_process_is_known_by_number_and_start(self) -> None:
        own = descendants(1)
        self.assertTrue(living(own))
        self.assertEqual(living({(pid, "0 of another start") for pid, _ in own}), set())


class Findings(unittest.TestCase):
    def test_devices_must_be_those_of_nvml(self) -> None:
        backend = {"name": "cuda", "available": True, "reason": None, "devices": [{"name": "Card"}]}
        readings = {"cards": [{"name": "Card", "error": None}]}
        self.assertEqual(judge.devices({"backends": [backend]}, readings, ["/dev/nvidia0"]), [])
        self.assertEqual(len(judge.devices({"backends": [backend]}, readings, [])), 1)
        self.assertEqual(len(judge.devices({"backends": [backend]}, {"cards": []}, ["/dev/nvidia0"])), 1)

    def test_the_doctor_must_find_the_card(self) -> None:
        document = {"findings": [{"subject": "cuda", "ok": False, "what": "no NVIDIA GPU"}]}
        self.assertEqual(judge.doctor(document, []), [])
        self.assertEqual(len(judge.doctor(document, ["/dev/nvidia0"])), 1)


class Sessions(Sandboxed):
    def run_parts(self, *parts: Part, budget: float = 60) -> list[session.Entry]:
        with contextlib.redirect_stdout(io.StringIO()):
            return session.run_parts(parts, self.kit, self.folder / "out", budget)

    def part(self, differences: list[str] | BaseException, is_of_the_card: bool = True) -> Part:
        def run(kit: Kit, folder: Path) -> Verdict:
            if isinstance(differences, BaseException):
                raise differences
            return differences, {"figure": 1}

        return Part("some", "nothing", preconditions.nothing, run, 10, 5, is_of_the_card)

    def test_without_time_a_part_is_left_out(self) -> None:
        entries = self.run_parts(self.part([]), budget=1)
        self.assertEqual(entries[0]["status"], "left out")
        self.assertIn("left out: no time", entries[0]["reason"])
        self.assertEqual(session.exit_code(entries), 3)

    def test_a_part_that_breaks_does_not_end_the_others(self) -> None:
        entries = self.run_parts(self.part(ValueError("broken")), self.part([]))
        self.assertEqual([entry["status"] for entry in entries], ["failed", "ok"])
        self.assertEqual(session.exit_code(entries), 1)

    def test_an_interruption_leaves_the_other_parts_out(self) -> None:
        entries = self.run_parts(self.part(KeyboardInterrupt()), self.part([]))
        self.assertEqual([entry["status"] for entry in entries], ["failed", "left out"])

    def test_the_exit_code_is_that_of_the_card(self) -> None:
        absent = self.part(Missing("a library"))
        of_the_machine = self.part([], is_of_the_card=False)
        self.assertEqual(session.exit_code(self.run_parts(of_the_machine, absent)), 3)
        self.assertEqual(session.exit_code(self.run_parts(of_the_machine, absent, self.part([]))), 0)
        self.assertEqual(session.exit_code(self.run_parts(absent, self.part(["differs"]))), 1)

    def test_the_summary_has_each_part(self) -> None:
        entries = self.run_parts(self.part([]), self.part(Missing("a | b")))
        session.write_summary(entries, self.kit, self.folder / "out", 1)
        summary = json.loads((self.folder / "out" / "summary.json").read_text())
        self.assertEqual(summary["version"], session.SCHEMA_VERSION)
        self.assertEqual([part["status"] for part in summary["parts"]], ["ok", "missing"])
        self.assertIn("missing: a \\| b", (self.folder / "out" / "summary.md").read_text())

    def test_a_folder_that_is_too_large_loses_its_largest_files(self) -> None:
        (self.folder / "large").write_bytes(bytes(100))
        (self.folder / "small").write_bytes(bytes(10))
        self.assertEqual(session.trim(self.folder, 50), ["large"])


if __name__ == "__main__":
    unittest.main()

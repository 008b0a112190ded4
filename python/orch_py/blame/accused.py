"""The runtimes that may be to blame: how each runs a window, and which of its passes makes one fail."""

from __future__ import annotations

import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
import onnxruntime

from orch_py.blame import onnxruntime_process, passes
from orch_py.blame.faults import Fault
from orch_py.blame.passes import Pass
from orch_py.blame.processes import Process
from orch_py.blame.search import Answer
from orch_py.blame.windows import Window, open_session, run
from orch_py.worker.trees import Tensors


class Accused(ABC):
    """A runtime, as the case uses it."""

    name: str
    version: str
    # The interpreter that has the runtime, and the environment variables of a new process of it.
    python: str = sys.executable
    env: Mapping[str, str] = os.environ

    @abstractmethod
    def run(self, model: onnx.ModelProto, feeds: Tensors, times: int = 1) -> list[Tensors]:
        """The outputs by name, of each of some inferences in a row."""

    @abstractmethod
    def guilty(self, window: Window, fault: Fault) -> Pass | None:
        """The pass by which a window has the fault; None where that cannot be found out."""

    @abstractmethod
    def close(self) -> None:
        """Ends what runs for it."""

    def answer(self, window: Window | None, fault: Fault) -> Answer:
        """Whether a window has the fault; a window that cannot be cut, None, gives no answer."""
        if window is None:
            return Answer.UNRESOLVED
        return fault.answer(lambda: self.run(window.model, window.feeds)[0], window.expected)

    def shows(self, folder: Path) -> bool:
        """Whether the program of a folder shows the fault in a new process."""
        command = [self.python, "run.py"]
        ended = subprocess.run(command, cwd=folder, env=self.env, capture_output=True, text=True, check=False)
        print(ended.stdout + ended.stderr, flush=True)
        return ended.returncode == 1


class OnnxRuntime(Accused):
    """ONNX Runtime on the CPU, in this process. `folder`: where a file may be written for a moment."""

    name = "onnxruntime"
    version = onnxruntime.__version__

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, model: onnx.ModelProto, feeds: Tensors, times: int = 1) -> list[Tensors]:
        session = open_session(model)
        return [run(session, feeds) for _ in range(times)]

    def guilty(self, window: Window, fault: Fault) -> Pass | None:
        def answer(level: str, names: Sequence[str]) -> Answer:
            def compute() -> Tensors:
                return run(open_session(window.model, disabled=names, level=level), window.feeds)

            return fault.answer(compute, window.expected)

        return passes.guilty(window.model, answer, self._folder)

    def close(self) -> None:
        # It runs in this process.
        pass


class SeparateOnnxRuntime(Accused):
    """ONNX Runtime on the CPU, in a process that a window may end. `folder` holds what both exchange."""

    name = "onnxruntime"

    def __init__(self, package: Path, folder: Path) -> None:
        folder = folder / "onnxruntime"
        folder.mkdir()
        command = [sys.executable, "-m", onnxruntime_process.__name__]
        env = os.environ | {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
        self._process = Process("ONNX Runtime", command, env, folder)
        self.version = self._process.version

    def run(self, model: onnx.ModelProto, feeds: Tensors, times: int = 1) -> list[Tensors]:
        return [self._process.run(model, feeds, onnxruntime_process.way()) for _ in range(times)]

    def oracle(self, model: onnx.ModelProto, feeds: Tensors) -> Tensors:
        """The outputs by name, computed without optimisers."""
        return self._process.run(model, feeds, onnxruntime_process.PLAIN)

    def guilty(self, window: Window, fault: Fault) -> Pass | None:
        def answer(level: str, names: Sequence[str]) -> Answer:
            how = onnxruntime_process.way(level, tuple(names))
            return fault.answer(lambda: self._process.run(window.model, window.feeds, how), window.expected)

        plain = fault.answer(lambda: self.oracle(window.model, window.feeds), window.expected)
        if plain is Answer.WRONG:
            return Pass("kernels or loading, without graph optimisation too", None)
        return passes.guilty(window.model, answer, None)

    def close(self) -> None:
        self._process.end()
        self._process.remove_files()


class OpenVino(Accused):
    """OpenVINO on the CPU in fp32, in a process of its own environment. `folder` holds what both exchange."""

    name = "openvino"

    def __init__(self, python: str, package: Path, folder: Path) -> None:
        folder = folder / "openvino"
        folder.mkdir()
        command = [python, "-m", "orch_py.blame.openvino_process"]
        self.python = python
        self.env = {"PYTHONPATH": str(package), "HOME": str(folder), "TMPDIR": str(folder)}
        self._process = Process("OpenVINO", command, self.env, folder)
        self.version = self._process.version

    def run(self, model: onnx.ModelProto, feeds: Tensors, times: int = 1) -> list[Tensors]:
        return [self._process.run(model, feeds, "plugin") for _ in range(times)]

    def guilty(self, window: Window, fault: Fault) -> Pass | None:
        # What fails by the reference too had failed before any plugin had it. The reference lacks operators, and gives
        # no answer for them.
        reference = self._answer(window, fault, "reference")
        if reference is Answer.WRONG:
            return Pass("front end", None)
        if self._answer(window, fault, "without snippets") is Answer.RIGHT:
            return Pass("CPU plugin", "snippets (SNIPPETS_MODE)")
        return Pass("CPU plugin", None) if reference is Answer.RIGHT else None

    def _answer(self, window: Window, fault: Fault, how: str) -> Answer:
        return fault.answer(lambda: self._process.run(window.model, window.feeds, how), window.expected)

    def close(self) -> None:
        self._process.end()
        self._process.remove_files()

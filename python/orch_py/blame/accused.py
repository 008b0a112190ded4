"""The runtimes that may be to blame: how each runs a window, and which of its passes makes one wrong."""

from __future__ import annotations

import json
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from orch_py.blame import judged, passes
from orch_py.blame.passes import Pass
from orch_py.blame.windows import Window, open_session, run
from orch_py.worker.trees import Tensors


class Accused(ABC):
    """A runtime, as the case uses it."""

    name: str
    version: str

    @abstractmethod
    def run(self, model: onnx.ModelProto, feeds: Tensors, times: int = 1) -> list[Tensors]:
        """The outputs by name, of each of some inferences in a row."""

    @abstractmethod
    def guilty(self, window: Window) -> Pass | None:
        """The pass that makes a wrong window wrong; None where that cannot be told."""

    @abstractmethod
    def close(self) -> None:
        """Ends what runs for it."""


class OnnxRuntime(Accused):
    """ONNX Runtime on the CPU, in this process. `folder`: where a file may be written for a moment."""

    name = "onnxruntime"
    version = onnxruntime.__version__

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, model: onnx.ModelProto, feeds: Tensors, times: int = 1) -> list[Tensors]:
        session = open_session(model)
        return [run(session, feeds) for _ in range(times)]

    def guilty(self, window: Window) -> Pass | None:
        def is_wrong(level: str, names: Sequence[str]) -> bool:
            ours = run(open_session(window.model, disabled=names, level=level), window.feeds)
            return judged.difference(ours, window.expected) is not None

        return passes.guilty(window.model, is_wrong, self._folder)

    def close(self) -> None:
        # It runs in this process.
        pass


class OpenVino(Accused):
    """OpenVINO on the CPU in fp32, in a process of its own environment. `folder` holds what both exchange."""

    name = "openvino"

    def __init__(self, python: str, package: Path, folder: Path) -> None:
        self._folder = folder / "openvino"
        self._folder.mkdir()
        self._python = python
        self._package = package
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [self._python, "-m", "orch_py.blame.openvino_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self._folder,
            env={"PYTHONPATH": str(self._package), "HOME": str(self._folder), "TMPDIR": str(self._folder)},
        )
        self.version = str(self._answer()["version"])

    def run(self, model: onnx.ModelProto, feeds: Tensors, times: int = 1) -> list[Tensors]:
        return [self._run(model, feeds, "plugin") for _ in range(times)]

    def guilty(self, window: Window) -> Pass | None:
        # What is wrong by the reference too was wrong before any plugin had it.
        is_wrong = self._is_wrong(window, "reference")
        if is_wrong:
            return Pass("front end", None)
        if self._is_wrong(window, "without snippets") is False:
            return Pass("CPU plugin", "snippets (SNIPPETS_MODE)")
        return Pass("CPU plugin", None) if is_wrong is False else None

    def _is_wrong(self, window: Window, how: str) -> bool | None:
        """Whether it computes the window wrongly in this way; None where it cannot: its reference lacks operators."""
        try:
            ours = self._run(window.model, window.feeds, how)
        except RuntimeError as error:
            print(f"OpenVINO does not compute the window {how}: {error}", flush=True)
            return None
        return judged.difference(ours, window.expected) is not None

    def close(self) -> None:
        self._end()
        for path in self._folder.iterdir():
            if path.is_file():
                path.unlink()

    def _end(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _run(self, model: onnx.ModelProto, feeds: Tensors, how: str) -> Tensors:
        paths = {name: str(self._folder / file) for name, file in _FILES.items()}
        Path(paths["model"]).write_bytes(model.SerializeToString())
        np.savez(paths["feeds"], **feeds)  # type: ignore[arg-type]  # numpy takes any name.
        if self._process.poll() is not None:
            # It crashed on another window, which says nothing of this one.
            self._end()
            self._start()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({**paths, "how": how}) + "\n")
        self._process.stdin.flush()
        if error := self._answer()["error"]:
            raise RuntimeError(error)
        with np.load(paths["out"]) as found:
            return dict(found)

    def _answer(self) -> dict[str, str | None]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"OpenVINO's process ended with {self._process.wait()}")
        answer: dict[str, str | None] = json.loads(line)
        return answer


_FILES = {"model": "model.onnx", "feeds": "feeds.npz", "out": "out.npz"}

"""A runtime in a process of its own, which a window may end: one request a line, one answer a line."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx

from orch_py.blame.faults import Died
from orch_py.blame.windows import has_files, weights_folder
from orch_py.export import onnx_weights
from orch_py.worker.trees import Tensors

# No file of constants has the name of the model's.
_FILES = {"model": "window-of-graph.onnx", "feeds": "feeds.npz", "out": "out.npz"}


class Process:
    """The process of a runtime, which is started again after it ended by a window."""

    def __init__(self, runtime: str, command: list[str], env: Mapping[str, str], folder: Path) -> None:
        """`folder` exists, is the process's own, and holds what both exchange."""
        self._runtime = runtime
        self._command = command
        self._env = env
        self._folder = folder
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=self._folder, env=self._env
        )
        self.version = str(self._answer()["version"])

    def run(self, model: onnx.ModelProto, feeds: Tensors, how: str) -> Tensors:
        """The outputs by name, computed in the way `how`. Raises `Died` if the process ends, and a RuntimeError for an
        error of the runtime."""
        paths = {name: str(self._folder / file) for name, file in _FILES.items()}
        Path(paths["model"]).write_bytes(model.SerializeToString())
        weights = weights_folder() if has_files(model) else None
        if weights is not None:
            self._link(model, weights)
        np.savez(paths["feeds"], **feeds)  # type: ignore[arg-type]  # numpy takes any name.
        if self._process.poll() is not None:
            # It ended by another window, which says nothing of this one.
            self.end()
            self._start()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({**paths, "how": how, "has_files": weights is not None}) + "\n")
        self._process.stdin.flush()
        if error := self._answer()["error"]:
            raise RuntimeError(error)
        with np.load(paths["out"]) as found:
            return dict(found)

    def _link(self, model: onnx.ModelProto, weights: Path) -> None:
        """Puts the files with the model's constants into the folder, without copying them where that can be."""
        for location in onnx_weights.locations(model):
            target = self._folder / location
            if target.exists():
                continue
            try:
                target.hardlink_to(weights / location)
            except OSError:
                shutil.copyfile(weights / location, target)

    def end(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def remove_files(self) -> None:
        for path in self._folder.iterdir():
            if path.is_file():
                path.unlink()

    def _answer(self) -> dict[str, str | None]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Died(self._runtime, _ending(self._process.wait()))
        answer: dict[str, str | None] = json.loads(line)
        return answer


def _ending(status: int) -> str:
    """A signal's name, or an exit status."""
    if status >= 0:
        return str(status)
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"

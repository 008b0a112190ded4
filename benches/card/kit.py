"""What every part gets: programs, folders, expectations, and a way to run a child with a time limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CHILD = Path(__file__).resolve().parent / "torch_child.py"
PATIENCE_SECONDS = 8.0
Verdict = tuple[list[str], dict[str, Any]]
"""Differences from what is expected, and the figures that a part measured."""


class Missing(Exception):
    """Something that a part needs is absent, which became known only while it ran."""


@dataclass(frozen=True)
class Part:
    """One piece of evidence."""

    name: str
    shows: str
    missing: Callable[[Kit], str | None]
    """Why the part cannot run, found within a second; None if it can."""
    run: Callable[[Kit, Path], Verdict]
    limit: float
    least: float
    """The part is left out if fewer seconds remain."""
    is_of_the_card: bool = True


@dataclass
class Kit:
    """The programs, folders and expectations of one session."""

    orch: Path
    python: Path
    """The interpreter of children that need torch."""
    own_python: Path | None
    """The interpreter that orch gets by `--python`; None if orch uses its environments."""
    env_dir: Path
    work: Path
    expected: dict[str, Any]
    package: Path | None = None
    cuda_python: Path | None = None
    """The interpreter with ONNX Runtime's GPU package, once it is installed."""
    on_cpu: bool = False
    ends: float = float("inf")
    """When the part that runs must end, by the monotonic clock."""
    spec: str = "specs/all.yaml"
    ended: list[str] = field(default_factory=list)
    """Names of children that were ended at the time limit."""
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """Children of the part that runs."""

    def target(self, name: str) -> str:
        """The name of a target, or of its counterpart for CPUs."""
        return str(self.expected["on_cpu"].get(name, name)) if self.on_cpu else name

    @property
    def device(self) -> str:
        """The device of torch."""
        return "cpu" if self.on_cpu else "cuda"

    def seconds_left(self) -> float:
        """The seconds that remain of the part's time."""
        return max(self.ends - time.monotonic(), 0.1)

    def orch_argv(self, *words: str, python: Path | None = None) -> list[str]:
        """A command line of orch with this session's store, environments and interpreter."""
        argv = [str(self.orch), *words, "--cache-dir", str(self.work / "cache"), "--env-dir", str(self.env_dir)]
        own = python or self.own_python
        if own is not None:
            argv += ["--python", str(own)]
        return argv

    def start(self, argv: list[str], folder: Path, name: str) -> subprocess.Popen[bytes]:
        """Starts a child in a session of its own; its streams go to files of the part's folder."""
        with (folder / f"{name}.stdout").open("wb") as stdout, (folder / f"{name}.stderr").open("wb") as stderr:
            child = subprocess.Popen(
                argv,
                cwd=ROOT,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        self.children.append(child)
        return child

    def end_children(self) -> None:
        """Ends the children that still run, as after an interruption."""
        for child in self.children:
            if child.poll() is None:
                end(child)
        self.children.clear()

    def call(self, argv: list[str], folder: Path, name: str) -> int:
        """Runs a child to its end, or interrupts and then kills it at the part's time limit."""
        child = self.start(argv, folder, name)
        return self.wait(child, name)

    def wait(self, child: subprocess.Popen[bytes], name: str) -> int:
        """The exit code of a child, which is interrupted and then killed at the part's time limit."""
        try:
            return child.wait(self.seconds_left())
        except subprocess.TimeoutExpired:
            self.ended.append(name)
            return end(child)

    def call_json(self, argv: list[str], folder: Path, name: str) -> Any:
        """The JSON document that a child prints; a failure of the child is an error."""
        code = self.call(argv, folder, name)
        document = read_json(folder / f"{name}.stdout")
        if document is None:
            last = (folder / f"{name}.stderr").read_text(errors="replace").strip()[-400:]
            raise RuntimeError(f"{name} ended with {code} and without a JSON document: {last}")
        return document

    def torch(self, folder: Path, name: str, *words: str) -> Any:
        """The JSON document of a task of `torch_child.py`."""
        return self.call_json([str(self.python), str(CHILD), *words], folder, name)


def environment() -> dict[str, str]:
    """The environment of children: this one, with orch's Python package on the path."""
    variables = dict(os.environ)
    variables["PYTHONPATH"] = str(ROOT / "python")
    variables["PYTHONDONTWRITEBYTECODE"] = "1"
    variables.pop("ORCH_PYTHON", None)
    return variables


def end(child: subprocess.Popen[bytes]) -> int:
    """Interrupts a child, and kills its session if it does not end soon."""
    child.send_signal(signal.SIGINT)
    try:
        return child.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        return child.wait()


def read_json(path: Path) -> Any:
    """A JSON document, or None if the file holds none."""
    try:
        return json.loads(path.read_text(errors="replace"))
    except (OSError, ValueError):
        return None


def write_json(path: Path, document: Any) -> None:
    """Writes a JSON document."""
    path.write_text(json.dumps(document, indent=2) + "\n")

"""What the benchmark asks of a tool. The tools themselves are files of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from harness.clock import Failed
from harness.graph import Graph


class Tool:
    name: str
    max_steps: int | None = None
    """Above this many steps it is not measured unless asked for: it would take too long."""
    file: str
    """The file that describes the graph, in the folder of the graph. A line that starts with # is a comment in it."""

    def __init__(self, program: Path | None) -> None:
        self.program = program
        self.seen: tuple[int, int] | None = None
        """What the top's output was after the last run."""

    def missing(self) -> str | None:
        return None if self.program else f"no `{self.name}` on PATH"

    def version(self) -> str:
        said = subprocess.run([str(self.program), "--version"], check=True, capture_output=True, text=True)
        return said.stdout.split()[-1]

    def write(self, graph: Graph) -> None:
        """Describes the graph in the tool's language, and does what the tool wants done once. Not timed."""
        raise NotImplementedError

    def argv(self, jobs: int) -> list[str]:
        raise NotImplementedError

    def comment(self, graph: Graph) -> None:
        with (graph.folder / self.file).open("a") as file:
            file.write("# one more comment\n")

    def verify(self, graph: Graph, executed: int, log: Path) -> None:
        """Raises unless the run that has just ended executed as many steps as it should have."""
        top = graph.folder / graph.TOP
        before, self.seen = self.seen, (top.stat().st_mtime_ns, top.stat().st_ino)
        if (self.seen != before) != (executed > 0):
            raise Failed(f"{self.name} should have executed {executed} steps, but {graph.TOP} tells otherwise")
        text = top.read_text()
        if f"{graph.text}\n" not in text or text.count("\n") != graph.leaves:
            raise Failed(f"{self.name}: {graph.TOP} is not made from the sources as they are")


def on_path(name: str) -> Path | None:
    path = shutil.which(name)
    return Path(path).resolve() if path else None


def environment(folder: Path) -> dict[str, str]:
    """The caller's, without what steers the tools, and with all caches inside `folder`."""
    steering = ("ORCH_", "NINJA_", "DVC_", "SNAKEMAKE_")
    own = {name: value for name, value in os.environ.items() if not name.startswith(steering)}
    home = str(folder / "home")
    dvc = {"DVC_NO_ANALYTICS": "1", "DVC_SITE_CACHE_DIR": f"{home}/dvc"}
    return own | dvc | {"SHELL": "/bin/sh", "HOME": home, "XDG_CACHE_HOME": home}

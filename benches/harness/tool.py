"""What the benchmark asks of a tool. The tools themselves are files of their own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from harness.clock import Failed
from harness.graph import Graph


class Tool:
    name: str
    program: Path | None = None
    max_steps: int | None = None
    """Above this many steps it is not measured unless asked for: it would take too long."""
    file: str
    """The file that describes the graph, in the folder of the graph. A line that starts with # is a comment in it."""
    settings: dict[str, str] = {}
    """Environment variables that it is run with, besides those that all tools get."""

    def __init__(self) -> None:
        self.seen: tuple[int, int] | None = None
        self.program = self.program or _found(self.name)

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


def _found(name: str) -> Path | None:
    path = shutil.which(name)
    return Path(path).resolve() if path else None

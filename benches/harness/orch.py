"""orch: each step gets `/bin/sh -c` too, in a folder of its own, and its output goes into the store by content."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from harness.clock import Failed, last_words
from harness.graph import Graph
from harness.tool import Tool


class Orch(Tool):
    name = "orch"
    file = "all.yaml"

    def __init__(self, program: Path, folder: Path) -> None:
        # A copy: a build that ends meanwhile must not change what is measured.
        super().__init__(Path(shutil.copy2(program, folder / "orch")) if program.is_file() else None)
        self.looked_for = program

    def missing(self) -> str | None:
        return None if self.program else f"no `{self.looked_for}`: `cargo build --release` makes it"

    def write(self, graph: Graph) -> None:
        leaf = graph.leaf_words.format(source="in", output="out")
        # A program is started as it is; words are the shell's.
        argv = _shell(leaf) if set(leaf) & set(";<>$") else f"[{', '.join(leaf.split())}]"
        join = graph.JOIN.format(sources="*/out", output="out")
        with (graph.folder / self.file).open("w") as file:
            file.write("version: 1\ncommands:\n")
            for i in range(graph.leaves):
                file.write(_row(f"l{i:07}", argv, f"in: {{file: {graph.source(i)}}}"))
            for g in range(graph.groups):
                file.write(_row(f"g{g:05}", _shell(join), ", ".join(_step(f"l{i:07}") for i in graph.members(g))))
            file.write(_row("top", _shell(join), ", ".join(_step(f"g{g:05}") for g in range(graph.groups))))

    def argv(self, jobs: int) -> list[str]:
        return [str(self.program), "run", self.file, "--jobs", str(jobs)]

    def verify(self, graph: Graph, executed: int, log: Path) -> None:
        """Its outputs lie in the store by their digests, so its own count is taken."""
        said = re.search(r"(\d+) executed", log.read_text())
        if said is None or int(said[1]) != executed:
            raise Failed(f"orch should have executed {executed} steps, but said: {last_words(log)}")


def _row(name: str, argv: str, inputs: str) -> str:
    return f"  {name}: {{argv: {argv}, inputs: {{{inputs}}}, outputs: [out]}}\n"


def _shell(words: str) -> str:
    return f"[/bin/sh, -c, '{words}']"


def _step(name: str) -> str:
    return f"{name}: {{step: 'command:{name}'}}"

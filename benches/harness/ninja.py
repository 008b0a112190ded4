"""ninja, and n2, which reads the same file.

Both start each command by `/bin/sh -c`, trust mtimes, keep no content, and make the folders of outputs.
"""

from __future__ import annotations

from harness.graph import Graph
from harness.tool import Tool, on_path


class Ninja(Tool):
    name = "ninja"
    file = "build.ninja"

    def __init__(self) -> None:
        super().__init__(on_path(self.name))

    def write(self, graph: Graph) -> None:
        leaf = graph.leaf_words.replace("$", "$$").format(source="$in", output="$out")
        with (graph.folder / self.file).open("w") as file:
            file.write(f"rule leaf\n  command = {leaf}\n")
            # The folder is named in place of its files, because one argument of a process ends at 128 KiB.
            file.write(f"rule join\n  command = {graph.JOIN.format(sources='$from/*', output='$out')}\n")
            for i in range(graph.leaves):
                file.write(f"build {graph.output(i)}: leaf {graph.source(i)}\n")
            for g in range(graph.groups):
                members = " ".join(map(graph.output, graph.members(g)))
                file.write(f"build {graph.group_output(g)}: join {members}\n  from = {graph.members_folder(g)}\n")
            file.write(f"build {graph.TOP}: join {' '.join(graph.group_outputs())}\n  from = {graph.GROUPS}\n")

    def argv(self, jobs: int) -> list[str]:
        return [str(self.program), "-j", str(jobs)]


class N2(Ninja):
    name = "n2"

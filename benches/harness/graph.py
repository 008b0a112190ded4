"""The graph that every tool builds: leaves, groups of 100 leaves, one top. Knows of no tool.

    src/0000/0000000  ─leaf─→  out/00000/0000000 ┐
    src/0000/0000001  ─leaf─→  out/00000/0000001 ┼─group─→  out/groups/00000 ─top─→  out/top
    …                                            ┘

Two files a step: a leaf reads one source file and writes one file. What a step does is as little as a process
can do and still prove that it was done: the text of each source arrives in `out/top`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

IN_GROUP = 100
IN_FOLDER = 1000


class Graph:
    def __init__(self, folder: Path, steps: int, leaf: str = "words") -> None:
        if steps < 3:
            raise ValueError(f"{steps} steps: a leaf, a group and the top are 3")
        self.folder = folder
        self.steps = steps
        self.leaves = (steps - 1) * IN_GROUP // (IN_GROUP + 1)
        self.groups = steps - 1 - self.leaves
        self.changes = self.cleared = 0
        self.leaf_words = self.LEAVES[leaf]
        self.text = ""
        """What the leaf of `change_leaf` holds now."""

    LEAVES: ClassVar = {"words": 'read -r x < {source}; echo "$x" > {output}', "program": "cp {source} {output}"}
    """The shell's own words, so that a step is one process; or a program, as most commands are."""
    JOIN = "cat {sources} > {output}"
    TOP = "out/top"
    GROUPS = "out/groups"

    def source(self, leaf: int) -> str:
        return f"src/{leaf // IN_FOLDER:04}/{leaf:07}"

    def output(self, leaf: int) -> str:
        return f"{self.members_folder(leaf // IN_GROUP)}/{leaf:07}"

    def members_folder(self, group: int) -> str:
        return f"out/{group:05}"

    def members(self, group: int) -> range:
        return range(group * IN_GROUP, min((group + 1) * IN_GROUP, self.leaves))

    def group_output(self, group: int) -> str:
        return f"{self.GROUPS}/{group:05}"

    def group_outputs(self) -> Iterator[str]:
        return map(self.group_output, range(self.groups))

    def write_sources(self) -> None:
        for first in range(0, self.leaves, IN_FOLDER):
            folder = self.folder / "src" / f"{first // IN_FOLDER:04}"
            folder.mkdir(parents=True)
            for leaf in range(first, min(first + IN_FOLDER, self.leaves)):
                with open(f"{folder}/{leaf:07}", "w") as file:
                    file.write(f"source {leaf}\n")
        self.text = f"source {self._changing()}"

    def change_leaf(self) -> None:
        """Gives one source a text that it never had; the file system moves its mtime on."""
        self.changes += 1
        self.text = f"change {self.changes} of {self._changing()}"
        (self.folder / self.source(self._changing())).write_text(f"{self.text}\n")

    def _changing(self) -> int:
        return self.leaves // 2

    def clear(self) -> None:
        """Moves all but the sources out of the way. Removing it would be charged to whoever comes next: for minutes
        ext4 passes over what was just freed.
        """
        aside = self.folder.parent / f"{self.folder.name}.aside" / str(self.cleared)
        aside.mkdir(parents=True)
        self.cleared += 1
        for entry in self.folder.iterdir():
            if entry.name != "src":
                entry.rename(aside / entry.name)

    def make_folders(self) -> None:
        """For tools that do not make the folders of outputs."""
        for folder in itertools.chain([self.GROUPS], map(self.members_folder, range(self.groups))):
            (self.folder / folder).mkdir(parents=True)

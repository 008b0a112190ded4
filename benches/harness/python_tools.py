"""DVC and Snakemake: from a virtual environment that `--install` makes, else from PATH."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from harness.clock import Failed
from harness.graph import Graph
from harness.tool import Tool


class PythonTool(Tool):
    pinned: str

    def __init__(self, tools: Path, install: bool) -> None:
        at = tools / f"{self.name}-{self.pinned}"
        program = at / "bin" / self.name
        if install and not program.exists():
            print(f"installing {self.name} {self.pinned} into {at}", file=sys.stderr)
            venv.create(at, with_pip=True, clear=True)
            pip = [at / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            if subprocess.run([*pip, f"{self.name}=={self.pinned}"], stdout=sys.stderr).returncode != 0:
                raise Failed(f"pip could not install {self.name} {self.pinned}")
        self.program = program if program.exists() else None
        super().__init__()

    def missing(self) -> str | None:
        return None if self.program else f"no `{self.name}` on PATH; `--install` installs {self.pinned}"


class Dvc(PythonTool):
    """Executes one stage at a time, whatever the number of jobs; keeps content by its MD5; needs no git for it."""

    name = "dvc"
    pinned = "3.67.1"
    file = "dvc.yaml"
    max_steps = 1000
    settings = {"DVC_NO_ANALYTICS": "1"}

    def write(self, graph: Graph) -> None:
        graph.make_folders()
        for words in (["init", "--no-scm"], ["config", "core.analytics", "false"], ["config", "core.check_update", "false"]):
            subprocess.run([str(self.program), *words, "--quiet"], cwd=graph.folder, check=True)
        with (graph.folder / self.file).open("w") as file:
            file.write("stages:\n")
            for i in range(graph.leaves):
                source, output = graph.source(i), graph.output(i)
                file.write(_stage(f"l{i:07}", graph.LEAF.format(source=source, output=output), [source], output))
            for g in range(graph.groups):
                words = graph.JOIN.format(sources=f"{graph.members_folder(g)}/*", output=graph.group_output(g))
                file.write(_stage(f"g{g:05}", words, list(map(graph.output, graph.members(g))), graph.group_output(g)))
            words = graph.JOIN.format(sources=f"{graph.GROUPS}/*", output=graph.TOP)
            file.write(_stage("top", words, list(graph.group_outputs()), graph.TOP))

    def argv(self, jobs: int) -> list[str]:
        return [str(self.program), "repro"]


def _stage(name: str, words: str, deps: list[str], out: str) -> str:
    return f"  {name}: {{cmd: '{words}', deps: [{', '.join(deps)}], outs: [{out}]}}\n"


class Snakemake(PythonTool):
    """Told to use `/bin/sh` as the others do, instead of bash with a prefix of its own; decides by mtimes and checksums."""

    name = "snakemake"
    pinned = "9.27.1"
    file = "Snakefile"
    max_steps = 1000

    def write(self, graph: Graph) -> None:
        leaf = graph.LEAF.format(source="{input}", output="{output}")
        join = graph.JOIN.format(sources="{params.folder}/*", output="{output}")
        (graph.folder / self.file).write_text(f"""\
shell.executable("/bin/sh")
shell.prefix("")

rule top:
    input: [f"{graph.GROUPS}/{{g:05}}" for g in range({graph.groups})]
    output: "{graph.TOP}"
    params: folder="{graph.GROUPS}"
    shell: '{join}'

rule group:
    input: lambda w: [f"out/{{w.group}}/{{i:07}}" for i in range(int(w.group) * 100, min(int(w.group) * 100 + 100, {graph.leaves}))]
    output: "{graph.GROUPS}/{{group,[0-9]+}}"
    params: folder=lambda w: f"out/{{w.group}}"
    shell: '{join}'

rule leaf:
    input: lambda w: f"src/{{int(w.leaf) // 1000:04}}/{{w.leaf}}"
    output: "out/{{group,[0-9]+}}/{{leaf,[0-9]+}}"
    shell: '{leaf}'
""")

    def argv(self, jobs: int) -> list[str]:
        return [str(self.program), "--cores", str(jobs), "--quiet", "all"]

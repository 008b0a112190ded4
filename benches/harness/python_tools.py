"""DVC and Snakemake: from a virtual environment that `--install` makes, else from PATH."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from harness.clock import Failed
from harness.graph import IN_FOLDER, IN_GROUP, Graph
from harness.tool import Tool, environment, on_path


class PythonTool(Tool):
    pinned: str

    def __init__(self, tools: Path, install: bool) -> None:
        at = tools / f"{self.name}-{self.pinned}"
        program = at / "bin" / self.name
        if install and not program.exists():
            print(f"installing {self.name} {self.pinned} into {at}", file=sys.stderr)
            venv.create(at, with_pip=True, clear=True)
            pip = [str(at / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            if subprocess.run([*pip, f"{self.name}=={self.pinned}"], stdout=sys.stderr).returncode != 0:
                raise Failed(f"pip could not install {self.name} {self.pinned}")
        super().__init__(program if program.exists() else on_path(self.name))

    def missing(self) -> str | None:
        return None if self.program else f"no `{self.name}` on PATH; `--install` installs {self.pinned}"


class Dvc(PythonTool):
    """Executes one stage at a time, whatever the number of jobs; keeps content by its MD5; needs no git for it."""

    name = "dvc"
    pinned = "3.67.1"
    file = "dvc.yaml"
    max_steps = 1000

    def write(self, graph: Graph) -> None:
        graph.make_folders()
        for words in ("init --no-scm", "config core.analytics false", "config core.check_update false"):
            argv = [str(self.program), *words.split(), "--quiet"]
            subprocess.run(argv, cwd=graph.folder, env=environment(graph.folder), check=True)
        with (graph.folder / self.file).open("w") as file:
            file.write("stages:\n")
            for i in range(graph.leaves):
                source, output = graph.source(i), graph.output(i)
                file.write(_stage(f"l{i:07}", graph.leaf_words.format(source=source, output=output), [source], output))
            for g in range(graph.groups):
                output = graph.group_output(g)
                join = graph.JOIN.format(sources=f"{graph.members_folder(g)}/*", output=output)
                file.write(_stage(f"g{g:05}", join, list(map(graph.output, graph.members(g))), output))
            join = graph.JOIN.format(sources=f"{graph.GROUPS}/*", output=graph.TOP)
            file.write(_stage("top", join, list(graph.group_outputs()), graph.TOP))

    def argv(self, jobs: int) -> list[str]:
        return [str(self.program), "repro"]


def _stage(name: str, words: str, deps: list[str], out: str) -> str:
    return f"  {name}: {{cmd: '{words}', deps: [{', '.join(deps)}], outs: [{out}]}}\n"


class Snakemake(PythonTool):
    """Told to use `/bin/sh` as the others do, instead of bash with a prefix of its own."""

    name = "snakemake"
    pinned = "9.27.1"
    file = "Snakefile"
    max_steps = 1000

    def write(self, graph: Graph) -> None:
        leaf = graph.leaf_words.format(source="{input}", output="{output}")
        join = graph.JOIN.format(sources="{params.folder}/*", output="{output}")
        (graph.folder / self.file).write_text(f"""\
shell.executable("/bin/sh")
shell.prefix("")

def members(wildcards):
    first = int(wildcards.group) * {IN_GROUP}
    return [f"out/{{wildcards.group}}/{{i:07}}" for i in range(first, min(first + {IN_GROUP}, {graph.leaves}))]

rule top:
    input: [f"{graph.GROUPS}/{{g:05}}" for g in range({graph.groups})]
    output: "{graph.TOP}"
    params: folder="{graph.GROUPS}"
    shell: '{join}'

rule group:
    input: members
    output: "{graph.GROUPS}/{{group,[0-9]+}}"
    params: folder=lambda w: f"out/{{w.group}}"
    shell: '{join}'

rule leaf:
    input: lambda w: f"src/{{int(w.leaf) // {IN_FOLDER}:04}}/{{w.leaf}}"
    output: "out/{{group,[0-9]+}}/{{leaf,[0-9]+}}"
    shell: '{leaf}'
""")

    def argv(self, jobs: int) -> list[str]:
        return [str(self.program), "--cores", str(jobs), "--quiet", "all"]

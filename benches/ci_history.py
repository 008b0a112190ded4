#!/usr/bin/env python3
"""What CI executes over a history of 28 commits on four kinds of runners that share one store.

    cargo build --release
    python3 benches/ci_history.py [--commits 28] [--check 7] [--env-dir cache/envs]

A runner is a mount namespace of this machine with a CPU, a host name, a number of cores, a umask and a workspace of its
own; the CPU that computes is one, so equal results are expected wherever a key is shared. Each job restores the store
that the job before it saved, checks out the commit, runs the spec, and saves. Two things are counted as wrong reuse: a
figure in a report that was measured on another CPU than the job's, and, at every `--check`-th commit, a case that is
other than in an empty store. Needs Linux and root (`unshare`, `mount --bind`). Ends with 1 if anything was reused
wrongly.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MODELS = ["bert", "vit", "t5"]
TARGETS = ["cpu", "openvino", "eager-cpu"]
NEW_MODEL = "opt"


@dataclass(frozen=True)
class Runner:
    """A kind of machine."""

    name: str
    host: str
    cpu: dict[str, str]
    """Fields of `/proc/cpuinfo` that are other than this machine's."""
    cores: int
    umask: str
    workspace: str


RUNNERS = [
    Runner("as it is", "amd-1", {}, 2, "022", "home/runner/work"),
    Runner("one name, another stepping", "amd-2", {"stepping": "2", "model": "1"}, 2, "022", "home/runner/work"),
    Runner("one core", "small", {}, 1, "022", "home/runner/work"),
    Runner(
        "another name, user and path",
        "pool",
        {"vendor_id": "GenuineIntel", "cpu family": "6", "model": "143", "model name": "Intel Xeon Gold 6430"},
        2,
        "077",
        "srv/ci pool/work",
    ),
]

Edit = Callable[[Path], None]


def replaced(name: str, old: str, new: str) -> Edit:
    """Replaces text in a file of the repository; that it occurs is part of the edit."""

    def edit(repository: Path) -> None:
        path = repository / name
        text = path.read_text()
        if old not in text:
            raise SystemExit(f"BUG: {name} has no {old!r}")
        path.write_text(text.replace(old, new))

    return edit


def nothing(_repository: Path) -> None:
    pass


def moved(repository: Path) -> None:
    """The models lie in another file of another folder."""
    (repository / "specs/zoo").mkdir()
    (repository / "specs/models.yaml").rename(repository / "specs/zoo/models.yaml")
    replaced("specs/all.yaml", "models.yaml", "zoo/models.yaml")(repository)


def moved_back(repository: Path) -> None:
    (repository / "specs/zoo/models.yaml").rename(repository / "specs/models.yaml")
    (repository / "specs/zoo").rmdir()
    replaced("specs/all.yaml", "zoo/models.yaml", "models.yaml")(repository)


def with_mode(mode: int) -> Edit:
    def edit(repository: Path) -> None:
        for path in (repository / "specs").rglob("*.yaml"):
            path.chmod(mode)

    return edit


def with_line_ends(repository: Path) -> None:
    for path in (repository / "specs").rglob("*.yaml"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


def without_line_ends(repository: Path) -> None:
    for path in (repository / "specs").rglob("*.yaml"):
        path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n"))


def sorted_rows(repository: Path) -> None:
    """The models in another order."""
    path = repository / "specs/models.yaml"
    head, *rows = re.split(r"(?m)^(?=  \w)", path.read_text())
    path.write_text(head + "".join(reversed(rows)))


def readme(repository: Path) -> None:
    (repository / "README.md").write_text("Models.\n")


MODELS_YAML = "specs/models.yaml"
ALL_YAML = "specs/all.yaml"
BERT = "num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 128, max_position_embeddings"
COMMITS: list[tuple[str, Edit]] = [
    ("first", nothing),
    ("no change", nothing),
    ("README", readme),
    ("a comment", replaced(MODELS_YAML, "models:\n", "# Models of this company.\nmodels:\n")),
    ("models in another order", sorted_rows),
    ("a tag", replaced(MODELS_YAML, "tags: [key]", "tags: [key, mobile]")),
    ("a timeout", replaced(ALL_YAML, "timeout_seconds: 600", "timeout_seconds: 900")),
    ("a file moved", moved),
    ("back", moved_back),
    ("modes of files", with_mode(0o600)),
    ("CRLF", with_line_ends),
    ("LF", without_line_ends),
    ("a tolerance", replaced("specs/targets.yaml", "cosine: 0.9999, snr: 50", "cosine: 0.9999, snr: 60")),
    ("a config", replaced(MODELS_YAML, BERT, BERT.replace("layers: 2", "layers: 3"))),
    ("back", replaced(MODELS_YAML, BERT.replace("layers: 2", "layers: 3"), BERT)),
    ("an input", replaced(MODELS_YAML, "randint: [5, 128]", "randint: [6, 128]")),
    ("a new model", replaced(ALL_YAML, "models: [bert, vit, t5]", f"models: [bert, vit, t5, {NEW_MODEL}]")),
    ("it is gone", replaced(ALL_YAML, f", {NEW_MODEL}]", "]")),
    ("it is there again", replaced(ALL_YAML, "models: [bert, vit, t5]", f"models: [bert, vit, t5, {NEW_MODEL}]")),
    ("a new target", replaced(ALL_YAML, "eager-cpu]", "eager-cpu, torch-cpu]")),
    ("it is gone", replaced(ALL_YAML, "eager-cpu, torch-cpu]", "eager-cpu]")),
    ("it is there again", replaced(ALL_YAML, "eager-cpu]", "eager-cpu, torch-cpu]")),
    ("fewer samples", replaced(ALL_YAML, "samples: 30", "samples: 20")),
    ("back", replaced(ALL_YAML, "samples: 20", "samples: 30")),
    ("a precision gone", replaced("specs/targets.yaml", "precisions: [fp32, fp16, int8]", "precisions: [fp32, fp16]")),
    ("it is there again", replaced("specs/targets.yaml", "precisions: [fp32, fp16]", "precisions: [fp32, fp16, int8]")),
    ("the comment gone", replaced(MODELS_YAML, "# Models of this company.\n", "")),
    ("no change", nothing),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--orch", type=Path, default=Path("target/release/orch"))
    parser.add_argument("--env-dir", type=Path, default=Path("cache/envs"))
    parser.add_argument("--commits", type=int, default=len(COMMITS), help="only this many of the history")
    parser.add_argument("--check", type=int, default=7, help="compare each N-th commit with an empty store")
    args = parser.parse_args()
    if sys.platform != "linux" or os.geteuid() != 0:
        raise SystemExit("runners of other kinds are mount namespaces, which need Linux and root")
    with tempfile.TemporaryDirectory() as folder:
        return history(args, Path(folder))


def history(args: argparse.Namespace, folder: Path) -> int:
    repository = folder / "repository"
    begun(repository)
    store = folder / "store"
    wrong: list[str] = []
    print("| commit | " + " | ".join(runner.name for runner in RUNNERS) + " | store |")
    print("|---|" + "---|" * (len(RUNNERS) + 1), flush=True)
    jobs = executed = 0
    for number, (subject, edit) in enumerate(COMMITS[: args.commits]):
        edit(repository)
        cells = []
        is_checked = args.check > 0 and number % args.check == args.check - 1
        for runner in RUNNERS:
            document = job(args, folder, repository, runner, store)
            summary = document["summary"]
            cells.append(f"{summary['executed']} ({summary['seconds']:.1f} s)")
            jobs += 1
            executed += summary["executed"]
            where = f"{subject}, {runner.name}"
            wrong += [f"{where}: {text}" for text in of_others(document, runner)]
            if is_checked and runner is RUNNERS[number // args.check % len(RUNNERS)]:
                empty = folder / "empty"
                fresh = job(args, folder, repository, runner, empty)
                shutil.rmtree(empty)
                wrong += [f"{where}: {text}" for text in differences(document, fresh)]
        print(f"| {subject} | {' | '.join(cells)} | {size(store) / 1e6:.1f} MB |", flush=True)
    print(f"\n{jobs} jobs, {executed} steps executed, {len(wrong)} reused wrongly")
    for text in wrong:
        print(f"- {text}")
    return 1 if wrong else 0


def begun(repository: Path) -> None:
    """The repository as it is at first: three of orch's key models on three targets."""
    (repository / "specs").mkdir(parents=True)
    (repository / "README.md").write_text("\n")
    for name in ["models.yaml", "pipelines.yaml", "targets.yaml"]:
        shutil.copy(ROOT / "specs" / name, repository / "specs")
    (repository / ALL_YAML).write_text(
        "version: 1\n"
        "include: [models.yaml, pipelines.yaml, targets.yaml]\n"
        "measure: {warmup: 3, samples: 30, max_seconds: 10, timeout_seconds: 600}\n"
        "matrix:\n"
        f"  models: [{', '.join(MODELS)}]\n"
        f"  targets: [{', '.join(TARGETS)}]\n"
    )


def job(args: argparse.Namespace, folder: Path, repository: Path, runner: Runner, store: Path) -> dict[str, Any]:
    """Runs the spec on a machine of the kind, with what `store` holds, and saves there; the run's document."""
    workspace = folder / runner.workspace
    shutil.rmtree(workspace, ignore_errors=True)
    shutil.copytree(repository, workspace)
    cache = workspace / "cache"
    if store.exists():
        shutil.copytree(store, cache, symlinks=True)
    cpuinfo = folder / f"cpuinfo-{runner.host}"
    cpuinfo.write_text(cpu_of(runner))
    start = f'umask {runner.umask}; mount --bind "$1" /proc/cpuinfo; hostname {runner.host}; shift; exec "$@"'
    cores = ",".join(str(core) for core in sorted(os.sched_getaffinity(0))[: runner.cores])
    line: list[str | Path] = ["unshare", "-m", "-u", "sh", "-ec", start, "sh", cpuinfo, "taskset", "-c", cores]
    line += [args.orch.resolve(), "--cache-dir", "cache", "--env-dir", args.env_dir.resolve()]
    line += ["run", ALL_YAML, "--json", "--quiet", "--no-remote"]
    finished = subprocess.run(line, cwd=workspace, stdout=subprocess.PIPE, check=False)
    if not finished.stdout:
        raise SystemExit(f"`orch run` gave no report (code {finished.returncode})")
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(cache, store, symlinks=True)
    document: dict[str, Any] = json.loads(finished.stdout)
    return document


def cpu_of(runner: Runner) -> str:
    text = Path("/proc/cpuinfo").read_text()
    for field, value in runner.cpu.items():
        text = re.sub(rf"(?m)^({field}\s*): .*$", rf"\g<1>: {value}", text)
    return text


def of_others(document: dict[str, Any], runner: Runner) -> list[str]:
    """Figures that another kind of machine measured."""
    found = []
    host = document["host"]
    own = (host["cpu"], host["cpu_identity"], host["cores"])
    if host["cores"] != runner.cores or host["name"] != runner.host:
        raise SystemExit(f"BUG: the runner {runner.host} looks like {host}")
    for case in document["cases"]:
        cpu = case.get("cpu")
        if not case.get("metrics") or cpu is None:
            continue
        if (cpu["name"], cpu["identity"], cpu["cores"]) != own:
            found.append(f"{case['case']} shows a figure of {cpu['identity']} with {cpu['cores']} cores")
    return found


def differences(document: dict[str, Any], fresh: dict[str, Any]) -> list[str]:
    """What is other than in an empty store: states, sizes and accuracy, which all machines share."""
    kept = {case["case"]: told(case) for case in document["cases"]}
    right = {case["case"]: told(case) for case in fresh["cases"]}
    return [
        f"{case}: {kept.get(case)} is {right.get(case)} in an empty store"
        for case in right | kept
        if kept.get(case) != right.get(case)
    ]


def told(case: dict[str, Any]) -> tuple[Any, ...]:
    numerics = case.get("numerics") or {}
    return (case["status"], case.get("loaded_bytes"), numerics.get("snr_db"), numerics.get("max_abs"))


def size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


if __name__ == "__main__":
    sys.exit(main())

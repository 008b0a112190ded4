"""The part of each column of the matrix: the key models on one target."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from card import judge, machine, pieces
from card.kit import Kit, Missing, Verdict, read_json, write_json

REPORTS = ("matrix.json", "matrix.md", "junit.xml")
NEEDS_GPU_PACKAGE = ("cuda", "cuda-half")


def column(name: str) -> Callable[[Kit, Path], Verdict]:
    """The function of the part for a column."""

    def run(kit: Kit, folder: Path) -> Verdict:
        return _run(kit, folder, name)

    return run


def _run(kit: Kit, folder: Path, name: str) -> Verdict:
    python = None
    if name in NEEDS_GPU_PACKAGE and kit.package is not None:
        if kit.cuda_python is None:
            kit.cuda_python = pieces.install(kit.package, kit.python, kit.work / "package")
        python = kit.cuda_python
    target = kit.target(name)
    out = kit.work / f"out-{name}"
    argv = kit.orch_argv("run", kit.spec, "-t", target, "--json", python=python)
    argv += ["--out-dir", str(out), "--trace", str(folder / "trace.json")]
    for model in kit.expected["models"]:
        argv += ["-m", model]
    code = kit.call(argv, folder, "run")
    keep_reports(out, folder)
    report = read_json(folder / "run.stdout") or read_json(folder / "matrix.json")
    if report is None:
        last = (folder / "run.stderr").read_text(errors="replace").strip()[-400:]
        return [f"orch ended with {code} and without a report: {last}"], {}
    # `matrix.json` has the same document.
    if (folder / "matrix.json").is_file():
        (folder / "run.stdout").unlink()
    else:
        write_json(folder / "matrix.json", report)
        (folder / "run.stdout").unlink()
    return _judged(kit, report, name, target)


def _judged(kit: Kit, report: dict[str, Any], name: str, target: str) -> Verdict:
    expected = kit.expected
    if kit.on_cpu:
        expected = for_cpu(expected, name, target)
    absent = judge.absent_library(report, target, expected)
    if absent is not None:
        raise Missing(absent)
    locked = machine.locked()
    versions = judge.column_versions(report, target, locked)
    figures = {
        "cells": judge.counts(report, target),
        "differ_from_locks": judge.package_differences(versions, locked),
    }
    return judge.matrix(report, target, expected), figures


def for_cpu(expected: dict[str, Any], name: str, target: str) -> dict[str, Any]:
    """The expectations of a column for its counterpart on the CPU: any device, at fp32."""
    column_of = dict(expected["columns"][name])
    column_of.update({"precision": "fp32", "device": "", "has_device_memory": False})
    return {**expected, "columns": {target: column_of}}


def keep_reports(out: Path, folder: Path) -> None:
    """Copies the reports of a run, without its artefacts and tests."""
    for name in REPORTS:
        source = out / "report" / name
        if source.is_file():
            shutil.copyfile(source, folder / name)

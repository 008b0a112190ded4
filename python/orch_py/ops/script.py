"""Runs a generated test file in the forked child, with the imports that the server has done already.

The file is the same standalone program that a user can run by hand; this op only calls it and reads the JSON file
that it writes. What it tests, this does not know.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any

from orch_py.protocol import STATUSES, Job, Output, Refused


def run(job: Job) -> Output:
    script = Path(job.required("script"))
    if not script.is_file():
        raise Refused("error", f"the generated test `{script}` does not exist")
    lease: dict[str, Any] = job.param("lease", {})
    # The vendors' libraries read these when they start, which in this child is later than now.
    os.environ.update(lease.get("env", {}))
    descriptor, name = tempfile.mkstemp(suffix=".json", prefix="orch-")
    os.close(descriptor)
    result = Path(name)
    try:
        code = _execute(script, [*map(str, job.param("argv", [])), "--json", str(result)])
        text = result.read_text("utf-8")
    finally:
        result.unlink(missing_ok=True)
    return _named(_judge(script, code, text), lease)


def _execute(script: Path, argv: list[str]) -> int:
    sys.argv = [str(script), *argv]
    # As `python FILE` does, and needed by scripts that import a neighbour.
    sys.path.insert(0, str(script.parent))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as stop:
        if stop.code is None:
            return 0
        if isinstance(stop.code, int):
            return stop.code
        print(stop.code, file=sys.stderr)
        return 1
    return 0


def _named(output: Output, lease: dict[str, Any]) -> Output:
    """The device by the inventory's name: a process that is shown one GPU calls it number 0 whichever it is."""
    kind, _, _ = lease.get("id", "").partition(":")
    if output.measure and output.measure.get("actual_device") == f"{kind}:{lease.get('index')}":
        output.measure["actual_device"] = lease["id"]
    return output


def _judge(script: Path, code: int, text: str) -> Output:
    """The script's own verdict, unless its exit code says otherwise: then one of the two lies."""
    if not text.strip():
        raise Refused("error", f"`{script.name}` exited with {code} and wrote no result")
    try:
        said: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise Refused("error", f"`{script.name}` wrote a result that is not JSON: {error}") from error
    status = said.get("status")
    if status not in STATUSES:
        raise Refused("error", f"`{script.name}` wrote the status `{status}`; known: {', '.join(STATUSES)}")
    if (status == "ok") != (code == 0):
        raise Refused("error", f"`{script.name}` exited with {code} but wrote the status `{status}`")
    return Output(status, said.get("reason"), said.get("facts") or {}, said.get("measure"))

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orch_py.worker.protocol import STATUSES, Job, Output, Refused


def run(job: Job) -> Output:
    script = Path(job.required("script"))
    if not script.is_file():
        raise Refused("error", f"the generated test `{script}` does not exist")
    argv = [*map(str, job.param("argv", []))]
    lease = Lease.of(job.param("lease", {}), argv)
    if lease:
        # The vendors' libraries read these when they start, which in this child is later than now.
        os.environ.update(lease.env)
        argv[lease.at] = lease.shown
    descriptor, name = tempfile.mkstemp(suffix=".json", prefix="orch-")
    os.close(descriptor)
    result = Path(name)
    try:
        code = _execute(script, [*argv, "--json", str(result)])
        text = result.read_text("utf-8")
    finally:
        result.unlink(missing_ok=True)
    output = _judge(script, code, text)
    return lease.named(output) if lease else output


@dataclass
class Lease:
    """The one GPU that this process is shown. Here it is number 0, whichever it is."""

    id: str
    uuid: str | None
    env: dict[str, str]
    # What the spec calls it, and where in the script's arguments that stands.
    asked: str
    at: int

    @classmethod
    def of(cls, lent: dict[str, Any], argv: list[str]) -> Lease | None:
        at = argv.index("--device") + 1 if "--device" in argv[:-1] else None
        if not lent or at is None:
            return None
        return cls(lent["id"], lent.get("uuid"), lent.get("env", {}), argv[at], at)

    @property
    def shown(self) -> str:
        return f"{self.id.partition(':')[0]}:0"

    def named(self, output: Output) -> Output:
        """The run by the names of spec and inventory, if it was on this GPU."""
        found = output.facts.get("device_uuid")
        # A build of torch for AMD writes UUIDs in a form of its own.
        is_nvidia = self.id.startswith("cuda")
        if is_nvidia and found and self.uuid and found.removeprefix("GPU-") != self.uuid.removeprefix("GPU-"):
            told = f"{self.id} ({self.uuid}) is leased, and PyTorch is shown {found}: is the GPU partitioned (MIG)?"
            raise Refused("unavailable", told)
        for field, name in {"requested_device": self.asked, "actual_device": self.id}.items():
            if output.measure and output.measure.get(field) == self.shown:
                output.measure[field] = name
        return output


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

"""Whether generated tests say what orch's own runs say: each is run by itself and compared with its case.

    cargo run --release -- verify
    python3 benches/generated_tests.py orch-out/verify/report/matrix.json

Targets outside the matrix are named to both: `orch verify -t litert -t cpu-int4`, then `-t litert -t cpu-int4` here.

Both agree if they come to the same verdict (passed, indecisive, wrong, unsupported) and their largest errors differ by
no more than a hundredth of the case's bound, or are the same. Prints a table of pipelines and columns, and each case on
which they differ; ends with 1 if there is one, and with 3 if nothing was compared.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import json
import os
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# The word of a test for the state of a case. What failed for another reason than its numbers is not compared.
STATES = {"PASS": "ok", "INDECISIVE": "indecisive", "NUMERICS": "numerics", "SKIP_UNSUPPORTED": "unsupported"}


def test_of(case: dict[str, Any]) -> list[str] | None:
    """The line that runs its test, if the case has one: settings, an interpreter, a file."""
    words = shlex.split(case["repro"] or "")
    return words if words and words[-1].endswith(".py") else None


def run(words: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        command = ["env", *words, "--json", str(result)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        if not result.exists():
            last = (ended.stderr.strip().splitlines() or ["no word"])[-1]
            return {"status": "died", "reason": f"exit code {ended.returncode}: {last}", "facts": {}}
        return json.loads(result.read_text())


def errors(tensors: dict[str, Any]) -> dict[str, float]:
    return {name: row["max_abs"] for name, row in tensors.items()}


def difference(case: dict[str, Any], test: dict[str, Any]) -> str | None:
    """What the two disagree on."""
    expected = STATES[case["status"]]
    if test["status"] != expected:
        return f"orch: {case['status']}, the test: {test['status']}: {test['reason']}"
    if expected == "unsupported":
        return None
    native = errors(case["numerics"]["tensors"])
    other = errors(test["facts"]["numerics"]["tensors"])
    if native.keys() != other.keys():
        return f"orch compares {sorted(native)}, the test {sorted(other)}"
    slack = 0.01 * case["numerics"]["tolerance"]["atol"]
    scales = {name: row["scale"] for name, row in case["numerics"]["tensors"].items()}
    far = [name for name in native if abs(native[name] - other[name]) > slack * scales[name]]
    told = [f"{name}: {native[name]:.3g} and {other[name]:.3g}" for name in far]
    return f"largest errors of {', '.join(told)}" if far else None


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("matrix", nargs="?", type=Path, default=Path("orch-out/report/matrix.json"))
    parser.add_argument("-t", "--target", action="append", default=[], help="only these targets (globs, repeatable)")
    args = parser.parse_args()
    cases = json.loads(args.matrix.read_text())["cases"]
    wanted = args.target or ["*"]
    cases = [case for case in cases if any(fnmatch.fnmatchcase(case["target"], glob) for glob in wanted)]
    counts: dict[tuple[str, str], list[int]] = collections.defaultdict(lambda: [0, 0])
    left_out: collections.Counter[str] = collections.Counter()
    differences = []
    compared = []
    for case in cases:
        if case["status"] not in STATES or test_of(case) is None:
            left_out[case["status"] if case["status"] not in STATES else "no test"] += 1
            continue
        compared.append(case)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        told_of = pool.map(lambda case: difference(case, run(test_of(case) or [])), compared)
    for case, told in zip(compared, told_of, strict=True):
        agreed, asked = counts[case["pipeline"], f"{case['target']}-{case['precision']}"]
        counts[case["pipeline"], f"{case['target']}-{case['precision']}"] = [agreed + (told is None), asked + 1]
        print(f"{'agrees' if told is None else 'DIFFERS'}  {case['case']}", flush=True)
        if told:
            differences.append(f"{case['case']}: {told}")
    print("\n| pipeline | column | agree | compared |\n|---|---|--:|--:|")
    for (pipeline, column), (agreed, asked) in sorted(counts.items()):
        print(f"| {pipeline} | {column} | {agreed} | {asked} |")
    print(f"not compared: {dict(left_out)}" if left_out else "all cases were compared")
    print(*differences, sep="\n")
    return 1 if differences else 0 if counts else 3


if __name__ == "__main__":
    sys.exit(main())

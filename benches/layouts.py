"""`orch init` on folders laid out as the most downloaded repositories of the Hub, and what its rows give when run.

Usage: layouts.py [--orch PROGRAM] [--envs FOLDER] [--targets TARGET …]

Builds the folders of `real/layouts.py`, lets `orch init` and `orch add` write a row of each, and runs all unedited.
Prints a table in Markdown. It ends with 1 if a case failed, or if a folder that cannot run got a row.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from real.layouts import LAYOUTS

HERE = Path(__file__).resolve().parent
# A model of random weights may give too little to be told from a wrong one, or too little for int8.
RIGHT = ("PASS", "INDECISIVE", "NUMERICS at int8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orch", default="target/release/orch", type=Path)
    parser.add_argument("--envs", default="cache/envs", type=Path, help="the folder of orch's environments")
    parser.add_argument("--targets", nargs="+", default=["cpu", "openvino", "eager-cpu"])
    args = parser.parse_args()
    orch, envs = args.orch.resolve(), args.envs.resolve()
    os.environ["ORCH_ENV_DIR"] = str(envs)
    python = next(envs.glob("torch-*/bin/python"))
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        subprocess.run(
            [python, "-m", "real.layouts", root / "models"],
            cwd=HERE,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        said = {name: rowed(orch, root, name) for name in LAYOUTS}
        found = cases(orch, root, args.targets)
    sys.exit(shown(said, found))


def rowed(orch: Path, root: Path, name: str) -> str | None:
    """None where a row was written, or why there is none."""
    project = root / "project"
    project.mkdir(exist_ok=True)
    command = ["add"] if (project / "specs" / "all.yaml").is_file() else ["init", "--model"]
    ended = subprocess.run([orch, *command, root / "models" / name], cwd=project, capture_output=True, text=True)
    if ended.returncode == 0:
        return None
    return ended.stderr.strip().replace(str(root / "models") + "/", "").removeprefix("error: no row was made: ")


def cases(orch: Path, root: Path, targets: list[str]) -> dict[str, Counter[str]]:
    """How many cases of each model have which status."""
    command = [orch, "run", "specs/all.yaml", "--check", "--json", *(word for each in targets for word in ("-t", each))]
    ended = subprocess.run(command, cwd=root / "project", stdout=subprocess.PIPE, text=True)
    found: dict[str, Counter[str]] = {}
    for case in json.loads(ended.stdout)["cases"]:
        is_int8 = case["status"] == "NUMERICS" and case["case"].endswith("int8")
        status = "NUMERICS at int8" if is_int8 else case["status"]
        found.setdefault(case["model"], Counter())[status] += 1
        if status not in RIGHT:
            print(f"{case['case']}: {case['reason']}", file=sys.stderr)
    return found


def shown(said: dict[str, str | None], found: dict[str, Counter[str]]) -> int:
    """Prints the table; gives the exit code."""
    wrong = []
    print("| repository | `orch init` | cases |\n|---|---|---|")
    for name, (_, refusal) in LAYOUTS.items():
        why, counts = said[name], found.get(name, Counter())
        told = "a row" if why is None else " ".join(why.split())
        print(f"| {name} | {told} | {', '.join(f'{count} {status}' for status, count in counts.items())} |")
        is_right = why is None and set(counts) <= set(RIGHT) and counts
        if refusal is not None:
            is_right = why is not None and refusal in why
        if not is_right:
            wrong.append(name)
    if wrong:
        print(f"not as expected: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    main()

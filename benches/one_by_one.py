#!/usr/bin/env python3
"""One cold `orch run` beside the same cases one after the other, each from nothing in processes of its own.

    cargo build --release
    python3 benches/one_by_one.py --model bert --model vit --target cpu --target openvino

The second is what a suite does that starts one Python process per model and target: each imports its packages, makes
the model, exports, converts and runs it, and shares nothing with the next. Environments are installed before the clock
starts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--orch", type=Path, default=Path("target/release/orch"))
    parser.add_argument("--spec", type=Path, default=Path("specs/all.yaml"))
    parser.add_argument("--env-dir", type=Path, default=Path("cache/envs"))
    parser.add_argument(
        "--model", action="append", default=[], help="these models, as `orch run --model` (default: all)"
    )
    parser.add_argument("--target", action="append", default=[], help="these targets, as `orch run --target`")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    selection = [word for name in args.model for word in ("--model", name)]
    selection += [word for name in args.target for word in ("--target", name)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(args, folder / "warm", selection)  # installs what is missing, and fills the page cache
        seconds, cases = run(args, folder / "together", selection)
        ids = [f"{case['model']}:{case['variant']}" for case in cases if case["ran"]]
        print(f"together: {len(ids)} cases in {seconds:.1f} s", file=sys.stderr)
        alone = 0.0
        for number, case in enumerate(ids):
            took, ran = run(args, folder / str(number), ["--case", case])
            if not any(one["ran"] for one in ran):
                sys.exit(f"{case} did not run by itself")
            alone += took
            print(f"{case}: {took:.1f} s", file=sys.stderr)
    print(f"| {len(ids)} cases | wall |\n|---|--:|")
    print(f"| one `orch run`, cold | {seconds:.0f} s |")
    print(f"| one after the other, each from nothing | {alone:.0f} s ({alone / seconds:.1f}x) |")


def run(args: argparse.Namespace, folder: Path, selection: list[str]) -> tuple[float, list[dict[str, object]]]:
    """Seconds, and the cases that there were."""
    argv = [str(args.orch), "run", str(args.spec), "--cache-dir", str(folder / "cache"), "--env-dir", str(args.env_dir)]
    argv += ["--out-dir", str(folder / "out"), "--json", *selection]
    start = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True)
    seconds = time.monotonic() - start
    if done.returncode != 0:
        sys.exit(f"`{' '.join(argv)}` ended with {done.returncode}:\n{done.stderr[-2000:]}")
    cases = json.loads(done.stdout)["cases"]
    return seconds, [
        {"model": case["model"], "variant": f"{case['target']}-{case['precision']}", "ran": case["status"] == "PASS"}
        for case in cases
    ]


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Evidence from an NVIDIA card in one folder: what orch must show on a card, measured part by part.

    python3 benches/card.py --list
    python3 benches/card.py [--budget 480] [--orch target/release/orch] [--python INTERPRETER] [--package FOLDER]
    python3 benches/card.py split WHEEL OUT          # a wheel in pieces of at most 60 MiB, for --package

What each part must show is in `benches/card/expected.json`. A part whose precondition is absent is named with what is
missing, and the others run. Needs no network. Ends with 0 if all parts that could run are as expected, with 1 if a part
differs, and with 3 if no part of the card could run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from card import pieces, session
from card.kit import ROOT, Kit
from card.parts import PARTS

EXPECTED = Path(__file__).resolve().parent / "card" / "expected.json"


def main(argv: list[str]) -> int:
    if argv[:1] == ["split"]:
        return pieces.main(argv[1:])
    args = parse(argv)
    if args.list:
        for part in PARTS:
            print(f"{part.name:18} {part.shows}")
        return 0
    chosen = [part for part in PARTS if not args.only or part.name in args.only]
    out = (args.out or Path(time.strftime("card-%Y%m%d-%H%M%S"))).absolute()
    out.mkdir(parents=True, exist_ok=True)
    # A request to end, as of a time limit around this command, still ends the children and writes the summary.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="orch-card-", ignore_cleanup_errors=True) as work:
        kit = make_kit(args, Path(work))
        entries = session.run_parts(chosen, kit, out, args.budget)
    session.write_summary(entries, kit, out, time.monotonic() - begin)
    print(f"{out / 'summary.md'}")
    return session.exit_code(entries)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        epilog="`card.py split WHEEL OUT` makes the pieces and their manifest for --package.",
    )
    parser.add_argument("--list", action="store_true", help="the parts, and what each must show")
    parser.add_argument("--budget", type=float, default=480, metavar="SECONDS", help="of all parts (default: 480)")
    parser.add_argument("--only", action="append", metavar="PART", choices=[part.name for part in PARTS])
    parser.add_argument("--orch", type=Path, default=ROOT / "target" / "release" / "orch", metavar="PROGRAM")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the folder to write (default: card-DATE-TIME)")
    parser.add_argument("--env-dir", type=Path, default=os.environ.get("ORCH_ENV_DIR"), metavar="DIR")
    parser.add_argument("--python", type=Path, default=os.environ.get("ORCH_PYTHON"), metavar="INTERPRETER")
    parser.add_argument(
        "--package", type=Path, metavar="WHEEL_OR_PIECES", help="ONNX Runtime's GPU wheel, or its pieces"
    )
    parser.add_argument(
        "--on-cpu", action="store_true", help="try the parts themselves on this CPU; this is no evidence from a card"
    )
    return parser.parse_args(argv)


def make_kit(args: argparse.Namespace, work: Path) -> Kit:
    """The session's kit: without --python, orch's environment `torch`, or else this interpreter."""
    env_dir = Path(args.env_dir).absolute() if args.env_dir else ROOT / "cache" / "envs"
    environments = sorted(env_dir.glob("torch-*/bin/python"), key=lambda path: path.lstat().st_mtime)
    own = Path(args.python).absolute() if args.python else None
    if own is None and not environments:
        own = Path(sys.executable)
        env_dir = work / "envs"
    return Kit(
        orch=args.orch.absolute(),
        python=own or environments[-1],
        own_python=own,
        env_dir=env_dir,
        work=work,
        expected=json.loads(EXPECTED.read_text()),
        package=args.package.absolute() if args.package else None,
        on_cpu=args.on_cpu,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Full-size models by orch and by hand: time, peak memory and disk, side by side.

Usage: real_sizes.py [NAME …] [--orch PROGRAM] [--envs FOLDER] [--keep FOLDER]

Builds each model from its config with seeded weights, as a folder in `save_pretrained` layout; lets `orch init` write
its row and `orch run --check` run it on ONNX Runtime, OpenVINO in three precisions, and PyTorch; then does the same
work by hand, one process a step (`real/by_hand.py`). Prints a table in Markdown. It ends with 1 if a case of orch's
did not pass. Without names: those up to 600 M parameters that fit 16 GiB.
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
from dataclasses import dataclass, field
from pathlib import Path

from real.by_hand import OF_TORCH, STEPS
from real.models import MODELS

from harness.clock import Run, timed
from harness.table import machine, where

HERE = Path(__file__).resolve().parent
GIB = 2**30
LARGE = ("llama-3gib", "llama-7gib")


@dataclass
class Row:
    """What one model took."""

    model: str
    weights: int
    """Bytes of the folder."""
    orch: Run
    convert_seconds: float
    convert_peak: int
    orch_disk: int
    """Bytes of the store and of the folder of reports together."""
    hand_disk: int
    not_passed: list[str]
    hand: dict[str, Run] = field(default_factory=dict)

    def markdown(self) -> str:
        hand_seconds = sum(run.seconds - run.floor_seconds for run in self.hand.values())
        hand_peak = max(run.peak_bytes for run in self.hand.values())
        export = self.hand["export"]
        cells = [
            self.model,
            f"{self.weights / GIB:.2f}",
            f"{self.orch.seconds:.0f} s, {self.orch.peak_bytes / GIB:.1f}",
            f"{hand_seconds:.0f} s, {hand_peak / GIB:.1f}",
            f"{self.convert_seconds:.1f} s, {self.convert_peak / GIB:.1f}",
            f"{export.seconds:.1f} s, {export.peak_bytes / GIB:.1f}",
            f"{self.orch_disk / GIB:.2f}",
            f"{self.hand_disk / GIB:.2f}",
            ", ".join(self.not_passed) or "all pass",
        ]
        return f"| {' | '.join(cells)} |"


HEAD = """# Full-size models, by orch and by hand

Made by `python3 benches/real_sizes.py`: each model is built from its config with seeded weights, as a folder in
`save_pretrained` layout. orch runs the row that `orch init` writes, but for its `generate`, without times (`--check`):
reference, control, the model without a layer, export, conversions, five columns (ONNX Runtime, OpenVINO fp32, fp16 and
int8, PyTorch) and their verdicts. By hand is the bare work: `torch.onnx.export`, `openvino.convert_model`,
`nncf.compress_weights`, and five inferences of each column, a process a step. Weights, disk and, after the comma, the
peak of the largest process are in GiB; disk is the store and all that the run wrote, or the files made by hand.

| model | weights | orch, all | by hand, all | convert:onnx | by hand | orch's disk | by hand | cases |
|---|---|---|---|---|---|---|---|---|"""


def python_of(envs: Path, name: str) -> Path:
    found = sorted(envs.glob(f"{name}-*/bin/python"))
    if not found:
        sys.exit(f"no environment `{name}` in {envs}: `orch setup` installs it; --envs names another folder")
    return found[0]


def size_of(folder: Path) -> int:
    """Bytes on disk; a file of several names counts once."""
    seen = {}
    for path in folder.rglob("*"):
        stat = path.lstat()
        seen[stat.st_ino] = 512 * stat.st_blocks
    return sum(seen.values())


def by_orch(orch: str, model: str, folder: Path, envs: Path) -> Row:
    project = folder.parent / "project"
    project.mkdir()
    environment = os.environ | {"ORCH_ENV_DIR": str(envs), "NO_COLOR": "1"}
    said = folder.parent / "orch.log"
    subprocess.run(
        [orch, "init", "--model", str(folder)], cwd=project, env=environment, check=True, stdout=subprocess.DEVNULL
    )
    comparable(project / "specs/all.yaml", MODELS[model].length)
    # A case that does not pass is a finding, and the time counts all the same.
    run_it = ["sh", "-c", '"$0" run --check --quiet || test $? = 1', orch]
    run = timed(run_it, cwd=project, env=environment, log=said)
    report = json.loads((project / "orch-out/report/matrix.json").read_text())
    step, case = next(
        (step, case) for case in report["cases"] for step in case["took"] if re.fullmatch("convert:.*:onnx", step)
    )
    return Row(
        model,
        size_of(folder),
        run,
        case["took"][step],
        case["facts"][step].get("peak_rss_bytes", 0),
        size_of(project / "cache") + size_of(project / "orch-out"),
        0,
        [case["case"] for case in report["cases"] if case["status"] != "PASS"],
    )


def comparable(spec: Path, length: int) -> None:
    """Sets the length of the text, and leaves out the generated tokens: by hand there is one inference."""
    row = re.sub(r"seq: \d+", f"seq: {length}", spec.read_text())
    spec.write_text(re.sub(r"\n +generate: \d+", "", row))


def by_hand(folder: Path, envs: Path) -> tuple[dict[str, Run], int]:
    out = folder.parent / "by-hand"
    out.mkdir()
    pythons = {name: python_of(envs, name) for name in ("torch", "nncf")}
    found = {}
    for step in STEPS:
        python = pythons["torch" if step in OF_TORCH else "nncf"]
        argv = [str(python), "-m", "real.by_hand", step, str(folder), str(out)]
        found[step] = timed(argv, cwd=HERE, env=os.environ, log=folder.parent / f"{step}.log")
    return found, size_of(out)


def main() -> int:
    parser = argparse.ArgumentParser(description="Full-size models by orch and by hand.")
    parser.add_argument(
        "names",
        nargs="*",
        default=[name for name in MODELS if name not in LARGE],
        metavar="NAME",
        help=f"of {', '.join(MODELS)}",
    )
    parser.add_argument("--orch", default="target/release/orch", help="the program that is measured")
    parser.add_argument("--envs", default=os.environ.get("ORCH_ENV_DIR"), help="where orch installs its environments")
    parser.add_argument("--keep", help="a folder in which everything is left")
    args = parser.parse_args()
    if unknown := set(args.names) - set(MODELS):
        parser.error(f"no model {', '.join(sorted(unknown))}: there are {', '.join(MODELS)}")
    if args.envs is None:
        parser.error("--envs or ORCH_ENV_DIR names the folder of environments, as `orch doctor` prints it")
    orch = shutil.which(args.orch)
    if orch is None:
        parser.error(f"no `{args.orch}`: `cargo build --release` makes it")
    envs = Path(args.envs).resolve()
    rows = []
    for model in args.names:
        scratch = Path(tempfile.mkdtemp(prefix=f"{model}-", dir=args.keep))
        try:
            folder = scratch / model
            subprocess.run(
                [str(python_of(envs, "torch")), "-m", "real.models", model, str(folder)],
                cwd=HERE,
                check=True,
                stderr=subprocess.DEVNULL,
            )
            row = by_orch(str(Path(orch).resolve()), model, folder, envs)
            row.hand, row.hand_disk = by_hand(folder, envs)
        finally:
            if args.keep is None:
                shutil.rmtree(scratch)
        rows.append(row)
        print(row.markdown(), file=sys.stderr)
    print(HEAD)
    for row in rows:
        print(row.markdown())
    print(f"\n{where(machine())}")
    return int(any(row.not_passed for row in rows))


if __name__ == "__main__":
    sys.exit(main())

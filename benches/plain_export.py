"""What the plain exporter makes of the models that orch's stand-ins help with: fails, wrong (by how much), or right.

Usage: plain_export.py MATRIX.json [SPEC] [ORCH]

MATRIX.json is the report of a run of SPEC (default: specs/zoo.yaml); its conversions name the stand-ins that ran. Each
such model is exported once more with `export: {routes: [legacy], stand_ins: false}`, which is what a user's own
`torch.onnx.export(dynamo=False)` gives, and run in fp32 on ONNX Runtime's CPU. Prints a table in Markdown.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def helped(report: dict) -> dict[str, list[str]]:
    """The stand-ins of each model that was exported to ONNX, by name."""
    found: dict[str, list[str]] = {}
    for case in report["cases"]:
        for step, facts in case["facts"].items():
            if step.startswith("convert:") and step.endswith(":onnx") and facts.get("stand_ins"):
                found[case["model"]] = sorted(facts["stand_ins"])
    return found


def plain(folder: Path, models: set[str]) -> None:
    """Gives each of these models' rows below `folder` an `export` without stand-ins, in place of any other."""
    for path in folder.rglob("*.yaml"):
        lines = path.read_text().split("\n")
        out: list[str] = []
        inside = False
        for line in lines:
            row = re.fullmatch(r"  ([A-Za-z0-9_.-]+):", line)
            if row:
                inside = row[1] in models
            if inside and re.match(r"    export:", line):
                continue
            out.append(line)
            if row and inside:
                out.append("    export: {routes: [legacy], stand_ins: false}")
        path.write_text("\n".join(out))


def finding(case: dict) -> tuple[str, str]:
    if case["status"] in ("PASS", "XPASS"):
        return "right", ""
    reason = " ".join((case["reason"] or "").removeprefix("no export route works: legacy: ").split())
    if "right on the inputs it was traced with" in reason:
        what = "right for the inputs that it was traced with only"
    elif "is off by" in reason or "beyond the bound" in reason:
        what = "wrong, silently"
    else:
        what = "fails"
    return what, reason[:160].replace("|", "\\|")


def main() -> int:
    report = json.loads(Path(sys.argv[1]).read_text())
    spec = Path(sys.argv[2] if len(sys.argv) > 2 else "specs/zoo.yaml")
    orch = sys.argv[3] if len(sys.argv) > 3 else "orch"
    models = helped(report)
    if not models:
        print("no conversion of this report names a stand-in", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        specs = Path(scratch) / "specs"
        subprocess.run(["cp", "-r", str(spec.parent), str(specs)], check=True)
        plain(specs, set(models))
        chosen = [word for model in models for word in ("-m", model)]
        out = Path(scratch) / "out"
        command = [orch, "run", str(specs / spec.name), "-t", "cpu", "--select", "precision:fp32", "--check"]
        subprocess.run([*command, *chosen, "--out-dir", str(out), "--quiet"], check=False, stdout=subprocess.DEVNULL)
        found = json.loads(next(out.glob("*/matrix.json")).read_text())
    print("| model | stand-ins | the plain exporter | its words |\n|---|---|---|---|")
    for case in sorted(found["cases"], key=lambda case: case["model"]):
        what, words = finding(case)
        print(f"| `{case['model']}` | {', '.join(models[case['model']])} | {what} | {words} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A folder that shows a fault without orch: the model, its inputs, the right outputs, and a program that compares."""

from __future__ import annotations

import platform
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from orch_py.blame import programs
from orch_py.blame.windows import Window, has_files, weights_folder
from orch_py.export import onnx_weights

# Verdicts of a runtime that gives no outputs.
_FAILURES = {"refused": "Error by {} on the CPU", "crashed": "Crash by {} on the CPU"}
_NAMES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}


def write(folder: Path, window: Window, finding: dict[str, Any]) -> None:
    """Writes the folder, which is made."""
    folder.mkdir()
    model = window.model
    if has_files(model):
        model = onnx.ModelProto()
        model.CopyFrom(window.model)
        onnx_weights.gather(model, weights_folder() or folder, folder / "model.onnx.data")
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "inputs.npz", **window.feeds)  # type: ignore[arg-type]  # numpy takes any name.
    np.savez(folder / "expected.npz", **window.expected)  # type: ignore[arg-type]
    (folder / "run.py").write_text(_program(finding), "utf-8")
    (folder / "README.md").write_text(_readme(window, finding), "utf-8")


def _program(finding: dict[str, Any]) -> str:
    verdict = finding["verdict"]
    if verdict in _FAILURES:
        return programs.of_refusal(finding["runtime"], verdict, finding["error"]["class"])
    return programs.of_values(finding["runtime"])


def _readme(window: Window, finding: dict[str, Any]) -> str:
    """The text of a report in the form in which the runtimes' issues have it."""
    operators = ", ".join(node["operator"] for node in finding["nodes"])
    all_operators = ", ".join(node.op_type for node in window.model.graph.node)
    opsets = ", ".join(f"{each.domain or 'ai.onnx'} {each.version}" for each in window.model.opset_import)
    if finding["verdict"] in _FAILURES:
        title, issue, runtime = _failure(finding)
        shown = "`run.py` prints the error, and ends with 1 while it is the same"
    else:
        title, issue, runtime = _openvino(finding) if finding["runtime"] == "openvino" else _onnxruntime(finding)
        shown = "`run.py` prints the differences, and ends with 1 while they are large"
    return f"""# {title.format(operators)}

## Describe the issue

{issue}

## To reproduce

    python run.py

`model.onnx` has {len(window.model.graph.node)} nodes ({all_operators}), `inputs.npz` its inputs, and `expected.npz` the
outputs of an unoptimised computation. {shown}.
It ends with 125 if it cannot run the model at all.{_reduction(finding)}

## System

- {runtime}
- {platform.system()} {platform.machine()}, Python {platform.python_version()}
- opsets: {opsets}
"""


def _reduction(finding: dict[str, Any]) -> str:
    reduced = finding.get("reduced")
    if reduced is None:
        return ""
    what = " and ".join(reduced["what"])
    return f" The {what} were reduced, from {reduced['bytes_before']} bytes to {reduced['bytes_after']}."


def _failure(finding: dict[str, Any]) -> tuple[str, str, str]:
    """Title, description and version of an issue about an error or a crash."""
    guilty = finding["pass"] or {}
    name = _NAMES[finding["runtime"]]
    stage = guilty.get("stage")
    message = textwrap.indent(finding["error"]["message"], "    ")
    issue = f"{name} does not run the model:\n\n{message}\n"
    issue += f"\nThe stage is: {stage}." if stage else ""
    issue += f" Without `{guilty['name']}` the model runs." if guilty.get("name") else ""
    return _FAILURES[finding["verdict"]], issue, f"{name} {finding['version']}, CPU, Python API"


def _onnxruntime(finding: dict[str, Any]) -> tuple[str, str, str]:
    """Title, description and version of an issue of ONNX Runtime."""
    difference, optimiser = finding["difference"], finding["pass"] or {}
    by = f"`{optimiser['name']}`" if optimiser.get("name") else "no single optimiser that can be switched off"
    issue = (
        f"The output `{difference['output']}` is wrong with {optimiser.get('stage', 'graph optimisation')}:\n"
        f"{difference['why']}.\nWithout graph optimisation it is right. The difference is made by {by}."
    )
    runtime = f"ONNX Runtime {finding['version']}, CPU execution provider, Python API"
    return "Wrong outputs of {} with graph optimisation", issue, runtime


def _openvino(finding: dict[str, Any]) -> tuple[str, str, str]:
    """Title, description and version of an issue of OpenVINO."""
    difference, guilty = finding["difference"], finding["pass"] or {}
    sides = {
        "front end": "`Model.evaluate` is wrong alike, so the front end or a common transformation is at fault.",
        "CPU plugin": "`Model.evaluate` is right or lacks an operator, so it is the CPU plugin.",
    }
    mends = " With `SNIPPETS_MODE: DISABLE` it is right." if guilty.get("name") else ""
    issue = f"The output `{difference['output']}` is wrong on the CPU in f32:\n{difference['why']}.\n"
    issue += sides.get(guilty.get("stage", ""), "") + mends
    return "Wrong outputs of {} on the CPU", issue, f"OpenVINO {finding['version']}, CPU, Python API"

"""A folder that shows without orch which module an exporter gets wrong: the module's weights, what it was called with,
and a program that exports it and compares."""

from __future__ import annotations

import inspect
import os
import platform
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
import transformers

from orch_py.blame import nested, programs
from orch_py.blame.calls import Call
from orch_py.blame.exporters import Exporter, Failed
from orch_py.worker.protocol import first_line

# How long the program may take.
_LIMIT = 900
# The files of a folder.
_CALLS, _WEIGHTS, _MODULE = "calls.pt", "weights.pt", "module.pt"

_PROGRAM = '''"""Exports a module by {exporter}, and compares the file with the module itself.

The file runs in ONNX Runtime without optimisation.
"""
{untestable}
import copy
import enum
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
import torch
{imports}

OUTPUTS = {outputs!r}
ERROR = {error!r}


{helpers}

def module():
{module}


def export(called, tensors):
    names = [f"input_{{at}}" for at in range(len(tensors))]
{export}


def off(session, call, given):
    """The largest difference of the file from the module on a call, and the largest value."""
    args, named = copy.deepcopy(call)
    _, tensors = flattened((args, named))
    inputs = {{each.name: tensors[int(re.search(r"\\d+$", each.name)[0])].numpy() for each in session.get_inputs()}}
    try:
        ours = session.run(None, inputs)
    except Exception as error:
        print(f"the file does not run: {{error}}")
        return np.inf, 1.0
    with torch.no_grad():
        expected = [value.numpy() for value in chosen(given(*args, **named), OUTPUTS)]
    worst = largest = 0.0
    for one, other in zip(ours, expected):
        if one.shape != other.shape:
            return np.inf, np.inf
        is_equal = one == other
        with np.errstate(invalid="ignore"):
            gaps = np.abs(one.astype(np.float64) - other.astype(np.float64))
        worst = max(worst, float(np.where(is_equal, 0, gaps).max(initial=0)))
        largest = max(largest, float(np.abs(other[np.isfinite(other)]).max(initial=0)))
    return worst, largest


print("torch", torch.__version__, "onnxruntime", onnxruntime.__version__)
# The first is what the module is exported by.
calls = torch.load("{calls}", weights_only=False)
given = module().eval()
arguments, tensors = flattened(calls[0])
try:
    with torch.no_grad():
        export(Called(given, arguments, OUTPUTS).eval(), [value.clone() for value in tensors])
except Exception as error:
    while error.__cause__ is not None:
        error = error.__cause__
    print(f"{{type(error).__name__}}: {{error}}")
    sys.exit(1 if ERROR is not None and ERROR in f"{{type(error).__name__}}: {{error}}" else 125)
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession("exported.onnx", options, providers=["CPUExecutionProvider"])
is_wrong = False
for name, call in zip(("the inputs that it is exported by", "other inputs"), calls):
    worst, largest = off(session, call, given)
    is_wrong |= not worst <= 1e-4 * max(largest, 1e-30)
    print(f"{{name}}: largest difference {{worst:.3g}}, largest value {{largest:.3g}}")
sys.exit(1 if is_wrong and ERROR is None else 0)
'''

_EXPORTS = {
    "legacy": """    torch.onnx.export(
        called, tuple(tensors), "exported.onnx", dynamo=False, input_names=names, opset_version={opset}
    )""",
    "dynamo": """    program = torch.onnx.export(
        called, tuple(tensors), dynamo=True, input_names=names, opset_version={opset}, optimize=True, verbose=False
    )
    program.save("exported.onnx", external_data=True)""",
    "transformers": """    import onnx_ir
    from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.called = called

        def forward(self, tensors):
            return self.called(*tensors)

    config = OnnxConfig(opset_version={opset}, optimize=True)
    program = OnnxExporter().export(Named().eval(), {{"tensors": tuple(tensors)}}, config).program
    onnx_ir.save(program, "exported.onnx", external_data="exported.onnx.data")""",
}

_OF_CONFIG = """    config = transformers.{name}.config_class.from_pretrained(".")
{attributes}    model = transformers.{name}(config)
    found = model.get_submodule({path!r})
    found.load_state_dict(torch.load("{weights}"))
    return found"""

_PICKLED = """    return torch.load("{module}", weights_only=False)"""


class Shown(Protocol):
    """What is known of the module that is shown."""

    path: str
    module: torch.nn.Module
    made: list[list[Call]]
    seen: Any


def write(
    folder: Path,
    model: torch.nn.Module,
    site: Shown,
    outputs: list[str],
    exporter: Exporter,
    finding: Mapping[str, Any],
) -> None:
    """Writes the folder; it is made if its program shows the fault in a new process."""
    try:
        _write(folder, model, site, outputs, exporter, finding)
        is_shown = _shows(folder)
    except Exception as error:  # noqa: BLE001 - what a module was called with may be no value that can be saved.
        print(f"the fault cannot be shown without orch: {first_line(error)}", flush=True)
        is_shown = False
    if not is_shown and folder.exists():
        shutil.rmtree(folder)


def _write(
    folder: Path,
    model: torch.nn.Module,
    site: Shown,
    outputs: list[str],
    exporter: Exporter,
    finding: Mapping[str, Any],
) -> None:
    folder.mkdir()
    number = site.seen.call
    first = site.made[0][number]
    made = [each[number] for each in site.made if number < len(each) and each[number].is_like(first)]
    torch.save([nested.filled(call.given, call.inputs) for call in made], folder / _CALLS)
    imports, module = _module(folder, model, site)
    failed: Failed | None = site.seen.error
    program = _PROGRAM.format(
        exporter=exporter.name,
        untestable=programs.UNTESTABLE,
        imports=imports,
        outputs=outputs if site.path == "" else None,
        error=None if failed is None or failed.is_of_run else _stable(str(failed)),
        helpers="\n\n".join(
            inspect.getsource(each)
            for each in (nested.Hole, nested.mapped, nested.flattened, nested.filled, nested.chosen, nested.Called)
        ),
        module=module,
        export=_EXPORTS[exporter.route].format(opset=exporter.opset),
        calls=_CALLS,
    )
    (folder / "run.py").write_text(program, "utf-8")
    (folder / "README.md").write_text(_readme(site, exporter, finding), "utf-8")


def _module(folder: Path, model: torch.nn.Module, site: Shown) -> tuple[str, str]:
    """The imports and the body of the function that builds the module: from a config of transformers with the saved
    weights, or as it was saved whole."""
    name = type(model).__name__
    if isinstance(model, transformers.PreTrainedModel) and getattr(transformers, name, None) is type(model):
        model.config.save_pretrained(folder)
        torch.save(site.module.state_dict(), folder / _WEIGHTS)
        attributes = "".join(
            f"    config.{each} = {value!r}\n"
            for each in ("_attn_implementation", "_experts_implementation")
            if isinstance(value := getattr(model.config, each, None), str)
        )
        body = _OF_CONFIG.format(name=name, path=site.path, attributes=attributes, weights=_WEIGHTS)
        return "import transformers", body
    torch.save(site.module, folder / _MODULE)
    for each in {type(part) for part in site.module.modules()}:
        source = inspect.getsourcefile(each)
        # A file of the user's own goes with the folder; packages are installed.
        if source is not None and "site-packages" not in source:
            target = folder.joinpath(*each.__module__.split(".")).with_suffix(".py")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    return "", _PICKLED.format(module=_MODULE)


def _shows(folder: Path) -> bool:
    """Whether the program shows the fault in a new process that knows nothing of orch."""
    ended = subprocess.run(
        [sys.executable, "run.py"],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        check=False,
    )
    print(ended.stdout + ended.stderr, flush=True)
    for made in folder.glob("exported.onnx*"):
        made.unlink()
    for cache in folder.rglob("__pycache__"):
        shutil.rmtree(cache)
    return ended.returncode == 1


def _stable(message: str) -> str:
    """The part of an error up to its first number or address, which may differ in another process."""
    kept = []
    for word in message.split(" "):
        if any(each.isdigit() for each in word.strip("0123456789")) and "0x" in word:
            break
        kept.append(word)
    return " ".join(kept)


def _readme(site: Shown, exporter: Exporter, finding: Mapping[str, Any]) -> str:
    name = type(site.module).__name__
    if finding["verdict"] == "exporter":
        baked = ", and right on the inputs that it is exported by" if finding["module"]["is_baked"] else ""
        title = f"Wrong file of {name} by {exporter.name}"
        difference = finding["difference"]
        issue = f"The file differs from the module{baked}:\n`{difference['output']}`: {difference['why']}."
        ends = "`run.py` prints the differences, and ends with 1 while they are large"
    else:
        title = f"Error of {exporter.name} on {name}"
        issue = f"The export ends with:\n\n{textwrap.indent(finding['error']['message'], '    ')}"
        ends = "`run.py` prints the error, and ends with 1 while it is the same"
    return f"""# {title}

## Describe the issue

{issue}

The module is `{site.path or "the whole model"}` of the class `{name}`.

## To reproduce

    python run.py

{ends}. It ends with 125 if it cannot run at all. `{_CALLS}` holds what the module is called with: first what it is
exported by, then other inputs.

## System

- {exporter.name} {exporter.version}, opset {exporter.opset}
- torch {torch.__version__}, transformers {transformers.__version__}
- {platform.system()} {platform.machine()}, Python {platform.python_version()}
"""

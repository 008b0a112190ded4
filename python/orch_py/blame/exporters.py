"""The exporters that may be to blame: how each makes a file of one call of a module, and runs it."""

from __future__ import annotations

import copy
import re
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

from orch_py import stand_ins
from orch_py.blame.calls import Call
from orch_py.blame.faults import error_class
from orch_py.blame.nested import Called
from orch_py.export import onnx_graph
from orch_py.stand_ins import experts, rounding
from orch_py.stand_ins.onnx_equals import Equals
from orch_py.worker import isolated

# The exporter that each route calls.
NAMES = {
    "legacy": "torch.onnx.export(dynamo=False)",
    "dynamo": "torch.onnx.export(dynamo=True)",
    "transformers": "transformers.exporters.OnnxExporter",
}


class Failed(Exception):
    """The exporter made no file, or ONNX Runtime refuses it. `error_class` is the error without what differs from
    module to module; `is_of_run` says whether the file was made and loaded."""

    def __init__(self, message: str, is_of_run: bool = False) -> None:
        super().__init__(message)
        self.is_of_run = is_of_run
        self.error_class = error_class(message)


@dataclass(frozen=True)
class Exporter:
    """An exporter as a conversion uses it: its route, the opset, and the functions that may stand in for torch's."""

    route: str
    opset: int
    allowed: stand_ins.Help = stand_ins.Help.NONE

    @property
    def name(self) -> str:
        return NAMES[self.route]

    @property
    def version(self) -> str:
        package = __import__("transformers") if self.route == "transformers" else torch
        return str(package.__version__).split("+")[0]

    def export(self, root: torch.nn.Module, called: Called, call: Call, path: Path) -> File:
        """Exports a module by one of its calls, in a process of its own where that can be, and opens the file. `root`
        is the whole model. Raises `Failed`."""
        tensors = [value.clone() for value in call.inputs]
        names = [f"input_{at}" for at in range(len(tensors))]
        outputs = [f"output_{at}" for at in range(len(call.outputs))]

        def work() -> str | None:
            try:
                with ExitStack() as stack:
                    stack.enter_context(torch.no_grad())
                    stack.enter_context(stand_ins.recorded(self.allowed))
                    stack.enter_context(rounding.of_sizes())
                    stack.enter_context(experts.all_computing(root))
                    self._write(called.eval(), tensors, names, outputs, path)
            except Exception as error:  # noqa: BLE001 - exporters raise errors of many types.
                return _telling(error)
            return None

        try:
            why = isolated.call(work)
        except isolated.Crashed as crash:
            why = str(crash)
        if why is not None:
            raise Failed(why)
        return File.of(path)

    def _write(
        self, called: Called, tensors: list[torch.Tensor], names: list[str], outputs: list[str], path: Path
    ) -> None:
        if self.route == "legacy":
            with Equals():
                torch.onnx.export(
                    called,
                    tuple(tensors),
                    str(path),
                    dynamo=False,
                    input_names=names,
                    output_names=outputs,
                    opset_version=self.opset,
                    do_constant_folding=True,
                )
        elif self.route == "dynamo":
            program = torch.onnx.export(
                called,
                tuple(tensors),
                dynamo=True,
                input_names=names,
                output_names=outputs,
                opset_version=self.opset,
                optimize=True,
                verbose=False,
            )
            assert program is not None, "BUG: a dynamo export without a program"
            program.save(path, external_data=True)
        else:
            import onnx_ir
            from transformers.exporters.exporter_onnx import (  # type: ignore[attr-defined]
                OnnxConfig,
                OnnxExporter,
            )

            given: dict[str, Any] = {"tensors": tuple(copy.deepcopy(tensors))}
            program = OnnxExporter().export(_Named(called), given, OnnxConfig(opset_version=self.opset, optimize=True))
            onnx_ir.save(program.program, path, external_data=f"{path.name}.data")


class _Named(torch.nn.Module):
    """A module that takes its tensors as one named argument, as the exporter of transformers gives them."""

    def __init__(self, called: Called) -> None:
        super().__init__()
        self.called = called

    def forward(self, tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        found: tuple[torch.Tensor, ...] = self.called(*tensors)
        return found


@dataclass(frozen=True)
class File:
    """An exported file in ONNX Runtime without optimisers, with the numbers of the tensors that it takes."""

    session: onnxruntime.InferenceSession
    taken: dict[str, int]
    nodes: int

    @classmethod
    def of(cls, path: Path) -> File:
        try:
            session = onnx_graph.open_session(path, optimised=False)
        except Exception as error:  # ONNX Runtime raises errors of many types.
            raise Failed(f"ONNX Runtime refuses the file: {_telling(error)}") from error
        nodes = len(onnx.load(path, load_external_data=False).graph.node)
        names = [value.name for value in session.get_inputs()]
        # An input that changes nothing is no input of the file.
        numbers = {name: _number(name, at) for at, name in enumerate(names)}
        return cls(session, numbers, nodes)

    def run(self, tensors: list[torch.Tensor]) -> list[np.ndarray]:
        """The outputs in their order. Raises `Failed`."""
        given = {name: tensors[at].detach().cpu().numpy() for name, at in self.taken.items()}
        try:
            return [np.asarray(value) for value in self.session.run(None, given)]
        except Exception as error:  # ONNX Runtime raises errors of many types.
            raise Failed(f"ONNX Runtime does not run the file: {_telling(error)}", is_of_run=True) from error


def _number(name: str, at: int) -> int:
    """The number of the tensor that an input of a file takes, which its name ends with."""
    end = re.search(r"\d+$", name)
    return int(end[0]) if end else at


def _telling(error: BaseException) -> str:
    """What an exporter's error is caused by: those of `torch.export` say only which step failed."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'without a message'}"

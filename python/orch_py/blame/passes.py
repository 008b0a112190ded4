"""Which optimiser of ONNX Runtime makes a window wrong: the level from which on it is, then names by halving."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnxruntime

from orch_py.blame.search import Answer
from orch_py.blame.windows import refer

# Levels, each with those before it.
LEVELS = {"basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED", "layout": "ORT_ENABLE_ALL"}

# Rules of the rule-based transformers, whose names no log has.
RULES = (
    "EliminateIdentity",
    "EliminateSlice",
    "EliminateDropout",
    "UnsqueezeElimination",
    "ExpandElimination",
    "CastElimination",
    "NoopElimination",
    "PreShapeNodeElimination",
    "DivMulFusion",
    "FuseReluClip",
    "GemmSumFusion",
    "GemmTransposeFusion",
    "NotWhereFusion",
    "ConvAddFusion",
    "ConvMulFusion",
    "ConvBNFusion",
    "Pad_Fusion",
    "MatMul_BatchNormalization_Fusion",
    "LabelEncoderFusion",
)
_MODIFIED = re.compile(r"GraphTransformer (\S+) modified: 1")


@dataclass(frozen=True)
class Pass:
    """What makes a window wrong: a stage of the runtime, and a pass of it without which the window is right."""

    # `graph optimisation from level basic on`, `front end`, `CPU plugin`.
    stage: str
    # None where no single one of those that can be switched off makes the difference.
    name: str | None


def guilty(
    model: onnx.ModelProto, answer_without: Callable[[str, Sequence[str]], Answer], folder: Path | None
) -> Pass | None:
    """The pass that makes the window wrong; None where it is wrong at no level. `answer_without` runs the window at a
    level, and without some optimisers. `folder`: where a file may be written for a moment; None for a window that may
    end the process, of which rules alone are tried, because the names of the others come from a session in it."""
    level = next((name for name, level in LEVELS.items() if answer_without(level, ()) is Answer.WRONG), None)
    if level is None:
        return None
    ask = LEVELS[level]
    # A rule is more telling than the transformer that applies all of them.
    lists = [list(RULES)] if folder is None else [list(RULES), _that_ran(model, ask, folder)]
    names = next((names for names in lists if answer_without(ask, names) is Answer.RIGHT), [])
    if not names:
        return Pass(_stage(level), None)
    while len(names) > 1:
        middle = len(names) // 2
        halves = (names[:middle], names[middle:])
        mending = next((half for half in halves if answer_without(ask, half) is Answer.RIGHT), None)
        if mending is None:
            return Pass(_stage(level), None)
        names = mending
    return Pass(_stage(level), names[0])


def _stage(level: str) -> str:
    return f"graph optimisation from level {level} on"


def _that_ran(model: onnx.ModelProto, level: str, folder: Path) -> list[str]:
    """The transformers that changed the window, by ONNX Runtime's log, which it writes to the process's stderr."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 0
    refer(options)
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    kept = os.dup(2)
    path = folder / "passes.log"
    with path.open("wb") as log:
        os.dup2(log.fileno(), 2)
        try:
            onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        finally:
            os.dup2(kept, 2)
            os.close(kept)
    text = path.read_text("utf-8", "replace")
    path.unlink()
    return list(dict.fromkeys(_MODIFIED.findall(text)))

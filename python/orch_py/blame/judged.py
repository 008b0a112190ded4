"""The judge of a window: tighter than that of a model, since its inputs are right and its nodes few."""

from __future__ import annotations

from typing import Any

import numpy as np

from orch_py.judge import judge
from orch_py.worker.trees import Tensors

# Of right models, no window of 1 or 8 nodes is off by more than 1.6e-5 of its scale.
SINGLE = {"atol": 1e-4, "rtol": 1e-4, "budget": 0.0, "cosine": 0.9999, "snr": 50.0, "tokens": 1.0}
# Half precision, where a residual dilutes what the nodes before it did.
HALF = {"atol": 5e-3, "rtol": 5e-3, "budget": 0.0, "cosine": 0.999, "snr": 30.0, "tokens": 1.0}


def difference(ours: Tensors, expected: Tensors, tolerance: dict[str, float] | None = None) -> dict[str, Any] | None:
    """How outputs differ from the oracle's by more than rounding: which, by how much. None if they do not. An output in
    which the oracle itself has a NaN decides nothing. `tolerance` stands for the bounds of a window."""
    worst: dict[str, Any] | None = None
    for name, reference in expected.items():
        if reference.dtype.kind == "f" and np.isnan(reference).any():
            continue
        bounds = tolerance or (HALF if reference.dtype == np.float16 else SINGLE)
        found = judge.tensor_verdict(ours[name], reference, bounds)
        if not found["wrong"]:
            continue
        # Another shape has no ratio, and is worse than any.
        ratio = found["worst"]
        if worst is None or ratio is None or (worst["ratio"] is not None and ratio > worst["ratio"]):
            worst = {"output": name, "max_abs": found["max_abs"], "ratio": ratio, "why": found["wrong"]}
    return worst


def error(ours: Tensors, expected: Tensors) -> float:
    """The largest absolute difference of any output of numbers; infinite where one is NaN or of another shape."""
    largest = 0.0
    for name, reference in expected.items():
        if reference.dtype.kind not in "fiu" or not reference.size:
            continue
        if ours[name].shape != reference.shape:
            return np.inf
        # Masks of infinities are equal, and their difference would be no number.
        is_equal = ours[name] == reference
        with np.errstate(invalid="ignore"):
            gaps = np.abs(ours[name].astype(np.float64) - reference.astype(np.float64))
        worst = float(np.where(is_equal, 0.0, gaps).max())
        largest = max(largest, np.inf if np.isnan(worst) else worst)
    return largest

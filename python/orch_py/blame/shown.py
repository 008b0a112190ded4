"""The folder of a finding: the reduced window if a new process shows the fault on it, else the window itself."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from orch_py.blame import judged, repro
from orch_py.blame.accused import Accused
from orch_py.blame.faults import Fault, WrongValues
from orch_py.blame.passes import Pass
from orch_py.blame.reduce import FailsAlike, Reduced, Reduction
from orch_py.blame.search import Answer
from orch_py.blame.windows import Window
from orch_py.worker.protocol import first_line

# Wrong values of a reduced window are beyond its bounds by this ratio, or by that of the window if it is less.
LEAST_RATIO = 10.0


def fails_alike(accused: Accused, window: Window, fault: Fault, guilty: Pass | None) -> FailsAlike:
    """Whether another window fails as this one does: by the same fault, in the same pass, and as clearly."""
    kind, least = _clearness(accused, window) if isinstance(fault, WrongValues) else (None, 0.0)

    def compare(other: Window) -> bool:
        if accused.answer(other, fault) is not Answer.WRONG:
            return False
        if kind is not None:
            other_kind, ratio = _clearness(accused, other)
            if other_kind != kind or ratio < least:
                return False
        return accused.guilty(other, fault) == guilty

    return compare


def write(folder: Path, reduction: Reduction, finding: dict[str, Any], accused: Accused) -> None:
    """Writes the folder, and into the finding what was reduced."""
    reduced = _reduced(reduction)
    if reduced is not None:
        finding["reduced"] = {
            "what": list(reduced.what),
            "bytes_before": reduced.bytes_before,
            "bytes_after": reduced.bytes_after,
        }
        repro.write(folder, reduced.window, finding | _difference(accused, reduced.window, finding))
        if accused.shows(folder):
            return
        print("the reduced window does not show the fault in a new process; it stays as it was", flush=True)
        shutil.rmtree(folder)
        del finding["reduced"]
    repro.write(folder, reduction.window, finding)


def _reduced(reduction: Reduction) -> Reduced | None:
    try:
        return reduction.reduced()
    except Exception as error:  # noqa: BLE001 - a window that cannot be reduced is shown as it is.
        print(f"the window cannot be reduced: {first_line(error)}", flush=True)
        return None


def _clearness(accused: Accused, window: Window) -> tuple[str | None, float]:
    """The kind of the difference of wrong values, and the ratio to their bound that another window must have."""
    difference = judged.difference(accused.run(window.model, window.feeds)[0], window.expected)
    if difference is None:
        return None, 0.0
    ratio = difference["ratio"]
    if ratio is None:
        # Another shape, another dtype, or a value that is not finite.
        return " ".join(difference["why"].split()[:2]), LEAST_RATIO
    return "values", min(LEAST_RATIO, ratio)


def _difference(accused: Accused, window: Window, finding: dict[str, Any]) -> dict[str, Any]:
    """How the outputs of a reduced window differ, in the place of how those of the window did."""
    if "difference" not in finding:
        return {}
    return {"difference": judged.difference(accused.run(window.model, window.feeds)[0], window.expected)}

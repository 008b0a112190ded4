"""Parts that measure: TF32, memory, and the overhead of orch's loop."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

from card import judge, nvml
from card.kit import Kit, Missing, Verdict, write_json

RETURN_SECONDS = 5.0


def tf32(kit: Kit, folder: Path) -> Verdict:
    """The error of a matrix product with TF32 off and on."""
    figures = kit.torch(folder, "tf32", "tf32", kit.device, str(kit.expected["tf32"]["size"]))
    return judge.tf32(figures, kit.expected), figures


def memory(kit: Kit, folder: Path) -> Verdict:
    """A known allocation by NVML and by torch's allocator."""
    before = nvml.read()
    if before["error"] is not None:
        raise Missing(f"NVML: {before['error']}")
    taken = kit.torch(folder, "memory", "memory", kit.device, str(kit.expected["memory"]["mebibytes"]))
    used = {name: used_bytes(taken[name], taken["uuid"]) for name in ("nvml_before", "nvml_after")}
    start = used_bytes(before, taken["uuid"])
    if start is None or None in used.values():
        return ["NVML does not list the card that torch used"], {"uuid": taken["uuid"]}
    kept = returned(start, taken["uuid"], kit.expected["memory"]["slack_bytes"])
    figures = {
        "wanted_bytes": taken["wanted_bytes"],
        "allocated_bytes": taken["allocated_bytes"],
        "reserved_bytes": taken["reserved_bytes"],
        "nvml_grown_bytes": (used["nvml_after"] or 0) - (used["nvml_before"] or 0),
        "context_bytes": (used["nvml_before"] or 0) - start,
        "nvml_kept_bytes": kept,
    }
    write_json(folder / "memory.json", figures)
    return judge.memory(figures, kit.expected), figures


def used_bytes(readings: dict[str, Any], uuid: str | None) -> int | None:
    """The used bytes of a card by NVML, or of the only card if no UUID is given."""
    found = [card for card in readings["cards"] if card.get("used_bytes") is not None]
    if uuid is not None:
        found = [card for card in found if str(card.get("uuid")).endswith(uuid.removeprefix("GPU-"))]
    return sum(card["used_bytes"] for card in found) if found else None


def returned(start: int, uuid: str | None, slack: int) -> int:
    """The bytes that a card still uses beyond `start`, after at most some seconds in which they may come back."""
    stop = time.monotonic() + RETURN_SECONDS
    while True:
        kept = (used_bytes(nvml.read(), uuid) or 0) - start
        if kept <= slack or time.monotonic() > stop:
            return kept
        time.sleep(0.5)


def overhead(kit: Kit, folder: Path) -> Verdict:
    """orch's median beside torch's own loop over the same tree, in rounds by turns."""
    settings = kit.expected["overhead"]
    model = settings["model"]
    target = kit.target("eager-cuda")
    out = kit.work / "out-overhead"
    run = kit.orch_argv("run", kit.spec, "-m", model, "-t", target, "--json")
    run += ["--out-dir", str(out), "--rerun", "run"]
    tree = kit.work / "tree"
    output = kit.orch_argv("output", f"generate:{model}", "--spec", kit.spec, "--to", str(tree), "--force")
    own: list[float] = []
    torch: list[float] = []
    for number in range(settings["rounds"]):
        report = kit.call_json(run, folder, f"orch-{number}")
        own.append(_median(report))
        if number == 0:
            kit.call(output, folder, "output")
        words = ("loop", kit.device, str(tree), str(settings["warmup"]), str(settings["samples"]))
        torch.append(float(kit.torch(folder, f"torch-{number}", *words)["median_ms"]))
    # A disturbance can only lengthen a round, so the least round of each side counts.
    ratio = min(own) / min(torch)
    figures = {
        "orch_ms": own,
        "torch_ms": torch,
        "ratio": ratio,
        "ratio_of_medians": statistics.median(own) / statistics.median(torch),
    }
    write_json(folder / "overhead.json", figures)
    return judge.overhead(ratio, kit.expected), figures


def _median(report: dict[str, Any]) -> float:
    cell = report["cases"][0]
    if cell["status"] != "PASS" or not cell["metrics"]:
        raise RuntimeError(f"{cell['case']}: {cell['status']}: {cell['reason']}")
    return float(cell["metrics"]["median_ms"])

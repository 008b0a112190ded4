"""Parts about the machine: driver and cards, packages, and what orch finds of both."""

from __future__ import annotations

import os
import platform
import re
import shutil
from pathlib import Path
from typing import Any

from card import judge, nvml, preconditions
from card.kit import ROOT, Kit, Verdict, read_json, write_json

# No other variable of the environment is recorded.
VARIABLES = (
    "CUDA_DEVICE_ORDER",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_TF32_OVERRIDE",
    "NVIDIA_VISIBLE_DEVICES",
    "ORCH_SANDBOX",
)
LOCKS = {"torch.txt": ("torch", "torchvision", "transformers", "onnx", "onnxruntime"), "cuda.txt": ("onnxruntime-gpu",)}


def system(kit: Kit, folder: Path) -> Verdict:
    """CPU, kernel, device nodes, and all readings of NVML."""
    nodes = nvml.device_nodes(preconditions.DEVICES)
    readings = nvml.read(min(10.0, kit.seconds_left()))
    write_json(folder / "nvml.json", readings)
    facts = {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "device_nodes": nodes,
        "driver_file": _text(Path("/proc/driver/nvidia/version")),
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }
    write_json(folder / "system.json", facts)
    if shutil.which("nvidia-smi") is not None:
        kit.call(["nvidia-smi", "-q"], folder, "nvidia-smi")
    figures = {"nvml": readings["error"] or f"{len(readings['cards'])} cards", "device_nodes": nodes}
    if not nodes:
        return [], figures
    if readings["error"] is not None:
        return [f"NVML: {readings['error']}"], figures
    broken = [f"card {card['index']}: {card['error']}" for card in readings["cards"] if card["error"] is not None]
    figures["cards"] = [f"{card.get('name')}, driver {readings['driver']}" for card in readings["cards"]]
    return broken if readings["cards"] else ["NVML lists no card"], figures


def _cpu() -> str | None:
    found = re.search(r"^model name\s*:\s*(.+)$", _text(Path("/proc/cpuinfo")) or "", re.MULTILINE)
    return found[1] if found else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None


def packages(kit: Kit, folder: Path) -> Verdict:
    """Versions of packages beside the interpreter, and those that differ from the locks."""
    found = kit.torch(folder, "versions", "versions")
    differences = judge.package_differences(found["packages"], locked())
    return [], {"python": found["python"], "packages": found["packages"], "differ_from_locks": differences}


def locked(folder: Path = ROOT / "python" / "requirements") -> dict[str, str]:
    """The versions of packages in the locks."""
    versions = {}
    for name, wanted in LOCKS.items():
        text = (folder / name).read_text()
        for package in wanted:
            line = re.search(rf"^{re.escape(package)}==([^ ;\\]+)", text, re.MULTILINE)
            if line:
                versions[package] = line[1]
    return versions


def devices(kit: Kit, folder: Path) -> Verdict:
    """`orch devices --json` beside NVML's readings."""
    document = kit.call_json(kit.orch_argv("devices", "--json"), folder, "devices")
    nodes = nvml.device_nodes(preconditions.DEVICES)
    readings = nvml.read() if nodes else {"cards": []}
    cuda: dict[str, Any] = next(backend for backend in document["backends"] if backend["name"] == "cuda")
    figures = {"cuda": cuda["reason"] or [device["name"] for device in cuda["devices"]]}
    return judge.devices(document, readings, nodes), figures


def doctor(kit: Kit, folder: Path) -> Verdict:
    """`orch doctor --json`, which may end with an error code if something else is missing."""
    kit.call(kit.orch_argv("doctor", "--json"), folder, "doctor")
    document = read_json(folder / "doctor.stdout")
    if document is None:
        return ["orch doctor printed no JSON document"], {}
    amiss = [finding["subject"] for finding in document["findings"] if not finding["ok"]]
    return judge.doctor(document, nvml.device_nodes(preconditions.DEVICES)), {"not_ok": amiss}

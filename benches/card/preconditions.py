"""Fast checks of what parts need; each gives None, or what is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from card import nvml
from card.kit import Kit

Check = Callable[[Kit], str | None]
DEVICES = Path("/dev")


def nothing(kit: Kit) -> str | None:
    """No precondition."""
    return None


def card(kit: Kit) -> str | None:
    """A device node of an NVIDIA GPU."""
    if kit.on_cpu or nvml.device_nodes(DEVICES):
        return None
    return "no NVIDIA device node"


def real_card(kit: Kit) -> str | None:
    """A device node of an NVIDIA GPU, also where the other parts are tried on the CPU."""
    return None if nvml.device_nodes(DEVICES) else "no NVIDIA device node"


def orch(kit: Kit) -> str | None:
    """The program orch."""
    return None if os.access(kit.orch, os.X_OK) else f"no program orch at {kit.orch}"


def interpreter(kit: Kit) -> str | None:
    """The interpreter of children."""
    return None if os.access(kit.python, os.X_OK) else f"no interpreter at {kit.python}"


def torch(kit: Kit) -> str | None:
    """torch beside the interpreter, looked up by its folder."""
    return None if has_package(kit.python, "torch") else f"no torch beside {kit.python}"


def worker(kit: Kit) -> str | None:
    """The tch worker: beside orch, among the environments, or cargo to build it."""
    beside = list(kit.orch.parent.glob("orch-torch-*"))
    built = list(kit.env_dir.glob("orch-torch-*/orch-torch"))
    if beside or built or shutil.which("cargo"):
        return None
    return "no tch worker beside orch or among the environments, and no cargo"


def gpu_package(kit: Kit) -> str | None:
    """ONNX Runtime's GPU package: given by `--package`, beside the interpreter, or among the environments."""
    if kit.package is not None and not kit.package.exists():
        return f"no package at {kit.package}"
    if kit.on_cpu or kit.package is not None or (kit.own_python is None and _environments(kit, "cuda")):
        return None
    if kit.own_python is not None and has_package(kit.own_python, "onnxruntime_gpu-*.dist-info"):
        return None
    return "no onnxruntime-gpu: --package names it"


def webgpu_package(kit: Kit) -> str | None:
    """ONNX Runtime's WebGPU plugin."""
    if kit.own_python is None:
        return None if _environments(kit, "webgpu") else "no environment webgpu"
    if has_package(kit.own_python, "onnxruntime_ep_webgpu"):
        return None
    return f"no onnxruntime-ep-webgpu beside {kit.own_python}"


def all_of(*checks: Check) -> Check:
    """All that several checks find missing."""

    def check(kit: Kit) -> str | None:
        found = [reason for each in checks if (reason := each(kit)) is not None]
        return "; ".join(found) or None

    return check


def _environments(kit: Kit, name: str) -> list[Path]:
    return list(kit.env_dir.glob(f"{name}-*/bin/python"))


def has_package(interpreter: Path, pattern: str) -> bool:
    """Whether a package lies beside an interpreter or in the usual folders of the system; nothing is started."""
    folders = [interpreter.parent.parent, interpreter.resolve().parent.parent]
    if folders[1] == Path("/usr"):
        folders.append(Path("/usr/local"))
    for folder in folders:
        for packages in ("site-packages", "dist-packages"):
            if any(folder.glob(f"lib*/python3*/{packages}/{pattern}")):
                return True
    return False

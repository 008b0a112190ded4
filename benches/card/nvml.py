"""Readings of NVIDIA's management library (NVML) through ctypes.

A driver may hang in a call, therefore `read` starts this file as a child with a time limit:

    python3 benches/card/nvml.py
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
SUCCESS = 0
UNLIMITED = 2**64 - 1
CLOCKS = {"graphics": 0, "sm": 1, "memory": 2}


class Memory(ctypes.Structure):
    """`nvmlMemory_t`."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class Process(ctypes.Structure):
    """`nvmlProcessInfo_t` of `nvmlDeviceGetComputeRunningProcesses_v3`."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


def device_nodes(folder: Path = Path("/dev")) -> list[str]:
    """The device nodes of GPUs: /dev/nvidia0, /dev/nvidia1, … or WSL's /dev/dxg."""
    nodes = [str(path) for path in folder.glob("nvidia*") if path.name[len("nvidia") :].isdigit()]
    if (folder / "dxg").exists():
        nodes.append(str(folder / "dxg"))
    return sorted(nodes)


def read(limit: float = 10.0) -> dict[str, Any]:
    """All cards by NVML, read in a child. `error` is None, or the reason why there are no readings."""
    argv = [sys.executable, "-I", str(Path(__file__).resolve())]
    try:
        child = subprocess.run(argv, capture_output=True, text=True, timeout=limit, env=dict(os.environ))
    except subprocess.TimeoutExpired:
        return {"error": f"NVML did not answer within {limit:.0f} s", "cards": []}
    if child.returncode != 0:
        return {"error": f"the reader of NVML ended with {child.returncode}", "cards": []}
    answer: dict[str, Any] = json.loads(child.stdout)
    return answer


def cards() -> dict[str, Any]:
    """All cards by NVML, read in this process."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        return {"error": f"{LIBRARY} does not load: {error}", "cards": []}
    status = library.nvmlInit_v2()
    if status != SUCCESS:
        return {"error": f"nvmlInit_v2 returned {status}", "cards": []}
    try:
        return {
            "error": None,
            "driver": _text(library.nvmlSystemGetDriverVersion),
            "nvml": _text(library.nvmlSystemGetNVMLVersion),
            "cuda": _number(library.nvmlSystemGetCudaDriverVersion_v2),
            "cards": [_card(library, index) for index in range(_number(library.nvmlDeviceGetCount_v2) or 0)],
        }
    finally:
        library.nvmlShutdown()


def _card(library: ctypes.CDLL, index: int) -> dict[str, Any]:
    handle = ctypes.c_void_p()
    status = library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle))
    if status != SUCCESS:
        return {"index": index, "error": f"nvmlDeviceGetHandleByIndex_v2 returned {status}"}
    memory = Memory()
    has_memory = library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == SUCCESS
    return {
        "index": index,
        "error": None,
        "name": _text(library.nvmlDeviceGetName, handle),
        "uuid": _text(library.nvmlDeviceGetUUID, handle),
        "compute_capability": _capability(library, handle),
        "memory_bytes": memory.total if has_memory else None,
        "used_bytes": memory.used if has_memory else None,
        "clocks_mhz": {name: _clock(library.nvmlDeviceGetClockInfo, handle, kind) for name, kind in CLOCKS.items()},
        "highest_clocks_mhz": {
            name: _clock(library.nvmlDeviceGetMaxClockInfo, handle, kind) for name, kind in CLOCKS.items()
        },
        "power_milliwatts": _number(library.nvmlDeviceGetPowerUsage, handle),
        "is_partitioned": _is_partitioned(library, handle),
        "processes": _processes(library, handle),
    }


def _text(function: Any, *arguments: Any) -> str | None:
    buffer = ctypes.create_string_buffer(96)
    status = function(*arguments, buffer, ctypes.c_uint(len(buffer)))
    return buffer.value.decode(errors="replace") if status == SUCCESS else None


def _number(function: Any, *arguments: Any) -> int | None:
    number = ctypes.c_uint()
    status = function(*arguments, ctypes.byref(number))
    return number.value if status == SUCCESS else None


def _clock(function: Any, handle: ctypes.c_void_p, kind: int) -> int | None:
    return _number(function, handle, ctypes.c_uint(kind))


def _capability(library: ctypes.CDLL, handle: ctypes.c_void_p) -> str | None:
    major = ctypes.c_int()
    minor = ctypes.c_int()
    status = library.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}" if status == SUCCESS else None


def _is_partitioned(library: ctypes.CDLL, handle: ctypes.c_void_p) -> bool | None:
    """Whether MIG is on."""
    current = ctypes.c_uint()
    pending = ctypes.c_uint()
    status = library.nvmlDeviceGetMigMode(handle, ctypes.byref(current), ctypes.byref(pending))
    return current.value == 1 if status == SUCCESS else None


def _processes(library: ctypes.CDLL, handle: ctypes.c_void_p) -> list[dict[str, Any]] | None:
    """The processes that compute on a card; None if the driver does not list them."""
    function = getattr(library, "nvmlDeviceGetComputeRunningProcesses_v3", None)
    if function is None:
        return None
    found = (Process * 256)()
    count = ctypes.c_uint(len(found))
    if function(handle, ctypes.byref(count), found) != SUCCESS:
        return None
    return [
        {"pid": process.pid, "used_bytes": None if process.used == UNLIMITED else process.used}
        for process in found[: count.value]
    ]


if __name__ == "__main__":
    print(json.dumps(cards()))

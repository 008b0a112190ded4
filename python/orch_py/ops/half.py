"""Tries half precision in PyTorch on one device: a matrix product and a layer norm, beside the same in fp64.

That the result has the type says little: for a type without a kernel of its own PyTorch converts to fp32 and back. On a
GPU the kernels are the vendor's, for the types that the device has. On a CPU oneDNN says which kernel it took; where it
took none, PyTorch's own loops did the work, which compute in fp32.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

import torch

from orch_py.worker.protocol import Job, Output, Refused

_TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
# The instruction sets after which oneDNN names its kernels that multiply in the type. Newer releases name
# `avx512_core_fp16`, of which `avx10_1_512` is an alias, by the alias.
_FP16 = ("avx512_core_fp16", "avx10_1_512", "avx10_2", "amx_fp16")
_KERNELS = {"fp16": _FP16, "bf16": ("avx512_core_bf16", *_FP16, "amx")}
# Largest error, of values around 1. Eight and eleven bits of precision, with room for the layer norm.
_BOUNDS = {"fp16": 0.02, "bf16": 0.1}


def run(job: Job) -> Output:
    precision = job.required("precision")
    if precision not in _TYPES:
        raise Refused("error", f"`{precision}` is no half precision; known: {', '.join(_TYPES)}")
    name, lease = job.required("device"), job.param("lease", {})
    if lease:
        # A process that is shown one GPU calls it number 0 whichever it is.
        os.environ.update(lease.get("env", {}))
        name = f"{lease['id'].partition(':')[0]}:0"
    device = _device(name)
    x, weight = _values(4, 64, 37), _values(64, 64, 59)
    want = torch.nn.functional.layer_norm(x @ weight, (64,))
    narrow = [value.to(device, _TYPES[precision]) for value in (x, weight)]
    got, spoken = _computed(narrow) if device.type == "cpu" else (_layer(narrow), "")
    if got.dtype != _TYPES[precision]:
        raise Refused("unsupported", f"PyTorch answers {precision} on {device} in {got.dtype}")
    off = float((got.to("cpu", torch.float64) - want).abs().max())
    if not off <= _BOUNDS[precision]:
        raise Refused("numerics", f"PyTorch's {precision} on {device} is off by {off:.3g}")
    kernel = _kernel(precision, spoken) if device.type == "cpu" else _vendors(precision, device)
    return Output(facts={"torch": torch.__version__, "max_abs": off, "kernel": kernel})


def _values(rows: int, columns: int, step: int) -> torch.Tensor:
    """Within 1, and held by every type without rounding."""
    count = torch.arange(rows * columns, dtype=torch.float64)
    return (((count * step + 11) % 127 - 63) / 64).reshape(rows, columns)


def _layer(values: list[torch.Tensor]) -> torch.Tensor:
    return torch.nn.functional.layer_norm(values[0] @ values[1], (64,))


def _device(name: str) -> torch.device:
    # PyTorch calls AMD's GPUs cuda as well.
    kind, _, index = name.partition(":")
    place = torch.device("cuda" if kind == "rocm" else kind, int(index) if index else None)
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(place.type, False):
        raise Refused("unavailable", f"PyTorch {torch.__version__} sees no {name}")
    return place


def _computed(values: list[torch.Tensor]) -> tuple[torch.Tensor, str]:
    """The layer, and what oneDNN says of it, which it writes to the process's stdout."""
    sys.stdout.flush()
    kept = os.dup(1)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 1)
        try:
            verbose: Any = torch.backends.mkldnn.verbose
            with verbose(torch.backends.mkldnn.VERBOSE_ON):
                got = _layer(values)
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        log.seek(0)
        return got, log.read().decode("utf-8", "replace")


def _kernel(precision: str, spoken: str) -> str:
    """The kernel that multiplied; refused if it does so in fp32."""
    lines = (line.split(",") for line in spoken.splitlines() if ",exec," in line)
    # …,exec,cpu,matmul,<kernel>,…
    kernels = [row[row.index("exec") + 3] for row in lines if row[row.index("exec") + 2] in ("matmul", "inner_product")]
    if not kernels:
        raise Refused("unsupported", f"PyTorch has no {precision} kernel for this CPU and computes in fp32 instead")
    if not any(name in kernels[0] for name in _KERNELS[precision]):
        raise Refused("unsupported", f"PyTorch's {precision} kernel on this CPU, `{kernels[0]}`, computes in fp32")
    return f"oneDNN's kernel {kernels[0]}"


def _vendors(precision: str, device: torch.device) -> str:
    if device.type == "cuda" and precision == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise Refused("unsupported", f"PyTorch emulates bf16 on {torch.cuda.get_device_name(device)}")
    return f"the kernels of {torch.cuda.get_device_name(device) if device.type == 'cuda' else 'Metal'}"

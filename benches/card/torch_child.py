"""Tasks for an interpreter with torch; each prints one JSON document.

python benches/card/torch_child.py versions
python benches/card/torch_child.py tf32 DEVICE SIZE
python benches/card/torch_child.py memory DEVICE MIB
python benches/card/torch_child.py loop DEVICE TREE WARMUP SAMPLES
"""

from __future__ import annotations

import importlib.metadata
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "torchvision", "transformers", "onnx", "onnxruntime", "onnxruntime-gpu", "onnxruntime-ep-webgpu")


def versions() -> dict[str, Any]:
    """Versions of packages by their metadata; nothing is imported."""
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return {"python": sys.version.split()[0], "packages": found}


def tf32(device: str, size: str) -> dict[str, Any]:
    """The error of a matrix product with TF32 off and on, relative to the largest element in fp64."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    generator = torch.Generator().manual_seed(0)
    left = torch.randn(int(size), int(size), generator=generator)
    right = torch.randn(int(size), int(size), generator=generator)
    exact = left.double() @ right.double()
    errors = {}
    for name, is_allowed in (("off", False), ("on", True)):
        torch.backends.cuda.matmul.allow_tf32 = is_allowed
        torch.backends.cudnn.allow_tf32 = is_allowed
        product = (left.to(device) @ right.to(device)).cpu().double()
        errors[name] = float((product - exact).abs().max() / exact.abs().max())
    return {"size": int(size), "device": _name(torch, device), "relative_error": errors}


def memory(device: str, mebibytes: str) -> dict[str, Any]:
    """What NVML and torch's allocator report before and after a known allocation."""
    import nvml  # type: ignore[import-not-found,unused-ignore]
    import torch  # type: ignore[import-not-found,unused-ignore]

    wanted = int(mebibytes) * 2**20
    torch.zeros(1, device=device)
    _synchronise(torch, device)
    before = nvml.cards()
    held = torch.ones(wanted // 4, dtype=torch.float32, device=device)
    _synchronise(torch, device)
    after = nvml.cards()
    is_cuda = device.startswith("cuda")
    return {
        "wanted_bytes": wanted,
        "sum": float(held.sum()),
        "uuid": str(torch.cuda.get_device_properties(0).uuid) if is_cuda else None,
        "allocated_bytes": torch.cuda.max_memory_allocated() if is_cuda else None,
        "reserved_bytes": torch.cuda.max_memory_reserved() if is_cuda else None,
        "nvml_before": before,
        "nvml_after": after,
    }


def loop(device: str, tree: str, warmup: str, samples: str) -> dict[str, Any]:
    """The times of torch's own loop over the model and inputs that orch generated."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    from orch_py.generate import torch_model

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    loaded = torch_model.load_tree(Path(tree))
    model = loaded.model.to(device).eval()
    inputs = {name: tensor.to(device) for name, tensor in loaded.inputs.items()}
    taken: list[float] = []
    with torch.inference_mode():
        for _ in range(int(warmup)):
            model(**inputs)
            _synchronise(torch, device)
        for _ in range(int(samples)):
            begin = time.perf_counter()
            model(**inputs)
            _synchronise(torch, device)
            taken.append((time.perf_counter() - begin) * 1000)
    return {"median_ms": statistics.median(taken), "min_ms": min(taken), "samples": len(taken)}


def _synchronise(torch: Any, device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def _name(torch: Any, device: str) -> str:
    return str(torch.cuda.get_device_name()) if device.startswith("cuda") else device


TASKS: dict[str, Callable[..., dict[str, Any]]] = {"versions": versions, "tf32": tf32, "memory": memory, "loop": loop}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](*sys.argv[2:])))

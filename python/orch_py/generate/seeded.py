"""Random weights where a class initialises with one number, mostly 0: routers' gates, codebooks, gates between towers,
embeddings of places. A model that begins so decides nothing by them: a router's scores are all equal, which of them is
largest each runtime answers otherwise, and what is multiplied by 0 could be left out. Training would have changed them.

Biases and means stay 0: they are the same for every input, and small models have outputs that would vanish beside them.
So do single numbers that the class saves and does not train: the `eps` of an activation, which has a step where it is
large, and rounding then decides on which side of it a value falls.
"""

from __future__ import annotations

import hashlib

import torch

# The standard deviation of what stands in their place: as small as most classes' other weights. Single numbers and
# scales of layers multiply whole parts, and are as large as they become in training.
DEVIATION = 0.02
GATE_DEVIATION = 0.5
# Constants up to this size switch a part of a model off, such as scales of layers; larger ones, such as the ones of
# norms, do not.
_SWITCHED_OFF = 0.01
# How the names of those end that are only added.
_ADDED = ("bias", "running_mean")


def fill(model: torch.nn.Module, seed: int) -> list[str]:
    """Gives such tensors small normal values, and gives their names.

    The values depend on `seed` and the tensor's name and shape, and on no order. What is not saved with the model, and
    what is no floating-point number, stays as it is.
    """
    found = []
    constants = {name for name, buffer in model.named_buffers() if buffer.numel() == 1}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if not name.endswith(_ADDED) and name not in constants and _decides_nothing(tensor):
            chance = torch.Generator().manual_seed(_number(seed, name))
            is_gate = tensor.numel() == 1 or bool(tensor.flatten()[0] != 0)
            deviation = GATE_DEVIATION if is_gate else DEVIATION
            values = torch.randn(tensor.shape, generator=chance, dtype=torch.float32) * deviation
            with torch.no_grad():
                tensor.copy_(values)
            found.append(name)
    return sorted(found)


def _decides_nothing(tensor: torch.Tensor) -> bool:
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return False
    first = tensor.flatten()[0]
    return bool(first.abs() <= _SWITCHED_OFF and (tensor == first).all())


def _number(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:7], "big")

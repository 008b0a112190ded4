"""Modules that an exporter gets wrong, each within a model with parts that it gets right. It imports nothing of orch,
so that programs without orch can use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.onnx import register_custom_op_symbolic


class Branch(nn.Module):
    """Decides by a value on Python's side."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.sum() > 0 else x - 1


class View(nn.Module):
    """Writes into a view of a copy."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y.transpose(0, 1)[1].add_(7)
        return y


class Loop(nn.Module):
    """Computes as often as a value says."""

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(int(x.abs().sum().item() * 50)):
            x = x + 0.1
        return x


class Sized(nn.Module):
    """Has a size that a value says, which is a constant of the file."""

    def forward(self, x: Tensor) -> Tensor:
        return x + x[x > 0].reshape(int((x > 0).sum()), 1).mean()


class Symbolic(nn.Module):
    """Calls an operator whose symbolic function is wrong."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.special.i0(x)


def _wrong(g: Any, x: Any) -> Any:
    return g.op("Exp", x)


register_custom_op_symbolic("aten::special_i0", _wrong, 9)
register_custom_op_symbolic("aten::i0", _wrong, 9)


class Refused(nn.Module):
    """Calls an operator that the exporter lacks."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.special.bessel_j0(x)


class Right(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.linear(x))


class Block(nn.Module):
    """Calls a right part twice, and the planted one between."""

    def __init__(self, planted: nn.Module) -> None:
        super().__init__()
        self.before = Right()
        self.planted = planted

    def forward(self, x: Tensor, scale: float = 1.0, mask: Tensor | None = None) -> Tensor:
        x = self.planted(self.before(x) * scale)
        return self.before(x if mask is None else x * mask)


@dataclass
class Result:
    hidden: Tensor
    cache: dict[str, list[Tensor]]


class Caching(nn.Module):
    """Takes a mapping that it changes and gives an object."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor, *, cache: dict[str, list[Tensor]], scale: float) -> Result:
        cache["seen"].append(x)
        return Result(self.block(x, scale, mask=torch.ones_like(x)), cache)


class Model(nn.Module):
    """Right parts around a planted one, in a list of blocks."""

    def __init__(self, planted: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Caching(Block(Right())), Caching(Block(planted)), Caching(Block(Right()))])
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        cache: dict[str, list[Tensor]] = {"seen": []}
        for block in self.blocks:
            found = block(x, cache=cache, scale=0.5)
            x = found.hidden
        return {"y": self.head(x)}


def model(planted: str) -> Model:
    """The model with seeded weights around a planted module of this class."""
    torch.manual_seed(0)
    return Model(globals()[planted]()).eval()

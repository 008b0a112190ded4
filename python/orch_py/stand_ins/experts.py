"""Experts over which a class loops, as traces need them: each computes all tokens, and what the router did not
choose counts nothing.

As these classes are written, a loop goes over the experts that the router chose, and a trace would hold the choice
that its input made. Most mixtures of experts have another implementation for that (`torch_model.for_export`); these
have not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import torch

from orch_py import stand_ins


def _switch(self: Any, hidden: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """`chosen` marks one expert for each token, or none where it is full."""
    return _summed(self, hidden, (chosen * weights[..., None]).sum(1))


def _nllb(self: Any, hidden: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """`chosen` numbers the experts of each token; they keep the share that training does not drop."""
    marks = torch.nn.functional.one_hot(chosen, self.num_experts)
    return _summed(self, hidden, (marks * weights[..., None]).sum(1)) * (1 - self.moe_token_dropout)


def _dbrx(self: Any, hidden: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Its experts are slices of three weights."""
    marks = torch.nn.functional.one_hot(chosen, self.num_experts)
    shares, rows = (marks * weights[..., None]).sum(1), hidden.reshape(-1, self.hidden_size)
    gates, ups, downs = (
        each.view(-1, self.ffn_hidden_size, self.hidden_size) for each in (self.mlp.w1, self.mlp.v1, self.mlp.w2)
    )
    parts = [self.mlp(rows, gates[at], ups[at], downs[at]) * shares[:, at, None] for at in range(self.num_experts)]
    return torch.stack(parts).sum(0).reshape(hidden.shape[0], -1, self.hidden_size)


def _summed(experts: Any, hidden: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The outputs of all experts by the weights of each token, a column an expert."""
    parts = [experts[f"expert_{at}"](hidden) * weights[:, at, None] for at in range(experts.num_experts)]
    return torch.stack(parts).sum(0).to(hidden.dtype)


_FORWARDS: dict[str, Callable[..., torch.Tensor]] = {
    "SwitchTransformersExperts": _switch,
    "NllbMoeExperts": _nllb,
    "DbrxExperts": _dbrx,
}


@contextmanager
def all_computing(model: torch.nn.Module) -> Iterator[None]:
    if not stand_ins.are_allowed():
        yield
        return
    found = [(module, _FORWARDS[name]) for module in model.modules() if (name := type(module).__name__) in _FORWARDS]
    for module, forward in found:
        module.forward = MethodType(forward, module)
        stand_ins.note(f"{type(module).__name__}.forward")
    try:
        yield
    finally:
        for module, _ in found:
            del module.forward

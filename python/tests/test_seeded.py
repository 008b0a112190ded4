"""Random weights where a class initialises with one number."""

from __future__ import annotations

import unittest
from typing import Any

try:
    import torch

    from orch_py.generate import seeded
except ImportError:
    torch = None  # type: ignore[assignment]


def model(*names: str) -> Any:
    made = torch.nn.Module()
    for name in names:
        made.register_parameter(name, torch.nn.Parameter(torch.zeros(4, 3)))
    return made


@unittest.skipUnless(torch, "torch is not installed")
class SeededTest(unittest.TestCase):
    def test_only_what_switches_a_part_off_is_filled(self) -> None:
        made = model("router")
        made.norm = torch.nn.LayerNorm(4)
        made.scale = torch.nn.Parameter(torch.full((4,), 1e-5))
        made.gate = torch.nn.Parameter(torch.zeros(1))
        made.weight = torch.nn.Parameter(torch.tensor([0.0, 1.0]))
        made.register_buffer("codes", torch.zeros(2, 3))
        made.register_buffer("mask", torch.zeros(2, 3), persistent=False)
        made.register_buffer("count", torch.zeros(2, dtype=torch.int64))
        made.register_buffer("eps", torch.tensor(-1e-6))
        self.assertEqual(seeded.fill(made, 0), ["codes", "gate", "router", "scale"])
        self.assertTrue((made.norm.weight == 1).all() and (made.norm.bias == 0).all())
        self.assertEqual(made.mask.abs().sum(), 0)
        self.assertEqual(made.eps, torch.tensor(-1e-6))
        self.assertEqual(len(made.router.unique()), 12)
        self.assertLess(made.router.abs().max(), 0.2)

    def test_values_follow_seed_and_name_and_no_order(self) -> None:
        one, other, third = model("a", "b"), model("b", "a"), model("a", "b")
        for made, seed in ((one, 0), (other, 0), (third, 1)):
            torch.manual_seed(seed + 7)
            seeded.fill(made, seed)
        self.assertTrue(torch.equal(one.a, other.a) and torch.equal(one.b, other.b))
        self.assertFalse(torch.equal(one.a, one.b) or torch.equal(one.a, third.a))


if __name__ == "__main__":
    unittest.main()

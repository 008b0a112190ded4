"""What torch computes while the legacy exporter traces is what it computes otherwise."""

from __future__ import annotations

import io
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

try:
    import torch

    from orch_py.stand_ins import onnx_equals
except ImportError:
    torch = None  # type: ignore[assignment]


def values(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


def bits(*shape: int) -> Any:
    return values(*shape) > 0


def lower(size: int) -> Any:
    return torch.tril(values(2, size, size)) + 3 * torch.eye(size)


def with_mask_of_its_own(mask: Any, other: Any) -> Any:
    mask |= other
    mask[0] &= other[1]
    return mask


def turned(pairs: Any, by: Any) -> Any:
    return torch.view_as_complex(pairs.reshape(2, 3, 2, 2)) * (by * 0.5)[None].unsqueeze(-1).squeeze(-1)


def with_rows(value: Any, mask: Any) -> Any:
    value[mask, :] = value[mask, :] + 1
    value[~mask] = 0.5
    return value


def with_parts(value: Any, mask: Any) -> Any:
    """Changed at places of every kind."""
    value[mask] = value[mask] * 2
    value[1, :, torch.tensor([True, False, True, True])] = values(3, 3)
    value[torch.tensor([[0], [1]]), torch.tensor([[2, 0], [1, 2]])] = values(2, 2, 4)
    value[torch.tensor([0, 1]), torch.tensor([0, 0])] = values(4)
    value[2:] = values(0, 3, 4)
    return value


def correlated(one: Any, other: Any, size: int) -> Any:
    """By their spectra, as series are."""
    spectra = torch.fft.rfft(one, n=size, dim=1) * torch.conj(torch.fft.rfft(other, n=size, dim=1))
    return torch.fft.irfft(spectra, n=size, dim=1)


def attended(*shape: int) -> Any:
    """Where the first query may look at nothing."""
    mask = torch.ones(4, 4).tril(-1) > 0
    return torch.nn.functional.scaled_dot_product_attention(
        values(*shape), values(*shape) + 1, values(*shape), attn_mask=mask
    )


# What is computed, each time on values of its own.
SAME: dict[str, Callable[[], Any]] = {
    "masked_scatter by value": lambda: values(3, 4).masked_scatter(bits(3, 4), values(12)),
    "masked_scatter by row": lambda: values(3, 4).masked_scatter(bits(3, 1).expand(3, 4), values(3, 4)),
    "cumsum of booleans": lambda: bits(3, 4).cumsum(-1),
    "cumsum of numbers": lambda: torch.cumsum(values(3, 4), 1),
    "diff once": lambda: values(3, 4).diff(),
    "diff": lambda: torch.diff(values(3, 4), n=2, dim=0, prepend=values(1, 4)),
    "repeat_interleave": lambda: values(2, 3, 4).repeat_interleave(3, dim=-2),
    "repeat_interleave of all": lambda: torch.repeat_interleave(values(2, 3), 2),
    "repeat_interleave by tensor": lambda: values(2, 3).repeat_interleave(torch.tensor([1, 2, 3]), dim=1),
    "permute": lambda: values(2, 3, 4).permute(0, -1, -2),
    "permute by a tuple": lambda: torch.permute(values(2, 3, 4), (-1, 0, 1)),
    "movedim": lambda: torch.movedim(values(2, 3, 4, 5), -1, 2) + values(2, 3, 4, 5).movedim(3, -2),
    "movedim of several": lambda: values(2, 3, 4).movedim((0, 1), (1, 2)),
    "unfold": lambda: values(2, 9, 3).unfold(1, 4, 2),
    "unfold from the last": lambda: values(2, 3, 9).unfold(-1, 4, 3),
    "solve_triangular": lambda: torch.linalg.solve_triangular(lower(4), values(2, 4, 3), upper=False),
    "solve_triangular, upper": lambda: torch.linalg.solve_triangular(lower(4).mT, values(2, 4, 3), upper=True),
    "solve_triangular, right": lambda: torch.linalg.solve_triangular(
        lower(4), values(2, 3, 4), upper=False, left=False
    ),
    "solve_triangular, unit": lambda: torch.linalg.solve_triangular(
        torch.tril(values(4, 4), -1) + torch.eye(4), values(4, 4), upper=False, unitriangular=True
    ),
    "rms_norm": lambda: torch.nn.functional.rms_norm(values(2, 3, 4), (4,), values(4), 1e-5),
    "rms_norm without weights": lambda: torch.rms_norm(values(2, 3, 4), (3, 4)),
    "expm1": lambda: torch.expm1(torch.tensor([-3.0, -0.1, -0.019, -1e-5, 0.0, 1e-6, 0.021, 2.0])),
    "expm1 of one": lambda: torch.tensor(0.01).expm1(),
    "isin": lambda: torch.isin(torch.tensor([[1, 5], [7, 2]]), torch.tensor([2, 5])),
    "isin, inverted": lambda: torch.isin(torch.tensor([1, 5]), 5, invert=True),
    "masked_scatter of nothing": lambda: torch.masked_scatter(values(3, 4), torch.zeros(3, 4) > 0, values(0)),
    "index_add": lambda: torch.index_add(values(3, 4), 1, torch.tensor([2, 0, 2]), values(3, 3), alpha=2),
    "index_add by name": lambda: values(3, 4).index_add(0, torch.tensor([1, 1]), source=values(2, 4)),
    "index_add in place": lambda: values(3, 4).index_add_(0, torch.tensor([1, 1]), values(2, 4)),
    "searchsorted": lambda: torch.searchsorted(torch.tensor([1, 3, 3, 5]), torch.tensor([[0, 3], [5, 9]])),
    "searchsorted, right": lambda: torch.searchsorted(torch.tensor([1, 3, 3, 5]), torch.tensor([3, 4]), right=True),
    "searchsorted by row": lambda: torch.searchsorted(values(2, 5).sort(-1).values, values(2, 3)),
    "scatter of a boolean": lambda: bits(2, 4).scatter(1, torch.tensor([[1], [2]]), True),
    "scatter by name": lambda: torch.scatter(values(2, 4), 1, index=torch.tensor([[1], [2]]), src=values(2, 1)),
    "full": lambda: torch.full((2, 3), 4),
    "topk": lambda: torch.topk(values(3, 4), 2),
    "topk of the least": lambda: values(3, 4).topk(2, dim=0, largest=False),
    "full_like": lambda: torch.full_like(bits(2, 3), True),
    "full_like of another type": lambda: torch.full_like(bits(2, 3), 2.5, dtype=torch.float32),
    "fold": lambda: torch.nn.functional.fold(values(1, 12, 6), (4, 6), (2, 2), stride=(2, 2)),
    "fold of patches that overlap": lambda: torch.nn.functional.fold(values(1, 12, 9), (4, 4), (2, 2)),
    "bilinear with antialiasing": lambda: torch.nn.functional.interpolate(
        values(1, 2, 9, 8), size=(4, 16), mode="bilinear", align_corners=False, antialias=True
    ),
    "bicubic with antialiasing": lambda: torch.nn.functional.interpolate(
        values(1, 2, 9, 8), size=(4, 3), mode="bicubic", antialias=True
    ),
    "nearest": lambda: torch.nn.functional.interpolate(values(1, 2, 4, 4), scale_factor=2.0),
    "complex numbers": lambda: torch.view_as_real(turned(values(2, 3, 4), torch.polar(torch.ones(3, 2), values(3, 2)))),
    "rows by a mask": lambda: values(2, 3, 4)[bits(2, 3), :],
    "rows by a flat mask": lambda: values(6, 4)[bits(2, 3).reshape(-1)],
    "values by a mask": lambda: values(2, 3)[bits(2, 3)],
    "rows put by a mask": lambda: with_rows(values(2, 3, 4), bits(2, 3)),
    "histogram": lambda: torch.histc(values(3, 40), bins=7, min=-1, max=2),
    "histogram of experts": lambda: torch.tensor([0.0, 3, 3, 1, 4, 4]).histc(bins=4, min=0, max=3),
    "largest so far": lambda: torch.cummax(torch.tensor([[3, 1, 3, 5, 2], [0, 0, 1, 1, 0]]), 1),
    "largest so far, of floats": lambda: values(3, 4, 5).cummax(dim=-2),
    "least so far": lambda: torch.cummin(torch.tensor([[3, 1, 3, 1, 2], [2, 2, 1, 3, 0]]), dim=1),
    "least so far, of floats": lambda: values(3, 4).cummin(0),
    "linspace": lambda: torch.linspace(0.5, 3.5, 4, dtype=torch.float32),
    "eye": lambda: torch.eye(3, dtype=torch.bool) & torch.eye(3, 3, dtype=torch.bool),
    "both masks": lambda: torch.bitwise_and(bits(3, 4), bits(4, 3).reshape(3, 4)) & True,
    "both numbers": lambda: torch.bitwise_and(torch.tensor([6, 5]), 3) & torch.tensor([1, 3]),
    "strided as it lies in memory": lambda: values(2, 6, 4).mT.as_strided((2, 3, 4, 4), (24, 4, 1, 1)),
    "strided from a place": lambda: torch.as_strided(values(6, 4), (3, 2), (1, 3), 2),
    "strided, with gaps": lambda: values(6, 4)[:, 1:3].as_strided((3, 2), (4, 1)),
    "sequences padded": lambda: torch.nn.utils.rnn.pad_sequence([values(3, 2), values(1, 2), values(2, 2)]),
    "sequences padded on the left": lambda: torch.nn.utils.rnn.pad_sequence(
        [values(3), values(1)], batch_first=True, padding_value=-1.0, padding_side="left"
    ),
    "bags": lambda: torch.nn.functional.embedding_bag(torch.tensor([[0, 2], [1, 1]]), values(3, 4), mode="sum"),
    "bags with weights": lambda: torch.nn.functional.embedding_bag(
        torch.tensor([[0, 2], [1, 1]]), values(3, 4), per_sample_weights=values(2, 2), mode="sum"
    ),
    "bags' means": lambda: torch.nn.functional.embedding_bag(torch.tensor([[0, 2], [1, 1]]), values(3, 4)),
    "one picture pooled": lambda: torch.nn.functional.max_pool2d(values(2, 6, 6), 3, stride=1, padding=1),
    "pictures pooled": lambda: torch.nn.functional.max_pool2d(values(1, 2, 6, 6), (2, 3)),
    "attention with a full row": lambda: attended(1, 2, 4, 8),
    "attention without a mask": lambda: torch.nn.functional.scaled_dot_product_attention(*[values(1, 2, 4, 8)] * 3),
    "spectra of an even size": lambda: correlated(values(2, 6, 3), values(2, 6, 3).flip(1), 6),
    "spectra of an odd size": lambda: correlated(values(2, 5, 3), values(2, 5, 3).flip(1), 5),
    "spectra of one value": lambda: correlated(values(2, 1, 3), values(2, 1, 3), 1),
    "spectra, cut": lambda: torch.fft.irfft(torch.fft.rfft(values(3, 8), n=6)),
    "parts put": lambda: with_parts(values(2, 3, 4), bits(2, 3, 4)),
    "in place": lambda: with_mask_of_its_own(bits(3, 4), bits(4, 3).reshape(3, 4)),
}


@unittest.skipUnless(torch, "torch is not installed")
class EqualsTest(unittest.TestCase):
    def test_every_function_computes_what_it_stands_for(self) -> None:
        for name, compute in SAME.items():
            with self.subTest(name):
                expected = compute()
                with onnx_equals.Equals():
                    found = compute()
                torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)

    def test_parts_that_are_filled_one_after_the_other_keep_their_places(self) -> None:
        """The exporter finds what `copy_` changes by where in the source it was called."""
        import onnxruntime

        class Filled(torch.nn.Module):  # type: ignore[misc, name-defined]
            def forward(self, left: Any, right: Any) -> Any:
                whole = left.new_empty(2, 3, 6)
                whole[..., :2].copy_(left)
                whole[..., 2:].copy_(right)
                return whole

        given = values(2, 3, 2), values(2, 3, 4)
        made = io.BytesIO()
        with onnx_equals.Equals():
            torch.onnx.export(Filled(), given, made, dynamo=False, opset_version=17, input_names=["left", "right"])
        session = onnxruntime.InferenceSession(made.getvalue())
        (found,) = session.run(None, {"left": given[0].numpy(), "right": given[1].numpy()})
        torch.testing.assert_close(torch.from_numpy(found), torch.cat(given, -1))

    def test_what_lies_otherwise_in_memory_is_strided_in_the_graph_too(self) -> None:
        """The exporter counts strides in the order of the shape, and says nothing."""
        import onnxruntime

        class Windows(torch.nn.Module):  # type: ignore[misc, name-defined]
            def forward(self, value: Any) -> Any:
                turned = (value * 2).transpose(0, 1)
                return turned.as_strided((3, 2, 2), (2, 2, 1))

        given = values(4, 2)
        made = io.BytesIO()
        with onnx_equals.Equals():
            torch.onnx.export(Windows(), (given,), made, dynamo=False, opset_version=17, input_names=["value"])
        (found,) = onnxruntime.InferenceSession(made.getvalue()).run(None, {"value": given.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), Windows()(given))

    def test_every_function_of_the_table_is_among_them(self) -> None:
        called: set[Any] = set()

        def noting(func: Any, by: Any) -> Any:
            def noted(*args: Any, **kwargs: Any) -> Any:
                called.add(func)
                return by(*args, **kwargs)

            return noted

        noted = {func: noting(func, by) for func, by in onnx_equals.EQUALS.items()}
        with mock.patch.dict(onnx_equals.EQUALS, noted), onnx_equals.Equals():
            for compute in SAME.values():
                compute()
        self.assertEqual(set(onnx_equals.EQUALS) - called, set())


if __name__ == "__main__":
    unittest.main()

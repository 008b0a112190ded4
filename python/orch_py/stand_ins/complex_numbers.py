"""Complex numbers as pairs of real ones: the exporter has no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from orch_py.stand_ins.untraced import untraced


class _Complex:
    """What rotary embeddings and spectra do with complex numbers, on pairs of real ones: the exporter has no others."""

    def __init__(self, real: Tensor, imaginary: Tensor) -> None:
        self.real, self.imaginary = real, imaginary

    @classmethod
    def of(cls, pairs: Tensor) -> _Complex:
        return cls(pairs[..., 0], pairs[..., 1])

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if func is torch.view_as_real:
            return torch.stack((args[0].real, args[0].imaginary), -1)
        if func in (Tensor.__mul__, Tensor.mul, torch.mul):
            return args[1] * args[0]
        if func is torch.conj:
            return cls(args[0].real, -args[0].imaginary)
        return NotImplemented

    def __mul__(self, other: _Complex | Tensor | float) -> _Complex:
        if isinstance(other, Tensor) and other.is_complex():
            # Only what a model was made with is such a tensor.
            with untraced():
                other = _Complex(other.real.clone(), other.imag.clone())
        if not isinstance(other, _Complex):
            return self._each(lambda part: part * other)
        real = self.real * other.real - self.imaginary * other.imaginary
        return _Complex(real, self.real * other.imaginary + self.imaginary * other.real)

    def __getitem__(self, key: Any) -> _Complex:
        return self._each(lambda part: part[key])

    def __getattr__(self, name: str) -> Any:
        """`shape` and the like are those of a part; methods such as `unsqueeze` give both parts."""
        found = getattr(self.real, name)
        if not callable(found):
            return found
        return lambda *args, **kwargs: self._each(lambda part: getattr(part, name)(*args, **kwargs))

    def _each(self, change: Callable[[Tensor], Tensor]) -> _Complex:
        return _Complex(change(self.real), change(self.imaginary))


def _polar(abs: Tensor, angle: Tensor) -> _Complex:
    return _Complex(abs * torch.cos(angle), abs * torch.sin(angle))


def _spectrum(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """As two products with constants, of cosines and of sines."""
    size = int(input.shape[dim])
    if norm is not None or n not in (None, size):
        return NotImplemented
    cosines, sines = _waves(size)
    values = input.transpose(dim, -1)
    return _Complex((values @ cosines).transpose(dim, -1), -(values @ sines).transpose(dim, -1))


def _signal(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """What has that spectrum."""
    size = 2 * (int(input.shape[dim]) - 1) if n is None else int(n)
    if norm is not None or not isinstance(input, _Complex) or size // 2 + 1 != input.shape[dim]:
        return NotImplemented
    cosines, sines = _waves(size)
    with untraced():
        # Each wave stands for the one that mirrors it too; the first and, of an even size, the last have none.
        shares = torch.full((size // 2 + 1,), 2.0 / size)
        shares[:: size if size % 2 else size // 2] = 1.0 / size
        cosines, sines = (cosines * shares).mT.contiguous(), (sines * shares).mT.contiguous()
    real, imaginary = (part.transpose(dim, -1) for part in (input.real, input.imaginary))
    return (real @ cosines - imaginary @ sines).transpose(dim, -1)


def _waves(size: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the real Fourier transform, a column a frequency."""
    with untraced():
        times, frequencies = torch.arange(size), torch.arange(size // 2 + 1)
        angles = (torch.outer(times, frequencies) % size).double() * (2 * torch.pi / size)
        return torch.cos(angles).float(), torch.sin(angles).float()


EQUALS: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.polar: _polar,
    torch.view_as_complex: _Complex.of,
    torch.fft.rfft: _spectrum,
    torch.fft.irfft: _signal,
}

"""The values of a graph's tensors, in memory or in files of a folder, from which each is read when it is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

# Values of no more bytes stay in memory: shapes and places are read by many.
_SMALL = 4096


class Values(Mapping[str, np.ndarray]):
    """Values by the names of their tensors. With a folder, larger ones lie in files there, and are mapped into memory
    while somebody holds them."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._held: dict[str, np.ndarray] = {}
        self._files: dict[str, Path] = {}

    def add(self, name: str, value: np.ndarray) -> None:
        if self._folder is None or value.nbytes <= _SMALL:
            self._held[name] = value
            return
        path = self._folder / f"{len(self._files)}.npy"
        np.save(path, value)
        self._files[name] = path

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self._held:
            return self._held[name]
        # A plain array, which runtimes take.
        return np.asarray(np.load(self._files[name], mmap_mode="r"))

    def __iter__(self) -> Iterator[str]:
        yield from self._held
        yield from self._files

    def __len__(self) -> int:
        return len(self._held) + len(self._files)

    def __contains__(self, name: object) -> bool:
        return name in self._held or name in self._files

"""The classes and types that orch knows are those of the installed transformers. Skipped where that is absent."""

from __future__ import annotations

import importlib.util
import unittest
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "src/spec/data"


@unittest.skipUnless(
    all(importlib.util.find_spec(name) for name in ("torch", "transformers")), "torch is not installed"
)
class Lists(unittest.TestCase):
    def test_the_classes_are_current(self) -> None:
        from tools import class_list

        self._is_current("transformers-classes.txt", class_list.text())

    def test_the_types_are_current(self) -> None:
        from tools import type_list

        self._is_current("transformers-types.txt", type_list.text())

    def _is_current(self, name: str, found: str) -> None:
        stored = (DATA / name).read_text("utf-8")
        self.assertEqual(stored.splitlines()[0], found.splitlines()[0], "run `just classes`")
        different = set(stored.splitlines()) ^ set(found.splitlines())
        self.assertEqual((different, stored), (set(), found), "run `just classes`")


if __name__ == "__main__":
    unittest.main()

"""The classes by which orch checks specs are those of the installed transformers. Skipped where that is absent."""

from __future__ import annotations

import importlib.util
import unittest
from pathlib import Path

LIST = Path(__file__).resolve().parents[2] / "src/spec/data/transformers-classes.txt"


@unittest.skipUnless(
    all(importlib.util.find_spec(name) for name in ("torch", "transformers")), "torch is not installed"
)
class ClassList(unittest.TestCase):
    def test_it_is_current(self) -> None:
        from tools import class_list

        stored = LIST.read_text("utf-8")
        self.assertEqual(stored.splitlines()[0], class_list.text().splitlines()[0], "run `just classes`")
        different = set(stored.splitlines()) ^ set(class_list.text().splitlines())
        self.assertEqual((different, stored), (set(), class_list.text()), "run `just classes`")


if __name__ == "__main__":
    unittest.main()

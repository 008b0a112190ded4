"""CI's sample of the zoo: two rows a commit, and in time all of them."""

from __future__ import annotations

import hashlib
import unittest

from tools.sample import rows, sample


class Sample(unittest.TestCase):
    def test_some_hundred_commits_cover_a_large_family(self) -> None:
        names = [f"model-{number}" for number in range(150)]
        drawn: set[str] = set()
        for number in range(900):
            commit = hashlib.sha1(str(number).encode()).hexdigest()
            of_commit = sample(names, commit)
            self.assertEqual(len(set(of_commit)), 2)
            self.assertEqual(of_commit, sample(names[::-1], commit))
            drawn.update(of_commit)
        self.assertEqual(drawn, set(names))

    def test_rows_are_keys_of_the_second_level(self) -> None:
        self.assertEqual(rows("models:\n  # one\n  bert:\n    class: X\n  two.5:\n    a:\n"), ["bert", "two.5"])
        self.assertEqual(sample(["only"], "c0ffee"), ["only"])

"""Work in a process of its own: its result comes back, and its crash is an answer."""

from __future__ import annotations

import subprocess
import sys
import unittest

from orch_py.worker import family
from tests.support import PACKAGE


def said(lines: str) -> str:
    """What a program prints that has no thread, as a test process may have some."""
    program = f"import os, signal\nfrom orch_py.worker import isolated\n{lines}"
    done = subprocess.run([sys.executable, "-c", program], cwd=PACKAGE, capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


@unittest.skipUnless(family.LINUX, "nothing is isolated elsewhere")
class Isolated(unittest.TestCase):
    def test_a_result_comes_back_from_another_process(self) -> None:
        self.assertEqual(said("print(isolated.call(os.getpid) != os.getpid())"), "True\n")

    def test_a_crash_is_told_by_its_signal(self) -> None:
        self.assertIn("Crashed: it was ended by SIGFPE", said("isolated.call(lambda: os.kill(os.getpid(), 8))"))

    def test_an_error_is_no_result(self) -> None:
        self.assertIn("Crashed: it ended with code 1 and no answer", said("isolated.call(lambda: 1 / 0)"))

    def test_whoever_has_threads_works_by_itself(self) -> None:
        lines = "import threading, time\nthreading.Thread(target=time.sleep, args=(2,)).start()\n"
        self.assertEqual(said(lines + "print(isolated.call(os.getpid) == os.getpid())"), "True\n")


if __name__ == "__main__":
    unittest.main()

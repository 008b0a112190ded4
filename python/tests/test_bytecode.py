"""What a job had to compile is loaded by the next one."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import types
import unittest
import venv
from pathlib import Path
from unittest import mock

from orch_py.worker import bytecode
from tests.support import Worker, eventually


class Bytecode(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def module(self, text: str, folder: Path | None = None) -> Path:
        file = (folder or self.root) / "needed.py"
        file.write_text(text)
        return file

    def test_only_modules_without_bytecode_are_listed(self) -> None:
        file = self.module("VALUE = 1")
        spec = importlib.util.spec_from_file_location("needed", file)
        assert spec is not None and spec.cached is not None
        with mock.patch.dict(
            sys.modules, {"needed": importlib.util.module_from_spec(spec), "odd": types.ModuleType("odd")}
        ):
            self.assertIn(str(file), bytecode.uncached({"odd"}))
            self.assertNotIn(str(file), bytecode.uncached({"needed"}))
            os.waitpid(bytecode.start_compiling([str(file), str(self.root / "absent.py")]), 0)
            self.assertTrue(Path(spec.cached).is_file())
            self.assertNotIn(str(file), bytecode.uncached(set()))

    def test_nothing_outside_the_environment_is_compiled(self) -> None:
        file = self.module("VALUE = 1")
        home = self.root / "home"
        home.mkdir()
        own = self.module("VALUE = 2", home)
        (home / "link.py").symlink_to(file)
        (home / "text.txt").write_text("")
        listed = [str(file), str(own), str(home / "link.py"), str(home / "text.txt"), str(home / "no.py"), 7, [None]]
        with mock.patch.object(sys, "prefix", str(home)):
            self.assertEqual(bytecode.of_environment(listed), [str(own)])

    def test_a_file_that_is_no_python_is_left(self) -> None:
        file = self.module("VALUE =")
        _, status = os.waitpid(bytecode.start_compiling([str(file)]), 0)
        self.assertEqual(status, 0)
        self.assertEqual(list(self.root.glob("**/*.pyc")), [])

    def test_a_server_compiles_what_a_confined_job_imported(self) -> None:
        venv.create(self.root / "env", symlinks=True)
        site = next((self.root / "env").glob("lib/python*/site-packages"))
        file = self.module("VALUE = 3", site)
        worker = Worker(python=self.root / "env/bin/python")
        self.addCleanup(worker.close)
        worker.start(1, "load", params={"module": "needed"})
        self.assertEqual(worker.output(1)["facts"], {"value": 3})
        self.assertEqual([answer["event"] for answer in worker.heard], ["started", "result"])
        cached = Path(importlib.util.cache_from_source(str(file)))
        eventually(cached.is_file, "it is compiled")
        made = cached.stat().st_mtime_ns
        worker.start(2, "load", params={"module": "needed"})
        self.assertEqual(worker.output(2)["facts"], {"value": 3})
        self.assertEqual(cached.stat().st_mtime_ns, made)

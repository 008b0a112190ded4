"""Bytecode of modules that jobs import: installers leave none, and a confined job cannot write any.

    python -m orch_py.worker.bytecode torch transformers      # imports them, as a server does, and keeps their bytecode

A job lists what it had to compile. Its server, which is not confined, has those files compiled by a process of its own
and keeps the bytecode where Python looks for it, so that the next job only loads it. Nothing of the job's is believed:
the files must be the environment's, and the compiler reads them anew.
"""

from __future__ import annotations

import os
import py_compile
import sys
from collections.abc import Container, Iterable
from pathlib import Path

from orch_py.worker import family

# More modules than any job imports.
_MOST = 10_000
# Jobs go first.
_NICE = 10


def uncached(known: Container[str]) -> list[str]:
    """Files of modules that are imported by now, are not among the `known` names, and have no bytecode."""
    found = []
    for name, module in list(sys.modules.items()):
        if name in known:
            continue
        spec = getattr(module, "__spec__", None)
        source, cached = getattr(spec, "origin", None), getattr(spec, "cached", None)
        if isinstance(source, str) and isinstance(cached, str) and not os.path.exists(cached):
            found.append(source)
    return found


def of_environment(files: Iterable[object]) -> list[str]:
    """Those files that are modules of this interpreter's environment."""
    home = os.path.realpath(sys.prefix) + os.sep
    names = [file for file in list(files)[:_MOST] if isinstance(file, str) and file.endswith(".py")]
    return [file for file in names if os.path.realpath(file).startswith(home) and Path(file).is_file()]


def start_compiling(files: list[str]) -> int:
    """Starts a process that compiles the files one after another; gives its number."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setpgid(0, 0)
        family.die_with_parent()
        os.nice(_NICE)
        for file in files:
            try:
                py_compile.compile(file, doraise=True)
            except (OSError, py_compile.PyCompileError):
                # The environment is read-only, or the file is no Python of this version: every job compiles it.
                continue
    finally:
        os._exit(0)


def main(names: list[str]) -> None:
    from orch_py.worker import server

    server.forbid_telemetry()
    server.ask_no_gpu()
    server.preload(names)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Work in a process of its own, so that a native library that crashes in it ends the work and not the job.

Where the caller has threads, the work is done in its own process after all: they are not in a child, which would wait
for them for ever, as it does for those that torch computes with. Importing starts none.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

from orch_py.worker import family


class Crashed(Exception):
    """The process died; the message says how."""


def call(work: Callable[[], Any]) -> Any:
    """What `work` returns, which has to be picklable. Raises `Crashed` where its process died without an answer."""
    if not family.LINUX or len(os.listdir("/proc/self/task")) > 1:
        return work()
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _answer(work, writer, parent)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        answer = answers.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        raise Crashed(f"it was ended by {signal.Signals(os.WTERMSIG(status)).name}")
    if not answer:
        raise Crashed(f"it ended with code {os.waitstatus_to_exitcode(status)} and no answer")
    return pickle.loads(answer)


def _answer(work: Callable[[], Any], writer: int, parent: int) -> None:
    """The child. Never returns: after a fork the stack below is a copy."""
    code = 1
    try:
        family.die_with_parent()
        if os.getppid() == parent:
            answer = pickle.dumps(work())
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(answer)
            code = 0
    except BaseException:  # noqa: BLE001 - the last resort: the caller reads the code.
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

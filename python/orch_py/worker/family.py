"""Processes and what descends from them: ended for certain, whatever session or group they went to.

On Linux a process that its parent left behind goes to the nearest ancestor that takes in orphans. Every job does so,
and the server too: so all that a job started stands below it while it lives, and becomes the server's own child when it
has ended. Elsewhere only groups are known, and a process that leaves its group is not seen.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Container
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# How long processes that are killed may take to be gone, and new ones to stop appearing, in seconds.
_DYING = 2.0
LINUX = sys.platform == "linux"


def adopt_orphans() -> None:
    if LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """Lets the kernel end this process when its parent dies by a signal that it cannot handle."""
    if LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def end(leader: int) -> None:
    """Kills a leader that is not reaped, its group, and all below it.

    The leader is halted first, so that what loses its parent stays below it.
    """
    if LINUX:
        _signal(leader, signal.SIGSTOP)
        deadline = time.monotonic() + _DYING
        while below := [pid for pid in _below(leader) if _alive(pid)]:
            for pid in below:
                _signal(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                break
            time.sleep(0.0005)
    signal_group(leader, signal.SIGKILL)


def signal_group(leader: int, number: int) -> None:
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        # The child has not called setsid yet, or nothing of its group is left.
        _signal(leader, number)
    except PermissionError:
        # macOS says this of a group that holds only a zombie.
        pass


def sweep(known: Container[int]) -> None:
    """Ends and reaps the children of this process that are not known: what leaders that have ended left behind."""
    deadline = time.monotonic() + _DYING
    while LINUX and time.monotonic() < deadline:
        strays = [pid for pid, parent in _parents() if parent == os.getpid() and pid not in known]
        if not strays:
            return
        for pid in strays:
            _signal(pid, signal.SIGKILL)
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                pass


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _below(leader: int) -> list[int]:
    parents = _parents()
    found = [leader]
    for above in found:
        found.extend(pid for pid, parent in parents if parent == above)
    return found[1:]


def _parents() -> list[tuple[int, int]]:
    """Every process with its parent."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := _stat(name)):
            found.append((int(name), int(stat[1])))
    return found


def _alive(pid: int) -> bool:
    stat = _stat(str(pid))
    return stat is not None and stat[0] not in ("Z", "X")


def _stat(pid: str) -> list[str] | None:
    """State, parent, and what follows."""
    try:
        text = Path("/proc", pid, "stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # The name before it may hold anything, but ends with the last parenthesis.
    return text.rpartition(")")[2].split()

"""Runs one process and says how long it took and how much memory it held. Knows of no tool."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType


class TooLong(Exception):
    """The process was ended because its time limit passed."""


class Failed(Exception):
    """The process ended with an error, or did something else than it was started for."""


@dataclass(frozen=True)
class Run:
    seconds: float
    peak_bytes: int
    """Peak resident memory of the largest process of the tool, its children included."""
    floor_bytes: int
    """What `true` is charged when it is started in the same way: a `peak_bytes` near it only says "less than this".

    Linux charges a process with the memory of the one that started it, here the Python interpreter.
    """
    floor_seconds: float
    """How long `true` took."""


def timed(argv: list[str], *, cwd: Path, env: Mapping[str, str], log: Path, limit: float | None = None) -> Run:
    """Runs `argv` to its end; its output goes to `log`. An interruption or the limit ends its whole session."""
    floor_seconds, floor = _run(["true"], cwd, env, log, None)
    seconds, peak = _run(argv, cwd, env, log, limit)
    return Run(seconds, peak, floor, floor_seconds)


def _run(argv: list[str], cwd: Path, env: Mapping[str, str], log: Path, limit: float | None) -> tuple[float, int]:
    with log.open("wb") as said:
        start = time.perf_counter()
        child = subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
        try:
            with _deadline(limit):
                _, status, usage = os.wait4(child.pid, 0)
        except BaseException:
            _end(child)
            raise
        seconds = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise Failed(f"`{' '.join(argv)}` ended with {child.returncode}: {last_words(log)}")
    return seconds, usage.ru_maxrss * 1024


def last_words(log: Path, lines: int = 5) -> str:
    return " / ".join(log.read_text(errors="replace").split("\n")[-lines - 1 :]).strip(" /") or "it printed nothing"


@contextlib.contextmanager
def _deadline(limit: float | None) -> Iterator[None]:
    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit or 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Asks first, so that the tool can end the steps that it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=10)
            return

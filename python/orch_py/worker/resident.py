"""The fork server behind `orch worker daemon`: imports the packages of an environment, and forks a server a caller.

    ORCH_LISTEN_FD=3 python -m orch_py.worker.server

The daemon sends one message for each caller over a socket, with four descriptors: the caller's orders, log and
answers, and a connection to the caller. The fork takes over all that the caller would have given a process of its own:
environment, folder, limits. It serves until the caller's orders end, or the caller is gone.

This process imports and never computes. A library that has computed holds threads, which a fork does not have: PyTorch
waits for them for ever.
"""

from __future__ import annotations

import json
import os
import resource
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from orch_py.worker import family

# Of the messages between daemon and fork server; `src/worker/resident.rs` has the same number.
PROTOCOL = 1
_LONGEST_MESSAGE = 1 << 20
_DESCRIPTORS = 4
# A server whose caller has gone ends by itself within so many seconds, or is ended.
_LEAVING = 5.0

Serve = Callable[[int], int]


@dataclass
class Fork:
    """A server at work, and the caller that it works for."""

    pid: int
    caller: socket.socket
    kill_at: float | None = None


class ForkServer:
    def __init__(self, control: socket.socket, serve: Serve) -> None:
        self._control = control
        self._serve = serve
        self._forks: dict[int, Fork] = {}
        self._ended = 0
        self._selector = selectors.DefaultSelector()
        self._signals: tuple[int, int] = (-1, -1)

    def listen(self) -> None:
        """Returns when the daemon is gone."""
        self._signals = wake, waker = os.pipe()
        for descriptor in self._signals:
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(self._control, selectors.EVENT_READ, "control")
        self._selector.register(wake, selectors.EVENT_READ, "signals")
        try:
            while self._turn(wake):
                self._end_late()
        finally:
            for fork in self._forks.values():
                family.end(fork.pid)

    def _turn(self, wake: int) -> bool:
        for key, _ in self._selector.select(self._patience()):
            if key.data == "control":
                if not self._take():
                    return False
            elif key.data == "signals":
                os.read(wake, 4096)
                self._reap()
            elif self._forks.get(key.data.pid) is key.data:
                # A caller says nothing: it is gone.
                self._selector.unregister(key.data.caller)
                key.data.kill_at = time.monotonic() + _LEAVING
        return True

    def _patience(self) -> float | None:
        deadlines = [fork.kill_at for fork in self._forks.values() if fork.kill_at is not None]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _end_late(self) -> None:
        for fork in self._forks.values():
            if fork.kill_at is not None and time.monotonic() >= fork.kill_at:
                fork.kill_at = None
                family.end(fork.pid)

    def _take(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._control, _LONGEST_MESSAGE, _DESCRIPTORS)
        if not data:
            return False
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        orders, log, results, connection = descriptors
        caller = socket.socket(fileno=connection)
        try:
            self._fork(json.loads(data), orders, log, results, caller)
        finally:
            for descriptor in (orders, log, results):
                os.close(descriptor)
        return True

    def _fork(self, start: dict[str, Any], orders: int, log: int, results: int, caller: socket.socket) -> None:
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                self._forget()
                _become(start, parent, orders, log)
                # A caller that hears this can end the server; one that cannot hear it has another by now.
                caller.send(json.dumps({"forked": os.getpid()}).encode(), socket.MSG_NOSIGNAL)
                caller.close()
                code = self._serve(results)
            except BrokenPipeError:
                # The caller is gone, and the jobs were killed on the way here.
                pass
            except BaseException:  # noqa: BLE001 - never unwinds into the fork server, whose stack this is a copy of.
                traceback.print_exc()
            finally:
                os._exit(code)
        fork = Fork(pid, caller)
        self._forks[pid] = fork
        self._selector.register(caller, selectors.EVENT_READ, fork)

    def _forget(self) -> None:
        """Drops, in a fresh fork, all by which it could disturb the fork server, the daemon or other callers."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for descriptor in self._signals:
            os.close(descriptor)
        self._control.close()
        for fork in self._forks.values():
            fork.caller.close()

    def _reap(self) -> None:
        for fork in list(self._forks.values()):
            pid, status = os.waitpid(fork.pid, os.WNOHANG)
            if pid == 0:
                continue
            del self._forks[fork.pid]
            # What it left behind goes before the caller hears of its end.
            family.sweep(self._forks)
            if fork.caller in self._selector.get_map():
                self._selector.unregister(fork.caller)
            _tell(fork.caller, {"ended": _words(status)})
            fork.caller.close()
            self._ended += 1
            _tell(self._control, {"ended": self._ended})


def listen(number: int, serve: Serve, preload: Callable[[list[str]], None]) -> NoReturn:
    """Serves the daemon at the other end of a descriptor until that closes it."""
    control = socket.socket(fileno=number)
    control.set_inheritable(False)
    first = json.loads(control.recv(_LONGEST_MESSAGE) or b"{}")
    if first.get("protocol") != PROTOCOL:
        sys.exit(f"the daemon speaks protocol {first.get('protocol')}, and this fork server {PROTOCOL}")
    preload(first["preload"])
    _tell(control, {"ended": 0})
    ForkServer(control, serve).listen()
    sys.exit(0)


def _become(start: dict[str, Any], parent: int, orders: int, log: int) -> None:
    """Gives this process what the caller would have given one of its own."""
    os.setpgid(0, 0)
    family.die_with_parent()
    family.adopt_orphans()
    # The fork server may have died between the fork and the line above, and then no signal ever comes.
    if os.getppid() != parent:
        os._exit(1)
    os.dup2(orders, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(orders)
    os.close(log)
    os.environ.clear()
    os.environ.update(start["env"])
    os.umask(start["umask"])
    if os.getpriority(os.PRIO_PROCESS, 0) != start["nice"]:
        os.setpriority(os.PRIO_PROCESS, 0, start["nice"])
    for kind, (soft, hard) in enumerate(start["limits"]):
        if resource.getrlimit(kind) != (soft, hard):
            resource.setrlimit(kind, (soft, hard))
    os.chdir(start["cwd"])


def _words(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"signal: {number} ({signal.Signals(number).name})"
    return f"exit status: {os.WEXITSTATUS(status)}"


def _tell(peer: socket.socket, message: dict[str, Any]) -> None:
    """A peer that is gone, or does not read, misses the message; the loop finds out."""
    try:
        peer.send(json.dumps(message).encode(), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    except OSError:
        pass

"""The long-lived worker: imports the packages of its environment once, then forks for each job.

    python -m orch_py.worker.server

Orders come as JSON lines on stdin and answers leave as JSON lines on the descriptor numbered by ORCH_RESULT_FD; stdout
and stderr are the log. Several jobs run at once, each in a process group of its own. When stdin ends, or on SIGTERM,
every job is killed and the server exits. What the jobs do, it does not know. A job that is cancelled is asked to end,
and killed after the grace that orch gives it.

It has one thread and waits in one place (`selectors`): a fork from a threaded program may inherit a lock that nobody
will ever release.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import selectors
import signal
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any, NoReturn

from orch_py.worker import bytecode, child, family, resident
from orch_py.worker.protocol import STATUSES, Op, Output

# Linux counts ru_maxrss in KiB, macOS in bytes.
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024
_READ_SIZE = 1 << 16
# Bytes; a longer line is junk.
_LONGEST_LINE = 16 << 20
# So often, in seconds, a job's progress is passed on: a person reads it.
_PROGRESS_EVERY = 0.05
# So much is read of one job before the others have their turn.
_READS_PER_TURN = 64


class BadRequest(Exception):
    """The line cannot be answered, for it has no usable id: orch and this package disagree on the protocol."""


@dataclass
class Running:
    """A live child. `pid` is also its process group."""

    id: Any
    pid: int
    pipe: int
    pending: bytes = b""
    output: dict[str, Any] | None = None
    # It broke the protocol, and is not listened to any more.
    broken: bool = False
    told: float = 0.0
    # When a job that was asked to end is killed.
    kill_at: float | None = None


class Server:
    def __init__(self, ops: dict[str, Op], results: int) -> None:
        self._ops = ops
        self._results = results
        self._jobs: dict[Any, Running] = {}
        self._orders = b""
        self._first = True
        self._stop = False
        self._selector = selectors.DefaultSelector()
        self._signals: tuple[int, int] = (-1, -1)
        # The process that compiles what jobs found without bytecode, what is next for it, and all that jobs listed.
        self._compiler: int | None = None
        self._uncached: list[str] = []
        self._listed: set[str] = set()

    def serve(self) -> int:
        self._signals = wake, waker = os.pipe()
        for descriptor in self._signals:
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        # A handler must exist for the wake-up byte to be written; the work is done in the loop.
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        self._selector.register(0, selectors.EVENT_READ, "orders")
        self._selector.register(wake, selectors.EVENT_READ, "signals")
        try:
            while not self._stop:
                for key, _ in self._selector.select(self._patience()):
                    if key.data == "orders":
                        self._read_orders()
                    elif key.data == "signals":
                        self._read_signals(wake)
                    # An event of the same batch may have ended the job: its descriptor is closed, or another's by now.
                    elif self._jobs.get(key.data.id) is key.data:
                        self._read_child(key.data)
                self._kill_late()
        finally:
            self._kill_all()
        return 0

    def _patience(self) -> float | None:
        deadlines = [job.kill_at for job in self._jobs.values() if job.kill_at is not None]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _kill_late(self) -> None:
        for job in self._jobs.values():
            if job.kill_at is not None and time.monotonic() >= job.kill_at:
                job.kill_at = None
                family.end(job.pid)

    def _read_orders(self) -> None:
        data = os.read(0, _READ_SIZE)
        if not data:
            self._stop = True
        self._orders += data
        *lines, self._orders = self._orders.split(b"\n")
        for line in lines:
            if line.strip():
                self._obey(line)

    def _obey(self, line: bytes) -> None:
        try:
            order = json.loads(line)
        except ValueError as error:
            raise BadRequest(f"BUG: not JSON ({error}): {line[:200]!r}") from error
        first, self._first = self._first, False
        if "preload" in order:
            if not first:
                raise BadRequest("BUG: `preload` must be the first line")
            preload(order["preload"])
        elif "cancel" in order:
            # A job that just ended may be cancelled by an orch that has not read so yet: not an error.
            if job := self._jobs.get(order["cancel"]):
                self._cancel(job, float(order.get("grace", 0)))
        else:
            missing = [name for name in ("id", "op", "out", "log") if name not in order]
            if missing:
                raise BadRequest(f"BUG: an order without {', '.join(missing)}: {line[:200]!r}")
            if order["id"] in self._jobs:
                raise BadRequest(f"BUG: job {order['id']} is already running")
            self._start(order)

    def _cancel(self, job: Running, grace: float) -> None:
        if grace > 0:
            family.signal_group(job.pid, signal.SIGTERM)
            job.kill_at = time.monotonic() + grace
        else:
            family.end(job.pid)

    def _start(self, order: dict[str, Any]) -> None:
        reader, writer = os.pipe()
        server = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            try:
                self._forget(reader)
                child.run(order, self._ops, writer, server)
            finally:
                # Never unwinds: the `finally` of `serve`, run in the child, would kill the server's other jobs.
                os._exit(1)
        os.close(writer)
        os.set_blocking(reader, False)
        job = Running(order["id"], pid, reader)
        self._jobs[job.id] = job
        self._selector.register(reader, selectors.EVENT_READ, job)

    def _forget(self, reader: int) -> None:
        """Drops, in a fresh child, everything by which it could disturb the server or the other jobs."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        self._selector.close()
        os.close(self._results)
        for descriptor in (reader, *self._signals):
            os.close(descriptor)
        for job in self._jobs.values():
            os.close(job.pipe)

    def _read_child(self, job: Running) -> None:
        if not self._drain(job, _READS_PER_TURN) or job.broken:
            self._selector.unregister(job.pipe)

    def _drain(self, job: Running, reads: int) -> bool:
        """Takes what the pipe holds now; false once it has ended."""
        for _ in range(reads):
            try:
                data = os.read(job.pipe, _READ_SIZE)
            except BlockingIOError:
                return True
            if not data:
                if job.pending:
                    self._break(job, f"half a line: {job.pending[:200]!r}")
                return False
            *lines, job.pending = (job.pending + data).split(b"\n")
            for line in lines:
                self._hear(job, line)
            if len(job.pending) > _LONGEST_LINE:
                self._break(job, f"a line of more than {_LONGEST_LINE} bytes")
            if job.broken:
                return True
        return True

    def _hear(self, job: Running, line: bytes) -> None:
        message = _understood(line)
        if job.broken:
            return
        if message is None:
            # Only an op or a library that writes to a descriptor it does not own can do this.
            self._break(job, repr(line[:200]))
        elif job.output is not None:
            self._break(job, f"a line after its answer: {line[:200]!r}")
        elif "output" in message:
            job.output = message["output"]
        elif "uncached" in message:
            files = bytecode.of_environment(message["uncached"])
            self._uncached += [file for file in files if file not in self._listed]
            self._listed.update(files)
            self._compile()
        elif "started" in message:
            self._tell({"id": job.id, "event": "started", "pid": job.pid})
        elif "download" in message:
            self._tell({"id": job.id, "event": "download", "begins": message["download"]})
        elif (now := time.monotonic()) - job.told >= _PROGRESS_EVERY:
            job.told = now
            self._tell({"id": job.id, "event": "progress", "text": message["progress"]})

    def _break(self, job: Running, what: str) -> None:
        """What such a job says cannot be trusted, even if an answer was among it."""
        job.broken, job.pending = True, b""
        job.output = Output("error", f"it wrote junk to the descriptor for its answer: {what}").to_json()
        family.end(job.pid)

    def _read_signals(self, wake: int) -> None:
        numbers = os.read(wake, _READ_SIZE)
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self._stop = True
        for job in list(self._jobs.values()):
            if ended := _ended(job.pid):
                self._finish(job, *ended)
        if self._compiler and os.waitpid(self._compiler, os.WNOHANG)[0]:
            self._compiler = None
            self._compile()

    def _compile(self) -> None:
        if self._uncached and self._compiler is None:
            files, self._uncached = self._uncached, []
            self._compiler = bytecode.start_compiling(files)

    def _known(self) -> set[int]:
        """The children of this process that are not to be swept away."""
        return {job.pid for job in self._jobs.values()} | ({self._compiler} if self._compiler else set())

    def _finish(self, job: Running, status: int, peak_rss: int) -> None:
        if not job.broken:
            self._drain(job, _READS_PER_TURN)
        if job.pipe in self._selector.get_map():
            self._selector.unregister(job.pipe)
        os.close(job.pipe)
        del self._jobs[job.id]
        family.sweep(self._known())
        if job.output is not None:
            job.output["peak_rss_bytes"] = peak_rss
            self._tell({"id": job.id, "event": "result", "output": job.output})
        elif os.WIFSIGNALED(status):
            self._tell({"id": job.id, "event": "died", "signal": os.WTERMSIG(status), "code": None})
        else:
            self._tell({"id": job.id, "event": "died", "signal": None, "code": os.WEXITSTATUS(status)})

    def _tell(self, answer: dict[str, Any]) -> None:
        data = (json.dumps(answer) + "\n").encode()
        while data:
            data = data[os.write(self._results, data) :]

    def _kill_all(self) -> None:
        for job in self._jobs.values():
            family.end(job.pid)
        for job in self._jobs.values():
            os.waitpid(job.pid, 0)
        family.sweep(())


def _understood(line: bytes) -> dict[str, Any] | None:
    """A job's message, if it is one."""
    try:
        message: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match message:
        case {"started": int()} | {"progress": str()} | {"download": bool()} | {"uncached": list()}:
            known = True
        case {"output": {"status": str() as status, "facts": dict()}}:
            known = status in STATUSES
        case _:
            known = False
    return message if known else None


def _ended(pid: int) -> tuple[int, int] | None:
    """Wait status and peak memory of a child that has ended, with all that it left behind killed; else nothing."""
    if hasattr(os, "waitid"):
        # WNOWAIT leaves a zombie, so that the group's id cannot be given to anyone else before the kill.
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        family.signal_group(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
    else:
        # macOS has no waitid in Python 3.11: the kill comes an instant after the id is free.
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if done == 0:
            return None
        family.signal_group(pid, signal.SIGKILL)
    return status, usage.ru_maxrss * _RSS_UNIT


def forbid_telemetry() -> None:
    """Makes the import of OpenVINO's usage reporter fail, which openvino and nncf expect and then do without it.

    It calls home from a thread that it starts while openvino is imported; a child forked while that thread held a lock
    waits for ever. And whoever runs a test has not agreed to be reported on.
    """
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"


def ask_no_gpu() -> None:
    """Lets PyTorch ask NVML whether there is a GPU: asking CUDA would start its driver, which no fork survives.

    Something imports that asks, and every job on a GPU fails. Children ask CUDA itself.
    """
    os.environ[child.NO_CUDA] = "1"


def preload(names: list[str]) -> None:
    """Imports `names` so that every fork has them. A failure is reported here, and again by the job that needs it."""
    # Most of what an import makes stays: collections in between find nothing, and take a sixth of its time.
    gc.disable()
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - a package may raise anything while it is imported.
            print(f"preload of `{name}` failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    # A collection in a fork would otherwise visit all that was imported, and copy the pages that it marks: 0.3 s each.
    gc.collect()
    gc.freeze()
    gc.enable()
    if threads := [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]:
        print(f"the preload left threads, and a fork may wait for their locks: {threads}", file=sys.stderr, flush=True)


def main(ops: dict[str, Op]) -> NoReturn:
    if not hasattr(os, "fork"):
        sys.exit("the Python worker forks for each job, which this operating system cannot do; run orch under WSL")
    listening = os.environ.pop("ORCH_LISTEN_FD", None)
    number = os.environ.pop("ORCH_RESULT_FD", None)
    if number is None and listening is None:
        sys.exit("ORCH_RESULT_FD is not set: this server is started by orch, which passes a descriptor for the answers")
    forbid_telemetry()
    ask_no_gpu()
    family.adopt_orphans()
    if number is None:
        assert listening is not None
        resident.listen(int(listening), lambda results: Server(ops, results).serve(), preload)
    results = int(number)
    os.set_inheritable(results, False)
    try:
        sys.exit(Server(ops, results).serve())
    except BadRequest as error:
        sys.exit(str(error))
    except BrokenPipeError:
        # orch is gone, and its jobs were killed on the way here.
        sys.exit(1)


if __name__ == "__main__":
    from orch_py.ops import OPS

    main(OPS)

"""A server whose ops misbehave in the ways that real ones do. Started by the tests as a process of its own."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from orch_py.worker.protocol import Job, Output, Refused
from orch_py.worker.server import main


def echo(job: Job) -> Output:
    job.progress("half-way")
    inputs = {name: str(path) for name, path in job.inputs.items()}
    device = os.environ.get("CUDA_VISIBLE_DEVICES")
    return Output(
        facts={"params": job.params, "inputs": inputs, "pid": os.getpid(), "group": os.getpgid(0), "device": device}
    )


def reach(job: Job) -> Output:
    """Writes to files and connects to a port, and says what came of it."""
    files = []
    for path in job.params["files"]:
        try:
            Path(path).write_text("y")
            files.append("written")
        except OSError as error:
            files.append(type(error).__name__)
    try:
        socket.create_connection(("127.0.0.1", job.params["port"])).close()
        port = "connected"
    except OSError as error:
        port = type(error).__name__
    return Output(facts={"files": files, "port": port})


def collected(job: Job) -> Output:
    return Output(facts={"frozen": gc.get_freeze_count(), "visited": len(gc.get_objects())})


def noise(job: Job) -> Output:
    print('{"id":1,"event":"result","output":{"status":"ok"}}')
    subprocess.run([sys.executable, "-c", "print('from a child process')"], check=True)
    ctypes.CDLL(None).puts(b"from native code")
    ctypes.CDLL(None).fflush(None)
    os.write(2, b"raw stderr\n")
    return Output(facts={"stdin": sys.stdin.read(), "descriptor": os.environ.get("ORCH_RESULT_FD")})


def crash(job: Job) -> Output:
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError("unreachable")


def vanish(job: Job) -> Output:
    os._exit(9)


def fetch(job: Job) -> Output:
    """Sleeps for so many seconds as a download does, then for so many as work does."""
    with job.downloading():
        time.sleep(job.required("download"))
    time.sleep(job.required("work"))
    return Output()


def sleep(job: Job) -> Output:
    """Sleeps beside a process of its own, whose id it leaves behind."""
    below = subprocess.Popen(["sleep", "60"])
    (job.out / "pids.tmp").write_text(f"{os.getpid()} {below.pid}")
    (job.out / "pids.tmp").rename(job.out / "pids")
    time.sleep(60)
    return Output()


def orphan(job: Job) -> Output:
    """Ends well but leaves a process that holds the pipe."""
    return Output(facts={"below": subprocess.Popen(["sleep", "60"], close_fds=False).pid})


def escape(job: Job) -> Output:
    """Starts a process that leaves group and session by a double fork, as daemons do, and holds what it inherited."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            (job.out / "pid.tmp").write_text(str(os.getpid()))
            (job.out / "pid.tmp").rename(job.out / "pid")
            time.sleep(60)
        os._exit(0)
    while not (job.out / "pid").exists():
        time.sleep(0.01)
    if job.param("ends") == "by itself":
        os._exit(4)
    if job.param("ends") == "cancelled":
        time.sleep(60)
    return Output()


def junk(job: Job) -> Output:
    """Writes to the descriptor for its answer, which it finds by looking at all."""
    pipes = [fd for fd in range(3, 64) if _kind(fd).startswith("pipe:")]
    assert len(pipes) == 1, pipes
    data = (job.required("text") * job.param("times", 1)).encode()
    while data:
        data = data[os.write(pipes[0], data) :]
    os._exit(0)


def descriptors(job: Job) -> Output:
    return Output(facts={"kinds": [_kind(int(name)) for name in os.listdir("/proc/self/fd")]})


def _kind(descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return "nothing"


def tidy(job: Job) -> Output:
    """Cleans up when it is asked to end, and may stay all the same."""

    def clean(*_: object) -> None:
        (job.out / "clean").touch()
        if not job.param("stays"):
            os._exit(3)

    signal.signal(signal.SIGTERM, clean)
    (job.out / "ready").touch()
    while True:
        time.sleep(60)


def siblings(job: Job) -> Output:
    """The server's other children."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                stat = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
                if int(stat[1]) == os.getppid() and int(name) != os.getpid():
                    found.append(stat[:2])
    return Output(facts={"siblings": found})


def eat(job: Job) -> Output:
    block = []
    while True:
        block.append(bytearray(b"x") * (4 << 20))


def nap(job: Job) -> Output:
    time.sleep(0.5)
    return Output()


def memory(job: Job) -> Output:
    raise MemoryError


def native_memory(job: Job) -> Output:
    raise RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory: you tried 1 TB")


def wrapped_memory(job: Job) -> Output:
    try:
        raise MemoryError
    except MemoryError as error:
        raise RuntimeError("the export failed") from error


def fail(job: Job) -> Output:
    raise ValueError("first line\nsecond line")


def refuse(job: Job) -> Output:
    raise Refused("unsupported", "the shape 3x3 is not for this device", {"shape": [3, 3]})


def leave(job: Job) -> Output:
    sys.exit(3)


def unprintable(job: Job) -> Output:
    return Output(facts={"object": object()})


def report_usage(job: Job) -> Output:
    import openvino_telemetry

    return Output(facts={"module": openvino_telemetry.__name__})


def curious(job: Job) -> Output:
    from tests import curious

    now = os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK")
    return Output(facts={"while_importing": curious.WHILE_IMPORTING, "in_the_job": now})


def load(job: Job) -> Output:
    """Imports a module, as operations do that no job before needed."""
    module = importlib.import_module(job.required("module"))
    return Output(facts={"value": module.VALUE})


def large(job: Job) -> Output:
    """Uses 64 MiB and answers with more than a pipe holds."""
    block = bytearray(os.urandom(1)) * (64 << 20)
    return Output(facts={"text": "x" * (1 << 20), "block": len(block)})


if __name__ == "__main__":
    OPS = (
        echo, reach, noise, collected, crash, vanish, sleep, orphan, memory, native_memory, fail, refuse, leave,
        unprintable, large,
        report_usage, escape, junk, descriptors, tidy, siblings, wrapped_memory,
        eat, nap, curious, fetch, load,
    )  # fmt: skip
    main({op.__name__: op for op in OPS})

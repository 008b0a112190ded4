"""A server whose ops misbehave in the ways that real ones do. Started by the tests as a process of its own."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time

from orch_py.protocol import Job, Output, Refused
from orch_py.server import main


def echo(job: Job) -> Output:
    job.progress("half-way")
    inputs = {name: str(path) for name, path in job.inputs.items()}
    device = os.environ.get("CUDA_VISIBLE_DEVICES")
    return Output(
        facts={"params": job.params, "inputs": inputs, "pid": os.getpid(), "group": os.getpgid(0), "device": device}
    )


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


def memory(job: Job) -> Output:
    raise MemoryError


def native_memory(job: Job) -> Output:
    raise RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory: you tried 1 TB")


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


def large(job: Job) -> Output:
    """Uses 64 MiB and answers with more than a pipe holds."""
    block = bytearray(os.urandom(1)) * (64 << 20)
    return Output(facts={"text": "x" * (1 << 20), "block": len(block)})


if __name__ == "__main__":
    OPS = (
        echo, noise, crash, vanish, sleep, orphan, memory, native_memory, fail, refuse, leave, unprintable, large,
        report_usage,
    )  # fmt: skip
    main({op.__name__: op for op in OPS})

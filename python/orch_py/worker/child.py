"""One forked child: it runs one op and reports to the server how that ended.

The child speaks to its parent over a pipe of its own, one JSON object a line, so that nothing an op or a native
library prints can reach the protocol. It knows nothing of other jobs.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NoReturn

from orch_py.worker import bytecode, family
from orch_py.worker.confine import confine
from orch_py.worker.protocol import Job, Op, Output, Refused, listed, outcome_of

# Makes PyTorch ask NVML, and not CUDA, whether there is a GPU.
NO_CUDA = "PYTORCH_NVML_BASED_CUDA_CHECK"
# By which the Hub's client proves who asks.
_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN")


def run(request: dict[str, Any], ops: dict[str, Op], pipe: int, server: int) -> NoReturn:
    """Never returns and never unwinds into the server's stack: after a fork that stack is a copy."""
    code = 1
    try:
        _detach(server)
        _redirect(Path(request["log"]))
        # Which device it was given. No library has looked for one yet: the server only imports.
        os.environ.update(request.get("env") or {})
        os.environ.pop(NO_CUDA, None)
        _forget_tokens(request)
        _move_in()
        confine(request["sandbox"])
        imported = set(sys.modules)
        _send(pipe, {"started": os.getpid()})
        output = _perform(request, ops, pipe).to_json()
        _send(pipe, {"uncached": bytecode.uncached(imported)})
        _send(pipe, {"output": output})
        code = 0
    except BaseException:  # noqa: BLE001 - the last resort; the server reports the exit code.
        traceback.print_exc()
    finally:
        # Buffers are flushed by hand because _exit skips them; it also skips the tear-down of native libraries,
        # which crashes in some of them after the work is long done.
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass
        os._exit(code)


def _detach(server: int) -> None:
    os.setsid()
    family.die_with_parent()
    family.adopt_orphans()
    # The server may have died between the fork and the line above, and then no signal ever comes.
    if os.getppid() != server:
        os._exit(1)


def _forget_tokens(request: dict[str, Any]) -> None:
    """Keeps the Hub's token from jobs that fetch nothing there, among them all code that a folder of weights brings."""
    weights = (request.get("params") or {}).get("weights") or {}
    if isinstance(weights, dict) and weights.get("kind") == "hub":
        return
    for name in _TOKENS:
        os.environ.pop(name, None)


def _move_in() -> None:
    """Has temporary files go where the job's environment says; the server found another place while it imported."""
    tempfile.tempdir = None
    # Python that a folder of weights brings is copied before it is imported: for each job to a place of its own.
    os.environ["HF_MODULES_CACHE"] = modules = os.path.join(tempfile.gettempdir(), "modules")
    if transformers := sys.modules.get("transformers.dynamic_module_utils"):
        vars(transformers)["HF_MODULES_CACHE"] = modules


def _redirect(log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    os.close(sink)
    os.close(null)
    # Fresh objects: the server's own may hold half a line, or stand on something that is no descriptor at all.
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)


def _perform(request: dict[str, Any], ops: dict[str, Op], pipe: int) -> Output:
    try:
        op = ops.get(request["op"])
        if op is None:
            raise Refused("error", f"unknown op `{request['op']}`; known: {listed(sorted(ops))}")
        job = Job(
            params=request.get("params") or {},
            inputs={name: Path(path) for name, path in (request.get("inputs") or {}).items()},
            out=Path(request["out"]),
            progress=lambda text: _send(pipe, {"progress": text}),
            download=lambda begins: _send(pipe, {"download": begins}),
        )
        _limit_threads(job.param("threads"))
        output = op(job)
        _open_up(job.out)
        # An op's facts may hold what JSON cannot; found here, it is this op's error with a traceback in its log.
        json.dumps(output.to_json(), allow_nan=False)
        return output
    except SystemExit as error:
        traceback.print_exc()
        return Output("error", f"the op called sys.exit({error.code!r}) instead of returning")
    except Exception as error:  # noqa: BLE001 - every failure of an op is an outcome.
        traceback.print_exc()
        return outcome_of(error)


def _open_up(out: Path) -> None:
    """Gives files one mode: safetensors makes them private to the user, others follow the umask."""
    for path in out.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _limit_threads(threads: int | None) -> None:
    if threads is None:
        return
    # For libraries that are imported later; torch, imported by the server, has read it already.
    os.environ["OMP_NUM_THREADS"] = str(threads)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(int(threads))


def _send(pipe: int, message: dict[str, Any]) -> None:
    data = (json.dumps(message, allow_nan=False) + "\n").encode()
    while data:
        data = data[os.write(pipe, data) :]

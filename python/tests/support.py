"""Starts a server as orch does and speaks its protocol."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

PACKAGE = Path(__file__).resolve().parents[1]
PATIENCE = 20.0
# A BERT that is made in no time, and whose answers tell one input from another.
BERT = {
    "vocab_size": 32,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 16,
    "initializer_range": 0.2,
}


class Worker:
    """A running server. Answers are read until the one that is waited for has come."""

    def __init__(self, module: str = "tests.probe_server", python: str | Path = sys.executable) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.root = Path(self._folder.name)
        reader, writer = os.pipe()
        with (self.root / "server.log").open("wb") as log:
            self.process = subprocess.Popen(
                [python, "-m", module],
                cwd=PACKAGE,
                env=os.environ | {"ORCH_RESULT_FD": str(writer), "PYTHONDONTWRITEBYTECODE": "1"},
                pass_fds=[writer],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        os.close(writer)
        self._answers = os.fdopen(reader, encoding="utf-8")
        self.heard: list[dict[str, Any]] = []
        self.jobs = 0

    @classmethod
    def of_ops(cls, case: type[unittest.TestCase], *ops: str) -> Self:
        """The server as orch runs it, with these operations at hand, until the tests of `case` are done."""
        worker = cls("orch_py.worker.server")
        case.addClassCleanup(worker.close)
        worker.send({"preload": [f"orch_py.ops.{op}" for op in ops]})
        return worker

    def small_bert(self, inputs: dict[str, Any], control: dict[str, Any], **config: Any) -> Path:
        """The tree of a model, with what it answers to these inputs."""
        from orch_py.worker import trees

        folder = self.root / "bert-inputs"
        folder.mkdir()
        trees.write_tensors(folder, trees.INPUTS, inputs)
        trees.write_tensors(folder, trees.CONTROL_INPUTS, control)
        params = {"class": "BertForMaskedLM", "config": BERT | config, "seed": 0, "outputs": ["logits"]}
        output, model = self.do("materialise", params, inputs=folder)
        assert output["status"] == "ok", output["reason"]
        return model

    def send(self, order: dict[str, Any] | str) -> None:
        assert self.process.stdin is not None
        line = order if isinstance(order, str) else json.dumps(order)
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def start(self, number: int, op: str, **more: Any) -> Path:
        """Orders a job; gives the folder it writes into."""
        out = self.root / f"out-{number}"
        out.mkdir()
        sandbox = {"write": ["/"], "tcp": "allowed"}
        self.send({"id": number, "op": op, "out": str(out), "log": str(self.log(number)), "sandbox": sandbox, **more})
        return out

    def do(self, op: str, params: dict[str, Any], **inputs: Path) -> tuple[dict[str, Any], Path]:
        """Has the next job done; gives what it said in the end and the folder that it wrote into."""
        self.jobs += 1
        trees = {name: str(path) for name, path in inputs.items()}
        out = self.start(self.jobs, op, params=params, inputs=trees)
        return self.output(self.jobs), out

    def log(self, number: int) -> Path:
        return self.root / "logs" / f"{number}.log"

    def end(self, number: int) -> dict[str, Any]:
        """The final answer to job `number`."""
        while True:
            for answer in self.heard:
                if answer["id"] == number and answer["event"] not in ("started", "progress"):
                    return answer
            line = self._answers.readline()
            assert line, f"the server ended: {self.server_log()}"
            self.heard.append(json.loads(line))

    def output(self, number: int) -> dict[str, Any]:
        answer = self.end(number)
        assert answer["event"] == "result", answer
        output: dict[str, Any] = answer["output"]
        return output

    def server_log(self) -> str:
        return (self.root / "server.log").read_text("utf-8")

    def close(self) -> int:
        """Ends stdin, as orch does when it is done, and waits."""
        assert self.process.stdin is not None
        if not self.process.stdin.closed:
            self.process.stdin.close()
        code = self.process.wait(PATIENCE)
        self._answers.close()
        self._folder.cleanup()
        return code


def alive(pid: int) -> bool:
    """A process that has ended but was not waited for counts as ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    try:
        return not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def eventually(happened: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if result := happened():
            return result
        time.sleep(0.02)
    raise AssertionError(f"did not happen within {PATIENCE} s: {what}")

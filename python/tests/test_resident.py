"""The fork server, seen from the daemon's side: a fork is what its caller would have started, and goes with it."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

from orch_py.worker import resident
from tests.support import PACKAGE, PATIENCE, alive, eventually

LIMITS = [list(resource.getrlimit(kind)) for kind in range(16)]


class Called:
    """A server that was forked for this caller."""

    def __init__(self, control: socket.socket, root: Path, **start: Any) -> None:
        reader, self.orders = os.pipe()
        answers, writer = os.pipe()
        self.connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        log = os.open(root / "server.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        own = {"env": dict(os.environ), "cwd": str(root), "umask": 0o22, "nice": os.nice(0), "limits": LIMITS}
        message = json.dumps(own | start).encode()
        socket.send_fds(control, [message], [reader, log, writer, theirs.fileno()])
        for descriptor in (reader, log, writer):
            os.close(descriptor)
        theirs.close()
        self.answers = os.fdopen(answers, encoding="utf-8")
        self.root = root

    def word(self) -> dict[str, Any]:
        self.connection.settimeout(PATIENCE)
        word: dict[str, Any] = json.loads(self.connection.recv(1 << 16) or b"{}")
        return word

    def start(self, number: int, op: str, **more: Any) -> Path:
        out = self.root / f"out-{number}"
        out.mkdir()
        order = {"id": number, "op": op, "out": str(out), "log": str(self.root / f"log-{number}")}
        order |= {"sandbox": {"write": [str(out)], "tcp": "denied"}}
        os.write(self.orders, (json.dumps(order | more) + "\n").encode())
        return out

    def output(self) -> dict[str, Any]:
        for line in self.answers:
            answer: dict[str, Any] = json.loads(line)
            if answer["event"] == "result":
                output: dict[str, Any] = answer["output"]
                return output
        raise AssertionError((self.root / "server.log").read_text())

    def close(self) -> None:
        os.close(self.orders)


@unittest.skipUnless(sys.platform == "linux", "sockets that keep messages apart, and /proc")
class Resident(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with (self.root / "fork-server.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.probe_server"],
                cwd=PACKAGE,
                env=os.environ | {"ORCH_LISTEN_FD": str(theirs.fileno()), "PYTHONDONTWRITEBYTECODE": "1"},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        theirs.close()
        self.control.send(json.dumps({"protocol": resident.PROTOCOL, "preload": ["decimal"]}).encode())
        self.control.settimeout(PATIENCE)
        self.assertEqual(json.loads(self.control.recv(1 << 16)), {"ended": 0})
        self.addCleanup(self.process.wait)
        self.addCleanup(self.control.close)
        self.calls = 0

    def call(self, **start: Any) -> Called:
        self.calls += 1
        root = self.root / str(self.calls)
        root.mkdir()
        called = Called(self.control, root, **start)
        self.addCleanup(called.connection.close)
        self.addCleanup(called.answers.close)
        return called

    def test_a_fork_serves_and_ends_with_its_orders(self) -> None:
        first, second = self.call(), self.call()
        self.assertNotEqual(first.word(), second.word())
        for called in (first, second):
            called.start(1, "echo", params={"seed": 3})
            self.assertEqual(called.output()["facts"]["params"], {"seed": 3})
        first.close()
        self.assertEqual(first.word(), {"ended": "exit status: 0"})
        self.assertEqual(first.word(), {})
        self.assertEqual(json.loads(self.control.recv(1 << 16)), {"ended": 1})
        second.start(2, "echo")
        self.assertEqual(second.output()["status"], "ok")
        second.close()

    def test_a_fork_has_what_its_caller_would_have_given_it(self) -> None:
        limits = [list(pair) for pair in LIMITS]
        limits[resource.RLIMIT_NOFILE][0] = 99
        called = self.call(env={"CUDA_VISIBLE_DEVICES": "7"}, umask=0o77, nice=os.nice(0) + 3, limits=limits)
        pid = called.word()["forked"]
        self.assertEqual(os.readlink(f"/proc/{pid}/cwd"), str(called.root))
        self.assertEqual(os.getpriority(os.PRIO_PROCESS, pid), os.nice(0) + 3)
        self.assertEqual(resource.prlimit(pid, resource.RLIMIT_NOFILE)[0], 99)
        self.assertIn("Umask:\t0077", Path(f"/proc/{pid}/status").read_text())
        called.start(1, "echo")
        self.assertEqual(called.output()["facts"]["device"], "7")
        called.close()

    def test_a_job_holds_nothing_of_the_daemon_or_of_other_callers(self) -> None:
        other, called = self.call(), self.call()
        for each in (other, called):
            each.word()
        called.start(1, "descriptors")
        kinds = called.output()["facts"]["kinds"]
        self.assertFalse([kind for kind in kinds if kind.startswith("socket:")], kinds)
        self.assertEqual(len([kind for kind in kinds if kind.startswith("pipe:")]), 1, kinds)
        other.close()
        called.close()

    def test_a_caller_that_is_gone_takes_its_jobs_along(self) -> None:
        called = self.call()
        called.word()
        out = called.start(1, "sleep")
        eventually((out / "pids").exists, "it works")
        pids = [int(pid) for pid in (out / "pids").read_text().split()]
        # Somebody still holds its orders open.
        called.connection.close()
        eventually(lambda: not any(map(alive, pids)), "they are gone")
        called.close()

    def test_a_caller_that_was_gone_before_gets_no_job_done(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)
        called = self.call()
        out = called.start(1, "echo")
        called.connection.close()
        os.kill(self.process.pid, signal.SIGCONT)
        self.assertEqual(json.loads(self.control.recv(1 << 16)), {"ended": 1})
        self.assertEqual(called.answers.read(), "")
        self.assertEqual(list(out.iterdir()), [])

    def test_a_fork_server_that_dies_leaves_nobody(self) -> None:
        called = self.call()
        called.word()
        out = called.start(1, "sleep")
        eventually((out / "pids").exists, "it works")
        pids = [int(pid) for pid in (out / "pids").read_text().split()]
        self.process.kill()
        self.assertEqual(called.word(), {})
        eventually(lambda: not any(map(alive, pids[:1])), "they are gone")
        os.kill(pids[1], signal.SIGKILL)

    def test_another_protocol_is_refused(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(ours.close)
        self.addCleanup(theirs.close)
        ours.send(b'{"protocol": 0, "preload": []}')
        done = subprocess.run(
            [sys.executable, "-m", "tests.probe_server"],
            cwd=PACKAGE,
            env=os.environ | {"ORCH_LISTEN_FD": str(theirs.fileno())},
            pass_fds=[theirs.fileno()],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("the daemon speaks protocol 0, and this fork server 1", done.stderr)

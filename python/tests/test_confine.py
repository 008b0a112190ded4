"""What a forked job can reach under the grants that orch hands to a Python server."""

from __future__ import annotations

import json
import os
import platform
import socket
import stat
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path

from orch_py.worker import confine

GRANTS = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "confine" / "grants.json"


def _escapes() -> list[str]:
    """Which of the ways out are open."""
    ways: dict[str, Callable[[], object]] = {
        "MPTCP": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262),
        "raw": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
        "packet": lambda: socket.socket(17, socket.SOCK_RAW, 0),
        "fast open": lambda: socket.socket().sendto(b"x", 0x20000000, ("127.0.0.1", 9)),
        "block device": lambda: os.mknod("node", stat.S_IFBLK | 0o600, os.makedev(7, 0)),
        "host name": lambda: socket.sethostname(socket.gethostname()),
        "orch's environment": lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
    }
    found = []
    for name, act in ways.items():
        try:
            act()
            found.append(name)
        except OSError:
            pass
    if os.geteuid() == 0 and len(socket.if_nameindex()) > 1:
        found.append("network interfaces")
    # What jobs need goes on.
    socket.socketpair()
    socket.socket()
    Path("own").write_text("x")
    os.chown("own", os.getuid(), os.getgid())
    return found


@unittest.skipUnless(confine.version() >= 1 and platform.machine() == "x86_64", "no Landlock, or other calls")
class Confined(unittest.TestCase):
    def test_a_job_without_a_network_finds_no_other_way_out(self) -> None:
        grants = json.loads(GRANTS.read_text("utf-8"))
        with tempfile.TemporaryDirectory() as folder:
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    os.chdir(folder)
                    confine.confine(grants | {"write": [folder]})
                    os.write(writer, json.dumps(_escapes()).encode())
                finally:
                    os._exit(0)
            os.close(writer)
            with os.fdopen(reader) as answers:
                answer = answers.read()
            os.waitpid(child, 0)
            self.assertEqual(answer, "[]")


if __name__ == "__main__":
    unittest.main()

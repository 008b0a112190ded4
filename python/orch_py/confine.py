"""Holds a forked job to what it may write to and reach, by Linux's Landlock; elsewhere nothing does.

The same rules as those of orch's own children (`src/confine.rs`), which are started under them. A server is not, for it
imports packages and serves many jobs; so each job that it forks confines itself. The kernel's interface is stable:
https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from typing import Any

# System calls have these numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVS = 38
# Rights by the version that brought them. Reading and executing are not among them: they stay free.
_WRITING = {1: 0b1_1111_1111_0010, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_WRITE_FILE = 1 << 1
_OF_FILES = _WRITE_FILE | (1 << 14) | (1 << 15)
_TCP = {4: 0b11}
_SCOPES = {6: 0b11}


def confine(grants: dict[str, Any]) -> None:
    """Never to be undone. `grants` is `Grants` of orch, as JSON."""
    if os.environ.get("ORCH_SANDBOX") == "off":
        return
    since = version()
    if since < 1:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    writing = _known(_WRITING, since)
    tcp = 0 if grants["tcp"] == "allowed" else _known(_TCP, since)
    handled = (ctypes.c_uint64 * 3)(writing, tcp, _known(_SCOPES, since))
    # An older kernel knows a shorter structure.
    size = 8 * (3 if since >= 6 else 2 if since >= 4 else 1)
    rules = _checked(libc.syscall(_CREATE_RULESET, handled, ctypes.c_size_t(size), 0), "make rules")

    def grant(path: str, allowed: int) -> None:
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        if not stat.S_ISDIR(os.fstat(folder).st_mode):
            allowed &= _OF_FILES
        beneath = allowed.to_bytes(8, "little") + folder.to_bytes(4, "little")
        _checked(libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, beneath, 0), f"grant {path}")
        os.close(folder)

    for path in grants["write"]:
        grant(path, writing)
    # GPU drivers name their threads by what the kernel shows of the own process.
    if os.path.exists("/proc/self"):
        grant("/proc/self", _WRITE_FILE)
    libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    _checked(libc.syscall(_RESTRICT_SELF, rules, 0), "restrict the process")
    os.close(rules)


def version() -> int:
    """Of the kernel's Landlock; below 1 where there is none."""
    if not sys.platform.startswith("linux"):
        return 0
    libc = ctypes.CDLL(None)
    return int(libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG))


def _known(rights: dict[int, int], version: int) -> int:
    return sum(bits for since, bits in rights.items() if since <= version)


def _checked(code: int, what: str) -> int:
    if code < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the kernel does not {what}: {os.strerror(number)}")
    return code

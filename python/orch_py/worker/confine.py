"""Holds a forked job to what it may write to and reach, by Linux's Landlock; elsewhere nothing does.

The same rules as those of orch's own children (`src/confine.rs`), which are started under them. A server is not, for it
imports packages and serves many jobs; so each job that it forks confines itself. The kernel's interface is stable:
https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import ctypes
import os
import platform
import stat
import struct
import sys
from typing import Any

# The bounding set is lowered, and these privileges kept: `src/confine/capabilities.rs` says which and why.
_DROP_BOUNDING = 24
_KEPT = (0, 1, 3, 4)
_MOST_CAPABILITIES = 63
_CAPABILITIES_VERSION = 0x20080522
# seccomp(SET_MODE_FILTER, SPEC_ALLOW), a call with another number on each architecture.
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER = 1
_SPEC_ALLOW = 1 << 2
_NEW_NETWORK = 0x40000000
# Of a folder, without making device nodes in it.
_DEVICES = (1 << 6) | (1 << 11)
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
    granted = writing if grants.get("everything") else writing & ~_DEVICES
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
        grant(path, granted)
    # GPU drivers name their threads by what the kernel shows of the own process.
    if os.path.exists("/proc/self"):
        grant("/proc/self", _WRITE_FILE)
    if grants["tcp"] == "denied":
        # A namespace without an interface, where the process may make one; elsewhere UDP stays.
        libc.unshare(_NEW_NETWORK)
    libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    _checked(libc.syscall(_RESTRICT_SELF, rules, 0), "restrict the process")
    os.close(rules)
    if program := grants.get("filter"):
        _filter(libc, program)
    if not grants.get("everything"):
        _drop_privileges(libc)


def _filter(libc: ctypes.CDLL, program: list[list[int]]) -> None:
    """Installs the seccomp program that orch made: code, jumps and a number for each instruction."""
    call = _SECCOMP.get(platform.machine())
    if call is None:
        return
    code = b"".join(struct.pack("HBBI", *line) for line in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program), ctypes.addressof(buffer)))
    _checked(libc.syscall(call, _SET_MODE_FILTER, _SPEC_ALLOW, head), "filter calls")


def _drop_privileges(libc: ctypes.CDLL) -> None:
    for capability in range(_MOST_CAPABILITIES + 1):
        if capability not in _KEPT:
            libc.prctl(_DROP_BOUNDING, capability, 0, 0, 0)
    header = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITIES_VERSION, 0))
    sets = (ctypes.c_uint32 * 6)()
    _checked(libc.capget(header, sets), "tell its privileges")
    kept = sum(1 << number for number in _KEPT)
    for place in range(6):
        # Effective, permitted and inheritable ones, the lower halves first.
        sets[place] = sets[place] & kept if place < 3 else 0
    _checked(libc.capset(header, sets), "drop privileges")


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

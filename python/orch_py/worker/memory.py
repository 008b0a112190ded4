"""How much memory this process may take. `src/device/limits.rs` answers this question for orch itself."""

from __future__ import annotations

import os
from pathlib import Path


def whole_memory(root: Path = Path("/")) -> int | None:
    """Bytes that this process could take at most: the machine's, or the limit of a control group if that is less."""
    try:
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return machine
    limits = [machine]
    for line in lines:
        _, kinds, path = line.split(":", 2)
        base, file = (root / "sys/fs/cgroup", "memory.max") if not kinds else (None, "")
        if "memory" in kinds.split(","):
            base, file = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        if base is None:
            continue
        below = Path(path.lstrip("/"))
        for folder in (base / below, *(base / parent for parent in below.parents)):
            try:
                limits.append(int((folder / file).read_text()))
            except (OSError, ValueError):
                continue
    return min(limits)

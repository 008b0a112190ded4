"""Rewrites a TorchScript archive without what torch writes into it about the machine that made it.

`torch.jit.save` keeps, for error messages, the source path of every operation in `.debug_pkl` records. They name
files of the installation, so the same model would have other bytes on another host. Loaders do not need them.
"""

from __future__ import annotations

from pathlib import Path

import torch

_DROPPED = (".debug_pkl",)
# By it a loader knows which meaning an operator has: that of some has changed.
_VERSION = (".data/version", "version")
# The writer adds these itself.
_WRITTEN = ("version", "byteorder", ".data/version", ".data/serialization_id")


def strip(source: Path, target: Path) -> None:
    reader = torch._C.PyTorchFileReader(str(source))
    writer = torch._C.PyTorchFileWriter(str(target))
    records = sorted(reader.get_all_records())
    writer.set_min_version(max(int(reader.get_record(name)) for name in records if name in _VERSION))
    for name in records:
        if name.endswith(_DROPPED) or name in _WRITTEN:
            continue
        data = reader.get_record(name)
        writer.write_record(name, data, len(data))
    writer.write_end_of_file()

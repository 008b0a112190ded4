"""A wheel in pieces that fit where large files do not, and its installation beside the packages of an interpreter."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

PIECE_BYTES = 60 * 2**20
BLOCK_BYTES = 2**20
MANIFEST = "manifest.json"
PACKAGE_FOLDER = "onnxruntime"


class Damaged(Exception):
    """A piece or the joined wheel is not what the manifest describes."""


def split(wheel: Path, folder: Path, piece_bytes: int = PIECE_BYTES) -> dict[str, Any]:
    """Writes the pieces of a wheel and their manifest into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces: list[dict[str, Any]] = []
    with wheel.open("rb") as source:
        while content := source.read(piece_bytes):
            name = f"{wheel.name}.{len(pieces):03}"
            (folder / name).write_bytes(content)
            pieces.append({"name": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()})
    manifest = {"wheel": wheel.name, "bytes": wheel.stat().st_size, "sha256": digest(wheel), "pieces": pieces}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    return manifest


def join(folder: Path, to: Path) -> Path:
    """The wheel made of the pieces in a folder; every piece is checked before it is appended."""
    manifest = json.loads((folder / MANIFEST).read_text())
    name = Path(manifest["wheel"]).name
    to.mkdir(parents=True, exist_ok=True)
    wheel = to / name
    with wheel.open("wb") as target:
        for piece in manifest["pieces"]:
            path = folder / Path(piece["name"]).name
            if not path.is_file():
                raise Damaged(f"the piece {path.name} is missing")
            content = path.read_bytes()
            if hashlib.sha256(content).hexdigest() != piece["sha256"]:
                raise Damaged(f"the piece {path.name} does not have its sha256")
            target.write(content)
    if digest(wheel) != manifest["sha256"]:
        raise Damaged(f"{name} does not have its sha256")
    return wheel


def digest(path: Path) -> str:
    """The sha256 of a file."""
    hasher = hashlib.sha256()
    with path.open("rb") as source:
        while block := source.read(BLOCK_BYTES):
            hasher.update(block)
    return hasher.hexdigest()


def install(package: Path, interpreter: Path, folder: Path) -> Path:
    """An interpreter with the wheel's files and links to the other packages of `interpreter`.

    The wheel replaces the folder `onnxruntime`. The metadata of the package for CPUs stays, because conversions look
    for it.
    """
    wheel = join(package, folder / "wheel") if package.is_dir() else package
    home = folder / "python"
    subprocess.run([interpreter, "-m", "venv", "--without-pip", "--clear", home], check=True, capture_output=True)
    own = home / "bin" / "python"
    site = site_folder(own)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    for folder in package_folders(interpreter):
        link_packages(folder, site)
    return own


def link_packages(folder: Path, site: Path) -> None:
    """Links to the packages of a folder, without those that are there and without ONNX Runtime's own folder."""
    for entry in sorted(folder.iterdir()):
        link = site / entry.name
        if entry.name != PACKAGE_FOLDER and not link.exists():
            link.symlink_to(entry)


def site_folder(interpreter: Path) -> Path:
    """The folder in which an interpreter's packages are installed."""
    return Path(_answer(interpreter, "import json, sysconfig; print(json.dumps(sysconfig.get_path('platlib')))"))


def package_folders(interpreter: Path) -> list[Path]:
    """The folders from which an interpreter imports packages, as it searches them."""
    folders = map(Path, _answer(interpreter, "import json, sys; print(json.dumps(sys.path))"))
    return [folder for folder in folders if folder.name in ("site-packages", "dist-packages") and folder.is_dir()]


def _answer(interpreter: Path, question: str) -> Any:
    child = subprocess.run([interpreter, "-I", "-c", question], check=True, capture_output=True, text=True)
    return json.loads(child.stdout)


def main(argv: list[str]) -> int:
    """`split WHEEL OUT`."""
    if len(argv) != 2:
        print("usage: benches/card.py split WHEEL OUT", file=sys.stderr)
        return 2
    wheel = Path(argv[0])
    if not wheel.is_file():
        print(f"there is no wheel at {wheel}", file=sys.stderr)
        return 2
    manifest = split(wheel, Path(argv[1]))
    print(f"{len(manifest['pieces'])} pieces of {manifest['wheel']} in {os.fspath(argv[1])}")
    return 0

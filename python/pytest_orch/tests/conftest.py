"""Fixtures: folders with small specs, and the real program orch with stand-ins that change what it gives."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

REPOSITORY = Path(__file__).parents[3]
READY = REPOSITORY / "examples/onnx-file/specs"

Install = Callable[..., None]
StandIn = Callable[[str], str]

HEAD = """\
version: 1
pipelines:
  vectors: {description: vectors to vectors, tasks: [feature-extraction], template: text}
targets:
  cpu: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32]}
measure: {warmup: 1, samples: 6}
models:
"""


def model(name: str, onnx: str = "affine.onnx", expected: str = "expected.npz") -> str:
    """The row of a model that computes what affine.onnx does, or what another file does."""
    return (
        f"  {name}: {{onnx: {onnx}, inputs_from: inputs.npz, expected: {expected}, "
        "family: mlp, task: feature-extraction, pipeline: vectors}\n"
    )


def one_operator(operator: str, shape: list[int]) -> bytes:
    """An ONNX file whose output `y` is what one operator makes of the input `x`, in protobuf's encoding."""

    def number(field: int, value: int) -> bytes:
        return bytes([field << 3, value])

    def message(field: int, content: bytes) -> bytes:
        return bytes([field << 3 | 2, len(content)]) + content

    def tensor(name: bytes, dimensions: list[int]) -> bytes:
        sizes = b"".join(message(1, number(1, size)) for size in dimensions)
        element_type = number(1, 1)
        return message(1, name) + message(2, message(1, element_type + message(2, sizes)))

    node = message(1, b"x") + message(2, b"y") + message(4, operator.encode())
    result = shape[:-2] if operator == "Det" else shape
    graph = (
        message(1, node) + message(2, b"graph") + message(11, tensor(b"x", shape)) + message(12, tensor(b"y", result))
    )
    return number(1, 8) + message(7, graph) + message(8, number(2, 17))


def write_wrong(expected: Path, wrong: Path) -> None:
    """Writes expected outputs of which the last value differs."""
    with zipfile.ZipFile(expected) as archive:
        array = archive.read("y.npy")
    with zipfile.ZipFile(wrong, "w") as archive:
        archive.writestr("y.npy", array[:-4] + bytes([0, 0, 128, 63]))


@pytest.fixture(scope="session")
def program() -> str:
    """The program under test: ORCH_TEST_PROGRAM, or the one that cargo built in this checkout."""
    path = os.environ.get("ORCH_TEST_PROGRAM", str(REPOSITORY / "target/debug/orch"))
    assert Path(path).is_file(), f"there is no program {path}; build it by `cargo build`"
    return path


@pytest.fixture
def folder(pytester: pytest.Pytester, program: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which `pytest` runs the program on specs/all.yaml, which the test writes."""
    for name in ("ORCH_CACHE_DIR", "GITHUB_ACTIONS", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    specs = pytester.mkdir("specs")
    for name in ("affine.onnx", "inputs.npz", "expected.npz"):
        shutil.copy(READY / name, specs / name)
    write_wrong(specs / "expected.npz", specs / "wrong.npz")
    pytester.makeini(f"[pytest]\norch = {program}\n")
    return pytester.path


@pytest.fixture
def stand_in(folder: Path, program: str) -> StandIn:
    """Makes a program that calls orch, and then executes lines of Python that may change its `output` and `code`.

    It appends the arguments of each call to the file `calls`.
    """

    def make(lines: str) -> str:
        path = folder / "stand-in"
        path.write_text(
            f"#!{sys.executable}\n"
            "import os, signal, subprocess, sys\n"
            "with open('calls', 'a') as calls:\n"
            "    print(*sys.argv[1:], file=calls)\n"
            f"ended = subprocess.run([{program!r}, *sys.argv[1:]], stdout=subprocess.PIPE, text=True)\n"
            "output = ended.stdout\n"
            "code = ended.returncode\n"
            "if sys.argv[1] == 'run':\n"
            f"    {lines or 'pass'}\n"
            "sys.stdout.write(output)\n"
            "sys.exit(code)\n"
        )
        path.chmod(0o755)
        return f"--orch={path}"

    return make

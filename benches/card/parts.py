"""The table of parts, in the order in which they run: cheap evidence first."""

from __future__ import annotations

from card import figures, lifetimes, machine, matrix
from card import preconditions as needs
from card.kit import Part

RUNS = needs.all_of(needs.card, needs.orch, needs.torch)


def _of_the_machine() -> list[Part]:
    """Parts that also run on a machine without a card."""
    return [
        Part(
            name="system",
            shows="driver, cards, memory, clocks and processes by NVML; device nodes, CPU, kernel",
            missing=needs.nothing,
            run=machine.system,
            limit=30,
            least=2,
            is_of_the_card=False,
        ),
        Part(
            name="packages",
            shows="versions of torch, transformers, onnx and ONNX Runtime; those that differ from the locks are named",
            missing=needs.interpreter,
            run=machine.packages,
            limit=15,
            least=2,
            is_of_the_card=False,
        ),
        Part(
            name="devices",
            shows="orch lists the cards that NVML lists, and none without a device node",
            missing=needs.orch,
            run=machine.devices,
            limit=60,
            least=5,
            is_of_the_card=False,
        ),
        Part(
            name="doctor",
            shows="orch finds the backend cuda where there is a card, and gives a reason otherwise",
            missing=needs.orch,
            run=machine.doctor,
            limit=60,
            least=5,
            is_of_the_card=False,
        ),
    ]


def _of_the_card() -> list[Part]:
    """Parts that measure on the card."""
    return [
        Part(
            name="tf32",
            shows="with TF32 off the error of a matrix product is that of fp32; with TF32 on it is measured",
            missing=needs.all_of(needs.card, needs.torch),
            run=figures.tf32,
            limit=60,
            least=10,
        ),
        Part(
            name="memory",
            shows="NVML counts what torch's allocator counts, and the memory is back when the process has ended",
            missing=needs.all_of(needs.real_card, needs.torch),
            run=figures.memory,
            limit=60,
            least=15,
        ),
        _column("eager-cuda", needs.nothing, 150),
        Part(
            name="overhead",
            shows="orch's median is at most 2 % above torch's own loop over the same model and inputs",
            missing=RUNS,
            run=figures.overhead,
            limit=120,
            least=40,
        ),
        Part(
            name="exclusive",
            shows="two orch processes never measure on one card at once",
            missing=RUNS,
            run=lifetimes.exclusive,
            limit=90,
            least=20,
        ),
        Part(
            name="kill",
            shows="after SIGKILL and SIGINT no process of the run lives, and the card's memory is back",
            missing=RUNS,
            run=lifetimes.kill,
            limit=120,
            least=30,
        ),
        _column("torch-cuda", needs.worker, 120),
        _column("cuda", needs.gpu_package, 120),
        _column("cuda-half", needs.gpu_package, 120),
        _column("webgpu", needs.webgpu_package, 120),
    ]


def _column(name: str, check: needs.Check, limit: float) -> Part:
    """The part of a column of the matrix."""
    return Part(
        name=f"matrix-{name}",
        shows=f"the 15 key models on {name} as benches/card/expected.json has them",
        missing=needs.all_of(needs.card, needs.orch, needs.torch, check),
        run=matrix.column(name),
        limit=limit,
        least=20,
    )


PARTS = [*_of_the_machine(), *_of_the_card()]

"""How often `orch blame` finds a planted fault: 200 faults in graphs of ten models of the zoo.

    PYTHONPATH=python PYTHON benches/planted_faults.py [--models FOLDER] [--seed 0]
    [--singles 140] [--fused 40] [--doubles 20]

The models have seeded weights and are made by orch's own operations from rows of `specs/models/`, without downloads.
FOLDER keeps their files, and a second run takes them from there. PYTHON is that of an environment with torch,
transformers, onnx, onnxruntime, safetensors and PyYAML.

A fault is drawn by a seed. It counts if the outputs of the whole graph show it; one that does not is no wrong case, and
another is drawn. Each search is that of `orch blame`, with a stand-in for the runtime.

    exact       the places that were found are the planted ones, node for node
    <= 3 left   each place has at most three nodes and holds a planted fault
    not found   no place was found
    wrong       a place was found that holds no planted fault

Prints a Markdown table, and ends with 1 if a place was found that holds no planted fault.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import yaml

from harness import planting
from harness.planting import Planted, StandIn
from orch_py.blame import judged
from orch_py.blame.windows import Graph
from orch_py.ops import blame, export_onnx, materialise
from orch_py.worker import trees
from orch_py.worker.protocol import Job

ROOT = Path(__file__).resolve().parents[1]
MODELS = ("bert", "llama", "t5", "clip", "vit", "whisper", "wav2vec2", "mobilenet_v2", "mixtral", "segformer")
GROUPS = ("single", "fused", "double")
COLUMNS = ("exact", "<= 3 left", "not found", "wrong")
# Draws after which a model is passed over.
MAX_DRAWS = 50

# The sets of faults, with their models, that do not show in any output, by group.
Hidden = dict[str, set[tuple[object, ...]]]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=Path, default=ROOT / "target/planted-faults")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--singles", type=int, default=140)
    parser.add_argument("--fused", type=int, default=40)
    parser.add_argument("--doubles", type=int, default=20)
    args = parser.parse_args()
    graphs = {name: graph(args.models / name, name) for name in MODELS}
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    amounts = dict(zip(GROUPS, (args.singles, args.fused, args.doubles), strict=True))
    started = time.perf_counter()
    hidden: Hidden = defaultdict(set)
    for group, amount in amounts.items():
        for name, faults in drawn(graphs, group, amount, f"{args.seed} {group}", hidden):
            kind = " and ".join(dict.fromkeys(fault.kind for fault in faults)) if group != "double" else "any two"
            found, words = searched(graphs[name], faults)
            counts[group, kind].update(found)
            if not found["exact"]:
                print(f"{group} in {name}: {words}", file=sys.stderr, flush=True)
    print_table(counts, hidden)
    print(f"\n{sum(amounts.values())} searches in {time.perf_counter() - started:.0f} s")
    sys.exit(1 if any(each["wrong"] for each in counts.values()) else 0)


def graph(folder: Path, name: str) -> Graph:
    """The exported graph of a row of the zoo, with the value of each of its tensors."""
    exported = folder / "onnx"
    if not (exported / "model.onnx").is_file():
        print(f"exporting {name}", file=sys.stderr, flush=True)
        export(folder, name)
    model = onnx.load(exported / "model.onnx")
    return Graph(model, trees.read_tensors(exported, trees.INPUTS))


def export(folder: Path, name: str) -> None:
    row = row_of(name)
    inputs, model, exported = (folder / part for part in ("inputs", "model", "onnx"))
    for each in (inputs, model, exported):
        each.mkdir(parents=True, exist_ok=True)
    for seed, file in enumerate((trees.INPUTS, trees.CONTROL_INPUTS)):
        made = np.random.default_rng(seed)
        trees.write_tensors(inputs, file, {each: tensor(made, recipe) for each, recipe in row["inputs"].items()})
    params = {"class": row["class"], "config": row.get("config", {}), "outputs": row.get("outputs", [])}
    with contextlib.redirect_stdout(io.StringIO()):
        materialise.run(Job(params, {"inputs": inputs}, model, lambda _: None))
        export_onnx.run(Job({}, {"model": model}, exported, lambda _: None))


def row_of(name: str) -> dict[str, Any]:
    for path in sorted((ROOT / "specs/models").glob("*.yaml")):
        rows = yaml.safe_load(path.read_text("utf-8"))["models"]
        if name in rows:
            return dict(rows[name])
    raise SystemExit(f"no row `{name}` in specs/models")


def tensor(made: np.random.Generator, recipe: dict[str, Any]) -> np.ndarray:
    """An input by its recipe in a spec."""
    shape = recipe["shape"]
    if "randint" in recipe:
        values = made.integers(*recipe["randint"], shape)
    elif "normal" in recipe:
        mean, deviation = recipe["normal"]
        values = mean + deviation * made.standard_normal(shape)
    else:
        values = np.full(shape, recipe["value"])
    return np.asarray(values, recipe["dtype"])


def drawn(
    graphs: dict[str, Graph], group: str, amount: int, seed: str, hidden: Hidden
) -> Iterator[tuple[str, list[Planted]]]:
    """Visible faults, in the models and kinds by turns. `hidden` counts what was drawn and does not show."""
    source = random.Random(seed)
    kinds = list(planting.KINDS)
    names = list(graphs)
    given: set[tuple[str, Planted]] = set()
    pools: dict[tuple[str, int], list[Planted]] = {}
    made = 0
    turn = 0
    while made < amount:
        name = names[turn % len(names)]
        # Each model has each kind in the end, since the models are more than the kinds.
        kind = kinds[(turn + turn // len(names)) % len(kinds)]
        turn += 1
        for _ in range(MAX_DRAWS):
            faults = draw(graphs[name], name, group, kind, source, pools)
            if not faults or any((name, fault) in given for fault in faults):
                continue
            if not is_visible(graphs[name], faults):
                hidden[group].add((name, *faults))
                continue
            given.update((name, fault) for fault in faults)
            made += 1
            yield name, faults
            break


def draw(
    graph: Graph, name: str, group: str, kind: str, source: random.Random, pools: dict[tuple[str, int], list[Planted]]
) -> list[Planted]:
    """Faults of a group, the first of this kind; none where nothing of the kind can be planted."""
    length = 1 if group != "fused" else source.randint(2, planting.LONGEST_CHAIN)
    if (name, length) not in pools:
        pools[name, length] = list(planting.candidates(graph, length))
    pool = pools[name, length]
    fitting = [fault for fault in pool if fault.kind == kind]
    if not fitting:
        return []
    first = source.choice(fitting)
    if group != "double":
        return [first]
    second = source.choice(pool)
    if first.places == second.places or not (is_visible(graph, [first]) and is_visible(graph, [second])):
        return []
    return [first, second]


def is_visible(graph: Graph, faults: list[Planted]) -> bool:
    """Whether the outputs of the whole graph are computed, and show the faults."""
    oracle = {name: graph.values[name] for name in graph.outputs}
    try:
        (ours,) = StandIn(faults).run(graph.model, graph.inputs)
    except Exception:  # noqa: BLE001 - ONNX Runtime raises errors of many types.
        return False
    return judged.difference(ours, oracle) is not None


def searched(graph: Graph, faults: list[Planted]) -> tuple[Counter[str], str]:
    """What a search of `orch blame` counts as, and the words for it."""
    oracle = {name: graph.values[name] for name in graph.outputs}
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        job = Job({}, {}, Path(folder), lambda _: None)
        finding = blame._of_runtime(job, graph, oracle, StandIn(faults))
    windows = finding["windows"] if finding is not None and "windows" in finding else []
    found = sorted(window.nodes for window in windows)
    planted = sorted(fault.places for fault in faults)
    holds = [any(set(fault) <= set(place) for fault in planted) for place in found]
    counts = {
        "searches": 1,
        "exact": found == planted,
        "<= 3 left": bool(found) and all(holds) and max(map(len, found)) <= 3,
        "not found": not found,
        "wrong": not all(holds),
        "windows": finding["tries"] if finding is not None and "tries" in finding else 0,
    }
    names = {at: graph.nodes[at].op_type for place in (*planted, *found) for at in place}
    words = f"planted {[fault.kind for fault in faults]} at {planted}, found {found}, which are {names}"
    return Counter({name: int(value) for name, value in counts.items()}), words


def print_table(counts: dict[tuple[str, str], Counter[str]], hidden: Hidden) -> None:
    print(f"| faults | kind | searches | {' | '.join(COLUMNS)} | windows a search |")
    print(f"|---|---|--:|{'--:|' * len(COLUMNS)}--:|")
    for group in GROUPS:
        kinds = sorted(kind for each, kind in counts if each == group)
        total: Counter[str] = Counter()
        for kind in kinds:
            total.update(counts[group, kind])
            if len(kinds) > 1:
                print_row(group, kind, counts[group, kind])
        print_row(group, "all", total)
    words = ", ".join(f"{len(hidden[group])} {group}" for group in GROUPS)
    print(f"\nDrawn besides, and not visible in the outputs or not computed: {words}.")


def print_row(group: str, kind: str, counts: Counter[str]) -> None:
    searches = counts["searches"]
    cells = " | ".join(str(counts[column]) for column in COLUMNS)
    print(f"| {group} | {kind} | {searches} | {cells} | {counts['windows'] / max(1, searches):.0f} |")


if __name__ == "__main__":
    main()

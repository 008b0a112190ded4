"""`orch zoo`: makes rows for types of the installed transformers, tries them, and writes them into `specs/models`.

Each row is tried in a process of its own, with a time limit, so that none can take the others with it. Offline.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from transformers import CONFIG_MAPPING

from orch_py.generate.torch_model import model_class
from orch_py.ops.export_onnx import DEFAULT_ROUTES
from orch_py.worker.protocol import Refused, first_line
from orch_py.zoo import derive, families, files, own, rows
from orch_py.zoo.priorities import priority
from orch_py.zoo.rows import Document, Row, Tried

# A small model takes less than a second; what takes minutes is not small.
LIMIT_SECONDS = 240.0
# Larger ones are worth no place among hundreds.
MOST_PARAMETERS = 20_000_000
_FORK = multiprocessing.get_context("fork")


def main() -> int:
    parser = argparse.ArgumentParser(prog="orch zoo", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("add", help="make rows for types")
    add.add_argument(
        "types", nargs="+", metavar="TYPE", help="a model type of transformers, or `missing`: all without a row"
    )
    add.add_argument(
        "--task", action="append", help="only for these tasks (default: all that the type has a class for)"
    )
    commands.add_parser("refresh", help="try all rows again with the installed transformers")
    routes = commands.add_parser("routes", help="begin with the exporter that worked in a run")
    routes.add_argument("report", type=Path, metavar="FILE", help="the run's matrix.json")
    of_one = commands.add_parser("own", help="print a row for a folder or an id of the Hub")
    of_one.add_argument("source", metavar="FOLDER|ID")
    of_one.add_argument("--name", required=True, help="the row's")
    of_one.add_argument("--written", default="", help="the folder, as the spec has it")
    for each in (add, commands.choices["refresh"], routes):
        each.add_argument("--into", type=Path, default=Path("specs/models"), metavar="DIR", help="default: %(default)s")
        each.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.command == "own":
        return _own(args)
    # Specs of the user's own that lie there too are read by nobody and stay.
    zoo = {path.stem: files.read(path) for path in sorted(args.into.glob("*.yaml")) if files.is_own(path)}
    commanded = {"add": _added, "refresh": _refreshed, "routes": _routed}
    failed = _put(zoo, commanded[args.command](args, zoo))
    args.into.mkdir(parents=True, exist_ok=True)
    for family, found in zoo.items():
        path, text = args.into / f"{family}.yaml", files.text(family, found)
        if path.exists() and not files.is_own(path):
            failed += 1
            print(f"`{path}` is not a file of `orch zoo` and stays as it is; give another folder by --into", flush=True)
        elif not path.exists() or path.read_text("utf-8") != text:
            _publish(path, text)
    return 1 if failed else 0


def _own(args: argparse.Namespace) -> int:
    """Prints the row; or, where there is none, why on stderr."""
    try:
        print(own.hinted(files.row_text(args.name, own.row(args.source, args.written)), Path(args.source)), end="")
    except Refused as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _put(zoo: dict[str, dict[str, Document]], made: Iterable[tuple[str, str, Document | str]]) -> int:
    """Puts each row into its family's file, in its place or at the end; gives how many were refused."""
    failed = 0
    for name, place, row in made:
        if isinstance(row, str):
            failed += 1
            print(f"not {name}: {row}", flush=True)
            continue
        family = row["family"]
        old = zoo.get(place, {}).get(name)
        if family != place:
            zoo.get(place, {}).pop(name, None)
        zoo.setdefault(family, {})[name] = row
        # Not as they are: a row comes from another process as JSON, whose keys are never numbers.
        if json.dumps(old, sort_keys=True) != json.dumps(row, sort_keys=True):
            lacks = "" if old or "hub" in row else ", without a Hub id: transformers names none"
            print(f"{'changed' if old else 'added'} {name} in {family}.yaml{lacks}", flush=True)
    return failed


def _publish(path: Path, text: str) -> None:
    """In one moment, so that who reads meanwhile reads a whole file."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text, "utf-8")
    fresh.replace(path)


def _added(args: argparse.Namespace, zoo: dict[str, Any]) -> Iterator[tuple[str, str, Document | str]]:
    wanted = []
    for model_type in _missing(zoo) if args.types == ["missing"] else args.types:
        try:
            found = derive.classes(model_type)
            family, besides = families.family(model_type)
        except Refused as error:
            yield model_type, "", str(error)
            continue
        except Exception as error:  # noqa: BLE001 - transformers may fail in any way, and the others are to be tried.
            yield model_type, "", first_line(error)
            continue
        for task, cls in found.items():
            if not args.task or task in args.task:
                wanted.append((derive.name(model_type, task), family, (task, cls, besides)))

    def make(_: str, family: str, given: Any) -> Document | str:
        task, cls, besides = given
        found = rows.tried(derive.row(cls))
        if why := _unfit(found):
            return why
        head = {"class": cls, "family": family, "task": task, "pipeline": families.pipeline(family, task)}
        representative = derive.hub(cls)
        hub = {"hub": {"id": representative}} if representative else {}
        return head | hub | _derived(cls, found.row, families.tags(family, besides, found.row.inputs))

    yield from _each(args.jobs, wanted, make)


def _missing(zoo: dict[str, dict[str, Document]]) -> list[str]:
    """The types of transformers that have a class for a task, and no row for any. Parts of types have none, and a type
    whose classes have rows already is one of those by another name."""
    known = {name: row["task"] for found in zoo.values() for name, row in found.items()}
    tasks, having = set(known.values()), {row["class"] for found in zoo.values() for row in found.values()}
    types = [each for each in CONFIG_MAPPING if (own := derive.classes(each)) and not having & set(own.values())]
    return [each for each in types if not any(derive.name(each, task) in known for task in tasks)]


def _unfit(found: Tried) -> str | None:
    """Why the row has no place in the zoo."""
    if found.decides is None:
        return f"{found.why} at every tolerance: give it larger weights or other inputs by hand"
    if found.parameters > MOST_PARAMETERS:
        return f"{found.parameters:,} parameters are too many: give it a smaller config by hand"
    return None


def _refreshed(args: argparse.Namespace, zoo: dict[str, Any]) -> Iterator[tuple[str, str, Document | str]]:
    wanted = [(name, family, row) for family, found in zoo.items() for name, row in found.items()]

    def again(_: str, family: str, row: Document) -> Document | str:
        found = rows.tried(Row(row["class"], row["config"], row["inputs"], tuple(row.get("outputs", ()))))
        if why := _unfit(found):
            return why
        tags = row.get("tags", [])
        besides = [tag for tag in tags if tag in families.FAMILIES]
        # A part of a model has no class of its own to tell by, and stays where it is.
        with contextlib.suppress(Refused, AttributeError, KeyError):
            family, besides = families.family(model_class(row["class"]).config_class.model_type)
        # What no row is given here was written by hand.
        by_hand = [tag for tag in tags if tag not in (*families.FAMILIES, families.TEXT_ONLY)]
        tags = [*families.tags(family, besides, found.row.inputs), *by_hand]
        made = {"family": family} | _derived(row["class"], found.row, tags)
        last = ("priority", "export")
        kept = {field: value for field, value in row.items() if field not in ("tags", *last)}
        return kept | made | {field: row[field] for field in last if field in row and field not in made}

    yield from _each(args.jobs, wanted, again)


def _derived(cls: str, row: Row, tags: list[str]) -> Document:
    own = {"config": row.config, "inputs": row.inputs}
    return own | ({"tags": tags} if tags else {}) | {"priority": _priority(cls)}


def _routed(args: argparse.Namespace, zoo: dict[str, Any]) -> Iterator[tuple[str, str, Document]]:
    """Rows whose first exporter did not do it begin with the one that did; the others stay behind it."""
    worked: dict[str, str | None] = {}
    for case in json.loads(args.report.read_text("utf-8"))["cases"]:
        facts = case["facts"].get(f"convert:{case['model']}:onnx", {})
        worked[case["model"]] = facts.get("route") or worked.get(case["model"])
    for family, found in zoo.items():
        for name, row in list(found.items()):
            if first := worked.get(name):
                routes = sorted(DEFAULT_ROUTES, key=lambda route: route != first)
                kept = {field: value for field, value in row.items() if field != "export"}
                yield name, family, kept if routes == DEFAULT_ROUTES else kept | {"export": {"routes": routes}}


def _priority(class_name: str) -> str:
    return priority(class_name, model_class(class_name).config_class.model_type)


def _each(
    jobs: int, wanted: list[tuple[str, str, Any]], make: Callable[[str, str, Any], Document | str]
) -> Iterator[tuple[str, str, Document | str]]:
    def one(each: tuple[str, str, Any]) -> Document | str:
        ours, theirs = _FORK.Pipe(duplex=False)
        process = _FORK.Process(target=_child, args=(theirs, make, each))
        process.start()
        theirs.close()
        try:
            if not ours.poll(LIMIT_SECONDS):
                return f"took more than {LIMIT_SECONDS:.0f} s"
            answer: Document | str = json.loads(ours.recv())
            return answer
        except EOFError:
            process.join()
            return f"its process ended with {process.exitcode}"
        finally:
            process.kill()
            process.join()

    with ThreadPoolExecutor(jobs) as pool:
        for done, ((name, family, _), answer) in enumerate(zip(wanted, pool.map(one, wanted), strict=True), 1):
            if sys.stderr.isatty():
                print(f"\r{done} of {len(wanted)}", end="" if done < len(wanted) else "\n", file=sys.stderr, flush=True)
            yield name, family, answer


def _child(pipe: Connection, make: Callable[[str, str, Any], Document | str], each: tuple[str, str, Any]) -> None:
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        answer = make(*each)
    except Refused as error:
        answer = str(error)
    except Exception as error:  # noqa: BLE001 - a model may fail in any way.
        answer = first_line(error)
    pipe.send(json.dumps(answer))


if __name__ == "__main__":
    sys.exit(main())

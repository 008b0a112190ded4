"""Renders the templates of generated tests as orch does, without orch: its engine speaks the same language as Jinja."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MARK = "# --- What follows is a part of every generated test. ---\n"
LOOPS_MARK = "# --- What follows is a part of every generated test of a model with components. ---\n"
GREEDY_MARK = "# --- What follows is a part of every generated test that generates. ---\n"
OWN_FILES_MARK = "# --- What follows is a part of every generated test of a model with weights of its own. ---\n"
EAGER = {"target": "eager-cpu", "backend": "cpu", "runtime": "python", "device": "cpu", "variant": "eager-cpu-fp32"}


def rendered(hardware: str, **given: Any) -> str:
    """The test of a model for `hardware`, a template of `templates/hardware`."""
    import jinja2

    from orch_py.generate import greedy, loops
    from orch_py.inputs import own_files
    from orch_py.judge import judge

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ROOT / "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["pyrepr"] = repr
    environment.filters["identifier"] = str
    environment.filters["items"] = lambda mapping: mapping.items()
    context = {
        "orch": "0.0.0",
        "model": "tiny",
        "task": "fill-mask",
        "pipeline": "text",
        "template": "text",
        "precision": "fp32",
        "computes": None,
        "instance": "tiny",
        "artefact": "model" if hardware == "eager" else hardware,
        "artefact_variant": hardware,
        "inputs": [],
        "components": [],
        "libraries": ["transformers"],
        "loops": Path(loops.__file__).read_text("utf-8").partition(LOOPS_MARK)[2].strip(),
        "outputs": ["logits"],
        "tokens": [],
        "tolerance": judge.TOLERANCES["fp32"],
        "measure": {"warmup": 1, "samples": 2, "max_seconds": 10.0},
        "options": {},
        "trust_remote_code": False,
        "file": "test_tiny.py",
        "loads": "the model",
        "main": "logits",
        "infers_here": True,
        "infers_more": False,
        "own_weights": False,
        "own_files": Path(own_files.__file__).read_text("utf-8").partition(OWN_FILES_MARK)[2].strip(),
        "generates": False,
        "caches": given.get("generates", False) and not given.get("components"),
        "experts_per_token": None,
        "positions": None,
        "greedy": Path(greedy.__file__).read_text("utf-8").split(GREEDY_MARK)[1].strip(),
        "judge": Path(judge.__file__).read_text("utf-8").split(MARK)[1].strip(),
        **EAGER,
        **given,
    }
    context["input_names"] = [each["name"] for each in context["inputs"]]
    context["first_input"] = next(iter(context["input_names"]), None)
    return environment.get_template(f"hardware/{hardware}.py.j2").render(context)

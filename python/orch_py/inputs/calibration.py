"""The sets of inputs that a quantisation is calibrated on.

They stand in a tree of their own, made by the recipes of the inputs from other seeds. What no recipe makes is taken
from the model's own inputs: texts, and all of a model that comes with a file of inputs. numpy only.
"""

from __future__ import annotations

from pathlib import Path

from orch_py.worker import trees
from orch_py.worker.protocol import Job
from orch_py.worker.trees import Tensors

TREE = "calibration"


def sets(job: Job, tree: Path, names: list[str]) -> list[Tensors]:
    """What the model of `tree` takes, once for each set; its own inputs where there are no others."""
    own = trees.read_tensors(tree, trees.INPUTS) if names else {}
    made = sorted(job.tree(TREE).glob("*.safetensors")) if TREE in job.inputs else []
    all_of_them = [own | trees.read_tensors(path.parent, path.name) for path in made] or [own]
    return [{name: tensors[name] for name in names} for tensors in all_of_them]


def told(job: Job, count: int) -> str:
    """For people: on what it was calibrated."""
    if TREE not in job.inputs:
        return "calibrated on the model's own inputs"
    return f"calibrated on {count} other {'set' if count == 1 else 'sets'} of inputs"

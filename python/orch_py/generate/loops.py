"""A loop: what calls the components of a model that is made of several, such as a retriever and a generator. It is
data, `loop.json` beside the constants of `loop.safetensors`, so that every runtime runs the same one.
`src/runtime/loops` runs it too; `tests/fixtures/loops.json` holds both to one table.

`{"outputs": [names], "generates": name, "steps": [steps]}`. Values have names: first the inputs and the constants,
then what steps give, which may replace what had the name before. A step reads `of`, gives `gives`, and is one of:

- `{"call": component, "with": {its input: value}, "gives": {value: its output}}`
- `sum`: the values times the numbers of `by`, added up; with `clip`, [low, high], no value is beyond them. A value with
  fewer elements than the first is repeated: its shape, without leading ones, is the end of the first's.
- `unit`: every row of the last axis divided by its length.
- `product`: of (n, d) and (m, d) the dot products (n, m).
- `best`: the first greatest place of the last axis; of a value (rows, places, kinds) at `place`.
- `rows`: of a table and (n) numbers those rows of it.
- `join`: the values behind each other along `axis`.
- `part`: the places from `first` to before `last` of `axis`.
- `put`: of (n, places) and (n) the first, with the second at `place`.

Steps of one `turn` belong together: they are one time round. `generates`, if it is there, names the output that is
text: tokens, judged as those of any generation (`greedy.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# --- What follows is a part of every generated test of a model with components. ---


def run_loop(
    loop: dict[str, Any],
    values: dict[str, np.ndarray],
    call: Callable[[str, dict[str, np.ndarray]], dict[str, np.ndarray]],
) -> dict[str, np.ndarray]:
    """The outputs of a loop; `values` are inputs and constants, `call` runs one of its components."""
    values = dict(values)
    for step in loop["steps"]:
        if "call" in step:
            made = call(step["call"], {name: values[value] for name, value in step["with"].items()})
            values |= {value: made[name] for value, name in step["gives"].items()}
        else:
            values[step["gives"]] = computed(step, [values[name] for name in step["of"]])
    return {name: values[name] for name in loop["outputs"]}


def computed(step: dict[str, Any], of: list[np.ndarray]) -> np.ndarray:
    """What a step other than a call gives."""
    first = of[0]
    match step["op"]:
        case "sum":
            total = np.zeros(first.shape)
            for by, value in zip(step["by"], of, strict=True):
                ones = next((at for at, size in enumerate(value.shape) if size != 1), value.ndim)
                own = value.shape[ones:]
                if first.shape[first.ndim - len(own) :] != own:
                    raise ValueError(f"the shape {value.shape} does not repeat to {first.shape}")
                total += by * value.reshape(own).astype(np.float64)
            low, high = step.get("clip", (-np.inf, np.inf))
            return np.clip(total, low, high).astype(np.float32)
        case "unit":
            wide = first.astype(np.float64)
            return (wide / np.maximum(np.linalg.norm(wide, axis=-1, keepdims=True), 1e-12)).astype(np.float32)
        case "product":
            return (first.astype(np.float64) @ of[1].astype(np.float64).T).astype(np.float32)
        case "best":
            scores = first[:, step["place"]] if "place" in step else first
            if np.isnan(scores).any():
                raise ValueError(f"a score of `{step['of'][0]}` is NaN")
            return scores.argmax(axis=-1)
        case "rows":
            return first[of[1]]
        case "join":
            return np.concatenate(of, axis=step["axis"])
        case "part":
            return first.take(range(step["first"], step["last"]), axis=step["axis"])
        case "put":
            changed = first.copy()
            changed[:, step["place"]] = of[1]
            return changed
    raise ValueError(f"a loop knows no `{step['op']}`")

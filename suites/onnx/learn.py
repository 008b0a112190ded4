"""Writes `known.yaml` from a run of the whole suite without it, to be read before it is committed.

    python3 suites/onnx/make.py target/suite-onnx --bare
    orch run target/suite-onnx/all.yaml --json > suite.json
    python3 suites/onnx/learn.py suite.json

A row is for one cause: models that end alike, by one pattern where it matches no other model. The cause is the reason
that the run gave, in the words of `CAUSES` where it is one of those.
"""

from __future__ import annotations

import fnmatch
import json
import re
import sys
from collections import defaultdict
from pathlib import Path

KNOWN = Path(__file__).absolute().parent / "known.yaml"
FAILURES = {"FAIL", "NUMERICS", "CRASH", "OOM", "TIMEOUT"}
HEAD = """\
# What is known not to pass, a row for each cause. `make.py` takes each line as it is; `learn.py` writes them anew.
"""

# The first that is found in a reason says why.
CAUSES = [
    (r"Could not find an implementation for (\w+)", r"ONNX Runtime's CPU provider has no \1 for these types"),
    (r"(ai\.onnx\.preview\.training)", r"ONNX Runtime does not know the operators of \1"),
    (r"No conversion rule found for operations: (.*?)\s*(?:Conversion is failed|$)", r"OpenVINO converts no \1"),
    (r"No conversion rule for (\S+)", r"OpenVINO converts no \1"),
    (r"the reference holds \d+ NaN", "ONNX's own expected outputs hold NaN, which decides nothing and counts as wrong"),
    (r"partial_shape\.cpp", "OpenVINO's transformations ask for a size that is not known"),
    (r"inconsistent total_sequence_length", "ONNX Runtime's Attention asks for a mask as long as the keys"),
    (r"batchwise recurrent operations", "ONNX Runtime has no recurrence with the batch first (layout 1)"),
    (r"it fails on the control's inputs", "it fails on other inputs"),
    (r"OpConversionFailure", "OpenVINO does not convert it"),
]

# What is known of wrong values, by the test's name and the target. Each was computed beside orch, by onnx 1.23's own
# evaluation or by hand; no vendor said it.
VALUES = [
    (r"bernoulli|training_dropout", "", "random numbers, which no two runtimes draw alike"),
    (
        r"attention_.*_causal$",
        "openvino",
        "OpenVINO aligns the causal mask with the last key, ONNX with the length of the past",
    ),
    (
        r"attention_.*qk_matmul_(bias|softcap)",
        "",
        "onnx 1.19 expects mask and softcap in the order that later ones gave up; by onnx 1.23 the runtime is right",
    ),
    (r"qlinearmatmul_.*_int8", "", "onnx 1.19 expects int8 to wrap around; by onnx 1.23 it saturates, as here"),
    (
        r"resize_downsample_scales_.*_align_corners",
        "",
        "ONNX computes with the output's size before it is rounded (2.4), the runtime with the rounded one (2)",
    ),
    (
        r"maxunpool_.*_output_shape",
        "cpu",
        "ONNX Runtime counts the indices in the shape that is asked for, ONNX in that of the pooled input",
    ),
    (r"qlinearconv|quantizelinear", "openvino", "OpenVINO rounds a value halfway between two integers the other way"),
    (r"dft_axis", "openvino", "OpenVINO transforms along axis 1, whatever the input `axis` says"),
    (r"lstm_with_peepholes", "openvino", "OpenVINO leaves the peepholes out"),
    (r"_batchwise", "openvino", "OpenVINO does not heed layout 1: it takes the batch for the time"),
    (r"maxpool_2d_ceil", "openvino", "OpenVINO keeps a last window that begins outside of the input: another shape"),
    (r"resize_.*_exclude_outside", "openvino", "OpenVINO does not heed exclude_outside"),
    (r"resize_.*_antialias", "openvino", "OpenVINO does not heed antialias"),
    (r"resize_.*_not_(larger|smaller)", "openvino", "OpenVINO does not heed keep_aspect_ratio_policy: another shape"),
    (
        r"roialign_mode_max",
        "openvino",
        "OpenVINO takes the largest interpolated value, ONNX the largest weighted corner",
    ),
    (r"top_k_same_values", "openvino", "OpenVINO does not order equal values by their index"),
    (r"^test_tile$", "openvino", "OpenVINO leaves a part of Tile's output unwritten where the repeats are an input"),
]


def cause(model: str, target: str, status: str, reason: str) -> str:
    for pattern, words in CAUSES:
        if found := re.search(pattern, reason):
            return found.expand(words)
    if status != "NUMERICS":
        return short(reason, 110)
    for pattern, where, words in VALUES:
        if re.search(pattern, model) and where in ("", target):
            return words
    # Figures differ from machine to machine.
    tensors = sorted(set(re.findall(r"tensor `([^`]+)`", reason)))
    return f"other values than ONNX's own of {', '.join(tensors)}"


def short(text: str, most: int) -> str:
    # Paths and figures of one run would make another row of each.
    text = re.sub(r"`?/[^\s`]*/", "", " ".join(text.split())).replace('"', "'")
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0] + " …"


def patterns(models: set[str], universe: set[str]) -> list[str]:
    """Globs that together match these models and no other one, the widest first."""
    found = []
    while models:
        model = min(models)
        parts = model.split("_")
        globs = ["_".join(parts[:count]) + "*" for count in range(2, len(parts) + 1)]
        fits = (glob for glob in globs if {m for m in universe if fnmatch.fnmatchcase(m, glob)} <= models)
        glob = next(fits, model)
        covered = {m for m in models if fnmatch.fnmatchcase(m, glob)}
        found.append(glob if len(covered) > 1 else model)
        models = models - covered
    return found


def main() -> None:
    document = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    ends: dict[str, dict[str, tuple[str, str, str]]] = defaultdict(dict)
    for case in document["cases"]:
        if case["status"] in FAILURES:
            told = (case["status"], case["stage"], cause(case["model"], case["target"], case["status"], case["reason"]))
            ends[case["model"]][case["target"]] = told
    targets = {case["target"] for case in document["cases"]}
    groups: dict[tuple[str, str, str, str], set[str]] = defaultdict(set)
    for model, by_target in ends.items():
        if set(by_target) == targets and len(set(by_target.values())) == 1:
            groups["", *next(iter(by_target.values()))].add(model)
            continue
        for target, told in by_target.items():
            groups[target, *told].add(model)
    universe = {case["model"] for case in document["cases"]}
    rows = []
    for (target, status, stage, why), models in groups.items():
        where = f", target: {target}" if target else ""
        for pattern in patterns(models, universe):
            told = f"status: {status}, stage: {stage}, reason: {json.dumps(why, ensure_ascii=False)}"
            rows.append(f'- {{model: "{pattern}"{where}, {told}}}')
    KNOWN.write_text(HEAD + "\n".join(sorted(rows)) + "\n", "utf-8")
    print(f"{len(rows)} rows for {sum(map(len, groups.values()))} models and targets: {KNOWN}")


if __name__ == "__main__":
    main()

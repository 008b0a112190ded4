"""Retrieval-augmented generation: a question and 16 or so documents become vectors, the nearest document is put before
the question, and a generator answers that, greedily, a token a turn.

The documents are the example inputs of the component `context`, so the index is as large as its row says. Vectors of
untrained encoders all lie in one direction; so the documents' mean is taken from the documents, the mean of random
questions from the questions, and all are brought to length 1. Of equally near documents the first is taken.

Of the tokens' scores those of the first are an output: the others depend on the tokens before them, which are judged.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers

from orch_py.generate import generation, torch_model
from orch_py.generate.parts import Made, Parts, Reference
from orch_py.judge import judge
from orch_py.worker.protocol import Refused
from orch_py.worker.trees import Tensors

COMPONENTS = ("question", "context", "generator")
# So many random questions tell the mean of all.
_PROBES = 64


def make(parts: Parts, inputs: Tensors, config: dict[str, Any], seed: int) -> Made:
    documents = parts.trees["context"].inputs["input_ids"].numpy()
    ids = inputs["input_ids"]
    rows, steps = parts.shape("generator", "decoder_input_ids")
    length = parts.shape("generator", "input_ids")
    if length != (rows, documents.shape[1] + ids.shape[1]) or rows != len(ids):
        raise Refused(
            "error",
            f"the generator's `input_ids` are {list(length)}, and {len(ids)} questions of {ids.shape[1]} tokens behind "
            f"documents of {documents.shape[1]} make {[len(ids), documents.shape[1] + ids.shape[1]]}",
        )
    decoder = np.full((rows, steps), parts["generator"].config.pad_token_id or 0, np.int64)
    decoder[:, 0] = parts["generator"].config.decoder_start_token_id
    made = Made(
        ["scores", "retrieved", "first_logits", "tokens"],
        {
            "documents": documents,
            "document_mask": np.ones_like(documents),
            "mask": np.ones_like(ids),
            "prompt_mask": np.ones(length, np.int64),
            "document_mean": _mean(parts, "context", documents),
            "question_mean": _mean(parts, "question", _probes(ids, seed)),
            "decoder_input_ids": decoder,
            "tokens": np.zeros((rows, steps), np.int64),
        },
        generates="tokens",
    )
    for name, given, mask in (("context", "documents", "document_mask"), ("question", "input_ids", "mask")):
        made.call(name, {"input_ids": given, "attention_mask": mask}, {f"{name}_vectors": "pooler_output"})
        mean = "document_mean" if name == "context" else "question_mean"
        made.op("sum", [f"{name}_vectors", mean], f"{name}_centred", by=[1.0, -1.0])
        made.op("unit", [f"{name}_centred"], f"{name}_units")
    made.op("product", ["question_units", "context_units"], "scores")
    made.op("best", ["scores"], "retrieved")
    made.op("rows", ["documents", "retrieved"], "passages")
    made.op("join", ["passages", "input_ids"], "prompt", axis=1)
    for step in range(steps):
        turn = step + 1
        prompt = {"input_ids": "prompt", "attention_mask": "prompt_mask", "decoder_input_ids": "decoder_input_ids"}
        made.call("generator", prompt, {"logits": "logits"}, turn)
        if turn == 1:
            made.op("part", ["logits"], "first_logits", turn, axis=1, first=0, last=1)
        made.op("best", ["logits"], "next", turn, place=step)
        made.op("put", ["tokens", "next"], "tokens", turn, place=step)
        if turn < steps:
            made.op("put", ["decoder_input_ids", "next"], "decoder_input_ids", turn, place=turn)
    return made


def reference(parts: Parts, made: Made, inputs: Tensors, config: dict[str, Any]) -> Reference:
    """By PyTorch's and transformers' own code."""
    ids, documents = (torch.from_numpy(value) for value in (inputs["input_ids"], made.constants["documents"]))
    scores = _units(parts, made, "question", ids) @ _units(parts, made, "context", documents).T
    retrieved = scores.argmax(dim=-1)
    _no_tie(scores.numpy())
    prompt = torch.cat([documents[retrieved], ids], dim=1)
    steps = made.constants["tokens"].shape[1]
    model = parts["generator"]
    model.generation_config = transformers.GenerationConfig(
        do_sample=False,
        num_beams=1,
        max_new_tokens=steps,
        min_new_tokens=None,
        eos_token_id=None,
        pad_token_id=model.config.pad_token_id or 0,
        decoder_start_token_id=model.config.decoder_start_token_id,
    )
    given = {"input_ids": prompt, "attention_mask": torch.ones_like(prompt)}
    with torch.inference_mode():
        tokens = model.generate(**given)
        logits = model(**given, decoder_input_ids=tokens[:, :-1]).logits
    found = {"scores": scores, "retrieved": retrieved, "first_logits": logits[:, :1], "tokens": tokens[:, 1:]}
    by = f"generate() of transformers {transformers.__version__}"
    text = generation.ranked(tokens[:, 1:], logits)
    return Reference({name: np.ascontiguousarray(value.numpy()) for name, value in found.items()}, by, text)


def require(reference: Tensors, control: Tensors | None) -> None:
    """Refuses questions by which nobody could tell a retriever from one that always finds the same."""
    found = set(reference["retrieved"].tolist())
    if len(found) < min(2, len(reference["retrieved"])):
        raise Refused("numerics", f"all questions retrieve document {found.pop()}; change the seed or the questions")
    for name, what in (("retrieved", "retrieve the same documents"), ("tokens", "have the same answers")):
        if control is not None and np.array_equal(reference[name], control[name]):
            raise Refused("numerics", f"the control's questions {what}; change the seed, or the generator's weights")


def _probes(ids: np.ndarray, seed: int) -> np.ndarray:
    chance = np.random.Generator(np.random.PCG64(seed))
    return chance.integers(ids.min(), ids.max() + 1, (_PROBES, ids.shape[1]))


def _vectors(parts: Parts, name: str, ids: torch.Tensor) -> torch.Tensor:
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return torch_model.forward(parts[name], given)["pooler_output"]


def _mean(parts: Parts, name: str, ids: np.ndarray) -> np.ndarray:
    return _vectors(parts, name, torch.from_numpy(ids)).mean(dim=0).numpy()


def _units(parts: Parts, made: Made, name: str, ids: torch.Tensor) -> torch.Tensor:
    mean = made.constants["document_mean" if name == "context" else "question_mean"]
    vectors = _vectors(parts, name, ids) - torch.from_numpy(mean)
    return torch.nn.functional.normalize(vectors, dim=-1)


def _no_tie(scores: np.ndarray) -> None:
    """Refuses a choice between documents that rounding in fp32 may decide: it is judged without ties."""
    tolerance = judge.TOLERANCES["fp32"]
    scale = judge.tensor_verdict(scores, scores, tolerance)["scale"]
    for question, row in enumerate(scores):
        second, first = np.sort(row)[-2:]
        if first - second <= 2 * (tolerance["atol"] * scale + tolerance["rtol"] * abs(float(first))):
            told = f"two documents are equally near to question {question} (a margin of {first - second:.3g})"
            raise Refused("numerics", f"{told}; change the seed")

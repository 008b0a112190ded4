"""Makes the `transformers-js` artefact: an exported model laid out as Transformers.js loads it, a task for it to do,
and what Python's transformers answers to the same task.

The answer is that of `transformers.pipeline` on the CPU, so it covers what comes before and after the model too. Of
these two steps the first is compared on its own: token ids or pixel values are outputs beside the task's result.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import transformers
from PIL import Image

from orch_py.export import onnx_graph, onnx_lowering, rewrites
from orch_py.export.onnx_graph import DATA, MODEL
from orch_py.generate import task_text, torch_model
from orch_py.worker import trees
from orch_py.worker.protocol import Job, Output, Refused, listed

TEXT_TASKS = ("feature-extraction", "fill-mask", "text-classification")
IMAGE_TASKS = ("image-classification",)
# All scores are compared, and Transformers.js writes a sentence for each of them.
_MOST_SCORES = 4096
# Sums in one order give the same bytes on hosts of any size, as in `materialise`.
_THREADS = 1


def run(job: Job) -> Output:
    if job.param("threads") is None:
        torch.set_num_threads(_THREADS)
    tree, exported = job.tree("model"), job.tree("onnx")
    task = trees.read_manifest(tree).get("task")
    if task not in TEXT_TASKS + IMAGE_TASKS:
        known = listed(TEXT_TASKS + IMAGE_TASKS)
        raise Refused("unsupported", f"orch has no task `{task}` for Transformers.js; it has {known}")
    if (exported / DATA).exists():
        raise Refused("unsupported", "the weights lie beside the ONNX file, and Transformers.js is given one file only")
    loaded = torch_model.load_tree(tree)
    model = loaded.model
    _require_output(loaded.outputs, "last_hidden_state" if task == "feature-extraction" else "logits", task)
    shutil.copy(tree / "config.json", job.out)
    (job.out / "onnx").mkdir()
    graph = onnx.load(exported / MODEL)
    # Made by a tokenizer, a mask is of int64, and WebGPU casts none unless the graph is captured: an option of ONNX
    # Runtime Web that Transformers.js does not set.
    rules = onnx_lowering.look_up_masks(graph, ["attention_mask"])
    rewritten = onnx_graph.save(graph, job.out / "onnx")[0]
    own, others = trees.read_tensors(exported, trees.INPUTS), trees.read_if_present(exported, trees.CONTROL_INPUTS)
    if rules and (changed := rewrites.difference(exported / MODEL, rewritten, own, others)):
        raise Refused("numerics", f"{listed(rules)} changed what the graph computes: {changed}")
    made = trees.read_manifest(exported)
    taken: list[str] = made["inputs"]
    rules = made.get("lowering", {}) | rules

    described: dict[str, Any] = {"task": task, "call": _call(task, model.config)}
    if task in TEXT_TASKS:
        given, control = _text(job, task, loaded, taken, described)
    else:
        given, control = _image(job.out, task, loaded, taken, described)
    for _, reference in filter(None, (given, control)):
        for name, value in reference.items():
            if wrong := trees.not_a_number(name, value):
                raise Refused("numerics", f"{wrong}: no run can be compared with it; change the config, seed or inputs")
    inputs, reference = given
    trees.write_tensors(job.out, trees.INPUTS, inputs)
    trees.write_tensors(job.out, trees.REFERENCE, reference)
    if control is not None:
        trees.write_tensors(job.out, trees.CONTROL_INPUTS, control[0])
        trees.write_tensors(job.out, trees.CONTROL_REFERENCE, control[1])
    else:
        described["no_control"] = "no other input of the same shape can be made for the task"
    versions = trees.versions("torch", "transformers", "tokenizers")
    label = f"transformers {versions['transformers']} pipeline `{task}` on torch {versions['torch']} cpu fp32"
    trees.write_manifest(
        job.out,
        {
            "format": "transformers-js",
            "inputs": list(inputs),
            "outputs": list(reference),
            "precision": "fp32",
            "reference": label,
            **({"lowering": rules} if rules else {}),
            "versions": versions,
            **described,
        },
    )
    return Output(facts={"versions": versions, "reference": label, "lowering": rules, **described})


def _require_output(outputs: list[str], name: str, task: str) -> None:
    if name not in outputs:
        raise Refused("unsupported", f"the task `{task}` reads `{name}`, and the model gives {listed(outputs)}")


def _call(task: str, config: Any) -> dict[str, Any]:
    """What the pipeline is asked for, in the words of Transformers.js."""
    if task == "feature-extraction":
        return {"pooling": "mean", "normalize": True}
    count = config.vocab_size if task == "fill-mask" else config.num_labels
    if count > _MOST_SCORES:
        why = f"`{task}` gives {count} scores, all of which are compared; at most {_MOST_SCORES}"
        raise Refused("unsupported", why)
    return {"top_k": count}


# What a task is given, and Python's answer.
Answered = tuple[trees.Tensors, trees.Tensors]


def _text(
    job: Job, task: str, loaded: torch_model.Tree, taken: list[str], described: dict[str, Any]
) -> tuple[Answered, Answered | None]:
    if strange := [name for name in taken if name not in task_text.NAMES]:
        raise Refused("unsupported", f"a tokenizer makes no {listed(strange)}, which the model takes")
    control = loaded.control["input_ids"].tolist() if loaded.control else None
    if loaded.manifest["weights"]["kind"] == "seeded":
        tokenizer = task_text.small_tokenizer(loaded.model.config.vocab_size, taken, job.out)
        mask = task == "fill-mask"
        texts = task_text.sentences(loaded.inputs["input_ids"].tolist(), mask=mask)
        others = task_text.sentences(control, mask=mask) if control else None
        described["tokenizer"] = "orch's own of syllables, for seeded weights know no words"
    else:
        texts = job.param("texts", [])
        if not texts or not (manifest_files := sorted(job.tree("model").glob("tokenizer*"))):
            raise Refused("unsupported", "weights with words of their own need a text: fill `input_ids` with `text`")
        for path in manifest_files:
            shutil.copy(path, job.out)
        tokenizer = transformers.AutoTokenizer.from_pretrained(job.out, local_files_only=True)
        # As in the model tree: the same words from behind.
        others = [" ".join(reversed(text.split())) for text in texts]
        described["tokenizer"] = type(tokenizer).__name__
    described["texts"] = texts
    shape = list(loaded.inputs["input_ids"].shape)
    given = _answered(task, loaded.model, tokenizer, texts, described)
    ids = given["input_ids"]
    if list(ids.shape) != shape:
        raise Refused(
            "unsupported",
            f"the tokenizer makes {list(ids.shape)} ids of the texts, the model was exported for {shape}, and "
            "Transformers.js pads to no given length: give `dims` that fit the texts",
        )
    other = _answered(task, loaded.model, tokenizer, others, described) if others and others != texts else None
    if others is None or other is None or list(other["input_ids"].shape) != shape:
        return ({"text": task_text.packed(texts)}, given), None
    rows = task_text.packed([*texts, *others])
    return ({"text": rows[: len(texts)]}, given), ({"text": rows[len(texts) :]}, other)


def _answered(task: str, model: Any, tokenizer: Any, texts: list[str], described: dict[str, Any]) -> trees.Tensors:
    # Pooling needs the mask also where the model takes none.
    encoded = tokenizer(texts, padding=True, truncation=True, return_tensors="np", return_attention_mask=True)
    ids = np.asarray(encoded["input_ids"]).astype(np.int64)
    pipe = transformers.pipeline(task, model=model, tokenizer=tokenizer, device="cpu")
    if task == "feature-extraction":
        rows = [np.asarray(row, np.float32)[0] for row in pipe(texts)]
        masks = np.asarray(encoded["attention_mask"], np.float32)
        embedding = np.stack([_pooled(row, mask) for row, mask in zip(rows, masks, strict=True)])
        return {"input_ids": ids, "embedding": embedding}
    count = described["call"]["top_k"]
    scores = np.zeros((len(texts), count), np.float32)
    for row, text in enumerate(texts):
        if task == "fill-mask":
            if (found_masks := int((ids[row] == tokenizer.mask_token_id).sum())) != 1:
                raise Refused(
                    "error", f"{text!r} has {found_masks} masks; fill-mask wants one `{tokenizer.mask_token}`"
                )
            for found in pipe(text, top_k=count):
                scores[row, found["token"]] = found["score"]
        else:
            _scatter(scores[row], pipe(text, top_k=count), _labels(model.config, described))
    return {"input_ids": ids, "scores": scores}


def _pooled(tokens: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The mean over what is no padding, at length 1: `pooling: mean` with `normalize`, which Python leaves to users."""
    mean: np.ndarray = (tokens * mask[:, None]).sum(0) / mask.sum()
    return (mean / np.linalg.norm(mean)).astype(np.float32)


def _image(
    out: Path, task: str, loaded: torch_model.Tree, taken: list[str], described: dict[str, Any]
) -> tuple[Answered, Answered | None]:
    pixels = loaded.inputs.get("pixel_values")
    if taken != ["pixel_values"] or pixels is None or pixels.ndim != 4 or pixels.shape[1] != 3:
        why = f"an image processor makes `pixel_values` of 3 colours; the model takes {listed(taken)}"
        raise Refused("unsupported", why)
    height, width = pixels.shape[2:]
    # No resizing: browsers and Pillow interpolate differently, so the image has the model's own size.
    size = {"height": height, "width": width}
    processor = transformers.ViTImageProcessor(do_resize=False, size=size)
    processor.save_pretrained(out)
    described["image_processor"] = "orch's own: no resizing, scaled to 0..1, mean and deviation 0.5"
    pipe = transformers.pipeline(task, model=loaded.model, image_processor=processor, device="cpu")
    labels = _labels(loaded.model.config, described)

    def answered(values: torch.Tensor) -> Answered:
        # The model's own example input as an image of whole numbers.
        images = ((values.numpy().transpose(0, 2, 3, 1) * 0.5 + 0.5) * 255).round().clip(0, 255).astype(np.uint8)
        pictures = [Image.fromarray(image) for image in images]
        made = np.asarray(processor(pictures, return_tensors="np")["pixel_values"], np.float32)
        scores = np.zeros((len(pictures), described["call"]["top_k"]), np.float32)
        for row, picture in enumerate(pictures):
            _scatter(scores[row], pipe(picture, top_k=scores.shape[1]), labels)
        return {"images": images}, {"pixel_values": made, "scores": scores}

    return answered(pixels), answered(loaded.control["pixel_values"]) if loaded.control else None


def _labels(config: Any, described: dict[str, Any]) -> list[str]:
    """The names of all classes in their order; results name a class and not its number."""
    labels: list[str] = described.setdefault("labels", [config.id2label[index] for index in range(config.num_labels)])
    if len(set(labels)) < len(labels):
        raise Refused("unsupported", "several classes of the model have one name, by which results are told apart")
    return labels


def _scatter(scores: np.ndarray, found: list[dict[str, Any]], labels: list[str]) -> None:
    for entry in found:
        scores[labels.index(entry["label"])] = entry["score"]

"""Diffusion: from noise to a picture, a turn for each time step. A denoiser says how much of the sample is noise, and
the scheduler's coefficients say how much of that to take out.

The coefficients come from the scheduler's own `alphas_cumprod`, by the formulas of DDPM (Ho et al. 2020, equation 7)
and of DDIM (Song et al. 2020, equation 12, eta 0). The reference is made by the pipelines and schedulers of diffusers,
so a wrong formula is found.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import torch

from orch_py.generate.parts import Made, Parts, Reference
from orch_py.worker.protocol import Refused, listed
from orch_py.worker.trees import Tensors

_OWN = ("steps", "guidance")


def _scheduler(name: str, config: dict[str, Any], steps: int) -> Any:
    import diffusers

    try:
        made = getattr(diffusers, name)(**{key: value for key, value in config.items() if key not in _OWN})
    except TypeError as error:
        raise Refused("error", f"{name} refuses the config: {error}") from error
    made.set_timesteps(steps)
    return made


def _needs(inputs: Tensors, *names: str) -> None:
    if sorted(inputs) != sorted(names):
        raise Refused("error", f"its inputs are {listed(inputs)}, and must be {listed(names)}")


def _clip(scheduler: Any) -> dict[str, Any]:
    limit = scheduler.config.clip_sample_range
    return {"clip": [-limit, limit]} if scheduler.config.clip_sample else {}


def _clean(made: Made, scheduler: Any, time: int, turn: int) -> float:
    """The step that guesses the picture without its noise; gives how much of it the sample is."""
    kept = float(scheduler.alphas_cumprod[time])
    by = [kept**-0.5, -(((1 - kept) / kept) ** 0.5)]
    made.op("sum", ["sample", "noise_found"], "clean", turn, by=by, **_clip(scheduler))
    return kept


def _ddim(made: Made, scheduler: Any, time: int, turn: int) -> None:
    """The sample one step before, without new noise."""
    _clean(made, scheduler, time, turn)
    before = time - scheduler.config.num_train_timesteps // scheduler.num_inference_steps
    kept = float(scheduler.alphas_cumprod[before] if before >= 0 else scheduler.final_alpha_cumprod)
    made.op("sum", ["clean", "noise_found"], "sample", turn, by=[kept**0.5, (1 - kept) ** 0.5])


def _times(made: Made, parts: Parts, name: str, scheduler: Any) -> list[int]:
    """Time steps; the constants `time.1`, … are those as the denoiser takes them."""
    times = [int(time) for time in scheduler.timesteps]
    shape = parts.shape(name, "timestep")
    made.constants |= {f"time.{turn}": np.full(shape, time, np.int64) for turn, time in enumerate(times, 1)}
    return times


class Ddpm:
    """Unconditional, in the space of pictures; each turn but the last adds new noise, which is an input."""

    COMPONENTS = ("unet",)

    @staticmethod
    def make(parts: Parts, inputs: Tensors, config: dict[str, Any], seed: int) -> Made:
        _needs(inputs, "sample", "noise")
        scheduler = _scheduler("DDPMScheduler", config, len(inputs["noise"]))
        if scheduler.config.variance_type != "fixed_small" or scheduler.config.prediction_type != "epsilon":
            raise Refused("error", "a loop has DDPM's variance `fixed_small` and prediction `epsilon` only")
        made = Made(["sample"], {})
        for turn, time in enumerate(_times(made, parts, "unet", scheduler), 1):
            made.call("unet", {"sample": "sample", "timestep": f"time.{turn}"}, {"noise_found": "sample"}, turn)
            kept = _clean(made, scheduler, time, turn)
            before = int(scheduler.previous_timestep(time))
            kept_before = float(scheduler.alphas_cumprod[before]) if before >= 0 else 1.0
            step = kept / kept_before
            by = [kept_before**0.5 * (1 - step) / (1 - kept), step**0.5 * (1 - kept_before) / (1 - kept)]
            of = ["clean", "sample"]
            if time > 0:
                made.op("part", ["noise"], "fresh", turn, axis=0, first=turn - 1, last=turn)
                of.append("fresh")
                by.append(((1 - kept_before) / (1 - kept) * (1 - step)) ** 0.5)
            made.op("sum", of, "sample", turn, by=by)
        return made

    @staticmethod
    def reference(parts: Parts, made: Made, inputs: Tensors, config: dict[str, Any]) -> Reference:
        import diffusers
        from diffusers.schedulers import scheduling_ddpm

        fresh = iter(torch.from_numpy(inputs["noise"]))
        scheduler = _scheduler("DDPMScheduler", config, len(inputs["noise"]))
        sample = torch.from_numpy(inputs["sample"])
        unet = parts["unet"].inner
        with (
            mock.patch.object(scheduling_ddpm, "randn_tensor", lambda *_, **__: next(fresh)),
            torch.inference_mode(),
        ):
            for time in scheduler.timesteps:
                sample = scheduler.step(unet(sample, time).sample, time, sample).prev_sample
        return Reference({"sample": sample.numpy()}, f"DDPMScheduler of diffusers {diffusers.__version__}")


class Dit:
    """Of a class, in the space of latents; guided by the difference to no class."""

    COMPONENTS = ("transformer", "vae")

    @staticmethod
    def make(parts: Parts, inputs: Tensors, config: dict[str, Any], seed: int) -> Made:
        _needs(inputs, "sample", "class_labels")
        scheduler, guidance = _guided(config)
        channels, rows = inputs["sample"].shape[1], len(inputs["sample"])
        made = Made(["sample", "image"], {"no_class": np.full(rows, 1000, np.int64)})
        made.op("join", ["class_labels", "no_class"], "labels", axis=0)
        given = {"hidden_states": "twice", "class_labels": "labels"}
        for turn, time in enumerate(_times(made, parts, "transformer", scheduler), 1):
            made.op("join", ["sample", "sample"], "twice", turn, axis=0)
            made.call("transformer", given | {"timestep": f"time.{turn}"}, {"both": "sample"}, turn)
            # Behind the noise stands what is learned of its variance, which DDIM does not take.
            made.op("part", ["both"], "noises", turn, axis=1, first=0, last=channels)
            _guide(made, turn, rows, with_first=True, guidance=guidance)
            _ddim(made, scheduler, time, turn)
        _decode(made, parts)
        return made

    @staticmethod
    def reference(parts: Parts, made: Made, inputs: Tensors, config: dict[str, Any]) -> Reference:
        import diffusers
        from diffusers.pipelines.dit import pipeline_dit

        steps, guidance = config["steps"], config["guidance"]
        sample = torch.from_numpy(inputs["sample"])
        pipeline = diffusers.DiTPipeline(
            parts["transformer"].inner, parts["vae"].inner, _scheduler("DDIMScheduler", _plain(config), steps)
        )
        labels = inputs["class_labels"].tolist()
        with mock.patch.object(pipeline_dit, "randn_tensor", lambda *_, **__: sample):
            return _seen(pipeline, class_labels=labels, guidance_scale=guidance, num_inference_steps=steps)


class StableDiffusion:
    """Of a prompt, in the space of latents; guided by the difference to another prompt, which is mostly empty."""

    COMPONENTS = ("text_encoder", "unet", "vae")

    @staticmethod
    def make(parts: Parts, inputs: Tensors, config: dict[str, Any], seed: int) -> Made:
        _needs(inputs, "sample", "input_ids", "negative_input_ids")
        scheduler, guidance = _guided(config)
        made = Made(["sample", "image"], {})
        made.op("join", ["negative_input_ids", "input_ids"], "prompts", axis=0)
        made.call("text_encoder", {"input_ids": "prompts"}, {"text": "last_hidden_state"})
        given = {"sample": "twice", "encoder_hidden_states": "text"}
        for turn, time in enumerate(_times(made, parts, "unet", scheduler), 1):
            made.op("join", ["sample", "sample"], "twice", turn, axis=0)
            made.call("unet", given | {"timestep": f"time.{turn}"}, {"noises": "sample"}, turn)
            _guide(made, turn, len(inputs["sample"]), with_first=False, guidance=guidance)
            _ddim(made, scheduler, time, turn)
        _decode(made, parts)
        return made

    @staticmethod
    def reference(parts: Parts, made: Made, inputs: Tensors, config: dict[str, Any]) -> Reference:
        import diffusers

        steps = config["steps"]
        pipeline = diffusers.StableDiffusionPipeline(
            vae=parts["vae"].inner,
            text_encoder=parts["text_encoder"],
            tokenizer=None,
            unet=parts["unet"].inner,
            scheduler=_scheduler("DDIMScheduler", _plain(config), steps),
            safety_checker=None,
            feature_extractor=None,
            requires_safety_checker=False,
        )
        with torch.inference_mode():
            text = {
                name: parts["text_encoder"](torch.from_numpy(inputs[ids]))[0]
                for name, ids in (("prompt_embeds", "input_ids"), ("negative_prompt_embeds", "negative_input_ids"))
            }
        return _seen(
            pipeline,
            **text,
            latents=torch.from_numpy(inputs["sample"]),
            guidance_scale=config["guidance"],
            num_inference_steps=steps,
        )


def _plain(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in _OWN}


def _guided(config: dict[str, Any]) -> tuple[Any, float]:
    """DDIM's scheduler and how far to follow the prompt."""
    if missing := [name for name in _OWN if name not in config]:
        raise Refused("error", f"`config` lacks {listed(missing)}: how many steps, and how far to follow the prompt")
    if config["guidance"] <= 1:
        raise Refused("error", f"`guidance: {config['guidance']}`: it must be above 1, or the prompt has no part in it")
    scheduler = _scheduler("DDIMScheduler", config, config["steps"])
    if scheduler.config.prediction_type != "epsilon" or scheduler.config.thresholding:
        raise Refused("error", "a loop has DDIM's prediction `epsilon` without `thresholding` only")
    return scheduler, float(config["guidance"])


def _guide(made: Made, turn: int, rows: int, with_first: bool, guidance: float) -> None:
    """The noise by both halves of `noises`: that with the prompt, and that without."""
    made.op("part", ["noises"], "first_half", turn, axis=0, first=0, last=rows)
    made.op("part", ["noises"], "second_half", turn, axis=0, first=rows, last=2 * rows)
    by = [guidance, 1 - guidance] if with_first else [1 - guidance, guidance]
    made.op("sum", ["first_half", "second_half"], "noise_found", turn, by=by)


def _decode(made: Made, parts: Parts) -> None:
    made.op("sum", ["sample"], "latents", by=[1 / float(parts["vae"].inner.config.scaling_factor)])
    made.call("vae", {"z": "latents"}, {"image": "sample"})


def _seen(pipeline: Any, **asked: Any) -> Reference:
    """What a pipeline's decoder is given and gives, which the pipeline then scales and cuts to 0..1."""
    import diffusers

    pipeline.set_progress_bar_config(disable=True)
    decode = pipeline.vae.decode
    seen: dict[str, torch.Tensor] = {}

    def watched(latents: torch.Tensor, *more: Any, **given: Any) -> Any:
        result = decode(latents, *more, **given)
        image = result[0] if isinstance(result, tuple) else result.sample
        seen.update(sample=latents * pipeline.vae.config.scaling_factor, image=image)
        return result

    with mock.patch.object(pipeline.vae, "decode", watched):
        pipeline(output_type="pt", **asked)
    found = {name: np.ascontiguousarray(value.detach().numpy()) for name, value in seen.items()}
    return Reference(found, f"{type(pipeline).__name__} of diffusers {diffusers.__version__}")

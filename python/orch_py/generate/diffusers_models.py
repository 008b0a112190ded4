"""Models of diffusers, in the form in which the rest of the package knows models: that of transformers.

Their trees are in diffusers' own layout, which a generated test loads with diffusers alone. Of an autoencoder the
decoder is meant: that is what makes pictures of latents.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from orch_py.worker.protocol import Refused, listed


class DiffusersConfig(PreTrainedConfig):
    """What the constructor of the model takes."""

    model_type = "diffusers"

    def __init__(self, settings: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.settings = settings or {}


class _Model(PreTrainedModel):
    config_class = DiffusersConfig
    # Attention is eager by other processors of diffusers' own.
    _supports_sdpa = True

    def __init__(self, config: DiffusersConfig, inner: Any = None) -> None:
        super().__init__(config)
        self.inner = inner or self.made_of()(**copy.deepcopy(config.settings))
        self.post_init()

    @classmethod
    def made_of(cls) -> Any:
        import diffusers

        return getattr(diffusers, cls.__name__)

    @classmethod
    def config_of(cls, given: dict[str, Any]) -> DiffusersConfig:
        """The class's own defaults overridden by `given`."""
        known = [name for name in inspect.signature(cls.made_of().__init__).parameters if name != "self"]
        if unknown := [name for name in given if name not in known]:
            raise Refused("error", f"{cls.__name__} takes no {listed(unknown)} in its config; it takes {listed(known)}")
        return DiffusersConfig(given)

    def _init_weights(self, module: torch.nn.Module) -> None:
        """They are as diffusers makes them."""

    def save_pretrained(self, save_directory: Any, **more: Any) -> None:
        self.inner.save_pretrained(save_directory, safe_serialization=True, **more)

    @classmethod
    def from_pretrained(cls, source: str, *, dtype: torch.dtype, attn_implementation: str = "sdpa", **more: Any) -> Any:
        taken = ("local_files_only", "use_safetensors", "revision", "ignore_mismatched_sizes")
        where = {name: more[name] for name in taken if name in more}
        inner, info = cls.made_of().from_pretrained(
            source, torch_dtype=dtype, low_cpu_mem_usage=False, output_loading_info=True, **where
        )
        if attn_implementation == "eager":
            from diffusers.models.attention_processor import Attention, AttnProcessor

            for module in inner.modules():
                if isinstance(module, Attention):
                    module.set_processor(AttnProcessor())
        return cls(DiffusersConfig(dict(inner.config)), inner), info


class UNet2DModel(_Model):
    def forward(self, sample: torch.Tensor, timestep: torch.Tensor) -> Any:
        return self.inner(sample, timestep, return_dict=True)


class UNet2DConditionModel(_Model):
    def forward(self, sample: torch.Tensor, timestep: torch.Tensor, encoder_hidden_states: torch.Tensor) -> Any:
        return self.inner(sample, timestep, encoder_hidden_states, return_dict=True)


class DiTTransformer2DModel(_Model):
    def forward(self, hidden_states: torch.Tensor, timestep: torch.Tensor, class_labels: torch.Tensor) -> Any:
        return self.inner(hidden_states, timestep=timestep, class_labels=class_labels, return_dict=True)


class AutoencoderKL(_Model):
    def forward(self, z: torch.Tensor) -> Any:
        return self.inner.decode(z, return_dict=True)


CLASSES = {cls.__name__: cls for cls in (UNet2DModel, UNet2DConditionModel, DiTTransformer2DModel, AutoencoderKL)}

"""What the flows of CosyVoice 2 and 3 differ in, and how to tell that a module is one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from tts_engine.cosyvoice.dit_attention import (
    RotaryHiddenAttention,
    RotaryKeyValueAttention,
    frequencies,
)
from tts_engine.cosyvoice.dit_encoder import DitEncoder
from tts_engine.cosyvoice.dit_estimator import DitEstimator, modulations
from tts_engine.cosyvoice.flow_attention import (
    Attention,
    CachedAttention,
    HiddenAttention,
    KeyValueAttention,
    Projections,
)
from tts_engine.cosyvoice.flow_cache import Cache
from tts_engine.cosyvoice.flow_encoder import Encoder
from tts_engine.cosyvoice.flow_estimator import Estimator, time_embeddings
from tts_engine.errors import EngineFailed

#: values of a mel frame
_MEL = 80


class AnyEncoder(Protocol):
    """Tokens to means: see `flow_encoder.Encoder`."""

    vocabulary: int
    look_ahead: int
    ratio: int

    def empty(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The state before the first token: contexts of convolutions, and stores."""
        ...

    def __call__(
        self,
        caches: Sequence[Cache],
        tokens: Sequence[Sequence[int]],
        counts: Sequence[int],
        length: int,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """One block of each stream: means, and the convolutions' next contexts."""
        ...


class AnyEstimator(Protocol):
    """The velocity at one Euler step: see `flow_estimator.Estimator`."""

    attentions: tuple[Projections, ...]
    channels: int
    width: int

    def empty(self) -> Tensor:
        """The convolutions' contexts before the first frame."""
        ...

    def __call__(
        self, x: Tensor, times: Tensor, contexts: Tensor, attend: Attention
    ) -> tuple[Tensor, Tensor]:
        """Velocities, and the next block's contexts."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """How to compute the flow of a generation.

    Parameters:
        encoder: prepares a flow's encoder, in a precision.
        estimator: the same of its decoder's estimator.
        times: what a step's time adds to or makes of the estimator's layers, for each of some
            times, in single precision.
        attentions: by the kind of cache, `kv` or `hidden`.
    """

    encoder: Callable[[Any, torch.dtype], AnyEncoder]
    estimator: Callable[[Any, torch.dtype], AnyEstimator]
    times: Callable[[Any, Sequence[float]], Tensor]
    attentions: Mapping[str, type[CachedAttention]]


_SECOND = Generation(
    encoder=Encoder,
    estimator=Estimator,
    times=time_embeddings,
    attentions={"kv": KeyValueAttention, "hidden": HiddenAttention},
)
_THIRD = Generation(
    encoder=DitEncoder,
    estimator=DitEstimator,
    times=modulations,
    attentions={"kv": RotaryKeyValueAttention, "hidden": RotaryHiddenAttention},
)


def generation_of(flow: Any) -> Generation:
    """How to compute this flow.

    Raises:
        EngineFailed: it is built otherwise than CosyVoice 2's and CosyVoice 3's.
    """
    name = type(flow).__name__
    if name == "CausalMaskedDiffWithDiT":
        _check_third(flow)
        return _THIRD
    if name != "CausalMaskedDiffWithXvec":
        raise EngineFailed(
            f"the incremental flow is made for CosyVoice 2 and 3; this model's is a {name}"
        )
    check_second(flow)
    return _SECOND


def check_second(flow: Any) -> None:
    """Refuses what is built otherwise than CosyVoice 2's flow.

    Raises:
        EngineFailed: it is.
    """
    kinds = [type(part).__name__ for part in (flow, getattr(flow, "encoder", None))]
    if kinds != ["CausalMaskedDiffWithXvec", "UpsampleConformerEncoder"]:
        raise EngineFailed(f"this is not the flow of CosyVoice 2 but a {' over a '.join(kinds)}")
    encoder, estimator = flow.encoder, flow.decoder.estimator
    ratio = encoder.up_layer.stride
    layers = [*encoder.encoders, *encoder.up_encoders]
    plain = all(
        layer.normalize_before and layer.conv_module is None and layer.feed_forward_macaron is None
        for layer in layers
    )
    if not plain or estimator.static_chunk_size != ratio * encoder.static_chunk_size:
        raise EngineFailed("this flow's layers or blocks are not those of CosyVoice 2")


def _check_third(flow: Any) -> None:
    """Refuses a transformer that is built otherwise than CosyVoice 3's, and what it lacks here."""
    estimator = flow.decoder.estimator
    if type(estimator).__name__ != "DiT":
        raise EngineFailed("this flow's estimator is not that of CosyVoice 3")
    plain = (
        estimator.long_skip_connection is None
        and estimator.input_embed.proj.in_features == 4 * _MEL
        and estimator.static_chunk_size % flow.token_mel_ratio == 0
        and all(map(_plain, estimator.transformer_blocks))
    )
    if not plain or not _turns_as_ours(estimator):
        raise EngineFailed("this flow's layers or blocks are not those of CosyVoice 3")


def _plain(block: Any) -> bool:
    """Whether a layer attends to nothing but the frames, and its activation is the right one."""
    activation = block.ff.ff[0][1]
    named = type(block.attn.processor).__name__, type(activation).__name__
    return named == ("AttnProcessor", "GELU") and activation.approximate == "tanh"


def _turns_as_ours(estimator: Any) -> bool:
    """Whether the first head, the whole of it, is turned by the same angles."""
    rotary = estimator.rotary_embed
    theirs: Tensor = rotary.inv_freq
    width = estimator.transformer_blocks[0].attn.to_q.out_features
    width //= estimator.transformer_blocks[0].attn.heads
    ours = frequencies(width, theirs.device)
    return (
        rotary.scale is None
        and rotary.interpolation_factor == 1
        and theirs.shape == ours.shape
        and torch.allclose(theirs, ours.to(theirs.dtype), rtol=0.01)
    )

"""Repetition-aware sampling of speech tokens, all rows of a batch at once.

The rule is VALL-E 2's as CosyVoice applies it: draw from the nucleus; a token that the last few
already hold is put aside, and another is drawn from all that remain. Everything stays on the
logits' device: the caller brings the random numbers, so a row draws the same token in any batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

#: what `draw` answers for a row whose logits are not numbers
BROKEN = -1
#: Few enough bits that `uniform * total < total` holds in float32, so no draw falls off the end.
_BITS = 23


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the next token is drawn.

    Parameters:
        top_p: the nucleus is complete once its probabilities reach this.
        top_k: most tokens of the nucleus.
        window: how many of the latest tokens count as repetition.
        repeat_ratio: share of the window that a token may not reach.
    """

    top_p: float = 0.8
    top_k: int = 25
    window: int = 10
    repeat_ratio: float = 0.1


def uniforms(random: Random) -> tuple[float, float]:
    """The two random numbers in [0, 1) that one token needs."""
    return random.getrandbits(_BITS) / 2**_BITS, random.getrandbits(_BITS) / 2**_BITS


def draw(
    logits: Tensor,
    *,
    recent: Tensor,
    others: Tensor,
    uniform: Tensor,
    speech_tokens: int,
    rule: Sampling,
) -> Tensor:
    """One token for each row.

    Args:
        logits: [rows, vocabulary] float32; ids from `speech_tokens` on are no speech.
        recent: [rows, rule.window] latest tokens of each row, filled up with -1.
        others: [rows, vocabulary - speech_tokens] bool; which of those ids a row may get.
        uniform: [rows, 2] float32 in [0, 1), see `uniforms`.
        speech_tokens: number of ids that are speech.
        rule: how to draw.

    Returns:
        [rows] int64; BROKEN for a row with logits that are not finite.
    """
    sound = logits.isfinite().all(dim=-1)
    allowed = logits.clone()
    allowed[:, speech_tokens:].masked_fill_(~others, -torch.inf)
    first = _from_nucleus(allowed.softmax(dim=-1), uniform[:, 0], rule)
    others = allowed.scatter(1, first[:, None], -torch.inf).softmax(dim=-1)
    second = _pick(others, uniform[:, 1])
    repeats = (recent == first[:, None]).sum(dim=-1)
    token = torch.where(repeats >= rule.window * rule.repeat_ratio, second, first)
    return torch.where(sound, token, BROKEN)


def _from_nucleus(probabilities: Tensor, uniform: Tensor, rule: Sampling) -> Tensor:
    """One of each row's likeliest tokens: those before which top_p was not yet reached."""
    likeliest, ids = probabilities.topk(min(rule.top_k, probabilities.shape[-1]), dim=-1)
    before = likeliest.cumsum(dim=-1) - likeliest
    place = _pick(likeliest * (before < rule.top_p), uniform)
    return ids.gather(1, place[:, None])[:, 0]


def _pick(weights: Tensor, uniform: Tensor) -> Tensor:
    """The index of each row at which the running sum of its weights passes uniform * total."""
    passed = weights.cumsum(dim=-1)
    target = uniform[:, None] * passed[:, -1:]
    # A row that is not finite may find nothing; its answer is thrown away, the index must exist.
    index = torch.searchsorted(passed, target, right=True)[:, 0]
    return index.clamp(max=weights.shape[-1] - 1)

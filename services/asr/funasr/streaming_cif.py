"""Continuous integrate-and-fire: frames to one embedding a token, carried from chunk to chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn


@dataclass(slots=True, kw_only=True)
class Carried:
    """What a chunk left over for the next one.

    Parameters:
        weight: of the token that is not full yet, below the threshold.
        frame: (size,), the mean of the frames that it has, by their weights.
    """

    weight: np.float32
    frame: torch.Tensor


class Firing:
    """Steps FunASR's CifPredictorV2; in float32."""

    def __init__(self, predictor: nn.Module) -> None:
        """Takes the module apart.

        Raises:
            AttributeError: it is another predictor.
        """
        self._predictor: Any = predictor
        self._threshold = np.float32(self._predictor.threshold)
        self._tail = float(self._predictor.tail_threshold)
        self._size: int = self._predictor.cif_output.in_features

    def carried(self, device: torch.device) -> Carried:
        """Of a stream that begins."""
        return Carried(weight=np.float32(0), frame=torch.zeros(self._size, device=device))

    def step(
        self,
        encoded: torch.Tensor,
        lengths: Sequence[int],
        carried: Sequence[Carried],
        last: Sequence[bool],
        frames: int,
    ) -> list[torch.Tensor]:
        """The tokens that become full in each row.

        Args:
            encoded: (rows, frames, size) of the encoder.
            lengths: frames of each row that count.
            carried: of each row; they step on.
            last: whether a row's stream ends: then all of its frames weigh, and a last token may
                be made of what is left.
            frames: in a chunk: those after it weigh when the next one comes.

        Returns:
            (tokens, size) of each row.
        """
        weights = self._weights(encoded, lengths)
        out: list[torch.Tensor] = []
        for row, (held, ends) in enumerate(zip(carried, last, strict=True)):
            count = lengths[row] if ends else min(frames, lengths[row])
            parts = [held.frame[None], encoded[row, :count]]
            own = [held.weight, *weights[row, :count]]
            if ends:
                parts.append(torch.zeros_like(held.frame)[None])
                own.append(np.float32(self._tail))
            shares, held.weight = _integrate(own, self._threshold)
            summed = torch.from_numpy(shares).to(encoded.device) @ torch.cat(parts)
            rest = summed[-1]
            held.frame = rest / float(held.weight) if held.weight > 0 else rest
            out.append(summed[:-1])
        return out

    def _weights(self, encoded: torch.Tensor, lengths: Sequence[int]) -> Any:
        """How much of a token each frame is: (rows, frames), float32."""
        predictor = self._predictor
        places = torch.arange(encoded.shape[1], device=encoded.device)
        real = places < torch.tensor(lengths, device=encoded.device)[:, None]
        # It looks a frame ahead: past the end of a row there are zeros, as past that of a chunk.
        context = (encoded * real[:, :, None]).transpose(1, 2)
        found = torch.relu(predictor.cif_conv1d(predictor.pad(context))).transpose(1, 2)
        weights = torch.sigmoid(predictor.cif_output(found)).squeeze(-1)
        weights = weights * predictor.smooth_factor - predictor.noise_threshold
        return torch.relu(weights).cpu().numpy()


def _integrate(weights: Sequence[np.float32], threshold: np.float32) -> tuple[Any, np.float32]:
    """Fills token after token with the weights.

    Returns:
        (tokens + 1, weights): how much of each goes into each token, and, in the last row, into the
        one that is not full; and the sum of that row.
    """
    rows: list[Any] = [np.zeros(len(weights), np.float32)]
    full = np.float32(0)
    for place, weight in enumerate(weights):
        if weight + full < threshold:
            full += weight
            rows[-1][place] = weight
            continue
        rows[-1][place] = threshold - full
        full = full + weight - threshold
        rows.append(np.zeros(len(weights), np.float32))
        rows[-1][place] = full
    return np.stack(rows), full

"""What a second pass is given, and the features that the models take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.utils.rnn import pad_sequence

from services.asr.funasr.loader import Model


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Audio to recognise.

    Parameters:
        samples: mono float32 in [-1, 1] at 16 kHz.
        languages: that it may be in; None: any.
        hotwords: names and terms that are likely in it.
    """

    samples: NDArray[np.float32]
    languages: tuple[str, ...] | None = None
    hotwords: tuple[str, ...] = ()


def features(model: Model, pieces: Sequence[Piece]) -> tuple[torch.Tensor, torch.Tensor]:
    """Features of each piece, and how many it has: (pieces, frames, width), (pieces,).

    float32 on the model's device; the shorter ones end in zeros.
    """
    rows: list[torch.Tensor] = []
    for piece in pieces:
        samples = torch.from_numpy(np.ascontiguousarray(piece.samples))[None]
        frames, _ = model.frontend(samples, torch.tensor([samples.shape[1]]))
        rows.append(frames[0])
    lengths = torch.tensor([len(row) for row in rows], device=model.device)
    return pad_sequence(rows, batch_first=True).to(model.device), lengths

"""The pace of an utterance: its mel stretched in time, chunk by chunk.

The frame i of the result lies at (i + 0.5) x speed - 0.5 of the original, between two of its
frames, as in `torch.nn.functional.interpolate(mel, scale_factor=1 / speed, mode="linear")`, which
is what CosyVoice does with a whole utterance. No frame depends on where the chunks are cut.
"""

from __future__ import annotations

import torch
from torch import Tensor


class MelStretch:
    """Stretches one utterance.

    Parameters:
        speed: 2.0 is twice as fast, half as many frames.
    """

    def __init__(self, speed: float) -> None:
        if speed <= 0:
            raise ValueError("speed must be above 0")
        self._speed = speed
        #: the frames from `_base` on that are still needed
        self._kept: Tensor | None = None
        self._base = 0
        self._made = 0

    @torch.inference_mode()
    def push(self, mel: Tensor, final: bool = False) -> Tensor:
        """The frames that have become certain.

        Args:
            mel: the next frames, [80, frames]; may have none.
            final: nothing follows.

        Returns:
            [80, frames]; may have none. All together floor(frames / speed), at least one where
            there was one.
        """
        if self._speed == 1.0:
            return mel
        kept = mel if self._kept is None else torch.cat([self._kept, mel], -1)
        end = self._base + kept.shape[-1]
        index = torch.arange(self._made, self._count(end, final), dtype=torch.float64)
        # Before the first frame and behind the last one the outermost frame holds.
        place = ((index + 0.5) * self._speed - 0.5).clamp(0, max(0, end - 1))
        before = place.long()
        share = (place - before).to(device=mel.device, dtype=mel.dtype)
        left = (before - self._base).to(mel.device)
        right = ((before + 1).clamp(max=end - 1) - self._base).to(mel.device)
        result = torch.lerp(kept[:, left], kept[:, right], share)
        self._made += len(index)
        self._forget(kept)
        return result

    def _count(self, end: int, final: bool) -> int:
        """Frames of the result that the first `end` frames decide."""
        whole = int(end * (1.0 / self._speed))
        if final:
            return max(whole, min(end, 1))
        # Those that lie at or before the frame end - 1: the next frames change nothing of them.
        return max(0, min(whole, int((end - 0.5) / self._speed + 0.5)))

    def _forget(self, kept: Tensor) -> None:
        """Drops the frames before the one that the next frame of the result begins with."""
        place = max(0.0, (self._made + 0.5) * self._speed - 0.5)
        # The last one stays: it holds behind the end.
        drop = max(0, min(int(place) - self._base, kept.shape[-1] - 1))
        self._kept = kept[:, drop:].clone()
        self._base += drop

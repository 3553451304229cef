# pyright: strict
"""Pitch and energy of a voice that has no such settings: what is done to its sound afterwards."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tts_engine.audio.encoders import Encoder
from tts_engine.audio.gain import with_gain
from tts_engine.engine import MAX_SPEED, MIN_SPEED
from tts_engine.errors import BadRequest

#: Audio that is encoded before the event loop has its turn. 40 ms of the dearest format, MP3, take
#: 0.6 ms of a slow core: less than a thread and its way back, and nothing to tear down when the
#: client leaves in the middle.
_SLICE_S = 0.04


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaping:
    """What is done to the sound.

    A pitch of 1.2 is speech made 1.2 times slower and then played 1.2 times faster: it takes as
    long as it would have taken, and all its frequencies, the formants included, are 1.2 times
    higher. The resampling that this takes is the one that brings the audio to the client's rate.

    Parameters:
        pitch: multiple of the voice's own.
        energy: multiple of its amplitude; loud passages are pressed together, and never cut.
    """

    pitch: float = 1.0
    energy: float = 1.0

    def engine_speed(self, speed: float) -> float:
        """The pace to ask the engine for.

        Raises:
            BadRequest: it has no such pace.
        """
        pace = speed / self.pitch
        if not MIN_SPEED <= pace <= MAX_SPEED:
            raise BadRequest(
                f"A speed of {speed:g} at a pitch of {self.pitch:g} is beyond the voice",
                mend=f"Keep speed / pitch between {MIN_SPEED:g} and {MAX_SPEED:g}",
            )
        return pace

    def rate(self, rate: int) -> float:
        """What the engine's samples per second stand for."""
        return rate * self.pitch


async def encoded(encoder: Encoder, pcm: bytes, shaping: Shaping, rate: int) -> bytes:
    """Shapes and encodes samples; others have their turn in between.

    Args:
        encoder: of the stream.
        pcm: mono int16 samples as the engine made them.
        shaping: of the sound.
        rate: samples per second of the engine.
    """
    size = round(_SLICE_S * rate) * 2
    done: list[bytes] = []
    for start in range(0, len(pcm), size):
        done.append(encoder.push(with_gain(pcm[start : start + size], shaping.energy)))
        await asyncio.sleep(0)
    return b"".join(done)

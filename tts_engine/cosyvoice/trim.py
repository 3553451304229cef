"""Cuts the silence before speech while the speech still comes.

What counts as speech, what is kept before it, and how the cut is faded are the embedded voice's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tts_engine.kokoro.trim import FADE, LEAD, SAMPLE_RATE, sounding

Samples = NDArray[np.float32]

#: What cannot be judged yet: two frames that sound, and one of which a part is there.
_OPEN = 3 * LEAD
#: What is held back in silence: that, and what is kept before speech.
_HELD = _OPEN + LEAD


class LeadingSilence:
    """Lets an utterance through from shortly before its first sound.

    Parameters:
        limit_s: at most so much is cut; silence that lasts longer was meant.
    """

    def __init__(self, *, limit_s: float = 1.0) -> None:
        self._limit = int(limit_s * SAMPLE_RATE) // LEAD * LEAD
        self._held: Samples = np.zeros(0, np.float32)
        self._begun = False
        self._let_through = 0
        #: samples cut so far
        self.dropped = 0

    def push(self, samples: Samples, final: bool = False) -> Samples:
        """What may be played of the next samples of the utterance.

        Args:
            samples: mono at 24 kHz, in [-1, 1].
            final: nothing follows; of an utterance without a sound a short rest is let through.
        """
        if self._begun:
            return self._faded(samples)
        held = np.concatenate([self._held, samples])
        start, stop = sounding(held)
        self._begun = stop > start or final
        cut = start - LEAD if stop > start else (len(held) - _HELD) // LEAD * LEAD
        cut = max(0, min(cut, self._limit - self.dropped))
        self.dropped += cut
        self._begun = self._begun or self.dropped >= self._limit
        self._held = held[cut:]
        if not self._begun:
            return np.zeros(0, np.float32)
        rest, self._held = self._held, np.zeros(0, np.float32)
        return self._faded(rest)

    def _faded(self, samples: Samples) -> Samples:
        """The first samples let through swell from nothing: a cut, or a model, may click."""
        start = self._let_through
        self._let_through += len(samples)
        if start >= FADE:
            return samples
        place = np.arange(start, self._let_through, dtype=np.float32)
        return samples * np.minimum(place / FADE, 1.0)

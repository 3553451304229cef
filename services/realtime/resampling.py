# pyright: strict
"""Streaming resampling between the wire and the conversation, holding nothing back.

Written out because the delay counts in v2v: see docs/decisions/005-microphone-resampling.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import gcd

import numpy as np
from numpy.typing import NDArray

#: length of the low-pass, seconds, for wide band and for telephone band, whose edge is steeper;
#: the delay is half of it: 1 ms and 1.5 ms
_WIDE_S, _NARROW_S = 0.002, 0.003
#: shape of the window: what folds lies 60 dB down
_KAISER = 5.65


@dataclass(frozen=True, slots=True)
class _Filter:
    """A polyphase low-pass.

    Parameters:
        weights: one column for each output of a period, one row for each input that it sees.
        step: inputs of a period.
        newest: inputs of a period that its outputs wait for, minus one.
        delay_s: of the filter, seconds.
    """

    weights: NDArray[np.float32]
    step: int
    newest: int
    delay_s: float


@cache
def _filter(source: int, target: int) -> _Filter:
    """The low-pass between two rates, counted at the least rate that both divide."""
    between = source * target // gcd(source, target)
    up, down = between // source, between // target
    narrow = min(source, target)
    taps = round(between * (_NARROW_S if narrow < 16_000 else _WIDE_S))
    places = np.arange(taps) - (taps - 1) / 2
    low_pass = np.sinc(places * narrow / between) * np.kaiser(taps, _KAISER)
    low_pass *= up / low_pass.sum()
    # Between the rates, input i lies at up * i and output `phase` of a period at down * phase.
    newest = (up - 1) * down // up
    oldest = -((taps - 1) // up)
    weights = np.zeros((newest - oldest + 1, up), np.float32)
    for phase in range(up):
        for place in range(oldest, newest + 1):
            tap = down * phase - up * place
            if 0 <= tap < taps:
                weights[place - oldest, phase] = low_pass[tap]
    return _Filter(weights, down, newest, (taps - 1) / 2 / between)


def delay_s(source: int, target: int) -> float:
    """How much later everything comes out of a resampler, seconds."""
    return 0.0 if source == target else _filter(source, target).delay_s


class Resampler:
    """Turns a stream of PCM at one rate into PCM at another.

    A streaming soxr at any quality with a low-pass gives its output in bursts and holds up to 37 ms
    of it, 21 ms on average; without one ("QQ") it folds everything above the new band, which is
    where sibilants are, into what is recognised.

    Parameters:
        source, target: samples per second.
    """

    def __init__(self, source: int, target: int) -> None:
        self._filter = None if source == target else _filter(source, target)
        self._late = round(delay_s(source, target) * source)
        span = len(self._filter.weights) if self._filter else 1
        newest = self._filter.newest if self._filter else 0
        self._held = np.zeros(span - 1 - newest, np.float32)

    def push(self, pcm: bytes) -> bytes:
        """The samples that are complete with this piece, which may be none.

        Args:
            pcm: whole int16 samples, any number.
        """
        if self._filter is None:
            return pcm
        weights, step = self._filter.weights, self._filter.step
        samples = np.concatenate((self._held, np.frombuffer(pcm, "<i2").astype(np.float32)))
        span = len(weights)
        periods = (len(samples) - span) // step + 1
        if periods <= 0:
            self._held = samples
            return b""
        # overlapping windows, a period apart; contiguous, because BLAS takes them only so
        shape, strides = (periods, span), (4 * step, 4)
        windows = np.ndarray(shape, np.float32, samples, 0, strides).copy()
        self._held = samples[step * periods :].copy()
        output = np.rint(windows @ weights).clip(-32768, 32767)
        return output.astype("<i2").tobytes()

    def finish(self) -> bytes:
        """The end of the stream, which the filter still holds."""
        return self.push(bytes(2 * self._late))

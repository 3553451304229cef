"""Mel to wave, chunk by chunk, as if the whole utterance were there.

Each chunk is decoded with frames of the past on its left, and the newest frames are held back
until those on their right are known. The excitation goes on from chunk to chunk (`source.py`),
so there is nothing to cross-fade.

| generator | left | hold | to the whole utterance at once, in float64 | held back |
|---|---|---|---|---|
| CosyVoice 2 | 14 | 20 | exact | 400 ms |
| CosyVoice 2 | 8 | 8, the default | > 60 dB | 160 ms |
| CosyVoice 2 | 8 | 6, the default for first audio | > 50 dB | 120 ms |
| CosyVoice 3 | 24 | 5 | exact | 100 ms |
| CosyVoice 3 | 24 | 4, the default | exact but for three samples a seam, > 100 dB | 80 ms |

Where the contexts are not exact, the last bits of a sample depend on how the mel was cut. Upstream
holds 160 ms back with both; with CosyVoice 3 it also decodes everything from the start each time.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tts_engine.cosyvoice.source import HarmonicSource


class Contexts(NamedTuple):
    """Frames around those that are decoded.

    Parameters:
        left: frames of the past, decoded again with every chunk.
        hold: frames held back until more come.
        first_hold: the same, until the first samples are out.
    """

    left: int
    hold: int
    first_hold: int


#: The generator of CosyVoice 2 looks 12 frames to both sides, its F0 5.
SYMMETRIC = Contexts(left=8, hold=8, first_hold=6)
#: That of CosyVoice 3 looks 24 frames back and 4 ahead, its F0 3; the frame at the edge lacks half
#: a window of the transforms between samples and spectra.
CAUSAL = Contexts(left=24, hold=4, first_hold=4)


def _reach(predictor: nn.Module) -> tuple[int, int]:
    """Frames to the left and right that the F0 of one frame depends on."""
    left = right = 0
    for conv in predictor.modules():
        if not isinstance(conv, nn.Conv1d):
            continue
        side = getattr(conv, "causal_type", "both")
        span = conv.kernel_size[0] - 1
        left += {"left": span, "right": 0}.get(side, span // 2)
        right += {"left": 0, "right": span}.get(side, span // 2)
    return left, right


class StreamingVocoder:
    """A HiFT generator, shared by the utterances that `open` begins; none of them changes it.

    Parameters:
        hift: the generator, in evaluation mode, with float32 or float64 weights.
        contexts: None takes those that suit the generator.

    Raises:
        ValueError: so few frames held back that the pitch of the next ones is not final.
    """

    def __init__(self, hift: nn.Module, contexts: Contexts | None = None) -> None:
        self.hift: Any = hift
        self.source = HarmonicSource(hift)
        self.hop = self.source.hop
        self.contexts = contexts or (CAUSAL if self.source.stepped else SYMMETRIC)
        self.f0_left, self.f0_right = _reach(self.hift.f0_predictor)
        # CosyVoice 3's was made to run in float64: whatever its F0 is off by adds up in the phase.
        predictor = self.hift.f0_predictor
        self._predictor = copy.deepcopy(predictor).double() if self.source.stepped else predictor
        if min(self.contexts.hold, self.contexts.first_hold) <= self.f0_right:
            raise ValueError(f"at least {self.f0_right + 1} frames must be held back")

    def open(self) -> VocoderStream:
        """Begins an utterance."""
        return VocoderStream(self)

    def f0(self, mel: Tensor) -> Tensor:
        """Hz [frames] of mel [1, 80, frames]."""
        return self._predictor(mel.double() if self.source.stepped else mel)[0]


class VocoderStream:
    """One utterance on its way through the vocoder.

    Parameters:
        vocoder: shared.
    """

    def __init__(self, vocoder: StreamingVocoder) -> None:
        weight = vocoder.source.weight
        self._vocoder = vocoder
        self._phase = vocoder.source.open()
        #: mel [1, 80, n] and its source [1, 1, samples], both from the frame `_base` on
        self._mel: Tensor | None = None
        self._source = torch.zeros(1, 1, 0, dtype=weight.dtype, device=weight.device)
        self._base = 0
        self._emitted = 0
        self._closed = False

    @torch.inference_mode()
    def push(self, mel: Tensor, final: bool = False) -> Tensor:
        """The samples that have become certain.

        Args:
            mel: the next frames, [80, frames]; may have none.
            final: nothing follows; the stream is closed behind it.

        Returns:
            Samples in [-1, 1], [samples], of the generator's type and device; may have none.

        Raises:
            ValueError: the stream was closed.
        """
        if self._closed:
            raise ValueError("the utterance has ended")
        fresh = mel[None].to(self._source)
        self._mel = fresh if self._mel is None else torch.cat([self._mel, fresh], -1)
        end = self._base + self._mel.shape[-1]
        contexts = self._vocoder.contexts
        hold = contexts.hold if self._emitted else contexts.first_hold
        stop = end if final else end - hold
        samples = self._source.new_zeros(0)
        if stop > self._emitted:
            self._excite(self._mel, final)
            samples = self._decode(self._mel, stop)
            self._forget(self._mel)
        if final:
            self.close()
        return samples

    def close(self) -> None:
        """Drops what the utterance holds. Idempotent."""
        self._closed = True
        self._mel = None
        self._source = self._source.new_zeros(1, 1, 0)

    def _excite(self, mel: Tensor, final: bool) -> None:
        """Brings the source up to the last frame of `mel`."""
        vocoder, phase = self._vocoder, self._phase
        known = phase.frames - self._base
        begin = max(0, known - vocoder.f0_left)
        f0 = vocoder.f0(mel[:, :, begin:])[known - begin :]
        settled = len(f0) if final else max(0, len(f0) - vocoder.f0_right)
        kept = self._source[:, :, : phase.start - self._base * vocoder.hop]
        self._source = torch.cat([kept, phase.extend(f0, settled)[None, None]], -1)

    def _decode(self, mel: Tensor, stop: int) -> Tensor:
        """Samples of the frames from the last one that is out up to `stop`."""
        vocoder = self._vocoder
        begin = max(self._base, self._emitted - vocoder.contexts.left)
        skip = begin - self._base
        source = self._source[:, :, skip * vocoder.hop :]
        wave = vocoder.hift.decode(x=mel[:, :, skip:], s=source)[0]
        samples = wave[(self._emitted - begin) * vocoder.hop : (stop - begin) * vocoder.hop]
        self._emitted = stop
        return samples.clone()

    def _forget(self, mel: Tensor) -> None:
        """Drops the frames that neither the next decoding nor the next F0 looks at."""
        vocoder = self._vocoder
        keep = min(self._emitted - vocoder.contexts.left, self._phase.frames - vocoder.f0_left)
        drop = max(0, keep - self._base)
        self._mel = mel[:, :, drop:].clone()
        self._source = self._source[:, :, drop * vocoder.hop :].clone()
        self._base += drop

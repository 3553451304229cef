"""The excitation of the vocoder: harmonics of F0 whose phase is carried along, and noise.

The phase of a voiced sound adds up over the whole utterance, so no amount of context replaces it:
a source that starts from nothing in every chunk jumps at every seam. Here the phase at the end of
the last frame whose F0 is final is kept, and the next chunk goes on from there.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

#: Length of the noise, which then repeats: 2^20 samples are 44 s at 24 kHz, 4 MB.
_NOISE_SAMPLES = 1 << 20
#: The noise is the same in every process: the same mel gives the same samples.
_NOISE_SEED = 0


class HarmonicSource:
    """What the sources of all utterances share: read-only.

    The phase advances linearly between the centres of two frames in CosyVoice 2; in CosyVoice 3,
    whose generator is causal, it stands still inside a frame.

    Parameters:
        hift: a HiFT generator at 24 kHz, of CosyVoice 2 or 3.
    """

    def __init__(self, hift: nn.Module) -> None:
        generator: Any = hift
        module = generator.m_source
        sines = module.l_sin_gen
        #: samples per frame
        self.hop = int(generator.f0_upsamp.scale_factor)
        self.sample_rate = int(sines.sampling_rate)
        self.voiced_above = float(sines.voiced_threshold)
        self.amplitude = float(sines.sine_amp)
        self.noise_voiced = float(sines.noise_std)
        self.noise_unvoiced = self.amplitude / 3
        self.stepped = bool(getattr(sines, "causal", False))
        self.weight: Tensor = module.l_linear.weight.detach()[0]
        self.bias: Tensor = module.l_linear.bias.detach()
        #: [harmonics, 1], float64
        self.harmonics = torch.arange(
            1, len(self.weight) + 1, dtype=torch.float64, device=self.weight.device
        )[:, None]
        #: [samples]: what the noise of all harmonics adds up to; sample i has noise[i % samples]
        self.noise = self._fixed_noise(sines) if self.stepped else self._gaussian_noise()

    def open(self) -> SourceStream:
        """The source of one utterance."""
        return SourceStream(self)

    def _gaussian_noise(self) -> Tensor:
        """Independent normal noise on each harmonic, weighted and added, is normal again."""
        generator = torch.Generator().manual_seed(_NOISE_SEED)
        noise = torch.randn(_NOISE_SAMPLES, generator=generator).to(self.weight)
        return noise * self.weight.norm()

    def _fixed_noise(self, sines: Any) -> Tensor:
        """The causal generator holds the noise of every sample and harmonic itself: 300 s."""
        noise = sines.sine_waves[0].to(self.weight.dtype)
        return (noise @ self.weight.to(noise.device)).to(self.weight.device)


class SourceStream:
    """The source of one utterance, as its F0 becomes known.

    Parameters:
        source: what it shares with others.
    """

    def __init__(self, source: HarmonicSource) -> None:
        self._source = source
        #: frames whose F0 was final, and whose phase is carried
        self.frames = 0
        #: cycles at the centre of the last such frame, [harmonics, 1], and its F0, [1]
        self._phase = torch.zeros_like(source.harmonics)
        self._last = torch.empty(0, dtype=source.weight.dtype, device=source.weight.device)

    @property
    def start(self) -> int:
        """The first sample that is not final: what `extend` begins with."""
        hop = self._source.hop
        if self._source.stepped or not self.frames:
            return self.frames * hop
        return self.frames * hop - hop // 2

    def extend(self, f0: Tensor, final: int) -> Tensor:
        """Source of everything that was not final before.

        Args:
            f0: Hz of the frames from `frames` on, [n].
            final: how many of them will not change any more; the others are asked for again.

        Returns:
            Samples from `start` (as it was) to the end of the last frame, [m].
        """
        source, start = self._source, self.start
        per_sample = (f0.double() * source.harmonics / source.sample_rate) % 1
        centres = torch.cumsum(per_sample, -1) * source.hop + self._phase
        if source.stepped:
            phase, pitch = centres.repeat_interleave(source.hop, -1), f0
        else:
            known = self._phase[:, : len(self._last)]
            phase = interpolate(
                torch.cat([known, centres], -1)[None], scale_factor=source.hop, mode="linear"
            )[0]
            pitch = torch.cat([self._last, f0])
        voiced = (pitch > source.voiced_above).repeat_interleave(source.hop)
        fresh = (self.frames + len(f0)) * source.hop - start
        samples = self._sound(phase[:, -fresh:], voiced[-fresh:], start)
        if final:
            self.frames += final
            self._phase = centres[:, final - 1 : final] % 1
            self._last = f0[final - 1 : final]
        return samples

    def _sound(self, phase: Tensor, voiced: Tensor, start: int) -> Tensor:
        """Harmonics where it is voiced, noise everywhere.

        Args:
            phase: cycles, [harmonics, n], float64: only its fraction fits a smaller type.
            voiced: [n].
            start: number of the first sample.
        """
        source = self._source
        sines = torch.sin(2 * math.pi * (phase % 1).to(source.weight.dtype))
        tone = source.amplitude * (source.weight @ sines)
        place = torch.arange(start, start + len(voiced), device=voiced.device)
        noise = source.noise[place % len(source.noise)]
        mixed = torch.where(
            voiced, tone + source.noise_voiced * noise, source.noise_unvoiced * noise
        )
        return torch.tanh(mixed + source.bias)

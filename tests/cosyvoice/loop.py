"""The synthesis loop over a tiny model, driven step by step, and what it told."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from tests.cosyvoice.conftest import Reference
from tts_engine.cosyvoice.decoder import TokenDecoder
from tts_engine.cosyvoice.flow import IncrementalFlow
from tts_engine.cosyvoice.frontend import Frontend
from tts_engine.cosyvoice.loader import CosyVoice
from tts_engine.cosyvoice.parts import Parts
from tts_engine.cosyvoice.pauses import SILENT
from tts_engine.cosyvoice.schedule import Limits
from tts_engine.cosyvoice.stream import Synthesiser, measured
from tts_engine.cosyvoice.vocoder import StreamingVocoder
from tts_engine.cosyvoice.voice_room import VoiceRoom
from tts_engine.cosyvoice.voices import VoiceStore
from tts_engine.cosyvoice.wire import Audio, Done, Failed, Ready, Register, Report, Speak, Started

#: bound of a test's loop, so that one that never ends fails
STEPS = 5_000


def as_wav(reference: Reference, path: Path) -> bytes:
    """The recording as a file."""
    soundfile.write(path, reference.samples, 24_000)
    return path.read_bytes()


def make_parts(
    model: CosyVoice, voices: Path, *, requests: int = 8, kept: int = 4, steps: int = 2
) -> Parts:
    """The real parts; what they compute with can be shared, what they hold cannot."""
    flow = IncrementalFlow(model.flow, steps=steps)
    frontend = Frontend(model.model_dir, tokenizer=model.tokenizer)
    return Parts(
        decoder=TokenDecoder(model.llm, max_batch=requests),
        flow=flow,
        vocoder=StreamingVocoder(model.hift),
        voices=VoiceRoom(store=VoiceStore(voices), frontend=frontend, flow=flow, kept=kept),
        silent=SILENT[model.kind],
        fatal=(MemoryError,),
    )


class Loop:
    """A synthesiser whose turns the test takes."""

    def __init__(
        self, parts: Parts, *, limits: Limits | None = None, longest_s: float = 1.6
    ) -> None:
        self.told: list[Report] = []
        self.parts = parts
        self.loop = Synthesiser(
            parts=parts,
            limits=limits or Limits(),
            longest_s=longest_s,
            emit=self.told.append,
            measure=self._measure,
        )

    def _measure(self, order: Register) -> None:
        self.loop.inbox.put(measured(self.parts.voices, order))

    def replace(self, **parts: object) -> None:
        """Puts other parts in place."""
        self.loop._parts = dataclasses.replace(self.loop._parts, **parts)  # type: ignore[arg-type]

    def put(self, *orders: object) -> None:
        """Tells the loop."""
        for order in orders:
            self.loop.inbox.put(order)  # type: ignore[arg-type]

    def until(self, *ids: int) -> None:
        """Takes turns until these orders are over."""
        for _ in range(STEPS):
            over = {each.id for each in self.told if not isinstance(each, Ready | Started | Audio)}
            if over >= set(ids):
                return
            self.loop.turn()
        raise AssertionError(f"{ids} are not over: {self.told}")

    def say(self, *orders: Speak) -> None:
        """Has utterances made, all at once."""
        self.put(*orders)
        self.until(*(order.id for order in orders))

    def of(self, kind: type, id: int) -> list:
        """What was told of an order, of a kind."""
        return [
            each for each in self.told if isinstance(each, kind) and getattr(each, "id", None) == id
        ]

    def pcm(self, id: int) -> NDArray[np.int16]:
        """The samples of an utterance."""
        return np.frombuffer(b"".join(each.payload for each in self.of(Audio, id)), np.int16)

    def end(self, id: int) -> Done | Failed:
        """How it ended."""
        [end] = [*self.of(Done, id), *self.of(Failed, id)]
        return end


def same(one: Iterable[int], other: Iterable[int], *, most: int = 2) -> None:
    """The same audio, but for the rounding of a batch."""
    a, b = np.asarray(one, np.int32), np.asarray(other, np.int32)
    assert a.shape == b.shape
    assert np.abs(a - b).max(initial=0) <= most

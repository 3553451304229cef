"""Our engine, measured from inside with a fixed number of speech tokens.

Requests go through the synthesis loop of the worker process as it is, in this process.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from typing import cast

import torch

from pipeline.bench.tts_random import Reference, text_ids
from pipeline.bench.tts_result import Cost, SecondCost, Spoken, Step
from pipeline.bench.tts_texts import text_of
from tts_engine.cosyvoice.decoder import LlmPrompt, TokenDecoder
from tts_engine.cosyvoice.flow import IncrementalFlow
from tts_engine.cosyvoice.flow_stream import FlowStream, FlowVoice
from tts_engine.cosyvoice.loader import CosyVoice
from tts_engine.cosyvoice.parts import Parts
from tts_engine.cosyvoice.prompt import BLOCK, trim_prompt
from tts_engine.cosyvoice.schedule import Limits
from tts_engine.cosyvoice.stream import Synthesiser
from tts_engine.cosyvoice.vocoder import StreamingVocoder
from tts_engine.cosyvoice.voice_room import Prompt, VoiceRoom
from tts_engine.cosyvoice.wire import Audio, Cancel, Done, Report, Speak
from tts_engine.frames import Failed, error_of

#: What is said. The random model's tokenizer has a token for each of its 50 characters, so it is as
#: long for the language model as the introduction is for a published one.
TEXT = text_of(50)
#: steps of the decoder over which one is averaged
DECODE_STEPS = 8
#: an utterance whose first chunk alone is wanted; it is cancelled behind it
_LONG_S = 20.0
_RATE, _BYTES = 24_000, 2


class Meter:
    """Wall and processor time of a block of code, over all threads of this process."""

    def __init__(self) -> None:
        self.cost = Cost(wall_s=0.0, cpu_s=0.0)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Takes the time of the block; what the device has to do for it is waited for."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.cost = Cost(wall_s=time.perf_counter() - wall, cpu_s=time.process_time() - cpu)

    @property
    def cpu_s(self) -> float:
        """Processor time."""
        return self.cost.cpu_s or 0.0


class Own:
    """Our synthesis loop over a loaded model, with one voice.

    Parameters:
        model: shared with whoever is measured beside it.
        reference: of the voice; its flow's part is trimmed as at a registration.
        requests: made at a time.
    """

    about = "duplexd"

    def __init__(self, model: CosyVoice, reference: Reference, *, requests: int) -> None:
        self._model = model
        self._reference = reference
        flow = IncrementalFlow(model.flow)
        cut = trim_prompt(len(reference.tokens))
        self._voice = flow.voice(
            reference.tokens[cut:], reference.mel[2 * cut :], reference.embedding
        )
        self._parts = Parts(
            decoder=TokenDecoder(model.llm, max_batch=requests),
            flow=flow,
            vocoder=StreamingVocoder(model.hift),
            voices=cast("VoiceRoom", self),
            fatal=(torch.AcceleratorError,),
        )
        rows = requests if model.device.type == "cuda" else 1
        self._limits = Limits(requests=requests, flow_rows=rows)

    def prompt(self, _name: str, text: str, *_: object) -> Prompt:
        """In place of the voices: everybody speaks in the one there is, whatever went before."""
        return Prompt(
            llm=LlmPrompt(self._reference.text_ids, self._reference.tokens),
            text_ids=list(text_ids(self._model, text)),
            flow=self._voice,
        )

    def first_chunk(self) -> Cost:
        """From a request to its first audio.

        Raises:
            DuplexdError: what it fails with.
        """
        told: list[Report] = []
        loop = self._loop(_LONG_S, told)
        meter = Meter()
        with meter.running():
            loop.inbox.put(Speak(id=0, text=TEXT, voice=""))
            while not _has_audio(told):
                loop.turn()
        loop.inbox.put(Cancel(id=0))
        loop.inbox.put(None)
        loop.run()
        return meter.cost

    def together(self, texts: Sequence[str], *, tokens: int) -> Step:
        """Texts that are asked for at the same time, each of so many speech tokens.

        Raises:
            DuplexdError: of the first that fails.
        """
        told: list[Report] = []
        at: list[float] = []
        before = self._parts.decoder.steps
        loop = self._loop(tokens / self._parts.token_rate, told)
        began = time.perf_counter()
        for id, text in enumerate(texts):
            loop.inbox.put(Speak(id=id, text=text, voice="", seed=id))
        while sum(isinstance(each, Done) for each in told) < len(texts):
            loop.turn()
            _check(told)
            at += [time.perf_counter() - began] * (len(told) - len(at))
        ends = [each for each in told if isinstance(each, Done)]
        decoded = sum(each.tokens for each in ends)
        return Step(
            spoken=[_spoken(told, at, id) for id in range(len(texts))],
            wall_s=at[-1],
            decode_steps_per_token=(self._parts.decoder.steps - before) / decoded,
        )

    def token(self) -> Cost:
        """A speech token, behind the prompt."""
        prompt = self.prompt("", TEXT, "")
        most = DECODE_STEPS + 1
        stream = self._parts.decoder.open(
            prompt.llm, prompt.text_ids, min_tokens=most, max_tokens=most, seed=0
        )
        self._parts.decoder.step([stream])
        meter = Meter()
        with meter.running():
            for _ in range(DECODE_STEPS):
                self._parts.decoder.step([stream])
        stream.close()
        return Cost(wall_s=meter.cost.wall_s / DECODE_STEPS, cpu_s=meter.cpu_s / DECODE_STEPS)

    def seconds(self, number: int, *, token: Cost) -> Generator[SecondCost]:
        """The n-th second of an utterance behind its first chunk, and those that follow it: a block
        of the flow each.

        Args:
            number: of the first, from 1.
            token: see `token`; where in the utterance it is hardly matters.
        """
        flow, vocoder = self._parts.flow, self._parts.vocoder.open()
        stream = flow.open(self._begun)
        _fill(stream, number - 1, ratio=flow.geometry.ratio)
        llm, begun = BLOCK * (token.cpu_s or 0.0), False
        with closing(stream), closing(vocoder):
            while True:
                block, sound = Meter(), Meter()
                stream.push(self._reference.tokens[:BLOCK])
                with block.running():
                    [mel] = flow.step([stream])
                if not begun:
                    vocoder.push(mel)
                    begun = True
                with sound.running():
                    vocoder.push(mel)
                yield SecondCost(llm=llm, flow=block.cpu_s, vocoder=sound.cpu_s)

    @cached_property
    def _begun(self) -> FlowVoice:
        """The voice behind the first chunk of an utterance, as if all that was its prompt."""
        flow = self._parts.flow
        stream = flow.open(self._voice)
        stream.push(self._reference.tokens[: stream.need])
        flow.step([stream])
        return dataclasses.replace(self._voice, start=stream.cache.snapshot(), tail=stream.pending)

    def _loop(self, longest_s: float, told: list[Report]) -> Synthesiser:
        return Synthesiser(
            parts=self._parts,
            limits=self._limits,
            longest_s=longest_s,
            emit=told.append,
            measure=lambda _: None,
        )


@torch.inference_mode()
def _fill(stream: FlowStream, blocks: int, *, ratio: int) -> None:
    """Makes a stream's caches as large as they are after so many blocks: copies of the prompt's
    first block. What is in them changes no cost.

    At full size they are seven gigabytes, so they do not grow as they would block by block: that
    takes longer than what is measured, and twice the memory. A store gains twice what it is asked
    for, so that a little more than half makes room for all, and for the blocks that are measured.
    """
    cache = stream.cache
    most = min(blocks, blocks // 2 + 2)
    for count in (most, blocks - most):
        for store in (*cache.encoder, *cache.estimator):
            frames = BLOCK if store is cache.encoder[0] else BLOCK * ratio
            room = store.reserve(count * frames)
            for at in range(count):
                room.narrow(-2, at * frames, frames).copy_(store.prefix.narrow(-2, 0, frames))
        cache.commit(count * BLOCK, ratio)


def _has_audio(told: Sequence[Report]) -> bool:
    _check(told)
    return any(isinstance(each, Audio) and each.payload for each in told)


def _check(told: Sequence[Report]) -> None:
    for each in told:
        if isinstance(each, Failed):
            raise error_of(each)


def _spoken(told: Sequence[Report], at: Sequence[float], id: int) -> Spoken:
    pieces = [
        (when, len(each.payload))
        for when, each in zip(at, told, strict=True)
        if isinstance(each, Audio) and each.id == id and each.payload
    ]
    return Spoken(
        first_s=pieces[0][0],
        total_s=pieces[-1][0],
        audio_s=sum(size for _, size in pieces) / _BYTES / _RATE,
    )

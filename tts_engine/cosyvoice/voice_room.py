"""The voices of the worker: those on disk, and the few that are ready on the device."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import torch

from tts_engine.cosyvoice.context import NOTHING, Before
from tts_engine.cosyvoice.flow import IncrementalFlow
from tts_engine.cosyvoice.flow_stream import FlowVoice
from tts_engine.cosyvoice.frontend import EMBEDDING, Frontend
from tts_engine.cosyvoice.order import LlmPrompt
from tts_engine.cosyvoice.spectrum import MEL_BANDS
from tts_engine.cosyvoice.style import END_OF_PROMPT, without_marks, word
from tts_engine.cosyvoice.voice import MEL_RATIO, Voice
from tts_engine.cosyvoice.voices import VoiceStore, by_age
from tts_engine.cosyvoice.wire import Register
from tts_engine.files import Stamp
from tts_engine.service.cloner import ONCE

#: a text goes on in a voice that was removed, where its clauses follow each other within so long
LINGER_S = 60.0
#: tokens of the prompt of nobody's voice: less than a block
_NOBODY = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What an utterance begins with.

    Parameters:
        llm: of the decoder.
        text_ids: what to say, as tokens of the language model.
        flow: of the flow; shared by all utterances of the voice.
    """

    llm: LlmPrompt
    text_ids: list[int]
    flow: FlowVoice


@dataclass(slots=True)
class _Ready:
    """A voice with what of it lies on the device.

    Parameters:
        stamp: of its file.
        used: when something was last said with it, seconds.
    """

    voice: Voice
    flow: FlowVoice
    stamp: Stamp | None
    used: float


class VoiceRoom:
    """Voices by name; those that were used last are kept ready.

    Parameters:
        store: the folder.
        frontend: of the model: measures recordings, reads texts.
        flow: computes what a voice begins with.
        kept: voices that are kept ready; another one is made ready when it is asked for.
        clock: seconds.
    """

    def __init__(
        self,
        *,
        store: VoiceStore,
        frontend: Frontend,
        flow: IncrementalFlow,
        kept: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._frontend = frontend
        self._flow = flow
        self._kept = kept
        self._clock = clock
        self._ready: OrderedDict[str, _Ready] = OrderedDict()

    def prepare_all(self) -> None:
        """Makes as many voices ready as are kept, the default first."""
        names = [
            each.name for each in by_age(self._store.infos()) if each.kind == self._frontend.kind
        ]
        for name in reversed(names[: self._kept]):
            self.prepare(name)

    def prepare(self, name: str) -> None:
        """Makes a voice ready, if it is not: a second or more on a CPU.

        Raises:
            UnknownVoice, ModelError, EngineFailed
        """
        self._one(name)

    def nobody(self, text: str) -> Prompt:
        """How a voice that is no one's begins: its prompt is too short to cost anything."""
        flow = self._flow.voice(
            [0] * _NOBODY, torch.zeros(MEL_RATIO * _NOBODY, MEL_BANDS), torch.ones(EMBEDDING)
        )
        return Prompt(llm=LlmPrompt(), text_ids=self._frontend.text_ids(text), flow=flow)

    def prompt(self, name: str, text: str, style: str, before: Before = NOTHING) -> Prompt:
        """How a voice begins to say something.

        Args:
            name: of the voice.
            text: what to say.
            style: how.
            before: said just before, in this voice and style. It is left out where an instruction
                takes the place of the voice's own speech.

        Raises:
            UnknownVoice, ModelError, EngineFailed
        """
        ready = self._one(name)
        kind = self._frontend.kind
        said = word(text, style=style, voice_text=ready.voice.info.text, kind=kind)
        instruction, mark, _ = said.prompt_text.rpartition(END_OF_PROMPT)
        texts, speech = self._frontend.text_ids(said.prompt_text), list[int]()
        if said.speech:
            speech = ready.voice.features.llm_tokens.tolist()
            if before.tokens:
                earlier = word(before.text, style=style, voice_text="", kind=kind).text
                texts += self._frontend.text_ids(earlier)
                speech += before.tokens
        return Prompt(
            llm=LlmPrompt(
                tuple(texts), tuple(speech), told=len(self._frontend.text_ids(instruction + mark))
            ),
            text_ids=self._frontend.text_ids(said.text),
            flow=ready.flow,
        )

    def text_ids(self, text: str) -> list[int]:
        """Tokens of the next piece of a text that has begun."""
        return self._frontend.text_ids(without_marks(text))

    def take(self, order: Register) -> None:
        """Measures a recording and keeps it as a voice; in any thread.

        Raises:
            BadAudio, BadRequest, ModelError, EngineFailed
        """
        self._store.register(
            order.name,
            order.payload,
            order.text,
            extractor=self._frontend,
            language=order.language,
            consent=order.consent,
        )

    def remove(self, name: str) -> None:
        """Forgets a voice; texts that are being spoken in it go on, see LINGER_S.

        Raises:
            UnknownVoice, EngineFailed
        """
        # First: somebody else may have removed its files.
        ready = self._ready.get(name)
        if ready is not None and (name.startswith(ONCE) or not self._in_use(ready)):
            del self._ready[name]
        self._store.remove(name)

    def _in_use(self, ready: _Ready) -> bool:
        return self._clock() < ready.used + LINGER_S

    def _one(self, name: str) -> _Ready:
        stamp = self._store.stamp(name)  # another process may have removed or replaced it
        ready = self._ready.get(name)
        if ready is not None and stamp != ready.stamp and (stamp or not self._in_use(ready)):
            del self._ready[name]
            ready = None
        if ready is None:
            voice = self._store.read(name)
            features = voice.features
            flow = self._flow.voice(
                features.flow_tokens.tolist(),
                torch.from_numpy(features.mel),
                torch.from_numpy(features.embedding),
            )
            ready = self._ready[name] = _Ready(voice, flow, stamp, 0.0)
            if len(self._ready) > self._kept:
                self._ready.popitem(last=False)
        self._ready.move_to_end(name)
        ready.used = self._clock()
        return ready

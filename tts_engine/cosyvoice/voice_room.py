"""The voices of the worker: those on disk, and the few that are ready on the device."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import torch

from tts_engine.cosyvoice.decoder import LlmPrompt
from tts_engine.cosyvoice.flow import IncrementalFlow
from tts_engine.cosyvoice.flow_stream import FlowVoice
from tts_engine.cosyvoice.frontend import Frontend
from tts_engine.cosyvoice.style import word
from tts_engine.cosyvoice.voice import MEL_RATIO, Voice
from tts_engine.cosyvoice.voices import VoiceStore
from tts_engine.cosyvoice.wire import Register

#: tokens of the prompt of nobody's voice: less than a block
_NOBODY = 12
_MEL, _EMBEDDING = 80, 192


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


@dataclass(frozen=True, slots=True)
class _Ready:
    """A voice with what of it lies on the device."""

    voice: Voice
    flow: FlowVoice


class VoiceRoom:
    """Voices by name; those that were used last are kept ready.

    Parameters:
        store: the folder.
        frontend: of the model: measures recordings, reads texts.
        flow: computes what a voice begins with.
        kept: voices that are kept ready; another one is made ready when it is asked for.
    """

    def __init__(
        self, *, store: VoiceStore, frontend: Frontend, flow: IncrementalFlow, kept: int
    ) -> None:
        self._store = store
        self._frontend = frontend
        self._flow = flow
        self._kept = kept
        self._ready: OrderedDict[str, _Ready] = OrderedDict()

    def prepare_all(self) -> None:
        """Makes as many voices ready as are kept, the default first."""
        names = [each.name for each in self._store.infos() if each.kind == self._frontend.kind]
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
            [0] * _NOBODY, torch.zeros(MEL_RATIO * _NOBODY, _MEL), torch.ones(_EMBEDDING)
        )
        return Prompt(llm=LlmPrompt(), text_ids=self._frontend.text_ids(text), flow=flow)

    def prompt(self, name: str, text: str, style: str) -> Prompt:
        """How a voice begins to say something.

        Raises:
            UnknownVoice, ModelError, EngineFailed
        """
        ready = self._one(name)
        kind = self._frontend.kind
        said = word(text, style=style, voice_text=ready.voice.info.text, kind=kind)
        speech = ready.voice.features.llm_tokens.tolist() if said.speech else ()
        return Prompt(
            llm=LlmPrompt(tuple(self._frontend.text_ids(said.prompt_text)), tuple(speech)),
            text_ids=self._frontend.text_ids(said.text),
            flow=ready.flow,
        )

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
        """Forgets a voice; utterances that it speaks go on.

        Raises:
            UnknownVoice, EngineFailed
        """
        self._store.remove(name)
        self._ready.pop(name, None)

    def _one(self, name: str) -> _Ready:
        ready = self._ready.get(name)
        if ready is None:
            voice = self._store.read(name)
            features = voice.features
            flow = self._flow.voice(
                features.flow_tokens.tolist(),
                torch.from_numpy(features.mel),
                torch.from_numpy(features.embedding),
            )
            ready = self._ready[name] = _Ready(voice, flow)
            if len(self._ready) > self._kept:
                self._ready.popitem(last=False)
        self._ready.move_to_end(name)
        return ready

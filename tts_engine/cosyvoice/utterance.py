"""One utterance on its way through the three stages, and what it holds on the device."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from tts_engine.cosyvoice.context import worth_carrying
from tts_engine.cosyvoice.decoder import TokenStream
from tts_engine.cosyvoice.marks import Alignment, Pace
from tts_engine.cosyvoice.parts import Parts
from tts_engine.cosyvoice.pauses import Pauses
from tts_engine.cosyvoice.schedule import Need, due_after
from tts_engine.cosyvoice.speed import MelStretch
from tts_engine.cosyvoice.trim import LeadingSilence
from tts_engine.cosyvoice.voice_room import Prompt
from tts_engine.cosyvoice.wire import Audio, Speak
from tts_engine.engine import Mark

#: speech tokens per text token: the fewest, before which the end is not taken, and the most
_FEWEST, _MOST = 2, 20
#: an utterance that took longer than expected takes a little longer still
_OVERDUE = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """An utterance that has no place yet: it holds nothing.

    Parameters:
        order: what to say.
        came: when it came, seconds.
        expected: speech tokens that it will take, about.
    """

    order: Speak
    came: float
    expected: float


class Utterance:
    """An utterance that is being made. Its text may still come: see `extend`.

    Parameters:
        waiting: what it was before.
        prompt: of its voice and text.
        pace: of its voice; learns how long it took.
        longest: speech tokens after which it is cut off.
    """

    def __init__(
        self, waiting: Waiting, *, parts: Parts, prompt: Prompt, pace: Pace, longest: int
    ) -> None:
        self.order = waiting.order
        self.due = waiting.came
        self._parts = parts
        self._pace = pace
        self._longest = longest
        self._text = self.order.text
        self._expected = waiting.expected
        self._mel: list[torch.Tensor] = []
        self._stretch = MelStretch(self.order.speed)
        self._silence = LeadingSilence()
        self._alignment = Alignment(self._text)
        self._pauses = Pauses(parts.silent)
        self._spoken = 0  # speech tokens, without those of pauses that are too long
        self._samples = 0
        self._decoded = False
        self.finished = False
        with ExitStack() as undo:
            self.flow = parts.flow.open(prompt.flow)
            undo.callback(self.flow.close)
            self._vocoder = parts.vocoder.open()
            undo.callback(self._vocoder.close)
            self.tokens = self._open_tokens(prompt)
            undo.pop_all()

    @property
    def id(self) -> int:
        """Of the order."""
        return self.order.id

    @property
    def seconds(self) -> float:
        """Seconds of speech that there must be memory for."""
        return max(self._expected, self._spoken) / self._parts.token_rate

    def need(self) -> Need:
        """What it could do next."""
        return Need(
            id=self.id,
            due=self.due,
            decode=not self._decoded and self.tokens.ready,
            flow=self.flow.ready,
            vocode=bool(self._mel) or (self.flow.done and not self.finished),
        )

    @property
    def said(self) -> list[int]:
        """Its speech tokens, once it is finished, where another clause can carry on from them."""
        tokens, most = self.tokens.tokens, self.tokens.max_tokens
        wanted = self.order.carry and worth_carrying(tokens, cut=len(tokens) >= most)
        return tokens if wanted else []

    def extend(self, text: str, *, last: bool) -> None:
        """Takes more of its text; where it was cut off, as something that is not said.

        Raises:
            BadRequest: it is longer than the model can hold.
        """
        self._alignment.extend(text)
        if self._decoded:
            return
        if text:
            self.tokens.push(self._parts.voices.text_ids(text))
            self._text += text
            self._expected = min(self._pace.expect(self._text), self._longest)
        if last:
            low, high = self._bounds(len(self.tokens.text_ids))
            self.tokens.finish(min_tokens=low, max_tokens=high)
            self._end_if_done()

    def take_token(self, token: int | None) -> None:
        """The decoder's next token; None: the speech is over, or waits for more text."""
        if token is not None and self._pauses.spoken(token):
            self._spoken += 1
            self.flow.push([token])
        self._end_if_done()

    def take_mel(self, mel: torch.Tensor) -> None:
        """The flow's next block, [80, frames]."""
        if mel.shape[-1]:
            self._mel.append(mel)

    def vocode(self, clock: float) -> Audio | None:
        """Makes samples of the frames that are there; None: they give none yet.

        Args:
            clock: the time, seconds.
        """
        final = self.flow.done
        samples = self._sound(final)
        rate = self._parts.sample_rate
        pcm = np.clip(np.rint(samples * 32767.0), -32768, 32767).astype("<i2")
        if len(pcm):
            self._samples += len(pcm)
            self.due = due_after(self.due, clock, len(pcm) / rate)
        self.finished = final
        if not final and not len(pcm):
            return None
        marks = self._alignment.end(self._samples) if final else self._marks()
        return Audio(
            id=self.id,
            marks=[(mark.sample, mark.chars) for mark in marks],
            payload=pcm.tobytes(),
        )

    def close(self) -> None:
        """Frees what it holds."""
        self.tokens.close()
        self.flow.close()
        self._vocoder.close()
        self._mel.clear()

    def _open_tokens(self, prompt: Prompt) -> TokenStream:
        low, high = self._bounds(len(prompt.text_ids))
        return self._parts.decoder.open(
            prompt.llm,
            prompt.text_ids,
            min_tokens=0 if self.order.more else low,
            max_tokens=self._longest if self.order.more else high,
            seed=self.order.seed,
            more=self.order.more,
        )

    def _bounds(self, count: int) -> tuple[int, int]:
        """Fewest and most speech tokens of so many tokens of text."""
        most = max(1, min(_MOST * count, self._longest))
        return min(_FEWEST * count, most), most

    def _end_if_done(self) -> None:
        if self.tokens.done:
            self._decoded = True
            self.flow.finish()
            self._pace.learn(self._text, self._spoken)

    def _sound(self, final: bool) -> NDArray[np.float32]:
        mel, self._mel = self._mel, []
        if not mel:  # no token was decoded: else the last block is never empty
            return np.zeros(0, np.float32)
        frames = self._stretch.push(torch.cat(mel, -1), final)
        samples = self._vocoder.push(frames, final)
        return self._silence.push(samples.float().cpu().numpy(), final)

    def _marks(self) -> tuple[Mark, ...]:
        made = self._spoken
        tokens = made if self._decoded else max(self._expected, made * _OVERDUE)
        seconds = tokens / self._parts.token_rate / self.order.speed
        return self._alignment.to(self._samples, expected=seconds * self._parts.sample_rate)

"""The synthesis loop: takes orders, makes utterances, tells of their audio.

It runs in one thread and has none of its own. Between any two steps it looks into its inbox, so an
utterance that is cancelled holds nothing after the step at hand; when there is nothing to do it
sleeps on the inbox.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from torch import Tensor

from tts_engine.cosyvoice.context import Before
from tts_engine.cosyvoice.marks import Pace
from tts_engine.cosyvoice.parts import Parts
from tts_engine.cosyvoice.schedule import Limits, Stage, Work, admitted, plan
from tts_engine.cosyvoice.utterance import Utterance, Waiting
from tts_engine.cosyvoice.voice_room import VoiceRoom
from tts_engine.cosyvoice.wire import (
    Audio,
    Cancel,
    Done,
    More,
    Register,
    Registered,
    Remove,
    Removed,
    Report,
    Speak,
    Started,
)
from tts_engine.frames import failed
from tts_engine.worker_side import stage_failure


class Measured:
    """A recording was measured, in another thread; or could not be."""

    def __init__(self, order: Register, error: Exception | None = None) -> None:
        self.order = order
        self.error = error


def measured(voices: VoiceRoom, order: Register) -> Measured:
    """Measures a recording and keeps it as a voice, in any thread; what the loop is to be told."""
    try:
        voices.take(order)
    except Exception as error:
        return Measured(order, error)
    return Measured(order)


#: what the loop can be told; None ends it
Told: TypeAlias = Speak | More | Cancel | Register | Remove | Measured | None
Inbox: TypeAlias = "queue.SimpleQueue[Told]"

#: a step of some utterances, and what each is told of it
_Step: TypeAlias = Callable[[Sequence[Utterance]], Sequence[Any]]
_Take: TypeAlias = Callable[[Utterance, Any], None]


class Synthesiser:
    """Makes all utterances of the process.

    Parameters:
        parts: the model and the voices.
        limits: what may be done at a time.
        longest_s: where an utterance is cut off, seconds.
        emit: is told what comes of the orders; called in the loop's thread.
        measure: has `measured` done for an order somewhere else, and tells the inbox what that
            gives; must return at once.
        inbox: what it is told; None makes one.
        clock: seconds.
    """

    def __init__(
        self,
        *,
        parts: Parts,
        limits: Limits,
        longest_s: float,
        emit: Callable[[Report], None],
        measure: Callable[[Register], object],
        inbox: Inbox | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts = parts
        self._limits = limits
        self._longest = round(longest_s * parts.token_rate)
        self._emit = emit
        self._measure = measure
        self._clock = clock
        self._waiting: deque[Waiting] = deque()
        self._live: dict[int, Utterance] = {}
        self._measuring: set[int] = set()  # registrations that somebody waits for
        self._paces: dict[str, Pace] = {}
        self._decoded = 0
        self._stages: dict[Stage, tuple[_Step, _Take]] = {
            "decode": (self._decode, Utterance.take_token),
            "flow": (self._flow, Utterance.take_mel),
            "vocode": (self._vocode, self._deliver),
        }
        self.inbox: Inbox = queue.SimpleQueue() if inbox is None else inbox

    def run(self) -> None:
        """Works until the inbox gives None; what is being made is dropped then.

        Raises:
            Exception: one of `parts.fatal`; nothing can be made any more.
        """
        try:
            while self.turn():
                pass
        finally:
            self._waiting.clear()
            for utterance in [*self._live.values()]:
                self._drop(utterance)

    def turn(self) -> bool:
        """Takes the orders that came and does one step; sleeps when there is nothing to do.

        Returns:
            Whether to go on.
        """
        if not self._listen():
            return False
        self._admit()
        work = plan(self._clock(), [each.need() for each in self._live.values()], self._limits)
        if work is not None:
            self._do(work)
        return True

    def _listen(self) -> bool:
        """Takes what is in the inbox; waits for the first when nothing else is to be done."""
        able = any(each.need().last_stage for each in self._live.values())
        wait = not able and self._admissible() == 0
        while True:
            try:
                told = self.inbox.get(block=wait)
            except queue.Empty:
                return True
            if told is None:
                return False
            wait = False
            self._take(told)

    def _take(self, told: Speak | More | Cancel | Register | Remove | Measured) -> None:
        try:
            match told:
                case Speak():
                    self._queue(told)
                case More():
                    self._extend(told)
                case Cancel():
                    self._cancel(told.id)
                case Register():
                    self._measuring.add(told.id)
                    self._measure(told)
                case Measured():
                    self._keep(told)
                case Remove():
                    self._parts.voices.remove(told.name)
                    self._paces.pop(told.name, None)
                    self._emit(Removed(id=told.id, name=told.name))
        except Exception as error:
            order = told.order if isinstance(told, Measured) else told
            self._fail(order.id, error, "order")

    def _queue(self, order: Speak) -> None:
        pace = self._paces.setdefault(order.voice, Pace())
        self._waiting.append(
            Waiting(
                order=order,
                came=self._clock(),
                expected=min(pace.expect(order.text), self._longest),
            )
        )

    def _extend(self, more: More) -> None:
        """Takes more of an utterance's text, whether it has begun or waits; if it is there."""
        if utterance := self._live.get(more.id):
            try:
                utterance.extend(more.text, last=more.last)
            except Exception as error:
                self._give_up(utterance, error, "text")
        for index, waiting in enumerate(self._waiting):
            if waiting.order.id == more.id:
                text = waiting.order.text + more.text
                pace = self._paces.setdefault(waiting.order.voice, Pace())
                self._waiting[index] = replace(
                    waiting,
                    order=replace(waiting.order, text=text, more=not more.last),
                    expected=min(pace.expect(text), self._longest),
                )

    def _cancel(self, id: int) -> None:
        self._measuring.discard(id)
        if utterance := self._live.get(id):
            self._drop(utterance)
        else:
            self._waiting = deque(each for each in self._waiting if each.order.id != id)

    def _keep(self, measured: Measured) -> None:
        order = measured.order
        wanted = order.id in self._measuring
        self._measuring.discard(order.id)
        if measured.error is not None:
            raise measured.error
        if not wanted:
            self._parts.voices.remove(order.name)
            return
        self._parts.voices.prepare(order.name)
        self._paces.pop(order.name, None)
        self._emit(Registered(id=order.id, name=order.name))

    def _admit(self) -> None:
        """Gives places to those that wait."""
        for _ in range(self._admissible()):
            waiting = self._waiting.popleft()
            try:
                self._begin(waiting)
            except Exception as error:
                self._fail(waiting.order.id, error, "beginning")

    def _admissible(self) -> int:
        """How many of those that wait may begin."""
        if not self._waiting:
            return 0
        return admitted(
            [each.expected / self._parts.token_rate for each in self._waiting],
            [each.seconds for each in self._live.values()],
            self._limits,
        )

    def _begin(self, waiting: Waiting) -> None:
        order = waiting.order
        self._emit(Started(id=order.id, waited_s=self._clock() - waiting.came))
        self._live[order.id] = Utterance(
            waiting,
            parts=self._parts,
            prompt=self._parts.voices.prompt(
                order.voice, order.text, order.style, Before(order.before_text, order.before_tokens)
            ),
            pace=self._paces.setdefault(order.voice, Pace()),
            longest=self._longest,
        )

    def _do(self, work: Work) -> None:
        chosen = [self._live[id] for id in work.ids]
        step, take = self._stages[work.stage]
        try:
            results = step(chosen)
        except Exception as error:
            if len(chosen) == 1 or isinstance(error, self._parts.fatal):
                self._give_up(chosen[0], error, work.stage)
                return
            # It left them all as they were: whoever is at fault fails alone.
            for each in chosen:
                self._do(Work(stage=work.stage, ids=(each.id,)))
            return
        for each, result in zip(chosen, results, strict=True):
            try:
                take(each, result)
            except Exception as error:
                self._give_up(each, error, work.stage)

    def _decode(self, chosen: Sequence[Utterance]) -> list[int | None]:
        tokens = self._parts.decoder.step([each.tokens for each in chosen])
        self._decoded += sum(token is not None for token in tokens)
        return tokens

    def _flow(self, chosen: Sequence[Utterance]) -> list[Tensor]:
        return self._parts.flow.step([each.flow for each in chosen])

    def _vocode(self, chosen: Sequence[Utterance]) -> list[Audio | None]:
        return [each.vocode(self._clock()) for each in chosen]

    def _deliver(self, utterance: Utterance, audio: Audio | None) -> None:
        if audio is not None:
            self._emit(audio)
        if utterance.finished:
            self._drop(utterance)
            self._emit(
                Done(
                    id=utterance.id,
                    tokens=len(utterance.tokens.tokens),
                    decode_steps=self._parts.decoder.steps,
                    decoded=self._decoded,
                    said=utterance.said,
                )
            )

    def _give_up(self, utterance: Utterance, error: Exception, stage: str) -> None:
        self._drop(utterance)
        self._fail(utterance.id, error, stage)

    def _drop(self, utterance: Utterance) -> None:
        """Frees everything that an utterance holds."""
        self._live.pop(utterance.id, None)
        utterance.close()

    def _fail(self, id: int, error: Exception, stage: str) -> None:
        if isinstance(error, self._parts.fatal):
            raise error
        self._emit(failed(id, stage_failure("CosyVoice", stage, error)))

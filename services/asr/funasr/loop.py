"""The recognition loop: takes orders, has the models go on, tells what they heard.

It runs in one thread and has none of its own. Between any two steps it looks into its inbox, so a
final that is cancelled while it waits is never begun; when there is nothing to do it sleeps on the
inbox.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from loguru import logger

from services.asr.base import SAMPLE_RATE
from services.asr.funasr.finals import OfflineFinal
from services.asr.funasr.parts import Parts, Stream
from services.asr.funasr.schedule import (
    LONGEST_STRIDE,
    GoOn,
    Limits,
    PieceNeed,
    Recognise,
    StreamNeed,
    Stride,
    plan,
)
from services.asr.funasr.turn import StreamedFinal, Turn
from services.asr.funasr.wire import (
    Cancel,
    Feed,
    Final,
    Finished,
    Forget,
    Partial,
    Report,
    Stepped,
)
from services.asr.turn_audio import DROP_S, is_silent
from services.language import language_of
from tts_engine.frames import failed
from tts_engine.worker_side import Inbox, stage_failure

Told: TypeAlias = Feed | Final | Cancel | Forget


class RecognitionLoop:
    """Recognises all turns of the process.

    Parameters:
        parts: the models.
        limits: what may share a step.
        emit: told of everything that comes of the orders, in the loop's thread.
        inbox: where the orders come; None ends the loop.
        segment_s: longest piece of audio that the offline model is given.
        min_log_prob: a piece's text of a lower one is noise; None keeps all.
        max_turn_s: a longer turn keeps at least its last `max_turn_s`.
        clock: monotonic, the one of the orders' times.
    """

    def __init__(
        self,
        *,
        parts: Parts,
        limits: Limits,
        emit: Callable[[Report], None],
        inbox: Inbox | None = None,
        segment_s: float = 15.0,
        min_log_prob: float | None = None,
        max_turn_s: float = 120.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.inbox: Inbox = queue.SimpleQueue() if inbox is None else inbox
        self._parts = parts
        self._limits = limits
        self._emit = emit
        self._segment_s = segment_s
        self._min_log_prob = min_log_prob
        self._max_turn_s = max_turn_s
        #: samples that may wait for a step: what the turn itself keeps at most
        self._most_waiting = int(max_turn_s + DROP_S) * SAMPLE_RATE
        self._clock = clock
        self._turns: dict[int, Turn] = {}
        self._offline: dict[int, OfflineFinal] = {}
        self._streamed: dict[int, StreamedFinal] = {}
        chunk = parts.streaming.chunk_samples if parts.streaming else SAMPLE_RATE
        self._chunk = chunk
        # Where finals are the streams' own, what is put off is only late.
        longest = LONGEST_STRIDE if parts.offline else 1
        self._stride = Stride(chunk_s=chunk / SAMPLE_RATE, longest=longest)

    @property
    def busy(self) -> bool:
        """There is a step to be made."""
        return bool(self._pieces() or self._streams())

    def run(self) -> None:
        """Works until there will be no more orders."""
        while self.turn():
            pass

    def turn(self) -> bool:
        """Takes what has come, and makes one step; waits for an order if there is nothing to do.

        Returns:
            False when there will be no more orders.
        """
        pieces, streams = self._pieces(), self._streams()
        taken = self._listen(wait=not pieces and not streams)
        if taken is None:
            return False
        if taken:
            pieces, streams = self._pieces(), self._streams()
        match plan(pieces, streams, self._limits):
            case Recognise(chosen):
                self._recognise(chosen)
                # Also of texts that take several: the engine takes silence for a worker that hangs.
                self._emit(Stepped(waits=(), stride_s=self._stride.seconds, due=len(streams)))
            case GoOn(ids):
                self._go_on(ids, due=len(streams) - len(ids))
            case None:
                pass
        return True

    # --- orders -------------------------------------------------------------------------------
    def _listen(self, *, wait: bool) -> int | None:
        """Takes the orders that are there, the first of which may be waited for.

        Returns:
            How many; None: there will be no more.
        """
        taken = 0
        while True:
            try:
                told: Told | None = self.inbox.get(block=wait and not taken)
            except queue.Empty:
                return taken
            if told is None:
                return None
            taken += 1
            self._take(told)

    def _take(self, told: Told) -> None:
        try:
            match told:
                case Feed():
                    self._feed(told)
                case Final():
                    self._ask(told)
                case Cancel():
                    self._cancel(told.id)
                case Forget():
                    self._forget(told.turn)
        except Exception as error:
            self._fail(told.turn if isinstance(told, Feed | Forget) else told.id, error, "order")

    def _feed(self, order: Feed) -> None:
        turn = self._turns.get(order.turn)
        if turn is None:
            turn = Turn(id=order.turn, at=order.at, limit_s=self._max_turn_s)
            self._turns[turn.id] = turn
            model = self._parts.streaming
            if model is not None and (order.partials or self._parts.offline is None):
                turn.open_stream(model, now=order.came)
        turn.feed(np.frombuffer(order.payload, np.float32), came=order.came)
        self._advance(turn)
        stream = turn.stream
        if stream is not None and turn.asked is None and stream.waiting > self._most_waiting:
            # A final is made of the turn's audio, as after a failure.
            logger.warning("a turn's partials end: the streaming model is too far behind")
            turn.drop_stream()

    def _ask(self, order: Final) -> None:
        turn = self._turns[order.turn]
        samples, start = turn.audio()
        if self._parts.offline is not None:
            final = OfflineFinal(
                order,
                samples,
                at=start,
                known=turn.known,
                segment_s=self._segment_s,
                min_log_prob=self._min_log_prob,
            )
            self._offline[final.id] = final
            self._settle(final)
        elif is_silent(samples):
            self._emit(Finished(id=order.id, text=""))
        else:
            streamed = StreamedFinal(order, end=turn.end)
            self._streamed[order.id] = streamed
            if turn.stream is None:  # it had failed: once more, from the start
                self._open(turn, [streamed])
            else:
                turn.ask(streamed)
                self._advance(turn)

    def _cancel(self, id: int) -> None:
        self._offline.pop(id, None)
        streamed = self._streamed.pop(id, None)
        if streamed is not None:
            turn = self._turns[streamed.order.turn]
            turn.withdraw(id)
            self._advance(turn)

    def _forget(self, id: int) -> None:
        self._turns.pop(id, None)
        for finals in (self._offline, self._streamed):
            for final in [each for each in finals.values() if each.order.turn == id]:
                del finals[final.order.id]

    # --- the offline model --------------------------------------------------------------------
    def _pieces(self) -> list[PieceNeed]:
        return [need for final in self._offline.values() for need in final.needs()]

    def _recognise(self, chosen: tuple[tuple[int, int], ...]) -> None:
        assert self._parts.offline is not None
        finals = {id: self._offline[id] for id, _ in chosen}
        audio = [finals[id].piece(place) for id, place in chosen]
        began = self._clock()
        for final in finals.values():
            if final.waited_s is None:
                final.waited_s = began - final.order.came
        try:
            found = self._parts.offline.transcribe(
                [samples for samples, _ in audio],
                languages=[key.languages for _, key in audio],
                hotwords=[key.hotwords for _, key in audio],
            )
        except Exception as error:
            if len(chosen) == 1 or isinstance(error, self._parts.fatal):
                id = chosen[0][0]
                del self._offline[id]
                self._fail(id, error, "second pass")
                return
            for each in chosen:  # whoever is at fault fails alone
                if each[0] in self._offline:
                    self._recognise((each,))
            return
        for (id, place), text in zip(chosen, found, strict=True):
            finals[id].take(place, text)
        for final in finals.values():
            final.compute_s += self._clock() - began
            self._settle(final)

    def _settle(self, final: OfflineFinal) -> None:
        if final.done:
            del self._offline[final.id]
            self._emit(final.report())

    # --- the streaming model ------------------------------------------------------------------
    def _streams(self) -> list[StreamNeed]:
        needs: list[StreamNeed] = []
        enough = self._stride.chunks * self._chunk
        for turn in self._turns.values():
            stream, asked = turn.stream, turn.asked
            if stream is None or not stream.due:
                continue
            if asked is None and not turn.going and stream.waiting < enough:
                continue
            since = asked.order.came if asked else turn.since(self._chunk)
            needs.append(
                StreamNeed(id=turn.id, ready_at=since, asked=asked is not None, alone=turn.alone)
            )
        for id, final in self._streamed.items():
            if final.stream is not None:
                alone = self._turns[final.order.turn].alone
                needs.append(StreamNeed(id=id, ready_at=final.order.came, asked=True, alone=alone))
        return needs

    def _go_on(self, ids: tuple[int, ...], *, due: int) -> None:
        assert self._parts.streaming is not None
        began = self._clock()
        waits = [self._begin(turn, began) for id in ids if (turn := self._turns.get(id))]
        for id in ids:
            turn = self._turns.get(id)
            final = turn.asked if turn else self._streamed[id]
            if final is not None and final.waited_s is None:
                final.waited_s = began - final.order.came
        try:
            self._parts.streaming.step([self._stream(id) for id in ids])
        except Exception as error:
            self._stumble(ids, error)
            return
        took = self._clock() - began
        for id in ids:
            if final := self._streamed.get(id):
                final.compute_s += took
                self._finish(final)
            else:
                self._went_on(self._turns[id], took)
        self._emit(Stepped(waits=waits, stride_s=self._stride.seconds, due=due))

    def _stream(self, id: int) -> Stream:
        final = self._streamed.get(id)
        stream = final.stream if final else self._turns[id].stream
        assert stream is not None
        return stream

    def _begin(self, turn: Turn, now: float) -> float:
        """Notes that a turn's stream goes on; how late it is, seconds."""
        turn.going = True
        gathering_s = self._stride.seconds - self._chunk / SAMPLE_RATE
        late_s = max(0.0, now - turn.since(self._chunk) - gathering_s)
        self._stride.went_on(now, late_s=late_s)
        return late_s

    def _went_on(self, turn: Turn, took_s: float) -> None:
        stream = turn.stream
        assert stream is not None
        if turn.asked is not None:
            turn.asked.compute_s += took_s
        text = stream.text
        if text != turn.told:
            turn.told = text
            self._emit(Partial(turn=turn.id, text=text, end=turn.heard))
        turn.going = stream.due
        self._advance(turn)

    def _advance(self, turn: Turn) -> None:
        for final in turn.advance():
            self._finish(final)

    def _finish(self, final: StreamedFinal) -> None:
        """Tells the text of a final whose stream has nothing more."""
        assert final.stream is not None
        if final.stream.due:
            return
        del self._streamed[final.order.id]
        text = final.stream.text
        try:
            if text and self._parts.punctuate is not None:
                [text] = self._parts.punctuate([text])
        except Exception as error:
            self._fail(final.order.id, error, "punctuation")
            return
        self._emit(
            Finished(
                id=final.order.id,
                text=text,
                language=language_of(text),
                waited_s=final.waited_s or 0.0,
                compute_s=final.compute_s,
            )
        )

    def _open(self, turn: Turn, finals: list[StreamedFinal]) -> None:
        assert self._parts.streaming is not None
        turn.open_stream(self._parts.streaming, finals, now=self._clock())
        self._advance(turn)

    def _stumble(self, ids: tuple[int, ...], error: Exception) -> None:
        """Deals with a step that failed, which leaves its streams in no state to go on.

        Whoever is at fault fails alone: the turns of several begin their streams anew.
        """
        if len(ids) > 1 and not isinstance(error, self._parts.fatal):
            logger.warning("a step of {} streams failed: each goes on alone", len(ids))
            finals = [final for id in ids if (final := self._streamed.get(id))]
            owners = {final.order.turn for final in finals} | self._turns.keys() & set(ids)
            for owner in owners:
                self._isolate(self._turns[owner])
            return
        for id in ids:
            self._lose(id, error)

    def _isolate(self, turn: Turn) -> None:
        turn.alone = True
        finals = [each for each in self._streamed.values() if each.order.turn == turn.id]
        self._open(turn, sorted(finals, key=lambda each: each.end))

    def _lose(self, id: int, error: Exception) -> None:
        """Ends a stream: a final's own one, or a turn's with the finals that it was to make."""
        hit = [id]
        if turn := self._turns.get(id):
            turn.drop_stream()
            hit = [
                each.order.id
                for each in self._streamed.values()
                if each.order.turn == id and each.stream is None
            ] or hit
        for each in hit:
            self._streamed.pop(each, None)
            self._fail(each, error, "streaming")

    def _fail(self, id: int, error: Exception, stage: str) -> None:
        if isinstance(error, self._parts.fatal):
            raise error
        self._emit(failed(id, stage_failure("FunASR", stage, error)))

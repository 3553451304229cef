"""A conversation's handle on a remote runtime: its turn, and the task that carries it there."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from loguru import logger

from services.asr.asked import Answer, Asked
from services.asr.base import OnPartial, Recogniser, Samples, Transcript
from services.asr.funasr_remote.connection import Connection
from services.asr.funasr_remote.protocol import Utterance, utterance_name, weights
from services.asr.funasr_remote.turn import Audio, Begin, Step, Turn
from tts_engine.errors import AtCapacity, DuplexdError, EngineFailed, TimedOut
from tts_engine.restart import Backoff, RestartPolicy

if TYPE_CHECKING:
    from services.asr.funasr_remote.engine import RemoteFunAsrEngine

#: how long the rest of a turn that nobody wants any more may keep the next one waiting, seconds
_PATIENCE_S = 2.0
#: characters of a server's own message that are shown
_QUOTED = 200


@dataclass(slots=True, kw_only=True)
class _Wanted:
    """A final that is wanted, and since when."""

    future: asyncio.Future[Transcript]
    at: float


class RemoteRecogniser(Recogniser):
    """Made by `RemoteFunAsrEngine.open`.

    Its task lives from the first audio to `close`, and so does its connection, unless the server
    ends it. What the server does not take waits in the turn.

    Parameters:
        engine: whose server it is.
        session: for messages.
        on_partial: see AsrEngine.
        retry: when to connect again, and when to tell those who wait that it is of no use.
    """

    def __init__(
        self,
        *,
        engine: RemoteFunAsrEngine,
        session: str,
        on_partial: OnPartial | None,
        retry: RestartPolicy,
    ) -> None:
        self._engine = engine
        self._session = session
        self._on_partial = on_partial
        self._wishes = engine.wishes
        self._names = itertools.count(1)
        self._turn = self._new_turn()
        #: by where the turn ended: questions, and those that the server has not answered
        self._asked: Asked[int, Transcript] = Asked()
        self._wanted: dict[int, _Wanted] = {}
        self._changed = asyncio.Event()
        self._connection: Connection | None = None
        self._retry = retry
        self._backoff = Backoff(retry)
        self._down: DuplexdError | None = None
        self._answer_by: float | None = None
        self._end_sent = 0.0
        self._closed = False
        self._task: asyncio.Task[None] | None = None

    def _new_turn(self) -> Turn:
        return Turn(
            limit_s=self._engine.max_turn_s,
            mode=self._engine.wishes.mode,
            name=lambda: utterance_name(next(self._names)),
        )

    # --- the contract ------------------------------------------------------------------------
    def feed(self, samples: Samples) -> None:
        """See Recogniser."""
        self._turn.feed(samples)
        self._wake()

    async def finalise(self) -> Transcript:
        """See Recogniser."""
        if self._closed:
            raise EngineFailed(f"The recogniser's handle of session {self._session} is closed")
        turn, end = self._turn, self._turn.end
        result = turn.result(end)
        if result is not None:
            return result
        try:
            return await self._asked.answer(
                end, partial(self._ask, end), timeout_s=self._engine.timeout_s
            )
        except TimeoutError:
            raise self._engine.failed(
                TimedOut(
                    f"The FunASR server at {self._engine.shown} took more than "
                    f"{self._engine.timeout_s:g} s",
                    mend="Serve fewer sessions with it, or raise asr.timeout_s",
                )
            ) from None

    def restrict(self, languages: tuple[str, ...] | None) -> None:
        """See Recogniser. From the next utterance on."""
        language = self._engine.language_of(languages)
        self._wishes = replace(self._wishes, language=language)

    def hint(self, words: tuple[str, ...]) -> None:
        """See Recogniser. From the next utterance on."""
        hotwords = weights(words) | dict(self._engine.wishes.hotwords)
        self._wishes = replace(self._wishes, hotwords=hotwords)

    def cancel(self) -> None:
        """See Recogniser."""
        self._asked.withdraw()

    def reset(self) -> None:
        """See Recogniser."""
        self.cancel()
        self._turn = self._new_turn()
        self._answer_by = None
        self._changed.set()

    def close(self) -> None:
        """See Recogniser."""
        if self._closed:
            return
        self._closed = True
        self._on_partial = None
        self.cancel()
        if self._task is not None:
            self._task.cancel()
        self._engine.forget(self, self._task)

    # --- finals that are wanted --------------------------------------------------------------
    def _ask(self, end: int) -> Answer[Transcript]:
        """Asks for the final up to `end`.

        Raises:
            AtCapacity, EngineFailed
        """
        if self._engine.full:
            raise self._engine.failed(
                AtCapacity(
                    f"{self._engine.stats.depth} utterances wait for the FunASR server at "
                    f"{self._engine.shown}",
                    mend="Serve fewer sessions with it",
                )
            )
        if self._down is not None:
            raise self._engine.failed(self._down)
        future = asyncio.get_running_loop().create_future()
        self._wanted[end] = _Wanted(future=future, at=time.monotonic())
        self._engine.stats.depth += 1
        self._turn.ask(end)
        self._wake()
        return Answer(future, partial(self._withdraw, end))

    def _withdraw(self, end: int) -> None:
        if end in self._wanted:
            self._turn.withdraw(end)
            self._settled(end).future.cancel()

    def _settled(self, end: int) -> _Wanted:
        self._engine.stats.depth -= 1
        return self._wanted.pop(end)

    def _give(self, end: int) -> None:
        """The final up to `end` is there."""
        result = self._turn.result(end)
        assert result is not None, "it was just finished"
        if end in self._wanted:
            self._engine.stats.jobs += 1
            self._settled(end).future.set_result(result)

    def _refuse(self, ends: tuple[int, ...], error: DuplexdError) -> None:
        """The finals up to `ends` cannot be had."""
        for end in ends:
            self._turn.withdraw(end)
            future = self._settled(end).future
            future.set_exception(self._engine.failed(error))
            future.exception()  # whoever waits still gets it

    # --- what the server says ----------------------------------------------------------------
    def _replied(self, utterance: Utterance) -> None:
        self._changed.set()
        turn = self._turn
        if utterance is not turn.utterance:
            return  # of a turn that was reset
        if not utterance.done:
            heard = turn.partial()
            if heard is not None and self._on_partial is not None:
                self._on_partial(heard)
            return
        self._answer_by = None
        if utterance.error:
            self._failed(utterance.error)
            return
        self._backoff = Backoff(self._retry)
        self._give(turn.finish(compute_s=time.monotonic() - self._end_sent))

    def _failed(self, said: str) -> None:
        """The server failed on the utterance at hand: those who wait for it are told.

        Its audio stays, and is heard again with what is said after it.
        """
        self._turn.lost()
        first = min(self._wanted, default=None)
        if first is not None:
            error = f"The FunASR server at {self._engine.shown} failed: {said[:_QUOTED]}"
            self._refuse((first,), EngineFailed(error))

    # --- the task ----------------------------------------------------------------------------
    def _wake(self) -> None:
        self._changed.set()
        if self._task is None and not self._closed:
            self._task = asyncio.create_task(self._run(), name=f"funasr-remote {self._session}")

    async def _run(self) -> None:
        try:
            while True:
                try:
                    await self._carry()
                except DuplexdError as error:
                    await self._recover(error)
        finally:
            await self._hang_up()

    async def _carry(self) -> None:
        """Sends what is to be sent, as it comes, until something is wrong.

        Raises:
            DuplexdError: the connection could not be had, or was lost with an utterance in it.
        """
        while True:
            self._changed.clear()
            connection = self._connection
            if connection is None:
                if self._turn.unfinished:
                    self._connection = await self._engine.connect(self._replied, self._changed.set)
                    continue
            elif await self._let_go(connection):
                continue
            # From here to the sending nothing is awaited: the step is this turn's.
            elif (step := self._turn.next()) is not None:
                await self._do(connection, step)
                continue
            await self._wait()

    async def _let_go(self, connection: Connection) -> bool:
        """Ends a connection that is of no more use, or what is left of another turn in it.

        Returns:
            Whether there was anything to end.

        Raises:
            DuplexdError: it was lost with an utterance of this turn in it.
        """
        at_hand = connection.utterance
        if connection.failure is not None:
            if self._turn.utterance is not None:
                raise connection.failure
            await self._hang_up()
        elif at_hand is not None and at_hand is not self._turn.utterance:
            await self._end_stale(connection, at_hand)
        elif at_hand is None and self._outdated(connection):
            await self._hang_up()
        else:
            return False
        return True

    def _outdated(self, connection: Connection) -> bool:
        """Whether it was told other hotwords: the C++ runtime reads a connection's first only."""
        told = connection.wishes
        return told is not None and told.hotwords != self._wishes.hotwords

    async def _end_stale(self, connection: Connection, stale: Utterance) -> None:
        """Ends what is left of a turn that was reset; what the server says of it counts no more.

        Only then another utterance is begun: not every server's replies tell two apart.
        """
        try:
            async with asyncio.timeout(_PATIENCE_S):
                if not stale.ended:
                    await connection.end()
                while connection.utterance is stale and connection.failure is None:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            await self._hang_up()

    async def _do(self, connection: Connection, step: Step) -> None:
        """Sends a step of the turn."""
        match step:
            case Begin(utterance):
                await connection.begin(utterance, self._wishes)
            case Audio(samples):
                await connection.audio(samples)
            case _:
                now = self._end_sent = time.monotonic()
                self._answer_by = asyncio.get_running_loop().time() + self._engine.timeout_s
                self._engine.stats.on_wait(now - self._wanted[step.at].at)
                await connection.end()

    async def _wait(self) -> None:
        """Waits for something to change.

        Raises:
            TimedOut: the server ought to have finished an utterance by now.
        """
        try:
            async with asyncio.timeout_at(self._answer_by):
                await self._changed.wait()
        except TimeoutError:
            error = f"The FunASR server at {self._engine.shown} does not finish an utterance"
            raise TimedOut(error) from None

    async def _recover(self, error: DuplexdError) -> None:
        """After a loss: waits, longer after each, and tells those who wait once it looks bad."""
        connection = self._connection
        self._turn.lost()
        self._answer_by = None
        await self._hang_up()
        if connection is not None and connection.clean and connection.finished:
            return  # some servers end the connection with the utterance
        verdict = self._backoff.died(served_s=0)
        logger.warning(f"funasr-remote: {error}; again in {verdict.delay_s:.1f} s")
        if verdict.failed:
            self._down = error
            self._refuse(tuple(self._wanted), error)
        await asyncio.sleep(verdict.delay_s)
        self._down = None

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

"""What the turn driver decides and has to travel: performed by one task, in the order decided."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from loguru import logger
from pipecat.frames.frames import Frame
from pipecat.processors.frame_processor import FrameProcessor

Effect = Callable[[], Awaitable[None]]

#: longest wait for an interruption to reach the end of the pipeline, seconds
_SETTLE_S = 5.0


class Effects:
    """Frames into the pipeline and messages to the client, one after the other.

    Args:
        session: the conversation's id, for logs.
        on_gone: called once when the client cannot be reached.
    """

    def __init__(self, *, session: str, on_gone: Callable[[], None]) -> None:
        self._session = session
        self._on_gone = on_gone
        self._gone = False
        self._effects: asyncio.Queue[Effect] = asyncio.Queue()
        self._started = asyncio.Event()
        self._settled = asyncio.Event()
        self._head: FrameProcessor

    def attach(self, head: FrameProcessor) -> None:
        """Gives the processor that frames are pushed from, the first of the pipeline."""
        self._head = head

    def add(self, effect: Effect) -> None:
        """Adds an effect."""
        self._effects.put_nowait(effect)

    def push(self, frame: Frame) -> None:
        """Adds a frame into the pipeline."""
        self.add(lambda: self.send(frame))

    async def send(self, frame: Frame) -> None:
        """Pushes a frame into the pipeline, as a part of an effect."""
        await self._head.push_frame(frame)

    async def interrupt(self) -> None:
        """Interrupts the pipeline, as a part of an effect, and waits until it has: nothing of the
        next answer is to meet what is left of the last one.
        """
        self._settled.clear()
        await self._head.broadcast_interruption()
        try:
            async with asyncio.timeout(_SETTLE_S):
                await self._settled.wait()
        except TimeoutError:  # the client is still owed the end of its answer
            logger.error("{}: the pipeline is stuck at an interruption", self._session)

    def started(self) -> None:
        """The pipeline runs."""
        self._started.set()

    def settled(self) -> None:
        """An interruption, or the end, has reached the end of the pipeline."""
        self._settled.set()

    def gone(self, error: ConnectionError) -> None:
        """The client cannot be reached; everyone who wanted to tell it something says so."""
        if not self._gone:
            self._gone = True
            logger.info("{}: {}", self._session, error)
            self._on_gone()

    async def run(self) -> None:
        """Performs effects in order, until cancelled."""
        await self._started.wait()
        while True:
            effect = await self._effects.get()
            try:
                await effect()
            except ConnectionError as error:
                self.gone(error)
            except Exception:
                logger.exception("{}: an effect failed", self._session)

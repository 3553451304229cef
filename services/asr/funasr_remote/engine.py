"""Recognition by a FunASR runtime on another machine."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence

import numpy as np
from loguru import logger

from services.asr.base import SAMPLE_RATE, AsrEngine, OnPartial
from services.asr.funasr_remote.connection import CHECK_URL, Connection, Server
from services.asr.funasr_remote.protocol import Mode, Utterance, Wishes, weights
from services.asr.funasr_remote.recogniser import RemoteRecogniser
from tts_engine.engine import EngineStats
from tts_engine.errors import DuplexdError, EngineFailed, TimedOut
from tts_engine.restart import RestartPolicy

#: a conversation's connection is tried again soon, then less and less often
RETRY = RestartPolicy(first_s=0.2, longest_s=5.0, give_up_after=5)
#: who starts the engine is told of the first failure
_ONCE = RestartPolicy(give_up_after=1)


class RemoteFunAsrEngine(AsrEngine):
    """A client of FunASR's WebSocket runtime, with a connection for each conversation.

    A turn is a row of the runtime's utterances, see `Turn`; each is punctuated for itself.

    Parameters:
        url: ws:// or wss://, of the runtime.
        mode: both passes: partials from the first, finals from the second; or only one of them.
        languages: codes that may be spoken.
        itn: numbers and dates are written as digits.
        hotwords: likely words, see `weights`.
        api_key: sent as a bearer token, for a gateway in front of the runtime.
        verify: the certificate of a wss:// server must be trusted.
        queue_limit: finals that may wait for the server.
        timeout_s: bound of `finalise`, and of all that the server is waited for.
        max_turn_s: a longer turn keeps at least its last `max_turn_s`.
        retry: when a connection that was lost is tried again.
    """

    def __init__(
        self,
        *,
        url: str,
        mode: Mode = "2pass",
        languages: Sequence[str] = ("zh", "en"),
        itn: bool = True,
        hotwords: Sequence[str] = (),
        api_key: str = "",
        verify: bool = True,
        queue_limit: int = 64,
        timeout_s: float = 20.0,
        max_turn_s: float = 120.0,
        retry: RestartPolicy = RETRY,
    ) -> None:
        self.stats = EngineStats()
        self.timeout_s = timeout_s
        self.max_turn_s = max_turn_s
        self._languages = tuple(languages)
        self.wishes = Wishes(
            mode=mode, itn=itn, hotwords=weights(hotwords), language=self.language_of(None)
        )
        self._server = Server(
            url=url,
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            verify=verify,
            timeout_s=timeout_s,
        )
        self.shown = self._server.shown
        self._tls: ssl.SSLContext | None = None
        self._queue_limit = queue_limit
        self._retry = retry
        self._open: set[RemoteRecogniser] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def full(self) -> bool:
        """Whether no more finals may wait."""
        return self.stats.depth >= self._queue_limit

    async def start(self) -> None:
        """See AsrEngine. Has a second of quiet noise recognised."""
        self._tls = await asyncio.to_thread(self._server.tls)
        probe = self._handle(session="start", on_partial=None, retry=_ONCE)
        noise = np.random.default_rng(0).standard_normal(SAMPLE_RATE) * 0.005
        probe.feed(noise.astype(np.float32))
        try:
            await probe.finalise()
        except TimedOut as error:
            raise EngineFailed(
                f"What answers at {self.shown} does not finish an utterance in mode "
                f"{self.wishes.mode}",
                mend=CHECK_URL,
            ) from error
        finally:
            probe.close()
        logger.info("funasr-remote is ready: {}, mode {}", self.shown, self.wishes.mode)

    def open(self, *, session: str, on_partial: OnPartial | None = None) -> RemoteRecogniser:
        """See AsrEngine."""
        return self._handle(session=session, on_partial=on_partial, retry=self._retry)

    def _handle(
        self, *, session: str, on_partial: OnPartial | None, retry: RestartPolicy
    ) -> RemoteRecogniser:
        handle = RemoteRecogniser(engine=self, session=session, on_partial=on_partial, retry=retry)
        self._open.add(handle)
        return handle

    async def close(self) -> None:
        """See AsrEngine."""
        for handle in tuple(self._open):
            handle.close()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # --- for its handles ---------------------------------------------------------------------
    async def connect(
        self, on_reply: Callable[[Utterance], None], on_lost: Callable[[], None]
    ) -> Connection:
        """Opens a connection; see `Connection.open`."""
        return await Connection.open(self._server, self._tls, on_reply=on_reply, on_lost=on_lost)

    def language_of(self, languages: tuple[str, ...] | None) -> str:
        """What the runtime is told when only these may be spoken; see `Recogniser.restrict`."""
        known = self._languages
        chosen = [code for code in known if languages is None or code in languages] or known
        return chosen[0] if len(chosen) == 1 else "auto"

    def failed(self, error: DuplexdError) -> DuplexdError:
        """Counts and logs a failure; returns it, to be raised."""
        self.stats.failed(error)
        logger.warning(f"funasr-remote: {error}")
        return error

    def forget(self, handle: RemoteRecogniser, task: asyncio.Task[None] | None) -> None:
        """A handle was closed; `task` says goodbye for it."""
        self._open.discard(handle)
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

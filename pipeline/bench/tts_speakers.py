"""Whom `bench tts` has speak: the configured engine, or a service that runs somewhere.

async with engine_speaker(settings) as speaker:
    spoken = await timed(speaker, "你好。")
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import httpx
import psutil

from pipeline.bench.tts_result import Spoken
from pipeline.talk.endpoint import Endpoint
from tts_engine.errors import AtCapacity, BadRequest, DuplexdError, EngineFailed, UnknownVoice
from tts_engine.text.stream import segment

if TYPE_CHECKING:
    from pipeline.config import Config
    from tts_engine.engine import SpeechEngine

#: samples a second, and bytes of a sample, of what a service is asked for
_RATE, _BYTES = 24_000, 2
#: longest wait for a service to begin or go on, seconds
_TIMEOUT_S = 120.0


class Speaker(Protocol):
    """Somebody who speaks texts, several at a time."""

    #: for reports
    about: str

    def speak(self, text: str) -> AsyncGenerator[float, None]:
        """Speaks a text, piece by piece as it is made.

        Returns:
            Seconds of audio of each piece.

        Raises:
            DuplexdError: of the engine or the service.
        """
        ...

    @property
    def memory_mb(self) -> float | None:
        """Memory that it holds (RSS), megabytes; None: not known."""
        ...

    @property
    def decoding(self) -> tuple[int, int] | None:
        """Passes of its language model, and tokens that they gave; None: it has none."""
        ...


async def timed(speaker: Speaker, text: str) -> Spoken:
    """Has a text spoken, and takes the time.

    Raises:
        EngineFailed: no audio came of it.
        DuplexdError: see `Speaker.speak`.
    """
    asked, first, audio_s = time.perf_counter(), None, 0.0
    async with aclosing(speaker.speak(text)) as pieces:
        async for seconds in pieces:
            if first is None and seconds:
                first = time.perf_counter() - asked
            audio_s += seconds
    if first is None:
        raise EngineFailed(f"No audio came of {text!r}")
    return Spoken(first_s=first, total_s=time.perf_counter() - asked, audio_s=audio_s)


class EngineSpeaker:
    """An engine of this process, asked clause by clause as the pipeline asks.

    Parameters:
        engine: started.
        about: for reports.
        voice: None is the engine's first.
        speed: of speech, 1 is the voice's own.
    """

    def __init__(
        self, engine: SpeechEngine, *, about: str, voice: str | None = None, speed: float = 1.0
    ) -> None:
        self.about = about
        self._engine = engine
        self._voice = voice
        self._speed = speed

    async def speak(self, text: str) -> AsyncGenerator[float, None]:
        """See Speaker."""
        for clause in segment(text):
            job = self._engine.synthesize(
                clause.text, voice=self._voice, speed=self._speed, style=clause.style
            )
            async with aclosing(job):
                async for chunk in job:
                    yield len(chunk.pcm) / _BYTES / self._engine.sample_rate

    @property
    def memory_mb(self) -> float | None:
        """See Speaker; with what the engine has started."""
        own = psutil.Process()
        family = [own, *own.children(recursive=True)]
        return sum(each.memory_info().rss for each in family) / 1e6

    @property
    def decoding(self) -> tuple[int, int] | None:
        """See Speaker."""
        told = getattr(self._engine, "decoding", None)
        return None if told is None else (told.steps, told.tokens)


@asynccontextmanager
async def engine_speaker(settings: Config, *, voice: str | None = None) -> AsyncIterator[Speaker]:
    """The configured engine, for the length of a block.

    Raises:
        BadRequest: it has no such voice.
        DuplexdError: it cannot be started.
    """
    from pipeline.budget import ThreadBudget
    from pipeline.store import open_store
    from pipeline.voice import build_voice
    from services.voices import resolve_voice

    threads = ThreadBudget.of(settings.threads).tts
    engine = build_voice(settings, open_store(settings), threads=threads)
    try:
        await engine.start()
        wanted = voice or settings.tts.voice
        try:
            name = resolve_voice(wanted, engine.voices) if wanted else engine.voices[0]
        except UnknownVoice as error:
            raise BadRequest(error.message, mend=error.mend) from error
        about = f"{settings.tts.provider}, voice {name}"
        yield EngineSpeaker(engine, about=about, voice=name, speed=settings.tts.speed)
    finally:
        await engine.close()


class ServiceSpeaker:
    """A TTS service, over HTTP.

    Parameters:
        client: of its address, with the key.
        about: for reports.
        voice: None is the service's default.
    """

    def __init__(self, client: httpx.AsyncClient, *, about: str, voice: str | None = None) -> None:
        self.about = about
        self._client = client
        self._body = {"format": "pcm", "sample_rate": _RATE} | ({"voice": voice} if voice else {})

    async def speak(self, text: str) -> AsyncGenerator[float, None]:
        """See Speaker.

        Raises:
            AtCapacity: the service has no place.
            EngineFailed: it refuses, breaks off, or is not there.
        """
        request = self._client.stream("POST", "tts", json={**self._body, "text": text})
        try:
            async with request as response:
                if response.status_code != httpx.codes.OK:
                    raise _refusal(response.status_code, await response.aread())
                async for piece in response.aiter_raw():
                    yield len(piece) / _BYTES / _RATE
        except httpx.HTTPError as error:
            raise EngineFailed(
                f"{self.about} breaks off: {error or type(error).__name__}",
                mend="Start it with `run.py tts`, and give its address",
            ) from error

    @property
    def memory_mb(self) -> float | None:
        """See Speaker; nobody tells."""
        return None

    @property
    def decoding(self) -> tuple[int, int] | None:
        """See Speaker; nobody tells."""
        return None


def _refusal(status: int, body: bytes) -> DuplexdError:
    """What an answer with another status than 200 means."""
    told = f"The service answers {status}: {body[:500].decode(errors='replace')}"
    if status in (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE):
        return AtCapacity(told, mend="Ask for fewer requests at a time")
    return EngineFailed(told, mend="Give the address of a `run.py tts`, and --key if it wants one")


@asynccontextmanager
async def service_speaker(
    address: str, *, key: str = "", cacert: Path | None = None, voice: str | None = None
) -> AsyncIterator[Speaker]:
    """A service that runs, for the length of a block.

    Raises:
        BadRequest: the address, the key or the certificate is none.
    """
    at = Endpoint.of(address, key=key, cacert=cacert)
    async with httpx.AsyncClient(
        base_url=at.base,
        headers=at.headers,
        verify=at.tls() or True,
        timeout=_TIMEOUT_S,
        limits=httpx.Limits(max_connections=None),
        trust_env=False,
    ) as client:
        yield ServiceSpeaker(client, about=at.base, voice=voice)

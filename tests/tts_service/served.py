"""The TTS service in the test's own event loop, and a voice that can clone."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
import soundfile
from openai import AsyncOpenAI
from websockets.asyncio.client import ClientConnection, connect

from pipeline.commands.options import overrides
from pipeline.commands.serve import listen, uvicorn_config
from pipeline.config import load_config
from pipeline.store import open_store
from pipeline.talk.daemon import address_of
from pipeline.tts_app import TtsService, create_app
from services.scripted.speech import synthetic_speech
from services.scripted.tts import VOICES, ScriptedVoice, char_ends
from tests.daemon.client import PATIENCE_S
from tests.daemon.inside import serving
from tests.daemon.process import settings
from tts_engine.cosyvoice.reference import read_reference
from tts_engine.engine import SpeechChunk, SpeechEngine
from tts_engine.errors import UnknownVoice
from tts_engine.text.stream import segment

#: short first clause, several more
TEXT = "好的，今天天气很好。我们去公园走走，然后一起吃饭吧！价格是12元。"
RATE = 24_000


def seconds_of(text: str, *, speed: float = 1.0) -> float:
    """How long the scripted voice speaks a text."""
    return sum(char_ends(clause.text, speed=speed)[-1] for clause in segment(text)) / RATE


def recording(seconds: float = 3.0, *, rate: int = RATE, form: str = "WAV") -> bytes:
    """A sound file of somebody who speaks."""
    file = io.BytesIO()
    soundfile.write(file, synthetic_speech(seconds=seconds, rate=rate), rate, format=form)
    return file.getvalue()


@dataclass(frozen=True, kw_only=True)
class Cloned:
    """See `tts_engine.service.cloner.VoiceInfo`."""

    name: str
    text: str
    language: str = "zh"
    created: str = "2026-01-02T03:04:05Z"
    consent: str = ""
    duration_s: float = 0.0


class CloningVoice(ScriptedVoice):
    """A scripted voice that keeps what it is given, and speaks in it as in its first."""

    def __init__(self, *names: str, **options: Any) -> None:
        super().__init__(**options)
        self.cloned = {name: Cloned(name=name, text="你好") for name in names}
        self.heard: list[bytes] = []
        self.used: list[str | None] = []
        self.hold: asyncio.Event | None = None  # registering waits
        self.pause: asyncio.Event | None = None  # a clause waits behind its first chunk
        self.asked = 0

    @property
    def voices(self) -> tuple[str, ...]:
        return (*VOICES, *self.cloned)

    async def synthesize(
        self, text: str, *, voice: str | None = None, speed: float = 1.0, style: str = ""
    ) -> AsyncGenerator[SpeechChunk, None]:
        self.used.append(voice)
        own = VOICES[0] if voice in self.cloned else voice
        async with aclosing(
            super().synthesize(text, voice=own, speed=speed, style=style)
        ) as chunks:
            async for chunk in chunks:
                yield chunk
                if self.pause is not None:
                    await self.pause.wait()

    async def register(
        self, name: str, audio: bytes, text: str, *, consent: str = "", language: str = ""
    ) -> Cloned:
        self.asked += 1
        if self.hold is not None:
            await self.hold.wait()
        reference = read_reference(audio)
        self.heard.append(audio)
        self.cloned[name] = Cloned(
            name=name,
            text=text,
            consent=consent,
            language=language or "zh",
            duration_s=reference.duration_s,
        )
        return self.cloned[name]

    async def remove(self, name: str) -> None:
        if self.cloned.pop(name, None) is None:
            raise UnknownVoice(f"no voice {name!r}")

    def infos(self) -> list[Cloned]:
        return list(self.cloned.values())


@dataclass
class Served:
    """A service that answers."""

    service: TtsService
    address: str
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    failed: asyncio.Event = field(default_factory=asyncio.Event)

    def count(self, name: str, **labels: str) -> float:
        """A sample of /metrics; 0 for what has none yet."""
        return self.service.metrics.registry.get_sample_value(f"duplexd_{name}", labels) or 0.0

    @asynccontextmanager
    async def http(self) -> AsyncIterator[httpx.AsyncClient]:
        """A plain client."""
        url = f"http://{self.address}"
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
            yield client

    @asynccontextmanager
    async def openai(self) -> AsyncIterator[AsyncOpenAI]:
        """The original's client, which does not try again."""
        url = f"http://{self.address}/v1"
        async with AsyncOpenAI(
            base_url=url, api_key="none", max_retries=0, timeout=PATIENCE_S
        ) as client:
            yield client

    @asynccontextmanager
    async def talk(self, **options: Any) -> AsyncIterator[Talk]:
        """A client of the socket."""
        async with connect(
            f"ws://{self.address}/ws/tts", open_timeout=PATIENCE_S, **options
        ) as connection:
            yield Talk(connection)

    async def works(self) -> None:
        """A request is answered as if nothing had been before."""
        async with self.http() as client:
            reply = await client.post("/tts", json={"text": TEXT, "format": "pcm"})
        assert reply.status_code == 200
        assert len(reply.content) / 2 / RATE == seconds_of(TEXT)


class Talk:
    """A client of the socket."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def say(self, kind: str, **fields: Any) -> None:
        """Sends a message."""
        await self.connection.send(json.dumps({"type": kind, **fields}))

    async def next(self) -> dict[str, Any] | bytes:
        """The next event, or piece of audio."""
        async with asyncio.timeout(PATIENCE_S):
            got = await self.connection.recv()
        return got if isinstance(got, bytes) else json.loads(got)

    async def until(self, *kinds: str) -> tuple[list[dict[str, Any]], bytes]:
        """Events up to the first of these kinds, and the audio in between."""
        events: list[dict[str, Any]] = []
        audio = b""
        while True:
            got = await self.next()
            if isinstance(got, bytes):
                audio += got
                continue
            events.append(got)
            if got["type"] in kinds:
                return events, audio


@asynccontextmanager
async def served(
    voice: SpeechEngine | None = None,
    sets: Mapping[str, object] | None = None,
    *,
    ready: bool = True,
    start_s: float = PATIENCE_S,
) -> AsyncIterator[Served]:
    """Serves the TTS service on loopback; checks that it leaves no task behind.

    Args:
        voice: None: the configured one, which is scripted unless `sets` say otherwise.
        sets: as for `--set`.
        ready: wait until it is.
        start_s: for so long.
    """
    given = overrides(settings(sets)[1::2], engines="scripted:instant")
    config = load_config(None, given, environ={})
    service = TtsService(config=config, store=open_store(config))
    service.voice = voice or service.voice
    listener = listen(config.server.host, 0)
    result = Served(service, address_of(config.server.host, listener.getsockname()[1]))

    app = create_app(service, on_ready=result.ready.set, on_failure=result.failed.set)
    how = uvicorn_config(app, None, stall_s=config.speech.stall_s)
    async with serving(how, listener, result.ready if ready else None, start_s=start_s):
        yield result


def error_of(reply: httpx.Response) -> tuple[int, str, str | None]:
    """Status, code and param of a refusal."""
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return reply.status_code, error["code"], error["param"]


def level(audio: bytes) -> float:
    """RMS of full scale."""
    return float(np.sqrt(np.mean(np.square(np.frombuffer(audio, "<i2") / 32768))))

"""Voices that clients bring: registered ones, and those that are good for one request."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from loguru import logger

from tts_engine.engine import SpeechEngine
from tts_engine.errors import BadRequest, DuplexdError, UnknownVoice
from tts_engine.service.api_errors import ApiError
from tts_engine.service.cloner import ONCE, VoiceCloner, VoiceInfo
from tts_engine.service.desk import SpeechDesk
from tts_engine.service.requests import RegisterRequest


class VoiceDesk:
    """Registers, lists and removes voices.

    Parameters:
        desk: whose engine it is about.
        about: what the engine is called.
    """

    def __init__(self, *, desk: SpeechDesk, about: str) -> None:
        self._desk = desk
        self._about = about
        self._coming: set[str] = set()  # being registered

    @property
    def can_clone(self) -> bool:
        """Voices can be registered."""
        return isinstance(self._desk.engine, VoiceCloner)

    def cloner(self) -> VoiceCloner:
        """What makes voices.

        Raises:
            ApiError: this engine does not.
        """
        engine: SpeechEngine = self._desk.engine
        if not isinstance(engine, VoiceCloner):
            failure = BadRequest(
                f"The engine {self._about} cannot clone voices",
                mend="Choose one that can, as with --tts cosyvoice, or one of its own voices",
            )
            raise ApiError(failure, 501, code="cannot_clone")
        return engine

    def listed(self) -> list[dict[str, Any]]:
        """All voices, the default first, and what is known of those that were registered."""
        known, names = self._registered(), self._desk.voices
        return [
            {
                "id": name,
                "default": name == names[0],
                "registered": name in known,
                **(described(known[name]) if name in known else {}),
            }
            for name in names
        ]

    async def register(self, wanted: RegisterRequest, audio: bytes) -> VoiceInfo:
        """Makes a voice of a recording.

        Raises:
            ApiError: the engine cannot, or the name is taken.
            DuplexdError: of the engine.
        """
        cloner, name = self.cloner(), wanted.name
        if name.startswith(ONCE):
            failure = BadRequest(f"Names that begin with {ONCE} are the service's own")
            raise ApiError(failure, 400, param="name", code="invalid_value")
        if name in self._desk.voices or name in self._coming:
            failure = BadRequest(
                f"There is a voice {name!r} already", mend="Choose another name, or delete it first"
            )
            raise ApiError(failure, 409, param="name", code="voice_exists")
        self._coming.add(name)
        try:
            info = await cloner.register(
                name, audio, wanted.text, consent=wanted.consent, language=wanted.language or ""
            )
        finally:
            self._coming.discard(name)
        logger.info("voice {!r} was registered", name)
        return info

    async def remove(self, name: str) -> None:
        """Forgets a voice.

        Raises:
            ApiError: there is none, or it is the engine's own.
        """
        if name not in self._desk.voices:
            missing = UnknownVoice(f"There is no voice {name!r}", mend="See the list of voices")
            raise ApiError(missing, 404, param="voice")
        if name not in self._registered():
            failure = BadRequest(f"The voice {name!r} is the engine's own and stays")
            raise ApiError(failure, 403, param="voice", code="voice_is_built_in")
        await self.cloner().remove(name)
        logger.info("voice {!r} was removed", name)

    def _registered(self) -> dict[str, VoiceInfo]:
        engine = self._desk.engine
        infos = engine.infos() if isinstance(engine, VoiceCloner) else ()
        return {info.name: info for info in infos}

    @asynccontextmanager
    async def once(
        self, recording: Callable[[], Awaitable[bytes]], text: str
    ) -> AsyncIterator[str]:
        """A voice for one request; it is forgotten afterwards.

        Args:
            recording: gets it.
            text: what is said in it.

        Raises:
            ApiError: the engine cannot clone, or the recording is not to be had.
            DuplexdError: of the engine.
        """
        cloner = self.cloner()
        name = f"{ONCE}{secrets.token_hex(8)}"
        audio = await recording()
        making = asyncio.create_task(cloner.register(name, audio, text), name="voice for a request")
        try:
            await asyncio.shield(making)
            yield name
        finally:
            await _forget(cloner, name, making)


async def _forget(cloner: VoiceCloner, name: str, making: asyncio.Task[VoiceInfo]) -> None:
    """Forgets a voice for one request, also where the client left while it was being made: what an
    engine has begun to make comes into being.
    """
    try:
        await asyncio.wait({making})
    finally:
        making.cancel()  # the server ends, and waits no longer
    if making.exception() is not None:
        return
    try:
        await cloner.remove(name)
    except DuplexdError as error:
        logger.warning("voice {!r} stays until the next start: {}", name, error)


async def sweep(engine: SpeechEngine) -> None:
    """Forgets voices for one request that an end of the process has left behind."""
    if isinstance(engine, VoiceCloner):
        for info in engine.infos():
            if info.name.startswith(ONCE):
                await engine.remove(info.name)


def described(info: VoiceInfo) -> dict[str, Any]:
    """What clients are told about a voice that was registered."""
    return {
        "text": info.text,
        "language": info.language,
        "created": str(info.created),
        "consent": info.consent,
        "duration_s": round(info.duration_s, 3),
    }

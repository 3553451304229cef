"""Mounts `POST /v1/audio/transcriptions`, OpenAI's one-shot from sound to text."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from services.audio_api.transcription_desk import TranscriptionDesk
from services.audio_api.transcription_response import TranscriptionResponse


def make_router(desk: TranscriptionDesk) -> APIRouter:
    """The route.

    Args:
        desk: transcribes.
    """
    router = APIRouter()

    @router.post("/v1/audio/transcriptions")
    async def transcriptions(request: Request) -> Response:
        """Transcribes a recording."""
        return TranscriptionResponse(desk, request)

    return router

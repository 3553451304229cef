# pyright: strict
"""Audio of the protocol as text."""

from __future__ import annotations

import binascii

from tts_engine.errors import BadAudio


def decode_audio(text: str) -> bytes:
    """The bytes of an append event.

    Raises:
        BadAudio: not base64.
    """
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:  # binascii.Error, or characters outside ASCII
        raise BadAudio(f"The audio is not base64: {error}") from None


def encode_audio(data: bytes) -> str:
    """Bytes as base64."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")

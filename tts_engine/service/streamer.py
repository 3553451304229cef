# pyright: strict
"""What an engine offers beside `SpeechEngine` that can begin to speak a text before it is whole."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Protocol, runtime_checkable

from tts_engine.engine import SpeechChunk


@runtime_checkable
class TextStreamer(Protocol):
    """Speaks texts that still come."""

    @property
    def streams_text(self) -> bool:
        """That is wanted, for texts that come in pieces."""
        ...

    def synthesize_pieces(
        self,
        texts: AsyncIterator[str],
        *,
        voice: str | None = None,
        speed: float = 1.0,
        style: str = "",
    ) -> AsyncGenerator[SpeechChunk, None]:
        """Speaks a text as one.

        Args:
            texts: pieces of it as they come, as of `SpeechEngine.synthesize`.
            voice, speed, style: as of `SpeechEngine.synthesize`.

        Returns:
            Chunks, with marks in the text of all pieces together.

        Raises:
            DuplexdError: as `SpeechEngine.synthesize`, or of `texts`.
        """
        ...

"""What the synthesis loop works with: one of each part of the model.

Every step of a part either happens, or raises and leaves the streams that it was given as they
were, so that the others of a batch can be tried again without the one that fails.
"""

from __future__ import annotations

from dataclasses import dataclass

from tts_engine.cosyvoice.decoder import TokenDecoder
from tts_engine.cosyvoice.flow import IncrementalFlow
from tts_engine.cosyvoice.vocoder import StreamingVocoder
from tts_engine.cosyvoice.voice_room import VoiceRoom


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The model, and the voices.

    Parameters:
        token_rate: speech tokens a second.
        silent: speech tokens that are silence; see `pauses`.
        fatal: exceptions after which the device is of no use any more.
    """

    decoder: TokenDecoder
    flow: IncrementalFlow
    vocoder: StreamingVocoder
    voices: VoiceRoom
    sample_rate: int = 24_000
    token_rate: int = 25
    silent: frozenset[int] = frozenset()
    fatal: tuple[type[Exception], ...] = ()

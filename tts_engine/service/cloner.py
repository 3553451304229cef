# pyright: strict
"""What an engine that can clone voices offers beside `SpeechEngine`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

#: how names of voices begin that are good for one request, and that nobody else is told
ONCE = "once-"
#: most characters of what is said in a reference (half a minute, spoken fast), and of the note
TEXT_LENGTH, CONSENT_LENGTH = 600, 500


class VoiceInfo(Protocol):
    """A voice that was registered.

    Parameters:
        name: one of the engine's `voices`.
        text: what is said in the reference.
        language: of the reference.
        created: when it was registered, ISO 8601.
        consent: who agreed to it, as it was noted.
        duration_s: of the reference, seconds.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def text(self) -> str: ...  # noqa: D102
    @property
    def language(self) -> str: ...  # noqa: D102
    @property
    def created(self) -> str: ...  # noqa: D102
    @property
    def consent(self) -> str: ...  # noqa: D102
    @property
    def duration_s(self) -> float: ...  # noqa: D102


@runtime_checkable
class VoiceCloner(Protocol):
    """Makes voices of recordings. A registered voice is among the engine's `voices` until it is
    removed, also after a restart.
    """

    async def register(
        self, name: str, audio: bytes, text: str, *, consent: str = "", language: str = ""
    ) -> VoiceInfo:
        """Makes a voice.

        Args:
            name: not in use.
            audio: a recording, as a file of any format that libsndfile reads.
            text: what is said in it, up to TEXT_LENGTH.
            consent: who agreed, for the record; up to CONSENT_LENGTH.
            language: of the text; empty: by the text itself.

        Raises:
            BadAudio: no audio, too short, too long, silent, clipped.
            BadRequest: the text cannot be what is said.
            AtCapacity, EngineFailed
        """
        ...

    async def remove(self, name: str) -> None:
        """Forgets a voice; a text that is being spoken in it goes on as long as the engine can.

        Raises:
            UnknownVoice: there is no such voice, or it is one of the engine's own.
        """
        ...

    def infos(self) -> Sequence[VoiceInfo]:
        """The voices that were registered, the first first."""
        ...

"""How the Xiaozhi face behaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from services.face import PacingProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class XiaozhiSettings:
    """What holds for every device.

    Parameters:
        lead_frames: frames that a device gets ahead of what it plays.
        boards: the same for some boards: a pattern of the board's name, as `*c3*`, in lower case.
        frame_ms: length of a frame, and so of a packet.
        start_gap_ms: between `tts start` and the first frame: a device empties its queue meanwhile.
        stop_margin_ms: between the end of playback and `tts stop`.
        hello_timeout_s: longest wait for a device's hello.
        wake_words: what wakes a device; any other text that it detects is a question.
        greeting: what is said when one was heard, by language; empty: nothing.
        farewell: what is said before the connection is closed in a long silence; empty: nothing.
        idle_s: that silence; 0: it is never closed.
        goodbye: the language model may end the conversation when the user says goodbye.
        failed: what a device shows when something failed: status and text, by language.
        language: of the texts above, before anybody has spoken.
        cancels_echo: the echo of devices that ask for it is cancelled here.
    """

    lead_frames: int = 2
    boards: Mapping[str, int] = field(default_factory=dict[str, int])
    frame_ms: int = 60
    start_gap_ms: int = 100
    stop_margin_ms: int = 150
    hello_timeout_s: float = 12.0
    wake_words: tuple[str, ...] = ("你好小智", "小智", "嗨小智", "Hi ESP", "Hi 乐鑫")
    greeting: Mapping[str, str] = field(default_factory=dict[str, str])
    farewell: Mapping[str, str] = field(default_factory=dict[str, str])
    idle_s: float = 120.0
    goodbye: bool = True
    failed: Mapping[str, str] = field(default_factory=lambda: {"zh": "出错了", "en": "Error"})
    language: str = "zh"
    cancels_echo: bool = True

    def profile(self, board: str) -> PacingProfile:
        """How audio is paced for a board.

        Args:
            board: its name; empty where it is unknown.
        """
        name = board.lower()
        found = (lead for pattern, lead in self.boards.items() if fnmatchcase(name, pattern))
        return PacingProfile(
            sample_rate=24_000,
            frame_ms=self.frame_ms,
            lead_ms=next(found, self.lead_frames) * self.frame_ms,
            start_gap_ms=self.start_gap_ms,
            stop_margin_ms=self.stop_margin_ms,
        )

    def is_wake_word(self, text: str) -> bool:
        """Whether a device has heard its name, and no question; marks and case do not count."""
        heard = _letters(text)
        return not heard or any(heard == _letters(word) for word in self.wake_words)


def _letters(text: str) -> str:
    return "".join(char for char in text.lower() if char.isalnum())

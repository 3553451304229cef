# pyright: strict
"""A text in, whole or as a language model writes it; its clauses out as they are needed."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncGenerator

from tts_engine.errors import BadRequest, TimedOut
from tts_engine.text.clause import Clause
from tts_engine.text.stream import ClauseStream
from tts_engine.text.words import Language

#: The longest clause, in Hanzi, some 9 s of speech: while a conversation waits for it, the answer
#: that it plays has to last.
MAX_CLAUSE = 40
#: characters that are read before the event loop has its turn: well under 1 ms
_READ_AT_ONCE = 32
#: hexadecimal digits of a text's hash that the log shows
_DIGITS = 12


class TextTooLong(BadRequest):
    """A text has more characters than it may."""

    code = "text_too_long"

    def __init__(self, most: int) -> None:
        super().__init__(f"The text has more than {most} characters", mend="Send it in parts")


class TextFeed:
    """A text on its way to the voice. The first clause is short, as in a conversation.

    Parameters:
        most: characters that it may have; None: its sender has seen to that.
        language: of numbers where the text itself does not tell.
        idle_s: how long the next piece may take, seconds; None: any time.
    """

    def __init__(
        self, *, most: int | None = None, language: Language = "zh", idle_s: float | None = None
    ) -> None:
        self._most = most
        self._idle_s = idle_s
        self._stream = ClauseStream(max_chars=MAX_CLAUSE, language=language)
        self._pieces: deque[str] = deque()
        self._all: list[str] = []
        self._changed = asyncio.Event()
        self.chars = 0
        self.finished = False

    @classmethod
    def whole(cls, text: str, *, language: Language = "zh") -> TextFeed:
        """A feed that has all of its text."""
        feed = cls(language=language)
        feed.push(text)
        feed.finish()
        return feed

    @property
    def text(self) -> str:
        """What has come so far."""
        return "".join(self._all)

    @property
    def digest(self) -> str:
        """Tells texts apart in the log, and does not tell what they are."""
        data = self.text.encode("utf-8", "surrogatepass")
        return hashlib.sha256(data).hexdigest()[:_DIGITS]

    def push(self, text: str) -> None:
        """Takes the next piece.

        Raises:
            TextTooLong: nothing of it is taken.
        """
        if self._most is not None and self.chars + len(text) > self._most:
            raise TextTooLong(self._most)
        self.chars += len(text)
        self._all.append(text)
        self._pieces.append(text)
        self._changed.set()

    def finish(self) -> None:
        """The text is whole. Idempotent."""
        self.finished = True
        self._changed.set()

    async def begun(self) -> None:
        """Waits for the first of it.

        Raises:
            TimedOut: it did not come.
        """
        while not self._all and not self.finished:
            await self._more()

    async def clauses(self) -> AsyncGenerator[Clause, None]:
        """The clauses, to be asked for once.

        Raises:
            TimedOut: the next piece did not come.
        """
        while True:
            while self._pieces:
                text = self._pieces.popleft()
                for start in range(0, len(text), _READ_AT_ONCE):
                    for clause in self._stream.push(text[start : start + _READ_AT_ONCE]):
                        yield clause
                    await asyncio.sleep(0)
            if self.finished:
                break
            await self._more()
        for clause in self._stream.flush():
            yield clause

    async def _more(self) -> None:
        self._changed.clear()
        try:
            async with asyncio.timeout(self._idle_s):
                await self._changed.wait()
        except TimeoutError:
            raise TimedOut(
                f"No more of the text came for {self._idle_s:g} s", mend='Send {"type": "end"}'
            ) from None

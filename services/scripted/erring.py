"""A recogniser that errs on purpose: the texts of any other one, with some characters wrong."""

from __future__ import annotations

import random
from dataclasses import replace

from services.asr.base import AsrEngine, OnPartial, Recogniser, Samples, Transcript

#: what a wrong character becomes, by script
_HANZI = "的一是了我不在有他这为之来以个中上们到说时要就出会可也你对生能而子那得于着下自年"
_LATIN = "etaoinshrdlucmfw"
#: shares of the errors: another character, none, or one more
_SUBSTITUTED, _DELETED = 0.7, 0.85


def err(text: str, rate: float) -> str:
    """Makes errors in a text; the same text always gets the same ones.

    A text that goes on gets others: what a recogniser wrote before it may write otherwise then.

    Args:
        text: what was understood.
        rate: share of its letters that are wrong, 0 to 1; marks and spaces never are.
    """
    chance = random.Random(text)
    return "".join(_erred(char, chance) if chance.random() < rate else char for char in text)


def _erred(char: str, chance: random.Random) -> str:
    if not char.isalnum():
        return char
    other = chance.choice(_LATIN if char.isascii() else _HANZI)
    kind = chance.random()
    if kind < _SUBSTITUTED:
        return other
    return "" if kind < _DELETED else char + other


class ErringAsr(AsrEngine):
    """Puts errors into the partials and finals of another engine.

    Parameters:
        engine: what really recognises; it is closed with this one.
        rate: see `err`.
    """

    def __init__(self, engine: AsrEngine, *, rate: float) -> None:
        self._engine = engine
        self._rate = rate
        self.stats = engine.stats

    @property
    def ready(self) -> bool:
        """See AsrEngine."""
        return self._engine.ready

    async def start(self) -> None:
        """See AsrEngine."""
        await self._engine.start()

    def open(self, *, session: str, on_partial: OnPartial | None = None) -> Recogniser:
        """See AsrEngine."""
        if on_partial is None:
            return _Erring(self, self._engine.open(session=session))

        def tell(partial: Transcript) -> None:
            on_partial(self.erred(partial))

        return _Erring(self, self._engine.open(session=session, on_partial=tell))

    def erred(self, transcript: Transcript) -> Transcript:
        """The transcript with errors."""
        return replace(transcript, text=err(transcript.text, self._rate))

    async def close(self) -> None:
        """See AsrEngine."""
        await self._engine.close()


class _Erring(Recogniser):
    """A handle of the other engine, whose finals have errors."""

    def __init__(self, engine: ErringAsr, recogniser: Recogniser) -> None:
        self._engine = engine
        self._recogniser = recogniser

    def feed(self, samples: Samples) -> None:
        self._recogniser.feed(samples)

    async def finalise(self) -> Transcript:
        return self._engine.erred(await self._recogniser.finalise())

    def restrict(self, languages: tuple[str, ...] | None) -> None:
        self._recogniser.restrict(languages)

    def hint(self, words: tuple[str, ...]) -> None:
        self._recogniser.hint(words)

    def cancel(self) -> None:
        self._recogniser.cancel()

    def reset(self) -> None:
        self._recogniser.reset()

    def close(self) -> None:
        self._recogniser.close()

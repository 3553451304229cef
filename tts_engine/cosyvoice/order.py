# pyright: strict
"""In what order the language model reads an utterance: pure.

    whole        start, text, turn, speech...                               the text is there
    interleaved  start, text, speech, text, speech, ... text, turn, speech  the text still comes

CosyVoice was trained with both. Interleaved, five tokens of text are followed by fifteen of speech,
and by a sign that the model gives, and never reads, when it wants more text. A prompt's text and
speech are dealt out in the same way. Once the text is whole, the rest of it is read at once; where
nothing was read before, the order is the other one.

Two things of upstream's loop do not follow the order of the training, and are left out: it reads
the latest token of speech twice before the rest of the text, and drops the rest of the prompt's
speech where the text is too short to be dealt out with all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

#: tokens of text, and those of speech that follow them
TEXT, SPEECH = 5, 15
#: the two marks: before everything, and where the text ends and the speech takes its turn
START, TURN = 0, 1


@dataclass(frozen=True, slots=True)
class LlmPrompt:
    """What was said before, in the voice that is to go on.

    Parameters:
        text_ids: its text; an instruction that ends in <|endofprompt|> for a style.
        speech_tokens: its speech; none where only an instruction is given.
        told: how many of `text_ids`, from the first, are an instruction: no speech stands for it.
    """

    text_ids: tuple[int, ...] = ()
    speech_tokens: tuple[int, ...] = ()
    told: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """Tokens of one kind that are read one after another."""

    kind: Literal["text", "speech", "mark"]
    ids: tuple[int, ...]


def parts_of(*parts: Part) -> tuple[Part, ...]:
    """Without the empty ones."""
    return tuple(part for part in parts if part.ids)


class Order(Protocol):
    """What of an utterance is read next, and what may come of it."""

    @property
    def ready(self) -> bool:
        """There is something to read."""
        ...

    @property
    def may_end(self) -> bool:
        """The speech may end with the next token."""
        ...

    @property
    def may_fill(self) -> bool:
        """More text may be asked for instead of the next token."""
        ...

    def upcoming(self) -> tuple[Part, ...]:
        """What the next pass reads, once it is ready; it is the same until `drawn`."""
        ...

    def drawn(self, token: int | None) -> None:
        """It was read, and the model gave a token, or the sign that it wants more text."""
        ...


class Whole:
    """The order of an utterance whose text is there.

    Parameters:
        prompt: what was said before.
        text_ids: what to say.
    """

    ready = may_end = may_fill = True

    def __init__(self, prompt: LlmPrompt, text_ids: Sequence[int]) -> None:
        self._next = parts_of(
            Part("mark", (START,)),
            Part("text", (*prompt.text_ids, *text_ids)),
            Part("mark", (TURN,)),
            Part("speech", prompt.speech_tokens),
        )

    def upcoming(self) -> tuple[Part, ...]:
        """See Order."""
        return self._next

    def drawn(self, token: int | None) -> None:
        """See Order; asking for text ends it, as everything that is no speech."""
        if token is not None:
            self._next = (Part("speech", (token,)),)


class Interleaved:
    """The order of an utterance whose text comes while it is spoken.

    Parameters:
        prompt: what was said before.
    """

    def __init__(self, prompt: LlmPrompt) -> None:
        self._prompt = prompt
        self._text = list(prompt.text_ids[prompt.told :])  # not read yet
        self._whole = False  # no more of it comes
        self._begun = False
        self._asked = True  # the next pass reads text
        self._turned = False  # all of it was read
        self._latest: tuple[int, ...] = ()  # speech that was drawn and not read yet
        self._left = SPEECH - len(prompt.speech_tokens) % SPEECH  # speech until text is due

    def push(self, ids: Sequence[int]) -> None:
        """Takes more of the text; not once it is whole."""
        assert not self._whole
        self._text += ids

    def finish(self) -> None:
        """The text is whole. Idempotent."""
        self._whole = True

    @property
    def ready(self) -> bool:
        """See Order."""
        groups = 1 if self._begun else self._prompted
        return not self._asked or self._whole or len(self._text) >= TEXT * groups

    @property
    def may_end(self) -> bool:
        """See Order."""
        return self._turned or (self._asked and self._whole)

    @property
    def may_fill(self) -> bool:
        """See Order."""
        return not self.may_end

    def upcoming(self) -> tuple[Part, ...]:
        """See Order."""
        latest, text = Part("speech", self._latest), tuple(self._text)
        if not self._asked:
            return (latest,)
        if not self._begun:
            return self._beginning()
        if self._whole:
            return parts_of(latest, Part("text", text), Part("mark", (TURN,)))
        return parts_of(latest, Part("text", text[:TEXT]))

    def drawn(self, token: int | None) -> None:
        """See Order."""
        if self._asked:
            self._turned = self._whole
            groups = 1 if self._begun else self._prompted
            del self._text[: len(self._text) if self._whole else TEXT * groups]
            self._left = SPEECH if self._begun else self._left
            self._begun = True
        self._latest = () if token is None else (token,)
        self._left -= 1
        self._asked = not self._turned and (token is None or self._left == 0)

    @property
    def _prompted(self) -> int:
        """Groups of text that are read at the beginning, each with speech of the prompt."""
        return max(1, -(-len(self._prompt.speech_tokens) // SPEECH))

    def _beginning(self) -> tuple[Part, ...]:
        told, speech = self._prompt.text_ids[: self._prompt.told], self._prompt.speech_tokens
        if self._whole:  # nothing has been read: it is as if it had been there from the first
            return Whole(LlmPrompt(told, speech), self._text).upcoming()
        groups: list[Part] = []
        for group in range(self._prompted):
            text = self._text[TEXT * group : TEXT * (group + 1)]
            groups.append(Part("text", tuple(text)))
            groups.append(Part("speech", speech[SPEECH * group : SPEECH * (group + 1)]))
        return parts_of(Part("mark", (START,)), Part("text", told), *groups)

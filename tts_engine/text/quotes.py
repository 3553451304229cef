"""What is open at a place of a text: quotation marks and brackets."""

from __future__ import annotations

from dataclasses import dataclass

_CLOSING = {"“": "”", "‘": "’", "「": "」", "『": "』", "《": "》", "〈": "〉", "（": ")", "(": ")"}
_CLOSERS = {**{mark: mark for mark in _CLOSING.values()}, "）": ")"}
#: What changes what is open.
QUOTES = frozenset([*_CLOSING, *_CLOSERS, '"', "\n"])
#: Deeper nesting is not looked at; nobody writes it.
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Quotes:
    """A place's open marks.

    Parameters:
        stack: what would close them, the innermost last.
        straight: inside straight quotes.
    """

    stack: str = ""
    straight: bool = False

    def after(self, char: str) -> Quotes:
        """What is open behind `char`. An apostrophe closes nothing; a new line closes all."""
        if char == '"':
            return Quotes(self.stack, not self.straight)
        if char == "\n":
            return Quotes()
        if char in _CLOSING:
            deep = len(self.stack) >= _DEEPEST
            return self if deep else Quotes(self.stack + _CLOSING[char], self.straight)
        if self.stack and char in _CLOSERS:
            at = self.stack.rfind(_CLOSERS[char])
            return self if at < 0 else Quotes(self.stack[:at], self.straight)
        return self

    def closes(self, char: str) -> bool:
        """`char` closes something that is open."""
        if char == '"':
            return self.straight
        return bool(self.stack) and _CLOSERS.get(char, "\n") in self.stack

    @property
    def open(self) -> bool:
        """Something is."""
        return self.straight or bool(self.stack)

    @property
    def tight(self) -> bool:
        """Inside brackets or a title, where nobody takes a breath."""
        return any(mark in self.stack for mark in ")》〉")

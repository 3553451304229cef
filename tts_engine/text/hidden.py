"""Takes out what never belongs in the context: reasoning blocks and tool calls written as text."""

from __future__ import annotations

import re

_NAMES = "think thinking thought reasoning tool_call tool_calls tool_response function_call"
_BLOCKS = _NAMES.split()
#: A closing tag without its opening one goes too: some chat templates open the block in the prompt.
_TAGS = {f"<{name}>": f"</{name}>" for name in _BLOCKS} | {f"</{name}>": "" for name in _BLOCKS}
_TAG_STARTS = frozenset(tag[:n] for tag in _TAGS for n in range(1, len(tag)))

_FIRST = "name function tool tool_name tool_call tool_calls arguments parameters action"
_KEYS = _FIRST.split()
#: How a tool call in JSON begins, white space apart; a list of calls as well.
_JSON = frozenset(f'{opening}"{key}":' for opening in ("{", "[{") for key in _KEYS)
_JSON_STARTS = frozenset(start[:n] for start in _JSON for n in range(1, len(start)))
_CALL = re.compile(
    r'"(?:arguments|parameters|args|input|action_input|function|tool_calls?)"\s*:\s*[{\["]'
)
_WHITE = " \t\r\n"
#: White space inside the beginning of a tool call; more is prose.
_LONGEST_START = 64


class HiddenFilter:
    """Feed it the answer's characters; it gives back those that belong in the context.

    It holds back only what may still be the start of a tag or of a tool call.
    """

    def __init__(self) -> None:
        self._held = ""
        self._closing = ""  # inside a block: the tag that ends it
        self._json: _JsonScanner | None = None

    def feed(self, char: str) -> str:
        """The characters that are decided now, in order."""
        if self._closing:
            self._skip(char)
            return ""
        if self._json:
            return self._feed_json(self._json, char)
        if not self._held and char not in "<{[":
            return char
        self._held += char
        return self._decide()

    def finish(self) -> str:
        """The rest, at the end of the answer. What is still open is dropped."""
        held, closing, json = self._held, self._closing, self._json
        self.__init__()
        return "" if closing or json else held

    def _skip(self, char: str) -> None:
        # The last characters are enough to see the closing tag.
        self._held = (self._held + char)[-len(self._closing) :]
        if self._held.lower() == self._closing:
            self._held = self._closing = ""

    def _decide(self) -> str:
        """Looks at what is held from its first character on and lets go what is plain text."""
        free = ""
        while self._held:
            tag = self._held.lower()
            if tag in _TAGS:
                self._closing = _TAGS[tag]
                self._held = ""
                break
            compact = "".join(c for c in self._held if c not in _WHITE)
            if compact in _JSON:
                self._json = _JsonScanner(self._held)
                self._held = ""
                break
            if tag in _TAG_STARTS or (compact in _JSON_STARTS and len(self._held) < _LONGEST_START):
                break
            free += self._held[0]
            self._held = self._held[1:]
            # Plain text up to the next character that could open something.
            plain = next((i for i, c in enumerate(self._held) if c in "<{["), len(self._held))
            free += self._held[:plain]
            self._held = self._held[plain:]
        return free

    def _feed_json(self, json: _JsonScanner, char: str) -> str:
        if not json.feed(char):
            return ""
        self._json = None
        text = json.text()
        # Data that merely looks like the beginning of a call is part of the answer.
        return "" if _CALL.search(text) else text


class _JsonScanner:
    """Finds the end of a JSON value, whose beginning is known to be one."""

    def __init__(self, beginning: str) -> None:
        self._chars: list[str] = []
        self._depth = 0
        self._quoted = self._escaped = False
        for char in beginning:
            self.feed(char)

    def feed(self, char: str) -> bool:
        """Takes the next character; True when it completes the value."""
        self._chars.append(char)
        if self._quoted:
            if self._escaped:
                self._escaped = False
            elif char == "\\":
                self._escaped = True
            elif char == '"':
                self._quoted = False
        elif char == '"':
            self._quoted = True
        elif char in "{[":
            self._depth += 1
        elif char in "}]":
            self._depth -= 1
        return self._depth == 0

    def text(self) -> str:
        """Everything taken so far."""
        return "".join(self._chars)

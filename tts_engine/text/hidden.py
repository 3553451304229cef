"""Takes out what never belongs in the context: reasoning blocks and tool calls written as text."""

from __future__ import annotations

import re

from tts_engine.text.dropped import Drops

_THINKING = ["think", "thinking", "thought", "reasoning"]
_CALLING = ["tool_call", "tool_calls", "tool_response", "function_call"]
_THINK, _CALL_RULE = "think", "tool call"
_RULES = dict.fromkeys(_THINKING, _THINK) | dict.fromkeys(_CALLING, _CALL_RULE)
#: An opening tag with the one that closes it. A closing tag without its opening one goes too: some
#: chat templates open the block in the prompt.
_TAGS = {
    **{f"<{name}>": (f"</{name}>", rule) for name, rule in _RULES.items()},
    **{f"</{name}>": ("", rule) for name, rule in _RULES.items()},
    "<function=": ("</function>", _CALL_RULE),
    "[tool_calls]": ("", _CALL_RULE),
}
_TAG_STARTS = frozenset(tag[:n] for tag in _TAGS for n in range(1, len(tag)))

_FIRST = "name function tool tool_name tool_call tool_calls arguments parameters action"
_KEYS = _FIRST.split()
_FENCE = "```"
_FENCES = ("", _FENCE, "```json", "```tool_call", "```tool_code")
#: How a tool call in JSON begins, white space apart; a list of calls as well; fenced or not.
_JSON = frozenset(
    f'{fence}{opening}"{key}":' for fence in _FENCES for opening in ("{", "[{") for key in _KEYS
)
_JSON_STARTS = frozenset(start[:n] for start in _JSON for n in range(1, len(start)))
_CALL = re.compile(
    r'"(?:arguments|parameters|args|input|action_input|function|tool_calls?)"\s*:\s*[{\["]'
)
#: What JSON has outside of its strings.
_BARE = frozenset('{}[]",:+-.0123456789eEtrufalsn \t\r\n')
_WHITE = " \t\r\n"
_OPENERS = "<{[`"
#: White space inside the beginning of a tool call; more is prose.
_LONGEST_START = 64
#: A longer value is no tool call, or one that never ends.
_LONGEST_CALL = 8192


class HiddenFilter:
    """Feed it the answer's characters; it gives back those that belong in the context.

    It holds back only what may still be the start of a tag or of a tool call.

    Attributes:
        drops: what does not, as offsets in what was fed.
    """

    def __init__(self) -> None:
        self.drops = Drops()
        self._fed = 0
        self._held = ""
        self._closing = ""  # inside a block: the tag that ends it
        self._rule = ""  # of that block
        self._json: _JsonScanner | None = None
        self._fenced = False  # a call was taken out of a fence, whose end is awaited

    def feed(self, char: str) -> str:
        """The characters that are decided now, in order."""
        self._fed += 1
        if self._closing:
            self._skip(char)
            return ""
        if self._json:
            return self._feed_json(self._json, char)
        if not self._held and not self._fenced and char not in _OPENERS:
            return char
        self._held += char
        return self._end_fence() if self._fenced else self._decide()

    def finish(self) -> str:
        """The rest, at the end of the answer. What is still open is dropped."""
        rest = ""
        if self._json:
            self._drop(len(self._json.text), _CALL_RULE)
        elif self._fenced:
            self._drop(len(self._held), _CALL_RULE)
        elif not self._closing:
            rest = self._held
        self._held = self._closing = ""
        self._json = None
        self._fenced = False
        return rest

    def _drop(self, size: int, rule: str) -> None:
        """The last `size` characters are not part of the answer."""
        self.drops.add(self._fed - size, self._fed, rule)

    def _skip(self, char: str) -> None:
        self._drop(1, self._rule)
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
                self._closing, self._rule = _TAGS[tag]
                self._drop(len(tag), self._rule)
                self._held = ""
                break
            compact = "".join(c for c in self._held if c not in _WHITE)
            if compact in _JSON:
                self._json = _JsonScanner(self._held)
                self._held = ""
                break
            if tag in _TAG_STARTS or (compact in _JSON_STARTS and len(self._held) < _LONGEST_START):
                break
            # Plain text up to the next character that could open something.
            plain = next((i for i, c in enumerate(self._held) if i and c in _OPENERS), len(tag))
            free += self._held[:plain]
            self._held = self._held[plain:]
        return free

    def _feed_json(self, json: _JsonScanner, char: str) -> str:
        if not json.feed(char):
            return ""
        self._json = None
        text = json.text
        if not (self._fenced or _CALL.search(text)):
            # Data that merely looks like the beginning of a call is part of the answer.
            return text
        self._fenced = self._fenced or text.startswith(_FENCE)
        if not json.broken:
            self._drop(len(text), _CALL_RULE)
            return ""
        # What does not belong to the value follows it.
        self.drops.add(self._fed - len(text), self._fed - 1, _CALL_RULE)
        self._held = char
        return self._end_fence() if self._fenced else self._decide()

    def _end_fence(self) -> str:
        compact = self._held.strip(_WHITE + ",")
        if compact == _FENCE:
            self._fenced = False
        elif compact in ("{", "["):
            self._json = _JsonScanner(self._held)
        elif _FENCE.startswith(compact) and len(self._held) < _LONGEST_START:
            return ""
        else:
            self._fenced = False
            return self._decide()
        if self._json is None:
            self._drop(len(self._held), _CALL_RULE)
        self._held = ""
        return ""


class _JsonScanner:
    """Finds the end of a JSON value, whose beginning is known to be one.

    Attributes:
        broken: it has no end: the last character cannot belong to it.
    """

    def __init__(self, beginning: str) -> None:
        self._chars: list[str] = []
        self._depth = 0
        self._quoted = self._escaped = False
        self.broken = False
        # What stands before the value is not part of it.
        value = next(i for i, char in enumerate(beginning) if char in "{[")
        self._chars += beginning[:value]
        for char in beginning[value:]:
            self.feed(char)

    def feed(self, char: str) -> bool:
        """Takes the next character; True when that completes the value, or cannot belong to it."""
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
        elif char not in _BARE:
            self.broken = True
        self.broken = self.broken or len(self._chars) > _LONGEST_CALL
        return self._depth == 0 or self.broken

    @property
    def text(self) -> str:
        """Everything taken so far."""
        return "".join(self._chars)

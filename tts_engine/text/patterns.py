"""The shapes of markup: each one decided, and each one that may still become one."""

from __future__ import annotations

import re

#: At the start of a line or of a table cell: dropped, and the next one may follow ("> - [ ] 1. ").
LINE_MARK = re.compile(
    r"""[ ]+
    | \#{1,6}[ ] | \#{2,7}                          # headings
    | >[ ]?                                         # quotes
    | [-*+•‣◦·–—][ ]+                               # bullets
    | :?-{3,}:? | ={3,}                             # rules, table alignment
    | \d{1,3}(?:[.)）][ ]+|、(?!\d))                 # numbering
    | [(（]\d{1,2}[)）][ ]*
    | [①-⑳][ ]*
    """,
    re.VERBOSE,
)
#: A whole buffer that may still become one; its length is bounded.
LINE_OPEN = re.compile(
    r"\#{1,6}|[-*+•‣◦·–—]|:?-{0,99}:?|={1,99}|~{1,2}|\d{1,3}[.)）、]?|[(（]\d{0,2}"
)
TILDE_FENCE = "~~~"

SCHEME = re.compile(r"(?:https?|ftp)://|www\.|mailto:", re.IGNORECASE)
URL_CHAR = re.compile(r"[!-~]")
#: At the end of an address these belong to the sentence around it.
URL_TRAILERS = frozenset(".,;:!?)]}'\"*_~")
#: These end an address.
URL_ENDS = frozenset('<>"`|\\^{}[]')

WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+\-@/:]*")
#: The longest local part of an e-mail address.
LONGEST_WORD = 64
EMAIL = re.compile(r"(?P<host>[A-Za-z0-9._+-]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,})")
#: An address that is a site's name and no more, which is said.
SITE = re.compile(
    r"""(?:(?:https?|ftp)://)?(?:www\.)?
        (?P<host>(?:[a-z0-9-]{1,24}\.){1,3}[a-z]{2,12})/?
        (?=[.,;:!?)\]}'"*_~]*(?:[^!-~]|[<>"`|\\^{}\[\]]|\Z))""",
    re.IGNORECASE | re.VERBOSE,
)
SITE_OPEN = re.compile(r"""(?:(?:https?|ftp)://|www\.)[a-z0-9.-]*/?[.,;:!?)\]}'"*_~]*""", re.I)
#: A host without scheme is said; with a path behind it nobody would say it.
HOST_WITH_PATH = re.compile(
    r"(?:[a-z0-9-]+\.)+(?:com|org|net|cn|io|ai|dev|app|edu|gov|info|me|co|top|xyz|tv|uk|jp|de)/\w",
    re.IGNORECASE,
)

TAG = re.compile(
    r"""</?(?P<name>[A-Za-z][\w:-]*)
        (?P<attrs>(?:\s+[\w:-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s"'<>]+))*)\s*/?>
    | <\|[^|<>]*\|> | <!--[^<>]*--> | <![A-Za-z][^<>]*>
    """,
    re.VERBOSE,
)
TAG_OPEN = re.compile(r"</?(?:[A-Za-z][\w:-]*(?:\s+[^<>\n]*)?/?)?|<\|[^|<>\n]*\|?|<!-{0,2}[^<>\n]*")
AUTO_LINK = re.compile(r"<(?:[A-Za-z][A-Za-z0-9+.-]*:[^\s<>]*|[^\s<>@]+@[^\s<>@]+)>")
AUTO_LINK_OPEN = re.compile(r"<[A-Za-z0-9_.+\-@]*(?::[^\s<>]*)?")
LONGEST_TAG = 200
#: Tags that stand between lines.
_BREAKING = "br p div li ul ol tr table hr h1 h2 h3 h4 h5 h6 section article blockquote pre"
BREAKING_TAGS = frozenset(_BREAKING.split())

#: What follows the text of a link: an address, perhaps with a title. Other text in parentheses
#: after a bracket is text.
_ADDRESS = r"(?:(?:[A-Za-z]+:|[/#.])\S*|[!-;=?-~]*)"
LINK_TARGET = re.compile(rf"""\(\s*(?:<[^<>\n]*>|{_ADDRESS})(?:\s+(?:"[^"\n]*"|'[^'\n]*'))?\s*\)""")
_TARGET_OPEN = rf"""\](?:\(\s*(?:<[^<>\n]*>?|{_ADDRESS})(?:[ ]+(?:["'][^\n]*)?)?)?"""
LINK_OPEN = re.compile(_TARGET_OPEN)
IMAGE_OPEN = re.compile(rf"!(?:\[[^\]\n]*(?:{_TARGET_OPEN})?)?")
IMAGE_TEXT = re.compile(r"!\[[^\]\n]*\]\(")
LINK_SIGN = re.compile(r"[./#:@]|^\(\s*\)$")
LONGEST_LINK = 500

#: In brackets and not said: citations, footnotes, boxes of task lists.
REFERENCE = re.compile(r"\d{1,3}|\^[\w-]{1,20}|[xX ]?")
REFERENCE_OPEN = re.compile(r"\d{0,3}|\^[\w-]{0,20}|[xX ]")

COMMAND = re.compile(r"\\[A-Za-z]+")
LONGEST_COMMAND = 20
#: LaTeX commands that are signs; others vanish.
COMMANDS = {
    "times": "×",
    "cdot": "×",
    "div": "÷",
    "pm": "±",
    "approx": "≈",
    "neq": "≠",
    "ne": "≠",
    "leq": "≤",
    "le": "≤",
    "geq": "≥",
    "ge": "≥",
    "circ": "°",
    "to": "→",
    "rightarrow": "→",
}


def closing_parenthesis(text: str, start: int) -> int:
    """The end of the parenthesis that opens at `start`; 0 for none yet."""
    if ")" not in text:
        return 0
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if not depth:
            return at + 1
    return 0

"""Whether what was recognised is the answer itself, heard through the client's microphone.

A loudspeaker in a room, and an answer that pauses in the middle of a word, are hard on a
recogniser: it writes characters of the same or nearly the same sound, half words at both ends, and
numbers in digits. So the text is laid along the audible words where it fits best, and what differs
costs by how different it sounds.
"""
# pyright: strict

from __future__ import annotations

import re
from functools import lru_cache

from pipeline.turns.digits import EN_LARGE
from pipeline.turns.plain import plain
from pipeline.turns.readings import reading

#: any number: whether it is written 320, 三百二十 or three hundred twenty tells nothing
NUMBER = "#"
_ENGLISH_NUMBER = re.compile(
    f"zero|one|two|three|four|five|six|seven|eight|nine|{EN_LARGE.pattern}"
)
_TOKEN = re.compile(
    r"(?P<number>-?\d[\d.:/,]*|[零〇一二两三四五六七八九十百千万亿幺][零〇一二两三四五六七八九十百千万亿幺点]*)"
    r"|(?P<sign>百分之|percent|%)|(?P<hanzi>[\u3400-\u9fff])"
    r"|(?P<word>(?:(?!percent)[^\W\d_\u3400-\u9fff])+)"
)
#: tokens that are compared: some twenty seconds of speech, far more than a pause lets through
_LONGEST = 100

# What a token costs that stands for another one.
_SAME_SOUND = 0.1
_NEAR_SOUND = 0.3
_SAME_FINAL = 0.7
#: sounds that recognisers, and many speakers, take for one another
_NEAR = str.maketrans({"v": "u", "l": "n", "r": "n"})

#: least similarity of a text of so many tokens, and fewer. The longer a text, the less of it fits
#: by chance; the shorter, the likelier it is a scrap cut off by the pause.
_LEAST = ((1, 0.6), (2, 0.65), (5, 0.6))
_LEAST_LONG = 0.6

#: characters or words that a recogniser cannot make of an echo before the pause cuts it off
_SCRAP = 4


def is_echo(text: str, audible: str) -> bool:
    """Whether `text` is a stretch of `audible`, as a recogniser may have misheard it.

    It is not asked when the text was said: who answers an option by repeating it says the same.

    Args:
        text: what was recognised.
        audible: the words that were audible meanwhile and just before.
    """
    said = _tokens(text)
    if not said:
        return False
    if said == [NUMBER]:
        # Any number is like any other: it has to be written alike to count.
        return plain(text).replace(" ", "") in plain(audible).replace(" ", "")
    least = next((share for size, share in _LEAST if len(said) <= size), _LEAST_LONG)
    return similarity(text, audible) >= least


def is_scrap(text: str) -> bool:
    """Whether `text` is as short as what a recogniser makes of an echo that a pause cuts off."""
    return len(_tokens(text)) < _SCRAP


def similarity(text: str, audible: str) -> float:
    """How much of `text` is found, in order, in the stretch of `audible` that fits best: 0 to 1."""
    said, heard = _tokens(text), _tokens(audible)
    if not said or not heard:
        return 0.0
    # Edit distance; the stretch may begin and end anywhere in `heard` without cost.
    row = [0.0] * (len(heard) + 1)
    for position, token in enumerate(said, start=1):
        above, row = row, [float(position)]
        for column, other in enumerate(heard):
            row.append(min(above[column] + _cost(token, other), above[column + 1] + 1, row[-1] + 1))
    return 1.0 - min(row) / len(said)


def _tokens(text: str) -> list[str]:
    """Characters of Chinese and words of English; numbers as NUMBER, without percent signs."""
    tokens: list[str] = []
    for match in _TOKEN.finditer(plain(text)):
        token = match.group()
        if match.lastgroup == "sign":
            continue
        if match.lastgroup == "number" or _ENGLISH_NUMBER.fullmatch(token):
            token = NUMBER
        if token != NUMBER or tokens[-1:] != [NUMBER]:
            tokens.append(token)
    return tokens[-_LONGEST:]


@lru_cache(maxsize=4096)
def _cost(a: str, b: str) -> float:
    """What it costs to take `a` for `b`: 0 for the same, 1 for something else."""
    if a == b:
        return 0.0
    first, second = reading(a), reading(b)
    if first is not None and second is not None:
        return _sound_cost(first, second)
    if len(a) > 1 and len(b) > 1:
        return min(1.0, 2.0 * _edits(a, b) / max(len(a), len(b)))
    return 1.0


def _sound_cost(a: str, b: str) -> float:
    """Of two syllables."""
    if a == b:
        return _SAME_SOUND
    (onset_a, final_a), (onset_b, final_b) = _split(a), _split(b)
    if final_a != final_b:
        return 1.0
    return _NEAR_SOUND if onset_a == onset_b else _SAME_FINAL


def _split(syllable: str) -> tuple[str, str]:
    """Onset and final, each with the sounds that are easily confused made one."""
    onset = re.match("[^aeiouv]*", syllable)
    assert onset is not None  # it may be empty
    final = syllable[onset.end() :]
    return onset.group().replace("h", "").translate(_NEAR), final.replace("ng", "n").translate(
        {ord("v"): "u"}
    )


def _edits(a: str, b: str) -> int:
    """Least number of letters to insert, drop or change."""
    row = list(range(len(b) + 1))
    for position, letter in enumerate(a, start=1):
        above, row = row, [position]
        for column, other in enumerate(b):
            row.append(min(above[column] + (letter != other), above[column + 1] + 1, row[-1] + 1))
    return row[-1]

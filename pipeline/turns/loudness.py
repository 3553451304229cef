"""How loud a client's echo is: a voice that is no louder may be the echo.

An answer that pauses at every syllable of its own echo cannot be listened to. What a pause proved
to be an echo, as it ended with what was played, tells how loud the next one is; what is not clearly
louder pauses nothing any more.

What is known must not shut a user out. It fades while something plays, unless an echo as loud is
heard; one sound raises it only so far; and until a client was heard to echo for a while, an answer
that plays and is not heard tells that it does not.
"""
# pyright: strict

from __future__ import annotations

from dataclasses import dataclass, replace

#: how much louder than the loudest echo a voice is, decibels
MARGIN_DB = 4.0
#: what is known fades so fast while weaker echoes are heard, decibels a second
FADE_DB_S = 3.0
#: the same while nothing is heard: the answer may be waiting for its voice
SILENT_FADE_DB_S = 1.0
#: most that one sound raises what is known, decibels: a cough is no echo
RISE_DB = 6.0
#: an echo that is weaker troubles no detector, decibels of full scale
FAINTEST_DB = -60.0
#: a client that was heard to echo for so long does; an answer may still wait for its voice
HEARD_MS = 500.0
#: what was heard counts for so long at most: a headset may be put on later
MOST_HEARD_MS = 3000.0
#: and is outweighed by so many times as much of answers that are not heard
OUTWEIGHED = 10.0
#: one that was not, and whose answer plays for so long and is not heard, does not
UNHEARD_MS = 700.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Loudness:
    """What is known of the echo. Levels are those of the detector's windows.

    Parameters:
        echo_db: of the loudest echo, decibels of full scale; None: it is not known.
        before_db: what was known when the last sound that paused an answer began.
        loudest_db: of that sound.
        heard_ms: for how long echoes were heard that were no louder than what was known, as far as
            it is not outweighed by what played and was not heard.
        unheard_ms: how long answers have played since anything was heard of them.
    """

    echo_db: float | None = None
    before_db: float | None = None
    loudest_db: float = FAINTEST_DB
    heard_ms: float = 0.0
    unheard_ms: float = 0.0


def stands_out(known: Loudness, level_db: float) -> bool:
    """A voice of this level is not the echo, or it is not known how loud that is."""
    return known.echo_db is None or level_db >= known.echo_db + MARGIN_DB


def has_none(known: Loudness, *, lead_ms: float) -> bool:
    """The client does not echo: it has played what it holds back, and nothing was heard of it."""
    return known.heard_ms < HEARD_MS and known.unheard_ms >= UNHEARD_MS + lead_ms


def heard(known: Loudness, level_db: float, *, for_ms: float) -> Loudness:
    """An echo of what plays was heard for so long, that did not stand out."""
    echo_db = level_db
    if known.echo_db is not None:
        echo_db = max(level_db, known.echo_db - FADE_DB_S * for_ms / 1000)
    heard_ms = min(known.heard_ms + for_ms, MOST_HEARD_MS)
    return replace(known, echo_db=_troubling(echo_db), heard_ms=heard_ms, unheard_ms=0.0)


def not_heard(known: Loudness, *, for_ms: float, lead_ms: float) -> Loudness:
    """Something played for so long, and nothing was heard of it."""
    heard_ms = max(0.0, known.heard_ms - for_ms / OUTWEIGHED)
    known = replace(known, heard_ms=heard_ms, unheard_ms=known.unheard_ms + for_ms)
    if known.echo_db is None or has_none(known, lead_ms=lead_ms):
        return replace(known, echo_db=None)
    return replace(known, echo_db=_troubling(known.echo_db - SILENT_FADE_DB_S * for_ms / 1000))


def begun(known: Loudness, level_db: float) -> Loudness:
    """A sound over an answer begins: it is the echo, or somebody."""
    return replace(known, before_db=known.echo_db, loudest_db=level_db)


def lasted(known: Loudness, level_db: float) -> Loudness:
    """The sound goes on."""
    return replace(known, loudest_db=max(known.loudest_db, level_db))


def was_echo(known: Loudness) -> Loudness:
    """The sound ended as an echo does: the next one is as loud. It tells that once."""
    known = perhaps_echo(known)
    level_db = known.loudest_db
    if known.echo_db is not None:
        level_db = max(known.echo_db, min(level_db, known.echo_db + RISE_DB))
    return replace(known, echo_db=_troubling(level_db), loudest_db=FAINTEST_DB)


def perhaps_echo(known: Loudness) -> Loudness:
    """The sound may have been the first that was heard of an answer."""
    return replace(known, unheard_ms=0.0)


def was_voice(known: Loudness) -> Loudness:
    """The sound was somebody's: what was made of it tells nothing of the echo."""
    return replace(known, echo_db=known.before_db)


def _troubling(level_db: float) -> float | None:
    return level_db if level_db > FAINTEST_DB else None

"""How loud a client's echo is: a voice that is no louder may be the echo.

An answer that pauses at every syllable of its own echo cannot be listened to. What a pause proved
to be an echo, as it ended with what was played, tells how loud the next one is; what is not clearly
louder pauses nothing any more.

What is known must not shut a user out. It fades while something plays, unless an echo as loud is
heard; one sound raises it only so far; and where an answer plays for long and nothing is heard,
there is no echo to learn from.
"""
# pyright: strict

from __future__ import annotations

from dataclasses import dataclass, replace

#: how much louder than the loudest echo a voice is, decibels
MARGIN_DB = 4.0
#: what is known fades so fast while something plays, decibels a second
FADE_DB_S = 3.0
#: most that one sound raises what is known, decibels: a cough is no echo
RISE_DB = 6.0
#: an echo that is weaker troubles no detector, decibels of full scale
FAINTEST_DB = -60.0
#: an answer that plays for so long before a sound, and was not heard, has no echo
UNHEARD_MS = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Loudness:
    """What is known of the echo. Levels are those of the detector's windows.

    Parameters:
        echo_db: of the loudest echo, decibels of full scale; None: it is not known.
        before_db: what was known when the last sound over an answer began.
        loudest_db: of that sound.
        unheard_ms: how long answers have played since anything was heard of them.
    """

    echo_db: float | None = None
    before_db: float | None = None
    loudest_db: float = FAINTEST_DB
    unheard_ms: float = 0.0


def stands_out(known: Loudness, level_db: float) -> bool:
    """A voice of this level is not the echo, or it is not known how loud that is."""
    return known.echo_db is None or level_db >= known.echo_db + MARGIN_DB


def is_unheard(known: Loudness, *, lead_ms: float) -> bool:
    """Nothing was heard of all that played, though the client has played what it holds back."""
    return known.echo_db is None and known.unheard_ms >= UNHEARD_MS + lead_ms


def played(known: Loudness, echo_db: float | None, *, for_ms: float) -> Loudness:
    """Something played for so long; `echo_db` was heard of it, or None: nothing."""
    unheard_ms = known.unheard_ms + for_ms if echo_db is None else 0.0
    if known.echo_db is None:
        return replace(known, unheard_ms=unheard_ms)
    faded = known.echo_db - FADE_DB_S * for_ms / 1000
    level_db = faded if echo_db is None else max(faded, echo_db)
    return replace(known, unheard_ms=unheard_ms, echo_db=_troubling(level_db))


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

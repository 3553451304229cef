"""What many conversations at once say and are answered, and one of them by the `openai` client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf

import pytest

from services.scripted.tts import detect_tone, tone_of
from tests.daemon.client import Audio
from tests.daemon.sdk import sdk_client
from tts_engine.text.stream import segment

#: clients of a kind
CLIENTS = 4
TURNS = 2
#: longest silence inside an answer that a listener may get, milliseconds
GAP_MS = 100
ATTEMPTS = 3

ENGINES = "scripted:asr=60,llm=100@50,tts=100@6"
SETS = {
    "scripted.transcripts": '["会话{session}第{turn}句"]',
    # the listeners live on this machine too: they shall not spend it on unpacking messages
    "realtime.frame_ms": 60,
    "scripted.echo": '"{user}的答案到了，请您听好了不要走开，谢谢。"',
}


def question(session: str, turn: int) -> str:
    """What is recognised."""
    return f"会话{session}第{turn}句"


def answer(session: str, turn: int) -> str:
    """What is answered."""
    return f"{question(session, turn)}的答案到了，请您听好了不要走开，谢谢。"


def tones(session: str, turn: int) -> list[float]:
    """The tones of an answer's clauses, Hz."""
    return [tone_of(clause.text) for clause in segment(answer(session, turn))]


def check_tones(sessions: int) -> None:
    """The sound of every first clause names its session and turn."""
    pairs = [(f"s{number}", turn) for number in range(1, sessions + 1) for turn in (1, 2)]
    assert len({tones(*pair)[0] for pair in pairs}) == len(pairs)


def check_sound(audio: Audio, session: str, turn: int) -> None:
    """An answer sounds as it should, from its start to its end."""
    pcm = bytes(audio.pcm)
    expected = tones(session, turn)
    for part, tone in ((pcm[:9600], expected[0]), (pcm[-9600:], expected[-1])):
        assert detect_tone(part) == pytest.approx(tone, abs=6)


async def longest_gap(crowd: Callable[[], Awaitable[float]]) -> float:
    """Has a crowd talk; returns the longest gap in what one of them heard, milliseconds.

    The listeners live on this machine too, and so does whatever else it does: a gap of their making
    does not come again each time, one of ours does. So a crowd that heard one talks once more.
    """
    worst: list[float] = []
    while len(worst) < ATTEMPTS and min(worst, default=inf) > GAP_MS:
        worst.append(await crowd())
    print(f"longest gaps {[round(gap) for gap in worst]} ms")
    return min(worst)


async def talk_by_sdk(http: str) -> tuple[str, float]:
    """A whole conversation; returns its id and the longest gap in its audio."""
    async with sdk_client(http) as client:
        session = client.session
        for turn in range(1, TURNS + 1):
            client.say(0.8)
            await client.until(lambda turn=turn: len(client.responses) == turn)
            assert client.heard == [question(session, each) for each in range(1, turn + 1)]
            response = client.responses[-1]
            assert response.status == "completed", response
            assert response.output[0].content[0].transcript == answer(session, turn)
            check_sound(client.audio[response.id], session, turn)
        assert len(client.audio) == TURNS
        return session, max(audio.gap_ms() for audio in client.audio.values())

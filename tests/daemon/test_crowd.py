"""Invariants: conversations at the same time never cross, and no client's playback starves."""

from __future__ import annotations

import asyncio

import pytest

from services.scripted.tts import detect_tone, tone_of
from tests.daemon.client import Client, talking
from tests.daemon.process import serving
from tts_engine.text.stream import segment

CLIENTS = 4
TURNS = 2
#: longest silence inside an answer that a listener may get, milliseconds
GAP_MS = 100


def answer(session: str, turn: int) -> str:
    return f"会话{session}第{turn}句的回答到了，请您听好了不要走开，谢谢。"


async def talk(url: str) -> tuple[str, float]:
    """A whole conversation; returns its id and the longest gap in its audio."""
    async with talking(url, microphone=True) as client:
        session = client.of("session.created")[0]["session"]["id"]
        for turn in range(1, TURNS + 1):
            await client.say(0.8)
            assert await client.transcript(turn) == f"会话{session}第{turn}句"
            response = await client.done(turn)
            assert response["status"] == "completed", response
            check(client, response, answer(session, turn))
        assert len(client.audio) == TURNS
        return session, max(audio.gap_ms() for audio in client.audio.values())


def check(client: Client, response: dict, text: str) -> None:
    """The answer is this session's, in text and in sound, from its start to its end."""
    assert response["output"][0]["content"][0]["transcript"] == text
    clauses = segment(text)
    pcm = bytes(client.audio[response["id"]].pcm)
    for part, clause in ((pcm[:9600], clauses[0]), (pcm[-9600:], clauses[-1])):
        assert detect_tone(part) == pytest.approx(tone_of(clause.text), abs=6)


def test_the_answers_can_be_told_apart():
    tones = {
        tone_of(segment(answer(f"s{session}", turn))[0].text)
        for session in range(1, CLIENTS + 1)
        for turn in range(1, TURNS + 1)
    }
    assert len(tones) == CLIENTS * TURNS


async def test_clients_that_talk_at_once_get_their_own_answers(record_property):
    sets = {
        "scripted.transcripts": '["会话{session}第{turn}句"]',
        "scripted.echo": '"{user}的回答到了，请您听好了不要走开，谢谢。"',
    }
    async with serving(engines="scripted:asr=60,llm=100@50,tts=100@6", sets=sets) as daemon:
        results = await asyncio.gather(*(talk(daemon.url) for _ in range(CLIENTS)))
        assert len({session for session, _ in results}) == CLIENTS
        worst = max(gap for _, gap in results)
        record_property("worst_gap_ms", worst)
        print(f"worst gap {worst:.0f} ms")
        assert worst <= GAP_MS
        lines = daemon.turn_lines(CLIENTS * TURNS)
        assert {(line[1], line[2], line[3]) for line in lines} == {
            (session, str(turn), "answered") for session, _ in results for turn in (1, 2)
        }
        daemon.metric("sessions", 0)

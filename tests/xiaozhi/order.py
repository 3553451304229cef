"""What every conversation with a device keeps to, whatever was done to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.xiaozhi.device import SENTENCE, START, STOP, Told

HELLO, AUDIO = ("hello", ""), ("audio", "")
STT, LLM, ALERT = ("stt", ""), ("llm", ""), ("alert", "")


@dataclass(frozen=True)
class Answers:
    """What a device was told, as it takes it: it plays between a start and the next stop.

    Parameters:
        played: packets of each answer.
        speaking: it was not told to stop yet.
        spare: stops that found it silent.
    """

    played: list[int]
    speaking: bool
    spare: int


def answers(told: Sequence[Told], *, aborts: int = 0) -> Answers:
    """Goes through what a device was told, and checks what must hold of it: the hello is the first
    thing and comes once; starts and stops alternate; audio and subtitles come between them, as a
    device drops others; and each stop too many answers an abort.
    """
    played: list[int] = []
    speaking, spare = False, 0
    for at, each in enumerate(told):
        if each.kind == HELLO:
            assert at == 0, "a hello that is not the first message"
        elif each.kind == START:
            assert not speaking, f"a second start, message {at}"
            speaking = True
            played.append(0)
        elif each.kind == STOP:
            spare += not speaking
            speaking = False
        elif each.kind in (AUDIO, SENTENCE):
            assert speaking, f"{each.kind} while the device is silent, message {at}"
            played[-1] += each.kind == AUDIO
        if each.body is not None:
            assert isinstance(each.body["session_id"], str)
    assert not told or told[0].kind == HELLO
    assert spare <= aborts, f"{spare} stops too many for {aborts} aborts"
    return Answers(played, speaking, spare)

"""Text that comes while it is spoken, through the synthesis loop."""

from __future__ import annotations

import pytest

from tests.cosyvoice.conftest import Reference
from tests.cosyvoice.loop import Loop, as_wav, make_parts
from tests.cosyvoice.test_stream import Scripted
from tts_engine.cosyvoice.context import MOST, Before, worth_carrying
from tts_engine.cosyvoice.loader import CosyVoice
from tts_engine.cosyvoice.order import LlmPrompt
from tts_engine.cosyvoice.parts import Parts
from tts_engine.cosyvoice.schedule import Limits
from tts_engine.cosyvoice.wire import (
    Audio,
    Cancel,
    Done,
    More,
    Register,
    Remove,
    Report,
    Speak,
    Started,
)
from tts_engine.frames import Failed

PIECES = ["今天天气很好，我们一起去公园走走吧，", "那里的花都开了，人也不多，", "好不好？"]
TEXT = "".join(PIECES)


@pytest.fixture(scope="module")
def parts(
    model: CosyVoice, reference: Reference, tmp_path_factory: pytest.TempPathFactory
) -> Parts:
    """Parts with a voice."""
    folder = tmp_path_factory.mktemp("voices")
    made = make_parts(model, folder / "store", requests=3)
    wav = as_wav(reference, folder / "reference.wav")
    made.voices.take(Register(id=0, name="anna", text=reference.text, payload=wav))
    return made


def begin(id: int = 1, text: str = PIECES[0], *, more: bool = True) -> Speak:
    return Speak(id=id, text=text, voice="anna", seed=id, more=more)


def done(loop: Loop, id: int) -> Done:
    """The end of one that was said."""
    end = loop.end(id)
    assert isinstance(end, Done)
    return end


def turn(loop: Loop, count: int) -> None:
    """Some turns, as long as there is something to do."""
    for _ in range(count):
        able = any(each.need().last_stage for each in loop.loop._live.values())
        if not able and loop.loop.inbox.empty():
            return
        loop.loop.turn()


def test_it_is_spoken_while_it_comes(parts: Parts) -> None:
    loop = Loop(parts, longest_s=5.0)
    loop.put(begin())
    turn(loop, 200)
    [utterance] = loop.loop._live.values()
    assert not utterance.tokens.ready
    assert utterance.need().last_stage is None  # and so the loop sleeps
    made = len(utterance.tokens.tokens)
    assert made
    loop.put(More(id=1, text=PIECES[1]))
    turn(loop, 200)
    assert len(utterance.tokens.tokens) > made
    assert loop.of(Audio, 1)
    loop.put(More(id=1, text=PIECES[2]), More(id=1, text="", last=True))
    loop.until(1)
    assert done(loop, 1)
    marks = [mark for each in loop.of(Audio, 1) for mark in each.marks]
    assert marks[-1] == (len(loop.pcm(1)), len(TEXT))
    assert [chars for _, chars in marks] == sorted({chars for _, chars in marks})
    assert parts.decoder.cache_bytes == 0


def test_what_waits_for_text_holds_up_nobody(parts: Parts) -> None:
    loop = Loop(parts)
    loop.put(begin(1))
    turn(loop, 200)
    loop.say(begin(2, more=False))
    assert done(loop, 2)
    loop.put(Cancel(id=1), More(id=1, text="gone"), begin(3, more=False))
    loop.until(3)
    assert not [each for each in loop.told if isinstance(each, Done | Failed) and each.id == 1]
    assert parts.decoder.cache_bytes == 0


def test_a_text_that_is_whole_before_it_begins_is_as_if_it_always_was(parts: Parts) -> None:
    loop, plain = Loop(parts, limits=Limits(requests=1)), Loop(parts)
    loop.put(begin(7, "好。", more=False), begin(1))
    loop.loop.turn()
    assert not loop.of(Started, 1)
    loop.put(*(More(id=1, text=text) for text in PIECES[1:]), More(id=1, text="", last=True))
    loop.until(1, 7)
    plain.say(begin(1, TEXT, more=False))
    assert loop.pcm(1).tolist() == plain.pcm(1).tolist()


def test_one_that_is_cut_off_takes_no_more(parts: Parts) -> None:
    loop = Loop(parts, longest_s=0.4)
    loop.put(begin())
    loop.until(1)
    assert done(loop, 1).tokens == 10
    loop.put(More(id=1, text=PIECES[1], last=True), begin(2, more=False))
    loop.until(2)


def test_the_cut_may_be_known_only_at_the_end(parts: Parts) -> None:
    loop = Loop(parts, longest_s=0.6)
    loop.put(begin())
    turn(loop, 14)
    [utterance] = loop.loop._live.values()
    utterance._longest = 5
    loop.put(More(id=1, text="", last=True))
    loop.until(1)
    assert done(loop, 1)
    late = More(id=1, text="late")
    utterance.extend(late.text, last=False)  # it was decoded meanwhile
    assert utterance._text == PIECES[0]


def test_text_that_does_not_fit_ends_its_utterance_alone(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop(parts)
    loop.put(begin(1), begin(2))
    turn(loop, 5)
    monkeypatch.setattr(parts.voices, "text_ids", lambda _: [10**7])
    loop.put(More(id=1, text="x"))
    turn(loop, 1)
    end = loop.end(1)
    assert isinstance(end, Failed)
    assert end.code == "bad_request"
    monkeypatch.undo()
    loop.put(More(id=2, text="", last=True))
    loop.until(2)
    assert done(loop, 2)


def test_a_clause_carries_on_from_the_one_before(parts: Parts) -> None:
    alone = parts.voices.prompt("anna", PIECES[1], "")
    before = Before(PIECES[0], [5, 6, 7])
    after = parts.voices.prompt("anna", PIECES[1], "", before)
    assert after.text_ids == alone.text_ids
    assert after.llm == LlmPrompt(
        (*alone.llm.text_ids, *parts.voices.text_ids(PIECES[0])),
        (*alone.llm.speech_tokens, 5, 6, 7),
    )
    assert after.flow is alone.flow
    # An instruction has no speech to carry on from; its text is read before everything.
    told = parts.voices.prompt("anna", PIECES[1], "开心", before)
    assert told.llm == parts.voices.prompt("anna", PIECES[1], "开心").llm
    assert told.llm.speech_tokens == ()
    assert told.llm.told == len(told.llm.text_ids)


def test_what_was_said_is_told_where_it_is_asked_for(parts: Parts) -> None:
    loop = Loop(parts)
    loop.replace(decoder=Scripted(parts.decoder, [1, 2, 3, None, 4, None]))
    loop.say(Speak(id=1, text="好，", voice="anna", carry=True))
    loop.say(Speak(id=2, text="好，", voice="anna"))
    said = done(loop, 1).said
    assert said == [1, 2, 3]
    assert done(loop, 2).said == []
    loop = Loop(parts)
    after = {"text": PIECES[1], "voice": "anna", "seed": 3}
    loop.say(
        Speak(id=3, **after), Speak(id=4, **after, before_text="好，", before_tokens=list(said))
    )
    assert loop.pcm(3).tolist() != loop.pcm(4).tolist()


def test_what_cannot_be_carried_on_from() -> None:
    assert worth_carrying([1] * MOST, cut=False)
    assert not worth_carrying([1] * (MOST + 1), cut=False)
    assert not worth_carrying([1], cut=True)
    assert not worth_carrying([], cut=False)


def test_nothing_else_is_told(parts: Parts) -> None:
    loop = Loop(parts)
    loop.put(More(id=9, text="nobody's"), Remove(id=10, name="nobody"))
    loop.loop.turn()
    told: list[Report] = loop.told
    [one] = told
    assert isinstance(one, Failed)
    assert one.id == 10

"""Invariants: starts and stops alternate but for stops that answer an abort; frames and subtitles
come between a start and its stop; nothing of an answer comes after its stop; a device that was told
to speak is told to stop.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from services.face import Ending
from services.xiaozhi.dialogue import (
    Abandon,
    Clear,
    Close,
    Commit,
    Configure,
    Dialogue,
    Drop,
    Greeted,
    Hear,
    Phase,
    Play,
    Respond,
    Say,
    Send,
    Speak,
    Stir,
    Tools,
)
from services.xiaozhi.emotion import subtitle
from services.xiaozhi.events import (
    Abort,
    Audio,
    Detect,
    Goodbye,
    Hello,
    Ignored,
    IotStates,
    ListenStart,
    ListenStop,
    Mcp,
    Mode,
    Ping,
)
from services.xiaozhi.messages import (
    Alert,
    Emotion,
    Pong,
    SentenceStart,
    ServerHello,
    Stt,
    TtsStart,
    TtsStop,
)
from services.xiaozhi.settings import XiaozhiSettings
from tts_engine.errors import EngineFailed

SETTINGS = XiaozhiSettings(
    greeting={"zh": "我在。", "en": "Yes?"}, farewell={"zh": "再见。", "en": "Bye."}
)
ANSWERED = Ending(outcome="answered", heard="好")
PACKET = Audio(b"x")
STOP = Send(TtsStop())


def dialogue(mode: Mode | None = "auto", settings: XiaozhiSettings = SETTINGS) -> Dialogue:
    made = Dialogue(settings=settings)
    made.receive(Hello())
    if mode is not None:
        made.receive(ListenStart(mode))
    return made


def without_stir(actions: tuple[Any, ...]) -> list[Any]:
    return [each for each in actions if each != Stir()]


def test_the_hello() -> None:
    hello = Hello(mcp=True)
    made = Dialogue(settings=SETTINGS)
    assert without_stir(made.receive(hello)) == [Send(ServerHello()), Greeted(hello)]


def test_an_answer() -> None:
    made = dialogue()
    assert without_stir(made.final("你好", "zh")) == [Send(Stt("你好"))]
    assert without_stir(made.begin(1)) == [Send(TtsStart())]
    happy = Send(Emotion("happy", "🙂"))
    assert made.text(1, "[开心]你好！") == (happy, Send(SentenceStart("你好！")))
    assert made.audio(1, b"a") == (Play(b"a", first=True),)
    assert made.audio(1, b"b") == (Play(b"b", first=False),)
    assert made.text(1, "**再见** 😭") == (Send(SentenceStart("再见")),)
    assert without_stir(made.end(1, ANSWERED)) == [STOP]
    for late in (made.audio(1, b"c"), made.text(1, "x"), made.flush(1), made.end(1, ANSWERED)):
        assert late == ()


def test_a_face_without_words_and_words_without_a_face() -> None:
    made = dialogue()
    made.begin(1)
    assert made.text(1, "😂") == (Send(Emotion("funny", "😂")),)
    assert made.text(1, "好") == (Send(SentenceStart("好")),)
    made.begin(2)
    assert made.text(2, "`\n") == ()
    assert made.text(2, "好") == (Send(Emotion("neutral", "😶")), Send(SentenceStart("好")))


@pytest.mark.parametrize(
    ("mode", "idle", "speaking"),
    [(None, False, False), ("auto", True, False), ("realtime", True, True)],
)
def test_when_the_microphone_counts(mode: Mode | None, *, idle: bool, speaking: bool) -> None:
    made = dialogue(mode)
    assert made.receive(PACKET) == ((Hear(PACKET),) if idle else ())
    made.begin(1)
    assert made.receive(PACKET) == ((Hear(PACKET),) if speaking else ())
    made.end(1, ANSWERED)
    assert made.receive(PACKET) == ((Hear(PACKET),) if idle else ())


def test_turns_by_hand() -> None:
    made = dialogue(None)
    assert without_stir(made.receive(ListenStart("manual"))) == [Configure("manual"), Clear()]
    assert made.receive(PACKET) == (Hear(PACKET),)
    assert without_stir(made.receive(ListenStop())) == [Commit()]
    assert made.receive(ListenStop()) == ()
    assert made.receive(PACKET) == ()
    assert without_stir(made.final("你好", "zh")) == [Send(Stt("你好")), Respond()]
    assert without_stir(made.final("你好", "zh")) == [Send(Stt("你好"))]
    made.begin(1)
    # a program that presses the button while the answer plays, without an abort
    pressed = without_stir(made.receive(ListenStart("manual")))
    assert pressed == [STOP, Abandon(), Clear()]


def test_modes_change_once() -> None:
    made = dialogue("auto")
    assert without_stir(made.receive(ListenStart("auto"))) == []
    assert without_stir(made.receive(ListenStart("realtime"))) == [Configure("realtime")]


def test_nothing_was_said() -> None:
    assert dialogue().final("", "") == ()


@pytest.mark.parametrize("phase", ["idle", "speaking", "working"])
def test_an_abort(phase: str) -> None:
    made = dialogue()
    if phase != "idle":
        made.begin(1)
    if phase == "working":
        made.working(1)
        made.end(1, ANSWERED)
    assert without_stir(made.receive(Abort())) == [STOP, Abandon()]
    assert made.begin(7) == ()  # of a turn that was decided in that moment
    assert made.final("你好", "zh") == ()
    assert made.text(7, "好") == ()
    assert made.end(7, ANSWERED) == ()
    made.abandoned()
    assert made.audio(1, b"a") == ()
    assert made.flush(1) == ()
    assert made.rested() == ()
    assert without_stir(made.begin(2)) == [Send(TtsStart())]


def test_tools_keep_the_device_speaking() -> None:
    made = dialogue()
    made.begin(1)
    made.working(1)
    assert without_stir(made.end(1, ANSWERED)) == []
    assert made.phase is Phase.WORKING
    assert without_stir(made.begin(2)) == []
    assert without_stir(made.end(2, ANSWERED)) == [STOP]


def test_tools_that_lead_to_nothing() -> None:
    made = dialogue()
    made.begin(1)
    made.working(7)  # not the live one
    made.working(1)
    made.end(1, ANSWERED)
    assert made.rested() == (STOP,)
    made.begin(2)
    made.working(2)
    assert made.rested() == ()
    assert without_stir(made.end(2, ANSWERED)) == [STOP]
    made.begin(3)
    made.working(3)
    assert made.flush(3) == (STOP,)


def test_failures_are_shown() -> None:
    made = dialogue()
    made.begin(1)
    failed = Ending(outcome="failed", error=EngineFailed("broken"))
    alert = Send(Alert(status="出错了", message="broken"))
    assert without_stir(made.end(1, failed)) == [alert, STOP]
    made.begin(2)
    made.audio(2, b"a")  # the apology was heard
    assert without_stir(made.end(2, failed)) == [STOP]
    made.begin(3)
    assert without_stir(made.end(3, Ending(outcome="failed"))) == [
        Send(Alert(status="出错了", message="")),
        STOP,
    ]
    assert made.error("deaf") == (Send(Alert(status="出错了", message="deaf")),)


def test_the_wake_word_and_texts() -> None:
    made = dialogue(None)
    assert without_stir(made.receive(Detect("你好，小智！"))) == [Speak("我在。")]
    assert without_stir(made.receive(Detect(""))) == [Speak("我在。")]
    assert without_stir(made.receive(Detect("讲个故事"))) == [Say("讲个故事")]
    made.begin(1)
    assert without_stir(made.receive(Detect("小智"))) == []
    made.end(1, ANSWERED)
    made.final("hello", "en")
    assert without_stir(made.receive(Detect("小智"))) == [Speak("Yes?")]
    assert without_stir(dialogue(settings=XiaozhiSettings()).receive(Detect("小智"))) == []


def test_silence_ends_in_a_farewell() -> None:
    made = dialogue()
    made.begin(1)
    assert made.idle() == (Stir(),)
    made.end(1, ANSWERED)
    assert without_stir(made.idle()) == [Speak("再见。")]
    made.begin(2)
    assert without_stir(made.end(2, ANSWERED)) == [STOP, Close()]


def test_somebody_who_speaks_stays() -> None:
    made = dialogue()
    made.idle()
    made.turn_opened()
    made.begin(1)
    assert without_stir(made.end(1, ANSWERED)) == [STOP]


def test_a_farewell_that_does_not_come_and_one_that_nobody_wants() -> None:
    made = dialogue()
    made.idle()
    assert made.idle() == (Close(),)
    assert dialogue(settings=XiaozhiSettings()).idle() == (Close(),)


def test_the_rest() -> None:
    made = dialogue()
    assert made.receive(Ping()) == (Send(Pong()),)
    assert made.receive(Mcp({})) == (Tools(Mcp({})),)
    assert made.receive(IotStates(())) == (Tools(IotStates(())),)
    assert made.receive(Ignored("x")) == (Drop(Ignored("x")),)
    assert made.receive(Goodbye()) == (Close(),)
    made.begin(1)
    assert made.receive(Goodbye()) == (STOP, Close())
    made.begin(2)
    assert made.shut() == (STOP,)
    assert made.shut() == ()


class AnyOrder(RuleBasedStateMachine):
    """Whatever comes in whatever order."""

    def __init__(self) -> None:
        super().__init__()
        self.dialogue = dialogue(None)
        self.revision = 0
        self.started = False
        self.giving_up = 0

    def take(self, actions: tuple[Any, ...], *, aborts: bool = False) -> None:
        for action in actions:
            match action:
                case Send(TtsStart()):
                    assert not self.started
                    self.started = True
                case Send(TtsStop()):
                    assert self.started or aborts
                    self.started = False
                case Send(SentenceStart()) | Play():
                    assert self.started
                case Abandon():
                    self.giving_up += 1
                case _:
                    pass

    @rule(mode=st.sampled_from(["auto", "manual", "realtime"]))
    def listens(self, mode: Mode) -> None:
        self.take(self.dialogue.receive(ListenStart(mode)), aborts=True)

    @rule()
    def releases(self) -> None:
        self.take(self.dialogue.receive(ListenStop()))

    @rule()
    def aborts(self) -> None:
        actions = self.dialogue.receive(Abort())
        assert actions.count(STOP) == 1
        self.take(actions, aborts=True)

    @precondition(lambda self: self.giving_up)
    @rule()
    def obeys(self) -> None:
        self.giving_up -= 1
        self.dialogue.abandoned()

    @rule(text=st.sampled_from(["小智", "讲个故事"]))
    def detects(self, text: str) -> None:
        self.take(self.dialogue.receive(Detect(text)))

    @rule()
    def begins(self) -> None:
        self.revision += 1
        self.take(self.dialogue.begin(self.revision))

    @rule(back=st.integers(0, 2))
    def plays(self, back: int) -> None:
        actions = self.dialogue.audio(self.revision - back, b"a")
        assert not actions or back == 0
        self.take(actions)

    @rule(back=st.integers(0, 2), text=st.text(max_size=4))
    def says(self, back: int, text: str) -> None:
        self.take(self.dialogue.text(self.revision - back, text))

    @rule()
    def works(self) -> None:
        self.take(self.dialogue.working(self.revision))

    @rule()
    def leaves(self) -> None:
        self.dialogue.leave()

    @rule()
    def rests(self) -> None:
        self.take(self.dialogue.rested())

    @rule()
    def flushes(self) -> None:
        self.take(self.dialogue.flush(self.revision))

    @rule(outcome=st.sampled_from(["answered", "interrupted", "failed"]))
    def ends(self, outcome: Any) -> None:
        self.take(self.dialogue.end(self.revision, Ending(outcome=outcome)))

    @rule()
    def is_idle(self) -> None:
        self.take(self.dialogue.idle())

    @rule(text=st.sampled_from(["", "你好"]))
    def is_recognised(self, text: str) -> None:
        self.take(self.dialogue.final(text, "zh"))

    @invariant()
    def the_phase_is_what_the_device_was_told(self) -> None:
        assert self.started == (self.dialogue.phase is not Phase.IDLE)

    def teardown(self) -> None:
        self.take(self.dialogue.shut())
        assert not self.started


TestAnyOrder = AnyOrder.TestCase


@given(st.text(max_size=30))
def test_wake_words_of_any_kind(text: str) -> None:
    SETTINGS.is_wake_word(text)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("看[这里](http://a.b/c)吧。", "看这里吧。"),
        ("![图](x.png)在 https://a.b/c?d=e 上", "图在 上"),
        ("**好**，`x`😊[开心]行。", "好，x行。"),
        ("[1]和【注】", "[1]和【注】"),
        ("# 标题\n", "标题"),
    ],
)
def test_subtitles(raw: str, shown: str) -> None:
    assert subtitle(raw) == shown


def test_boards() -> None:
    settings = XiaozhiSettings(boards={"*c3*": 3})
    assert settings.profile("ESP32-C3-mini").lead_ms == 180
    assert settings.profile("").lead_ms == 120

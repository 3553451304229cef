"""Orders are always speech; agreement never is; an echo only where one is possible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.turns.actions import Reason
from pipeline.turns.backchannels import is_backchannel, may_become_backchannel
from pipeline.turns.judgement import judge

ANSWER = "天空是蓝色的,因为太阳的光线通过大气层折射。你喜欢红色还是蓝色?不对,停下来,好的"


def table(rows: str) -> list[str]:
    return [each.strip() for each in rows.split("|")]


NOISE = ["", "  ", "。", "...", "♪", "♪♪♪", "[music]", "(音乐)", "（音乐）", "[BLANK_AUDIO]"]
NOISE += [
    "*coughs*",
    "(coughing)",
    "[cough",
    "【掌声】",
    "<|BGM|>",
    "♪ ♪",
    "-",
    "?!",
    "[noise] ...",
]

BACKCHANNELS = table(
    """
    嗯|嗯。|嗯嗯|嗯嗯嗯嗯嗯嗯嗯嗯|嗯，嗯。|对|对。|对对|对对对|对对对对|对,对,对。|好|好的|好的。
    |好的好的|好的，好的。|好好好|哦|哦。|哦哦|噢|啊|啊？|是|是的|是的是的|是啊|是吗|是吗？|没错
    |没错没错|行|行行行|行吧|可以|当然|明白|明白了|知道了|我知道了|懂了|了解|原来如此|这样啊|真的
    |真的吗|真的吗？|确实|有道理|说得对|就是|就是就是|不错|太好了|厉害|继续|继续说|嗯好的
    |嗯，好的。|嗯对|哦好的|哦这样啊|哦，原来是这样。|对没错|啊对对对|嗯哼|哈哈|哈哈哈哈
    |哈哈哈，好的|呵呵|嗯嗯，知道了|哇|哇，厉害|呃|诶|嗯OK|ok好的|恩|恩恩|嗯,ok.
    """
)
BACKCHANNELS += table(
    """
    uh-huh|Uh-huh.|uh huh|uhhuh|mm-hmm|Mm-hmm.|mhm|Mhmm|M-hm|mmm|Mmmmmmmmmmmmmmmmmmmmmm|hmm|Hmm.
    |hm|huh|oh|Oh.|ooh|ah|aha|wow|Wow!|whoa|yeah|Yeah.|yeah yeah|yeah, yeah, yeah|yep|yup|yes|Yes.
    |right|Right.|right right|that's right|That’s right.|ok|OK.|okay|Okay, okay.|I see|I see.
    |Oh, I see.|sure|Sure.|really|Really?|Oh really?|exactly|absolutely|definitely|true|of course
    |got it|makes sense|that makes sense|interesting|good|great|cool|nice|all right|alright|fine
    |fair enough|go on|please go on|continue|haha|Hahaha|ha ha ha|yeah right|uh-huh, okay|oh wow
    |mm-hmm, sure|I know|I understand|perfect|[laughter]|(laughs)|*chuckles*|(笑)|（笑声）
    |[laughs] yeah|uh|um|Yeaaah|yay
    """
)

COMMANDS = table(
    """
    停|停。|停停停|停下|停一下|等|等等|等一下|等一下。|等等，等一下|不对|不对。|不对不对|不是|不
    |不要|不用了|好了|好了好了|好了，停|够了|够了够了|闭嘴|安静|换一个|换一个吧？|算了|打住|别说了
    |暂停|嗯停|嗯，等一下|好的停|不对，停|行了|行了行了|可以了|错了|下一个|取消|喂|哦不对|啊不是
    """
)
COMMANDS += table(
    """
    stop|Stop.|Stop!|stop stop|stop it|please stop|wait|Wait.|wait wait|wait a minute|no|No.
    |no no no|nope|hold on|hang on|shut up|enough|that's enough|cancel|pause|never mind|no, stop
    |okay stop|oh no|yeah no|um, wait|uh, stop|next
    """
)

SPEECH = table(
    """
    今天天气怎么样|换个话题|那红色呢|我觉得不是这样|为什么|好的那明天呢|对了我想问一下|你说得不对
    |嗯我有个问题|是不是太长了|说英语|短一点|大声一点|你再说一遍|好了我知道了|谢谢|对不起打断一下
    |对不对|好不好|真的不是|明白吗|我不明白|不错但是太贵|这样不行|可以了吗|继续说英语
    """
)
SPEECH += table(
    """
    what about tomorrow|tell me a joke|in english please|I don't see|that's not right|not really
    |yes but why|okay now play music|right turn|sure about that|really why|good morning
    |no I mean the other one|the red one|can you repeat that|I know that one|ahem excuse|yesterday
    |surely not|[music] turn it off|okay google|how so
    """
)


@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("text", NOISE)
def test_noise(text: str, echo: bool) -> None:
    assert judge(text, audible=ANSWER, echo=echo) is Reason.NOISE
    assert may_become_backchannel(text)


@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("text", BACKCHANNELS)
def test_backchannels(text: str, echo: bool) -> None:
    assert judge(text, audible=ANSWER, echo=echo) is Reason.BACKCHANNEL


def test_a_recogniser_may_hear_laughter_that_it_does_not_write() -> None:
    assert judge("", audible=ANSWER, echo=False, laughter=True) is Reason.BACKCHANNEL
    assert judge("那明天呢", audible=ANSWER, echo=False, laughter=True) is None


@pytest.mark.parametrize("text", [t for t in BACKCHANNELS if is_backchannel(t)])
def test_every_beginning_of_a_backchannel_may_become_one(text: str) -> None:
    assert all(may_become_backchannel(text[:end]) for end in range(len(text) + 1))


@pytest.mark.parametrize("text", COMMANDS)
def test_orders_are_speech_even_in_the_words_of_the_answer(text: str) -> None:
    assert judge(text, audible=text + ANSWER, echo=True) is None
    assert judge(text, audible="", echo=False) is None


@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("text", SPEECH)
def test_speech(text: str, echo: bool) -> None:
    assert judge(text, audible=ANSWER, echo=echo) is None


@pytest.mark.parametrize(
    "text", ["停", "等", "好了", "对了", "我想", "今", "stop", "no", "what", "th e"]
)
def test_what_cannot_become_a_backchannel(text: str) -> None:
    assert not may_become_backchannel(text)


@pytest.mark.parametrize(
    "text", ["我", "我知", "原来", "嗯好", "th", "that", "i", "yeah i", "[lau", "o", "好的 o"]
)
def test_what_may_become_one(text: str) -> None:
    assert may_become_backchannel(text)


def test_an_option_is_an_echo_only_where_one_is_possible() -> None:
    assert judge("蓝色", audible="你喜欢红色还是蓝色", echo=True) is Reason.ECHO
    assert judge("蓝色。", audible="你喜欢红色还是蓝色", echo=False) is None
    assert judge("The blue one.", audible="the red one or the blue one", echo=True) is Reason.ECHO
    assert judge("The blue one.", audible="the red one or the blue one", echo=False) is None


def test_agreement_that_the_answer_said_too_is_agreement() -> None:
    assert judge("好的", audible="好的,我来查一下", echo=True) is Reason.BACKCHANNEL


@given(st.text(), st.text(), st.booleans())
def test_total(text: str, audible: str, echo: bool) -> None:
    judge(text, audible=audible, echo=echo)
    may_become_backchannel(text)


@given(
    st.lists(
        st.sampled_from([t for t in BACKCHANNELS if is_backchannel(t)]), min_size=1, max_size=4
    )
)
def test_rows_of_backchannels_are_backchannels(texts: list[str]) -> None:
    assert judge(", ".join(texts), audible="", echo=False) is Reason.BACKCHANNEL


@given(st.sampled_from(COMMANDS), st.lists(st.sampled_from(["嗯", "好的", "ok", "啊"]), max_size=4))
def test_an_order_among_agreement_is_an_order(order: str, agreement: list[str]) -> None:
    said = " ".join([*agreement, order])
    assert judge(said, audible=said, echo=True) is None
    assert not may_become_backchannel(said + "走")


def test_a_long_text_is_speech() -> None:
    assert judge("哈" * 20_000, audible="天" * 20_000, echo=True) is None
    assert judge("yeah " * 20_000, audible="", echo=False) is None
    assert not may_become_backchannel("哈" * 20_000)

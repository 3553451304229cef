"""What is said over the answers of `bench bargein`, and those answers.

A conversation must survive a backchannel and a noise, and must give way to an interruption.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pipeline.bench.bargein_noises import ShapedNoise
from pipeline.bench.speech import SPEAKERS, Clip, Line
from pipeline.bench.wire import MICROPHONE_RATE
from pipeline.latency import first_sound, last_sound

Kind = Literal["backchannel", "noise", "interruption"]

BACKCHANNELS = (
    *("嗯", "嗯嗯", "对", "对对", "好的", "好", "哦", "是的", "没错", "明白"),
    *("uh-huh", "right", "okay", "yeah", "I see", "sure"),
)
INTERRUPTIONS = (
    *("停", "停一下", "等一下", "等等", "别说了", "不对", "换个话题吧", "现在几点了？"),
    *("那明天呢？", "帮我定个闹钟", "音量小一点", "你说错了", "再说一遍", "什么意思？"),
    *("打开客厅的灯", "我想问另外一个问题", "先不说这个，给我放首歌"),
    *("Wait", "Stop", "Hold on a second", "No, that is wrong", "What about tomorrow?"),
    *("Can you repeat that?", "Stop talking please", "Turn off the lights", "Never mind"),
)
QUESTIONS = ("给我讲讲大海的故事。", "森林里都有些什么？", "Tell me about the mountains.")
#: plain words, so that what is spoken is what is written; they begin differently
ANSWERS = (
    "大海很宽很深，里面住着许多奇怪的动物。白天的时候，阳光照进水里，鱼群像银色的云一样慢慢游过。"
    "到了晚上，一些小小的生物会自己发光，整片海面看起来像是落满了星星。渔夫们说，海的颜色每天都在变化，"
    "有时候是蓝色，有时候是绿色，下雨之前又会变成灰色。住在岸边的人习惯听着海浪入睡，离开以后反而觉得太安静。"
    "很久以前，水手们靠着星星认路，一走就是好几个月，回来的时候孩子都长高了。"
    "现在的大船上什么都有，可是站在船头的人看见日出，心里的感觉大概还是一样的。",
    "森林里的早晨总是从鸟叫声开始，雾气贴着地面，草叶上挂满露水。老树的根伸得很远，"
    "松鼠把果子藏在下面，常常自己也忘记了地方，于是来年又长出新的小树。走得深一点，能听见溪水的声音，"
    "水很凉，石头上长着厚厚的青苔。猎人的小屋早就没有人住了，屋顶塌了一半，里面成了狐狸的家。"
    "秋天是最热闹的季节，蘑菇一夜之间冒出来，采蘑菇的人提着篮子，一边走一边唱歌。"
    "等到下雪以后，一切都安静下来，只有风吹过树梢，像有人在远处轻轻地说话。",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BargeSound:
    """A sound that is made over an answer.

    Parameters:
        kind: what is to become of it.
        clip: how it sounds; of a noise it has no text.
    """

    kind: Kind
    clip: Clip


def lines(texts: Sequence[str], count: int) -> list[Line]:
    """`count` lines of these texts in several voices, each pair once before any comes again."""
    pairs = list(itertools.product(SPEAKERS, texts))
    random.Random(len(texts)).shuffle(pairs)
    some = itertools.islice(itertools.cycle(pairs), count)
    return [Line(text=text, speaker=speaker, kind="command") for speaker, text in some]


def noise_clip(noise: ShapedNoise, number: int) -> Clip:
    """A noise as a clip without words."""
    first, last = (find(noise.samples, MICROPHONE_RATE) or 0 for find in (first_sound, last_sound))
    return Clip(
        name=f"{noise.kind} {number}",
        text="",
        samples=noise.samples,
        start=first / MICROPHONE_RATE,
        end=last / MICROPHONE_RATE,
        kind="command",
    )


def tagged(clip: Clip, tag: str) -> Clip:
    """The clip as a recogniser hears it that adds a tag to its text."""
    text = f"{clip.text} {tag}"
    more = len(text) - len(clip.text)
    return replace(clip, text=text, ends=(*clip.ends, *clip.ends[-1:] * more))


def marked(clips: Iterable[Clip]) -> tuple[list[Clip], list[str]]:
    """Clips with their numbers written into them, and what a scripted recogniser is to be told.

    Clips of the same text share a number; one without a text stays as it is.
    """
    texts: dict[str, int] = {}
    result = [
        clip.marked(texts.setdefault(clip.text, len(texts) + 1)) if clip.text else clip
        for clip in clips
    ]
    return result, list(texts)

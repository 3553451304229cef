"""What is said and answered in `bench v2v`: as much a part of it as the engines are.

`{400}` is a pause of 400 ms inside a sentence. Most people stop where the sentence cannot end; some
stop where it could (kind "clause"), and no rule on earth but waiting tells those apart. The answers
begin as those of language models do: a third with a short sentence, a third with a comma early on,
a third with one sentence of middle length.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.bench.speech import SPEAKERS, Kind, Line

_COMMANDS = (
    "打开客厅的灯。",
    "播放周杰伦的晴天。",
    "Turn off the lights.",
    "把空调调到二十六度。",
    "定一个明早七点的闹钟。",
    "Set a timer for ten minutes.",
    "暂停。",
    "声音小一点。",
    "Play some jazz music.",
    "关闭窗帘。",
    "Stop the music.",
    "下一首。",
)
_QUESTIONS = (
    "今天天气怎么样？",
    "你能给我讲一个关于月亮的故事吗？",
    "What is the capital of France?",
    "从北京到上海坐高铁大概需要多长时间，票价是多少？",
    "天空为什么是蓝色的？",
    "How many days are there in a week?",
    "早上吃什么比较健康，又不需要花太多时间准备？",
    "Can you explain how a rainbow is formed after the rain?",
    "What should I wear if it is cold and windy tomorrow morning?",
    "你叫什么名字？",
)
_PAUSED = (
    "帮我订一张{600}明天去上海的高铁票。",
    "我想问一下，{400}附近有没有好吃的火锅店？",
    "Can you tell me{500} what time it is in London?",
    "因为明天要下雨，所以{800}我想把野餐改到周末。",
    "提醒我下午三点{200}去学校接孩子。",
    "I would like to know how{700} to cook rice.",
    "我打算先去超市买菜，然后{1000}再去邮局寄一个包裹。",
    "那个，{500}你知道怎么修改密码吗？",
    "Please remind me to{300} call my mother, and{600} to buy some milk.",
    "帮我查一下从公司到{400}机场的路线。",
    "如果周末天气好的话，{900}我们去爬山怎么样？",
    "Turn on the lights in the{250} living room and the{450} kitchen.",
    "我的电话号码是一三八{350}零零一三{350}八零零零。",
    "What is the difference between{1000} a crocodile and an alligator?",
)
_CLAUSES = (
    "今天有点冷，{300}帮我把暖气打开。",
    "我饿了。{500}附近有什么吃的？",
    "I have a meeting tomorrow.{400} Please wake me at seven.",
)

#: what the language model answers, turn by turn
REPLIES = (
    "好的。我现在就为您处理。",
    "明天多云转晴，最高气温二十三度。",
    "这个问题的答案其实并不复杂。我来说说。",
    "没问题。到时候我会提醒您。",
    "从这里出发的话，大约需要四个半小时。",
    "我找到了三家评价不错的店。最近的就在旁边。",
    "Sure. I will take care of that.",
    "As far as I know, it depends on the season.",
    "The short answer is that it takes ten minutes. Shall I start?",
)


def lines() -> list[Line]:
    """All of them, mixed so that any beginning holds every kind; the speakers take turns."""
    groups: tuple[tuple[Kind, Sequence[str]], ...] = (
        ("command", _COMMANDS),
        ("question", _QUESTIONS),
        ("paused", _PAUSED),
        ("clause", _CLAUSES),
    )
    placed: list[tuple[float, Kind, str]] = [
        ((at + 0.5) / len(texts), kind, text)
        for kind, texts in groups
        for at, text in enumerate(texts)
    ]
    return [
        Line(text=text, kind=kind, speaker=SPEAKERS[number % len(SPEAKERS)])
        for number, (_, kind, text) in enumerate(sorted(placed))
    ]

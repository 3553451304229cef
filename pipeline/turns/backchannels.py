"""What listeners say who want to hear on, and what they say who do not.

Each list holds whole expressions; a text counts when it consists of nothing else: 嗯嗯, 对对对,
嗯好的, "yeah right". Texts are compared as `plain` writes them, without apostrophes.
"""
# pyright: strict

from __future__ import annotations

import re

from pipeline.turns.expressions import expressions, is_hanzi
from pipeline.turns.plain import plain

_AGREEMENT = expressions(
    """
    嗯 恩 唔 呣 哦 噢 喔 啊 呀 哎 诶 欸 唉 呃 额 哼 嗯哼 哈 呵 嘻 嘿嘿 哇 哇塞 哇哦 是 是的 是啊
    是呀 是吧 是吗 是哦 对 对的 对啊 对呀 对吧 对哦 对头 好 好的 好啊 好呀 好吧 好嘞 好滴 好哒
    好耶 好极了 行 行啊 行吧 行的 成 中 可以 可以的 可以啊 没错 没问题 没事 当然 当然了 明白
    明白了 懂 懂了 知道 知道了 我知道 我知道了 我明白 我明白了 我懂 我懂了 了解 了解了 收到
    原来如此 原来是这样 原来这样 这样啊 这样子 这样子啊 是这样 是这样啊 是这样的 真的 真的吗
    真的啊 真的假的 确实 确实是 的确 有道理 有意思 说得对 说的对 你说得对 你说的对 就是 就是啊
    就是说 就是的 不错 挺好 挺好的 很好 太好了 太棒了 真好 真棒 厉害 有趣 我同意 同意 继续 继续说
    继续讲 你继续 请继续 接着说 你接着说 你说 然后呢 后来呢
    """
) | expressions(
    """
    ok|okay|k|okey dokey|yes|yep|yup|ya|right|thats right|youre right|alright|all right|sure
    |sure thing|for sure|of course|really|oh really|is that so|is that right|exactly|absolutely
    |definitely|totally|certainly|indeed|true|thats true|very true|correct|thats correct|agreed
    |i agree|cool|nice|great|good|good point|very good|thats good|thats great|fine|thats fine
    |perfect|awesome|amazing|excellent|wonderful|brilliant|lovely|got it|i got it|gotcha|i see
    |oh i see|i know|i understand|understood|makes sense|that makes sense|fair enough|fair point
    |interesting|thats interesting|go on|please go on|keep going|please continue|continue|my god
    |oh my god|and then|lol
    """
)
#: sounds, in all the lengths that recognisers write
_SOUND = re.compile(
    "m+|m+h+m*|h+m+|u+h+m*|u+m+|u+h+u+h+|h+u+h+|a+h+|a+h+a+|o+h+|o+o+h+|e+h+|er+m?"
    "|y+e+a+h*|wo+w|w+ho+a+|(?:ha)+h?|(?:he){2,}|(?:hi){2,}|ya+y"
)
#: the same, as far as their beginnings go, each letter once
_SOUNDS = (
    "mhm",
    "uhm",
    "uhuh",
    "huh",
    "hm",
    "aha",
    "oh",
    "eh",
    "erm",
    "yeah",
    "wow",
    "whoa",
    "yay",
)
_LAUGHTER = re.compile(r"笑|laugh|chuckl|giggl")

_ORDERS = (
    _AGREEMENT
    | expressions(
        """
    停 停下 停下来 停一下 停止 停停 打住 暂停 等 等等 等下 等一下 等一等 等会 等会儿 等一会 慢着
    且慢 稍等 闭嘴 住口 住嘴 安静 别说 别说了 别讲了 别念了 不说了 不要说了 不用说了 不要讲了
    不用讲了 好了 好啦 行了 行啦 够了 够啦 可以了 算了 得了 不对 不是 不是的 不 不不 不要 不用
    不用了 错了 你错了 换一个 换个 换一首 下一个 下一首 取消 退出 关闭 喂 吧
    """
    )
    | expressions(
        """
    stop|stop it|please stop|stop talking|wait|wait a minute|wait a second|wait a moment|no|nope
    |nah|no way|hold on|hang on|one moment|one second|just a second|just a moment|just a minute
    |shut up|be quiet|quiet|silence|enough|thats enough|cancel|pause|never mind|nevermind
    |forget it|thats wrong|wrong|next|next one|skip|skip it|not that|excuse me
    """
    )
)

#: characters, or words, of the longest expression
_LONGEST = 6
#: characters of the longest text that can be a row of them; this runs on the event loop
_LONGEST_ROW = 120

#: what a recogniser writes of sounds that are no words: [laughter], (音乐), *coughs*, <|BGM|>; in a
#: partial text the bracket may still be open
_ANNOTATION = re.compile(r"\[[^\]]*\]?|[(（][^)）]*[)）]?|【[^】]*】?|<[^>]*>?|\*[^*]*\*")
_RUN = re.compile(r"[\u3400-\u9fff]+|[^\s\u3400-\u9fff]+(?: [^\s\u3400-\u9fff]+)*")


def spoken(text: str) -> str:
    """The words of a text, as `plain` writes them; what annotates sounds is left out."""
    words = plain(_ANNOTATION.sub(" ", text))
    return words if any(c.isalnum() for c in words) else ""


def is_laughter(text: str) -> bool:
    """Whether the text has no words, and annotates laughter."""
    return not spoken(text) and any(
        _LAUGHTER.search(match.group().casefold()) for match in _ANNOTATION.finditer(text)
    )


def is_backchannel(text: str) -> bool:
    """Whether the words are nothing but agreement, surprise and listening sounds."""
    return _consists_of(text, _AGREEMENT)


def is_command(text: str) -> bool:
    """Whether the words are nothing but orders to stop, wait or change, and agreement."""
    return _consists_of(text, _ORDERS) and not is_backchannel(text)


def may_become_backchannel(text: str) -> bool:
    """Whether more words could make the text a backchannel; it may be one, or empty."""
    if len(text) > _LONGEST_ROW:
        return False
    runs = _runs(text)
    return not runs or (all(_is_row(r, _AGREEMENT) for r in runs[:-1]) and _begins_row(runs[-1]))


def _consists_of(text: str, known: frozenset[str]) -> bool:
    if len(text) > _LONGEST_ROW:
        return False
    runs = _runs(text)
    return bool(runs) and all(_is_row(run, known) for run in runs)


def _runs(text: str) -> list[list[str]]:
    """Stretches of one script: characters of Chinese, or words of another."""
    runs: list[str] = _RUN.findall(spoken(text))
    return [list(run) if is_hanzi(run[0]) else run.split() for run in runs]


def _is_row(run: list[str], known: frozenset[str]) -> bool:
    """Whether the run is expressions one after the other."""
    return _ends(run, known)[-1] == len(run)


def _begins_row(run: list[str]) -> bool:
    """Whether the run is the beginning of a row of backchannels."""
    ends = _ends(run, _AGREEMENT)
    rests = {_expression(run[end:]) for end in ends}
    if len(run) > 1:
        rests.discard("了")  # 好了, 对了: hardly the beginning of 好了解
    last = re.sub(r"(.)\1+", r"\1", run[-1])
    return any(each.startswith(rest) for rest in rests for each in _AGREEMENT) or (
        len(run) - 1 in ends and any(sound.startswith(last) for sound in _SOUNDS)
    )


def _ends(run: list[str], known: frozenset[str]) -> list[int]:
    """How far rows of expressions from the start of the run may reach, ascending from 0.

    Linear in the length of the run, however many ways there are to divide it.
    """
    ends = [0]
    for end in range(1, len(run) + 1):
        starts = [start for start in ends[-_LONGEST:] if end - start <= _LONGEST]
        sounds = end - 1 in starts and _SOUND.fullmatch(run[end - 1]) is not None
        if sounds or any(_expression(run[start:end]) in known for start in starts):
            ends.append(end)
    return ends


def _expression(units: list[str]) -> str:
    return ("" if units and is_hanzi(units[0][0]) else " ").join(units)

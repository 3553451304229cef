"""Where a speaker would take a breath in a text without marks.

A first clause must not wait for a comma that may be far away, and a very long one has to be cut
somewhere. Without a dictionary, function words show where a phrase begins or ends.
"""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: "2." of "1. open it 2. close it"
_ITEM = re.compile(r"[0-9]{1,2}[.)]", re.ASCII)

#: How good a place is; 0 is none.
CONNECTIVE, PHRASE, GROUP, SPACE = 4, 3, 2, 1

_CONNECTIVES = _words(
    "and but because so or which who where when while if although that unless until since whether"
)
_PREPOSITIONS = _words(
    "to in on at by for from with into about before after during between through over under"
    " without within towards across around against"
)
_VERBS = _words("is are was were can could will would should may might must has have had does did")
_LOOSE = _words("of than as")
_ARTICLES = _words("the a an this these those my your our their his her its every each some any")
_SUBJECTS = _words("i you we they he she it there")
_ADVERBS = _words(
    "not very too quite more most no really just also only still even always never so such much"
    " many don't doesn't isn't can't won't i'm you're it's that's let's let"
)
#: A speaker does not stop behind these.
_CLINGING = _CONNECTIVES | _PREPOSITIONS | _VERBS | _LOOSE | _ARTICLES | _SUBJECTS | _ADVERBS
_STRENGTHS = {
    **dict.fromkeys(_LOOSE | _ARTICLES | _SUBJECTS, GROUP),
    **dict.fromkeys(_PREPOSITIONS | _VERBS, PHRASE),
    **dict.fromkeys(_CONNECTIVES, CONNECTIVE),
}

#: Two Hanzi that begin a clause, a phrase, and what belongs to the phrase before.
_CLAUSE_PAIRS = _words("因为 所以 但是 不过 而且 并且 如果 然后 或者 以及 同时 其中 尤其")
_PHRASE_PAIRS = _words("""
我们 你们 他们 她们 它们 这个 那个 这些 那些 关于 对于 由于 根据 通过 为了 例如 比如 还有 首先 其次
此外 另外 因此 以后 之后 最近 现在 目前 今天 明天 昨天 今年 去年 最高 最低 最大 最小 最多 最后
""")
_GROUP_PAIRS = _words("""
可以 能够 需要 应该 已经 正在 通常 一般 主要 非常 没有 一个 一种 一些 一座 一位 位于 属于 成为 作为
具有 拥有 包括 大约 大概 可能 不会 不能 不是 只是 就是 都是 也是 来自 进行 使用 提供
""")
_PAIRS = {
    **dict.fromkeys(_GROUP_PAIRS, GROUP),
    **dict.fromkeys(_PHRASE_PAIRS, PHRASE),
    **dict.fromkeys(_CLAUSE_PAIRS, CONNECTIVE),
}
#: A phrase ends behind these, unless they are part of a word with what stands before or behind.
_TAILS = {
    "了": ("为除不到", "解"),
    "着": ("接沿随本", "急想手重"),
    "呢": ("", "喃"),
    "吧": ("", ""),
    "时": ("小同", "间候期代常刻机"),
    "后": ("", "来面果续悔"),
    "中": ("", "国心间文学华午秋部央等年"),
    "里": ("", "面程"),
    "年": ("", "级代轻龄度份底初末月中前后"),
    "元": ("", "旦素件气"),
    "上": ("", "一海面班学午课网升涨市"),
}
#: A phrase begins before these, with the same exceptions.
_HEADS = {
    "在": ("现存正实所内外好潜自还不就都也是住站坐放", ""),
    "和": ("温总共柔饱缓随附", "平谐睦解气尚"),
    "与": ("参给赋", ""),
    "把": ("一", "握手戏"),
    "被": ("", "子动"),
    "是": ("但还于总可要或就即正不都也只真而", "否"),
    "会": ("机社都才不开议学约聚也就将", "议员计"),
    "也": ("", "许"),
    "都": ("首成", "市"),
    "就": ("成", "业"),
    "从": ("服", ""),
    "比": ("对之", "如较例赛"),
    "我": ("自议给助", "们"),
    "你": ("议给助", "们"),
    "您": ("议给助", ""),
    "他": ("其吉议给助", "们"),
    "它": ("其", "们"),
}


#: A speaker does not stop behind these either.
_CLINGING_HANZI = frozenset("在和与把被从对让给为向用跟由到不很更最第每某另下上这那有叫请帮于以诉")


def before_word(word: str, previous: str) -> int:
    """How good the space between two words is; both in lower case."""
    behind = previous.rstrip("\"'”’),")
    if _ITEM.fullmatch(word):
        return PHRASE
    if not behind or behind in _CLINGING or not behind[-1].isalpha() or word[:1].isdigit():
        return 0
    return _STRENGTHS.get(word, SPACE)


def before_hanzi(window: str) -> int:
    """How good the place in the middle of four characters is; the last two are Hanzi or the like.

    The first may be missing.
    """
    before, behind, ahead, after = window[:-3], window[-3], window[-2], window[-1]
    if behind.isascii():
        return SPACE if behind.isalpha() else 0
    tail = _TAILS.get(behind)
    if tail and before not in tail[0] and ahead not in tail[1]:
        return PHRASE
    if behind in _CLINGING_HANZI:
        return 0
    strength = _PAIRS.get(ahead + after, 0)
    if behind == "的" and before != "目":  # it belongs to what follows
        return strength if strength == CONNECTIVE else SPACE
    if strength:
        return strength
    head = _HEADS.get(ahead)
    return GROUP if head and behind not in head[0] and after not in head[1] else 0

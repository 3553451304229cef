# pyright: strict
"""What is said in `bench tts`: a passage, cut to any length, and an assistant's introduction."""

from __future__ import annotations

from tts_engine.errors import BadRequest

#: what a voice assistant says first: 87 characters in five sentences
INTRODUCTION = (
    "您好，我是您的语音助手小安。我可以陪您聊天、回答问题，也可以帮您查天气、定闹钟、放音乐，"
    "或者控制家里的灯光和空调。您直接说出需要就行，随时可以打断我。请问现在有什么可以帮您？"
)

_SENTENCES = (
    "今天上午多云，下午有小雨，最高气温二十三度，出门请带伞。",
    "从这里到火车站大约四公里，坐地铁二号线只要一刻钟。",
    "您预订的晚餐是七点半，餐厅在三楼靠窗的位置，一共四位。",
    "会议改到了明天下午两点，地点不变，记得提前把材料发给大家。",
    "这本书讲的是一位老船长的故事，他在海上漂泊了四十年，最后回到了故乡。",
    "空气质量良好，适合跑步和骑车，傍晚的风会稍微大一些。",
    "如果水烧开了，就把面条放进去煮三分钟，再加一点盐和青菜。",
    "您的包裹已经到了小区门口的柜子里，取件码稍后会发到手机上。",
    "图书馆周末九点开门，借书的期限是三十天，可以在网上续借。",
    "昨晚的比赛踢成了二比二，双方都在最后十分钟里进了球。",
)
PASSAGE = "".join(_SENTENCES)


def text_of(length: int, *, turn: int = 0) -> str:
    """A text of so many characters that ends with a full stop.

    Args:
        length: at least 2.
        turn: texts of one length begin with another sentence each turn.

    Raises:
        BadRequest: there is no text of this length.
    """
    if not 2 <= length <= len(PASSAGE):
        raise BadRequest(f"There is no text of {length} characters: 2 to {len(PASSAGE)}")
    first = turn % len(_SENTENCES)
    passage = "".join((*_SENTENCES[first:], *_SENTENCES[:first]))
    # A mark before the full stop is left out; what is lacking then comes before the text.
    return f"{passage[: length - 1].rstrip('，。')}。".rjust(length, "嗯")

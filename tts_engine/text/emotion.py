"""Emotion tags: `[开心]`, `【关心】`, `[happy]` say how to speak, and are not spoken."""

from __future__ import annotations

_WORDS = """
关心 开心 高兴 快乐 愉快 兴奋 激动 难过 悲伤 伤心 生气 愤怒 惊讶 惊喜 害怕 恐惧 紧张 厌恶 平静
冷静 中性 温柔 严肃 认真 安慰 鼓励 撒娇 委屈 疑惑 困惑 好奇 害羞 调皮 俏皮 自豪 骄傲 轻松 焦急
着急 担心 抱歉 感动 失望 无奈 热情 亲切 微笑 大笑 轻笑 叹气 哭泣 低语 耳语 思考 期待 同情 幽默
happy cheerful excited sad angry surprised fearful scared disgusted neutral calm gentle tender
serious comforting encouraging caring concerned curious confused shy playful proud relaxed
anxious worried sorry apologetic touched disappointed helpless warm friendly smiling laughing
sighing crying whispering thinking sympathetic humorous
笑 偷笑 苦笑 叹息 laugh laughs laughter sigh sighs breath whispers
"""

#: The words that are taken for a style. Anything else in brackets is text.
EMOTIONS = frozenset(_WORDS.split())
_STARTS = frozenset(word[:n] for word in EMOTIONS for n in range(len(word) + 1))


def is_emotion(content: str) -> bool:
    """The content of a pair of brackets is a known emotion."""
    return content.strip().lower() in EMOTIONS


def may_become_emotion(content: str) -> bool:
    """More characters could make the content an emotion."""
    return content.lower() in _STARTS

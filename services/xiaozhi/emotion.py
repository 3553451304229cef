# pyright: strict
"""Which face a device shows while it speaks, by the answer's emotion tags and emoji."""

from __future__ import annotations

import re

from services.xiaozhi.messages import Emotion
from tts_engine.text.emoji import is_pictograph

#: what the display knows, each with the picture that stands for it, and with the words of emotion
#: tags and the emoji that mean it
_FACES: dict[str, tuple[str, str, str]] = {
    "neutral": ("😶", "平静 冷静 中性 严肃 认真 neutral calm serious", "😐 😑"),
    "happy": (
        "🙂",
        "开心 高兴 快乐 愉快 微笑 热情 亲切 友好 轻松 自豪 骄傲 感动 笑 "
        "happy cheerful smiling warm friendly proud touched",
        "🙂 😊 ☺ 😀 😃 😄 😁 🥰 👍 🎉 ✨",
    ),
    "laughing": ("😆", "大笑 轻笑 laughing laugh laughs laughter 幽默 humorous", "😆 🤣 😅"),
    "funny": ("😂", "调皮 俏皮 playful", "😂 🤪"),
    "sad": (
        "😔",
        "难过 悲伤 伤心 失望 委屈 无奈 叹气 叹息 苦笑 sad disappointed helpless sighing sigh sighs "
        "抱歉 sorry apologetic",
        "😔 😞 🙁 ☹ 😟 😢",
    ),
    "angry": ("😠", "生气 愤怒 厌恶 angry disgusted", "😠 😡 🤬"),
    "crying": ("😭", "哭泣 crying", "😭"),
    "loving": (
        "😍",
        "关心 温柔 安慰 鼓励 同情 gentle tender comforting encouraging caring sympathetic",
        "😍 ❤ 💕 🤗 💖",
    ),
    "embarrassed": ("😳", "害羞 撒娇 shy", "😳 🫣"),
    "surprised": ("😲", "惊讶 惊喜 兴奋 激动 surprised excited", "😲 😮 🤩"),
    "shocked": (
        "😱",
        "害怕 恐惧 紧张 焦急 着急 担心 fearful scared anxious worried concerned",
        "😱 😨",
    ),
    "thinking": ("🤔", "思考 好奇 期待 thinking curious", "🤔 🧐"),
    "winking": ("😉", "偷笑", "😉"),
    "cool": ("😎", "", "😎"),
    "relaxed": ("😌", "relaxed", "😌"),
    "delicious": ("🤤", "", "🤤 😋"),
    "kissy": ("😘", "", "😘 😗"),
    "confident": ("😏", "", "😏 💪"),
    "sleepy": ("😴", "低语 耳语 whispering whispers", "😴 🥱"),
    "silly": ("😜", "", "😜 😝 😛"),
    "confused": ("🙄", "疑惑 困惑 confused", "🙄 😕 🤷"),
}
NEUTRAL = Emotion("neutral", _FACES["neutral"][0])
_BY_WORD = {word: name for name, (_, words, _) in _FACES.items() for word in words.split()}
_BY_EMOJI = {emoji: name for name, (_, _, emoji_of) in _FACES.items() for emoji in emoji_of.split()}
_MARKS = "*`#~"
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*\)")
_ADDRESS = re.compile(r"(?:https?://|www\.)[\x21-\x7e]+", re.ASCII)
_TAG = re.compile(r"[\[【]\s*([^\[\]【】]{1,16}?)\s*[\]】]")


def emotion_of(text: str) -> Emotion | None:
    """The first emotion that a text shows; None: none that the display knows.

    Args:
        text: raw, as the language model wrote it.
    """
    tags = ((match.start(), _BY_WORD.get(match[1].lower())) for match in _TAG.finditer(text))
    pictures = ((at, _BY_EMOJI.get(char)) for at, char in enumerate(text) if is_pictograph(char))
    found = [(at, name) for at, name in (*tags, *pictures) if name is not None]
    if not found:
        return None
    name = min(found)[1]
    return Emotion(name, _FACES[name][0])


def subtitle(text: str) -> str:
    """A text as a small screen shows it: without emotion tags, pictures, addresses and markdown's
    marks.

    Args:
        text: raw, a clause of an answer.
    """
    plain = _ADDRESS.sub("", _LINK.sub(r"\1", text))
    plain = _TAG.sub(lambda match: "" if match[1].lower() in _BY_WORD else match[0], plain)
    kept = (char for char in plain if char not in _MARKS and not is_pictograph(char))
    return " ".join("".join(kept).split())

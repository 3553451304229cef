# pyright: strict
"""How to say it: a style as the text that the language model reads, pure.

The model reads a prompt's text, then the text to be spoken, then the prompt's speech tokens, and
goes on from there. There are three ways to say something:

    way          prompt text                           prompt speech   text
    plain        what the voice's recording says      its tokens      the text
    sound        as plain                             its tokens      [laughter]the text
    instruction  请用…的语气说这句话。<|endofprompt|>   none            the text

With an instruction the speech tokens are left out: they would carry on the recording's own manner.
The voice itself is the flow's matter, which has its prompt in all three. Tags of the text layer are
words such as 关心 or happy; any other style is an instruction in the user's own words. CosyVoice 3
was trained with a system prompt before everything, refuses a prompt without its end mark, and was
taught some instructions word for word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tts_engine.cosyvoice.kind import Kind
from tts_engine.text.emotion import is_emotion

END_OF_PROMPT = "<|endofprompt|>"
_SYSTEM = "You are a helpful assistant."

#: Sounds that the models have tokens for, by the tags that ask for them.
_SOUNDS = {
    "[laughter]": "笑 大笑 轻笑 偷笑 苦笑 laugh laughs laughing laughter",
    "[sigh]": "叹气 叹息 sigh sighs sighing",
    "[breath]": "breath",
}
#: Tags that are no tone of voice by themselves, as instructions.
_MANNERS = {
    "请微笑着说这句话。": "微笑",
    "请哭着说这句话。": "哭泣",
    "请压低声音，像耳语一样说这句话。": "低语 耳语",
    "请若有所思地说这句话。": "思考",
    "请用道歉的语气说这句话。": "抱歉",
    "请用感动的语气说这句话。": "感动",
    "Please say it with a smile.": "smiling",
    "Please say it while crying.": "crying",
    "Please say it in a whisper.": "whispering whispers",
    "Please say it thoughtfully.": "thinking",
}
#: what CosyVoice 3 was taught, word for word, and the tags that mean it; the language of the
#: instruction is not that of the speech
_TAUGHT = {
    "请非常开心地说一句话。": "开心 高兴 快乐 愉快 happy cheerful",
    "请非常伤心地说一句话。": "伤心 悲伤 难过 sad",
    "请非常生气地说一句话。": "生气 愤怒 angry",
    "Please say a sentence in a very soft voice.": "低语 耳语 whispering whispers",
}
#: the voice's own manner
_PLAIN = frozenset(["中性", "neutral"])


def _by_tag(wordings: dict[str, str]) -> dict[str, str]:
    return {tag: wording for wording, tags in wordings.items() for tag in tags.split()}


_SOUND_OF = _by_tag(_SOUNDS)
_MANNER_OF: dict[Kind, dict[str, str]] = {
    "cosyvoice2": _by_tag(_MANNERS),
    "cosyvoice3": _by_tag(_MANNERS) | _by_tag(_TAUGHT),
}
#: how the model's own marks begin and end; in a user's text they would be taken for ours
_MARK = re.compile(r"<\|.*?\|>|<\||\|>", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """What the language model reads.

    Parameters:
        prompt_text: before the text.
        text: to be spoken.
        speech: the voice's speech tokens follow.
    """

    prompt_text: str
    text: str
    speech: bool


def word(text: str, *, style: str, voice_text: str, kind: Kind) -> Wording:
    """Puts a text, a style and a voice into the model's words.

    Args:
        text: what to say; marks of the form <|...|> are taken out.
        style: a tag, an instruction in any words, or empty.
        voice_text: what the voice's recording says; may have a system prompt before it, as
            upstream asks its users for.
        kind: of the model.
    """
    voice_text = without_marks(voice_text.rpartition(END_OF_PROMPT)[2])
    spoken, manner = without_marks(text), " ".join(without_marks(style).split())
    tag = manner.lower()
    if tag in _SOUND_OF:
        return Wording(
            prompt_text=_plain(voice_text, kind), text=_SOUND_OF[tag] + spoken, speech=True
        )
    if not manner or tag in _PLAIN:
        return Wording(prompt_text=_plain(voice_text, kind), text=spoken, speech=True)
    told = _instruction(tag, kind) if is_emotion(tag) else manner
    return Wording(prompt_text=_instructed(told, kind), text=spoken, speech=False)


def without_marks(text: str) -> str:
    """A text without the model's marks: what a user writes must not end the prompt."""
    cleaned = _MARK.sub("", text)
    while cleaned != text:  # what is left may have closed up to another mark
        text, cleaned = cleaned, _MARK.sub("", cleaned)
    return cleaned


def _instruction(tag: str, kind: Kind) -> str:
    """A tag as an instruction."""
    if tag in _MANNER_OF[kind]:
        return _MANNER_OF[kind][tag]
    if tag.isascii():
        article = "an" if tag[0] in "aeiou" else "a"
        return f"Please say it in {article} {tag} tone."
    return f"请用{tag}的语气说这句话。"


def _plain(voice_text: str, kind: Kind) -> str:
    if kind == "cosyvoice3":
        return f"{_SYSTEM}{END_OF_PROMPT}{voice_text}"
    return voice_text


def _instructed(told: str, kind: Kind) -> str:
    if kind == "cosyvoice3":
        return f"{_SYSTEM} {told}{END_OF_PROMPT}"
    return f"{told}{END_OF_PROMPT}"

"""The section `web`."""

from __future__ import annotations

from pydantic import Field, field_validator

from pipeline.config_section import Section, Sentence


class Persona(Section):
    """Somebody the assistant can be."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$", description="Its name for programs.")
    name: Sentence = Field(description="Its name for people.")
    instructions: Sentence | None = Field(
        default=None, description="The system prompt; null is that of `prompts`."
    )


_PERSONAS = (
    Persona(id="everyday", name=Sentence(zh="日常助手", en="Everyday")),
    Persona(
        id="storyteller",
        name=Sentence(zh="讲故事的人", en="Storyteller"),
        instructions=Sentence(
            zh="你是一位讲故事的人。用口语讲一个有画面感的小故事，每次三到五句，讲完问听众接下来想听什么。"
            "不用列表，不用表情符号。",
            en="You are a storyteller. Tell a small, vivid story in spoken words, three to five "
            "sentences at a time, and end by asking what should happen next. No lists, no emoji.",
        ),
    ),
    Persona(
        id="english-coach",
        name=Sentence(zh="英语口语教练", en="English coach"),
        instructions=Sentence(
            zh="You are a patient coach of spoken English for a Chinese speaker. Talk in simple "
            "English, one or two sentences, and ask a question back. When you hear a mistake, say "
            "the better sentence once, then go on. Explain in Chinese only when asked.",
            en="You are a patient coach of spoken English. Talk in simple English, one or two "
            "sentences, and ask a question back. When you hear a mistake, say the better sentence "
            "once, then go on.",
        ),
    ),
    Persona(
        id="quiz-master",
        name=Sentence(zh="答题主持人", en="Quiz master"),
        instructions=Sentence(
            zh="你是一位答题主持人。每次只问一道常识题，等对方回答，用一句话说对不对和为什么，报一下得分，"
            "再问下一题。说话简短有趣。",
            en="You are a quiz master. Ask one question of general knowledge at a time and wait. "
            "Then say in one sentence whether the answer was right and why, tell the score, and "
            "ask the next one. Be brief and playful.",
        ),
    ),
)


class Web(Section):
    """The talk page."""

    personas: tuple[Persona, ...] = Field(
        default=_PERSONAS,
        strict=False,
        description="Who the assistant can be, the first unless another is chosen; each has an "
        "`id`, a `name` and `instructions`, the last two in both languages.",
    )

    @field_validator("personas")
    @classmethod
    def _told_apart(cls, value: tuple[Persona, ...]) -> tuple[Persona, ...]:
        if not value:
            raise ValueError("needs at least one persona")
        ids = [persona.id for persona in value]
        for number, name in enumerate(ids):
            if name in ids[:number]:
                raise ValueError(f"two personas have the id {name}")
        return value

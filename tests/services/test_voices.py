"""A stock OpenAI client's voice is the default one; an unknown name is told what there is."""

from __future__ import annotations

import pytest

from services.voices import OPENAI_VOICES, resolve_voice
from tts_engine.errors import UnknownVoice

VOICES = ("zf_xiaobei", "echo", "af_heart")


@pytest.mark.parametrize("name", VOICES)
def test_an_engines_own_name_is_itself_even_when_openai_has_it_too(name: str) -> None:
    assert resolve_voice(name, VOICES) == name


@pytest.mark.parametrize("name", sorted(OPENAI_VOICES - {"echo"}))
def test_openais_voices_stand_for_the_default(name: str) -> None:
    assert resolve_voice(name, VOICES) == "zf_xiaobei"


@pytest.mark.parametrize("name", ["", "Alloy", "nobody", "zf_xiaobei "])
def test_an_unknown_name_is_told_the_voices(name: str) -> None:
    with pytest.raises(UnknownVoice) as failure:
        resolve_voice(name, VOICES)
    assert repr(name) in failure.value.message
    assert failure.value.mend == "Choose among zf_xiaobei, echo, af_heart"

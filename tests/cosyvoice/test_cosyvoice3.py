"""CosyVoice 3 speaks: in the synthesis loop as by upstream's own modules, and in a worker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.cosyvoice import flow_case
from tests.cosyvoice.conftest import Reference
from tests.cosyvoice.loop import Loop, as_wav, make_parts, same
from tts_engine.cosyvoice.engine import CosyVoiceEngine
from tts_engine.cosyvoice.loader import CosyVoice
from tts_engine.cosyvoice.parts import Parts
from tts_engine.cosyvoice.style import END_OF_PROMPT
from tts_engine.cosyvoice.trim import LeadingSilence
from tts_engine.cosyvoice.wire import Audio, Failed, Register, Settings, Speak
from tts_engine.engine import SpeechChunk

TEXT = "今天天气很好，我们出去走走。"
HOP = 960  # samples of a token
#: bound of every wait, on a machine that others use as well, seconds
PATIENCE_S = 240.0


@pytest.fixture(scope="module")
def voices(
    model3: CosyVoice, reference: Reference, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("voices")
    wav = as_wav(reference, folder / "reference.wav")
    room = make_parts(model3, folder).voices
    room.take(Register(id=0, name="anna", text=reference.text, payload=wav))
    return folder


def begun(loop: Loop, order: Speak) -> Any:
    """The utterance, when its first audio has come."""
    loop.put(order)
    loop.loop.turn()
    [utterance] = loop.loop._live.values()
    while not loop.of(Audio, order.id):
        assert not loop.of(Failed, order.id)
        loop.loop.turn()
    return utterance


def test_it_is_what_upstreams_modules_make_of_its_tokens(model3: CosyVoice, voices: Path) -> None:
    parts = make_parts(model3, voices, steps=10)
    loop = Loop(parts)
    tokens = begun(loop, Speak(id=1, text=TEXT, voice="anna", seed=1)).tokens.tokens
    loop.until(1)
    assert len(tokens) == 40
    features = parts.voices._one("anna").voice.features
    prompt = flow_case.Prompt(
        features.flow_tokens.tolist(),
        torch.from_numpy(features.mel),
        torch.from_numpy(features.embedding),
    )
    mel = flow_case.upstream(model3.flow, prompt, tokens)
    with torch.inference_mode():
        wave = parts.vocoder.open().push(mel, True)
    samples = LeadingSilence().push(wave.numpy(), True)
    assert np.abs(samples).max() > 0.01
    same(loop.pcm(1), np.clip(np.rint(samples * 32767), -32768, 32767), most=8)


def test_first_audio_is_there_when_a_block_is(model3: CosyVoice, voices: Path) -> None:
    loop = Loop(make_parts(model3, voices))
    pad = -len(loop.parts.voices._one("anna").voice.features.flow_tokens) % 25
    utterance = begun(loop, Speak(id=1, text=TEXT, voice="anna", seed=1))
    assert len(utterance.tokens.tokens) == pad + 3  # it looks three tokens ahead
    [first] = loop.of(Audio, 1)
    assert 0 < len(first.payload) // 2 <= (pad - 2) * HOP  # four frames are held back
    loop.until(1)


@pytest.mark.parametrize(("style", "speech"), [("", True), ("开心", False), ("用四川话说", False)])
def test_the_prompt_is_read_in_its_order(
    model3: CosyVoice, voices: Path, style: str, speech: bool
) -> None:
    parts = make_parts(model3, voices)
    made = parts.voices.prompt("anna", TEXT, style)
    [mark] = model3.tokenizer.encode(END_OF_PROMPT)
    system = tuple(model3.tokenizer.encode("You are a helpful assistant."))
    assert made.llm.text_ids[: len(system)] == system
    assert made.llm.text_ids.count(mark) == 1
    assert (made.llm.text_ids[-1] == mark) == (not speech)
    assert bool(made.llm.speech_tokens) == speech
    assert made.text_ids == model3.tokenizer.encode(TEXT)


def test_its_pauses_are_cut(model3: CosyVoice, voices: Path) -> None:
    parts: Parts = make_parts(model3, voices)
    assert {1, 28, 2241} < parts.silent


@pytest.mark.timeout(600)  # two processes, each with torch and the modules
async def test_a_worker_speaks(
    model3_dir: Path, home: Path, reference: Reference, tmp_path: Path
) -> None:
    engine = CosyVoiceEngine(
        settings=Settings(
            model_dir=str(model3_dir),
            voices_dir=str(tmp_path / "voices"),
            home=str(home),
            device="cpu",
            steps=2,
            longest_s=1.6,
        ),
        needs_voice=False,
        timeout_s=PATIENCE_S,
    )

    async def collect(**options: Any) -> list[SpeechChunk]:
        async with asyncio.timeout(PATIENCE_S):
            return [chunk async for chunk in engine.synthesize(TEXT, **options)]

    try:
        await engine.start()
        wav = as_wav(reference, tmp_path / "reference.wav")
        info = await engine.register("anna", wav, reference.text)
        assert info.kind == "cosyvoice3"
        plain, again, happy = await asyncio.gather(
            collect(), collect(voice="anna"), collect(style="开心")
        )
        for chunks in (plain, happy):
            pcm = np.frombuffer(b"".join(chunk.pcm for chunk in chunks), np.int16)
            assert 0.8 * 40 * HOP < len(pcm) <= 40 * HOP
            assert np.abs(pcm).max() > 100
            assert chunks[-1].marks[-1].chars == len(TEXT)
        same(*(np.frombuffer(b"".join(c.pcm for c in made), np.int16) for made in (plain, again)))
        assert engine.decoding.steps < engine.decoding.tokens
    finally:
        await engine.close()

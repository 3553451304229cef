"""`asr.provider: funasr-remote` and its section."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.budget import ThreadBudget
from pipeline.config import load_config
from pipeline.recognition import build_asr
from pipeline.store import open_store
from services.asr.funasr_remote.engine import RemoteFunAsrEngine
from tts_engine.errors import ConfigError

from ..letters import say
from .runtime import running


async def test_a_recogniser_elsewhere() -> None:
    async with running() as runtime:
        config = load_config(
            None,
            [
                "asr.provider=funasr-remote",
                f"asr.remote.url={runtime.url}",
                "asr.remote.hotwords=[通义 30]",
                "asr.remote.api_key=sk-secret",
                "asr.languages=[zh]",
            ],
            environ={},
        )
        assert "sk-secret" not in repr(config)
        engine = build_asr(config, open_store(config), budget=ThreadBudget.of(config.threads))
        assert isinstance(engine, RemoteFunAsrEngine)
        await engine.start()
        try:
            recogniser = engine.open(session="s")
            recogniser.feed(say("今天"))
            assert (await recogniser.finalise()).text == "今天。"
        finally:
            await engine.close()
        assert runtime.headers["Authorization"] == "Bearer sk-secret"
        assert runtime.heard[-1].begin["hotwords"] == '{"通义": 30}'
        assert runtime.heard[-1].begin["svs_lang"] == "zh"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://h:10095", "must be a ws:// or wss:// address"),
        ("h", "must be a ws:// or wss:// address"),
        ("wss://me:hush@h", "must hold no user name or password"),
    ],
)
def test_addresses_that_cannot_be_used(url: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text(f"asr:\n  remote:\n    url: {url}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        load_config(file, environ={})

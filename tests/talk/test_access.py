"""A real daemon lets in only who has its key, and is trusted only for its certificate."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pipeline.access import key_file, tls_of
from pipeline.talk.client import TalkClient
from pipeline.talk.daemon import state_of
from pipeline.talk.endpoint import Endpoint
from services.access.keys import digest_of, new_key
from services.scripted.speech import synthetic_speech
from tests.talk.served import daemon, scripted_config
from tts_engine.errors import DuplexdError, EngineFailed


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("DUPLEXD_API_KEY", raising=False)


async def states(*daemons: Endpoint) -> list[str]:
    return [await asyncio.to_thread(state_of, each) for each in daemons]


async def failure(daemon: Endpoint) -> DuplexdError:
    with pytest.raises(EngineFailed) as caught:
        await TalkClient(daemon).talk([])
    return caught.value


async def test_a_key_opens_it_and_nothing_else_does() -> None:
    config = scripted_config("scripted.replies=[好的。]", "server.require_key=true")
    key, wrong = new_key(), new_key()
    key_file(config.server).add(digest_of(key))
    async with daemon(config) as address:
        known = Endpoint.of(address, key=key)
        assert await states(known, Endpoint.of(address, key=wrong), Endpoint.of(address)) == [
            "ready",
            "locked",
            "locked",
        ]
        none = await failure(Endpoint.of(address))
        other = await failure(Endpoint.of(address, key=wrong))
        [turn] = await TalkClient(known).talk([synthetic_speech(seconds=0.7, rate=24_000)])
    assert "wants an API key" in none.message
    assert "does not know this API key" in other.message
    assert "--key" in none.mend
    assert "run.py keys add" in other.mend
    assert wrong not in str(other)
    assert turn["status"] == "completed"


async def test_the_printed_certificate_is_all_that_one_needs_to_trust() -> None:
    config = scripted_config("scripted.replies=[好的。]", "server.tls=auto")
    tls = tls_of(config.server)
    assert tls is not None
    async with daemon(config) as address:
        trusted = Endpoint.of(address, cacert=tls.authority)
        plain, stranger = Endpoint.of(address), Endpoint.of(f"https://{address}")
        assert await states(trusted, plain, stranger) == ["ready", "alien", "none"]
        distrusted = await failure(stranger)
        [turn] = await TalkClient(trusted).talk([synthetic_speech(seconds=0.7, rate=24_000)])
    assert "is not trusted" in distrusted.message
    assert "--cacert FILE" in distrusted.mend
    assert turn["status"] == "completed"
    assert sum(turn["parts_ms"].values()) == pytest.approx(turn["v2v_ms"], abs=1)

"""`run.py tts` as a process of its own; the daemon with the same routes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from pipeline.tts_app import create_app
from services.scripted.tts import ScriptedVoice
from tests.daemon.inside import inside
from tests.daemon.process import ROOT, START_S, DaemonProcess, environment
from tests.tts_service.served import TEXT, CloningVoice, error_of, recording, served
from tts_engine.errors import EngineFailed


@pytest.mark.timeout(300)
def test_it_serves_until_it_is_ended():
    with DaemonProcess(verb="tts", engines="scripted:tts=0") as daemon:
        address = daemon.line(r"ready: POST texts to (http://\S+/)tts, voices: 2")[1]
        address = address.replace("localhost", "127.0.0.1")
        reply = httpx.post(f"{address}tts", json={"text": TEXT}, timeout=START_S)
        assert reply.status_code == 200
        assert reply.content.startswith(b"RIFF")
        assert TEXT[:4] not in daemon.log
        code, _ = daemon.end()
        assert code == 0
        assert "stopped" in daemon.log


@pytest.mark.parametrize(
    "sets, code, said",
    [
        ("tts.voice=nobody", 1, "There is no voice 'nobody'"),
        ("speech.blocked_words=/none", 2, "Cannot read the blocked words in /none"),
    ],
)
@pytest.mark.timeout(300)
def test_what_cannot_be_served_is_told_at_the_start(sets: str, code: int, said: str):
    done = subprocess.run(
        [
            sys.executable,
            "run.py",
            "tts",
            "--port=0",
            "--set",
            sets,
            "--set=models.auto_fetch=false",
        ],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


async def test_the_daemon_offers_the_routes():
    voice = CloningVoice("once-left")
    async with inside(voice=voice) as served:
        assert not voice.cloned
        url = f"http://{served.address}"
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            form = {"name": "me", "text": "你好"}
            files = {"audio": ("a.wav", recording())}
            assert (await client.post("/register-voice", data=form, files=files)).status_code == 201
            asked = {"text": TEXT, "voice": "me"}
            assert (await client.post("/tts", json=asked)).status_code == 200
        assert served.count("speech_requests_total", outcome="done") == 1
        assert "me" in served.daemon.voices


async def test_the_daemon_does_not_offer_them_where_it_is_told_so():
    sets = {"speech.service": False}
    async with (
        inside(sets, voice=ScriptedVoice()) as served,
        httpx.AsyncClient(timeout=30) as client,
    ):
        reply = await client.post(f"http://{served.address}/tts", json={"text": TEXT})
    assert error_of(reply) == (404, "unknown_url", None)


async def test_an_engine_that_cannot_be_started_ends_the_service():
    class Broken(ScriptedVoice):
        async def start(self) -> None:
            raise EngineFailed("It does not run here")

    async with served(Broken(), ready=False) as at:
        await at.failed.wait()
        async with at.http() as client:
            reply = await client.get("/readyz")
        assert at.service.failure is not None
    assert reply.status_code == 503
    assert reply.json() == {"status": "failed", "error": "It does not run here"}


async def test_the_authority_that_phones_are_to_trust_can_be_fetched(tmp_path: Path):
    (tmp_path / "ca.crt").write_bytes(b"a certificate")
    async with served() as at:
        app = create_app(at.service, ca_certificate=tmp_path / "ca.crt")
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            assert (await client.get("/duplexd-ca.crt")).content == b"a certificate"

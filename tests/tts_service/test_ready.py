"""Invariant: while the engine is not there, whoever asks is told to come back, and when it is there
again, texts are spoken.
"""

from __future__ import annotations

import sys
from pathlib import Path

import httpx
import pytest
import websockets

from tests.daemon.client import PATIENCE_S
from tests.daemon.inside import inside, settled
from tests.tts_service.served import TEXT, CloningVoice, error_of, served
from tts_engine.cosyvoice.engine import CosyVoiceEngine
from tts_engine.cosyvoice.wire import Settings
from tts_engine.errors import NotReady
from tts_engine.restart import RestartPolicy

ROOT = Path(__file__).parents[2]
#: a worker of CosyVoice without a model
WORKER = (
    sys.executable,
    "-c",
    f"import sys, runpy; sys.path.insert(0, {str(ROOT)!r}); "
    f"runpy.run_path({str(ROOT / 'tests' / 'cosyvoice' / 'fake_worker.py')!r})",
    "ready",
)
VOICE = {"name": "a", "text": "b", "file": "c"}


async def test_a_worker_that_is_started_again_is_waited_for(tmp_path: Path):
    voice = CosyVoiceEngine(
        settings=Settings(model_dir="none", voices_dir=str(tmp_path)),
        needs_voice=False,
        command=WORKER,
        policy=RestartPolicy(first_s=3600, longest_s=3600),
    )
    async with served(voice) as at, at.http() as client:
        assert (await client.get("/readyz")).status_code == 200
        voice.worker.kill()
        await settled(lambda: not voice.ready, "the engine takes jobs")
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.headers["retry-after"]) == (503, "1")
        for path, body in (
            ("/tts", {"text": TEXT}),
            ("/register-voice", VOICE),
            ("/v1/audio/speech", {"input": TEXT, "voice": "alloy"}),
        ):
            reply = await client.post(path, json=body)
            assert error_of(reply) == (503, "not_ready", None)
            assert reply.headers["retry-after"] == "1"
        with pytest.raises(websockets.InvalidStatus) as caught:
            async with at.talk():
                pass
        assert caught.value.response.status_code == 503
        with pytest.raises(NotReady, match="restarting"):
            await voice.remove("anybody")
        assert at.count("errors_total", code="not_ready") == 4


async def test_a_worker_that_goes_while_it_is_asked_is_no_failure_of_the_service():
    class Gone(CloningVoice):
        async def remove(self, name: str) -> None:
            raise NotReady("The worker is not running: restarting")

    async with served(Gone("mine")) as at, at.http() as client:
        reply = await client.delete("/voices/mine")
        assert error_of(reply) == (503, "not_ready", None)
        assert reply.headers["retry-after"] == "1"
        await at.works()


async def test_the_daemon_asks_to_come_back_as_well_and_speaks_again():
    class Away(CloningVoice):
        away = False

        @property
        def ready(self) -> bool:
            return not self.away

    voice = Away()
    async with inside(voice=voice) as at:
        url = f"http://{at.address}"
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
            for away in (True, False):
                voice.away = away
                for path, body in (
                    ("/tts", {"text": TEXT}),
                    ("/v1/audio/speech", {"input": TEXT, "voice": "alloy"}),
                ):
                    reply = await client.post(path, json=body)
                    assert reply.status_code == (503 if away else 200)

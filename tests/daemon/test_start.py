"""Invariants: a daemon that cannot start says why in one line and what mends it in another, and
ends; until it is ready it answers, and turns clients away with a reason.
"""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import httpx
import pytest

from pipeline.commands.options import overrides
from pipeline.config import load_config
from services.models import load_manifest
from services.scripted.llm_script import LlmFault, LlmScript
from services.scripted.llm_server import ScriptedLlmServer
from services.scripted.tts import ScriptedVoice
from tests.daemon.client import talking, turned_away
from tests.daemon.inside import inside
from tests.daemon.process import ROOT, serving
from tts_engine.errors import EngineFailed

MANIFEST = ROOT / "configs/models.yaml"


def server_sets(llm: ScriptedLlmServer) -> dict[str, object]:
    return {"llm.provider": "openai", "llm.base_url": llm.base_url, "llm.model": "scripted"}


async def refuses(*said: str, code: int, **kwargs) -> list[str]:
    """Starts a daemon that must end by itself; returns its lines."""
    async with serving(ready=False, **kwargs) as daemon:
        assert await asyncio.to_thread(daemon.wait) == code, daemon.log
        for text in said:
            assert text in daemon.log
        assert "Traceback" not in daemon.log
        return daemon.lines


async def test_a_port_that_is_taken():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        lines = await refuses(code=1, sets={"server.port": port})
    assert lines == [
        f"error: Port {port} is taken by another program, or by a duplexd that is still starting",
        f"fix:   End it, or choose another port: --set server.port={port + 1}",
    ]


async def test_a_port_that_a_duplexd_has():
    async with serving() as first:
        port = first.port
        lines = await refuses(code=1, sets={"server.port": port})
    where = f"127.0.0.1:{port}"
    other = f"choose another port: --set server.port={port + 1}"
    assert lines == [
        f"error: A duplexd is running at {where} already",
        f"fix:   Talk to it with `run.py talk --url {where} --say TEXT`, or {other}",
    ]


async def test_an_address_of_another_machine():
    lines = await refuses(code=1, sets={"server.host": "192.0.2.1"})
    assert lines[0].startswith("error: Cannot listen on 192.0.2.1:0: ")
    assert len(lines) == 2


async def test_a_configuration_that_is_wrong(tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text("turns:\n  floor_ms: soon\nserver:\n  prot: 1\n")
    lines = await refuses(
        f"{file}:2: turns.floor_ms", f"{file}:4: server.prot", code=2, args=["--config", str(file)]
    )
    assert lines[0].startswith("error: ")


async def test_engines_that_there_are_not():
    await refuses("names no engine (asr, llm, tts)", code=2, engines="scripted:brain=1")


def put_corrupt(root: Path, name: str) -> str:
    """A model whose files have the right lengths and nothing else; returns one of them."""
    files = load_manifest(MANIFEST).model(name).files
    for file, spec in files.items():
        path = root / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as stream:
            stream.truncate(spec.bytes)
    return next(iter(files))


async def test_a_model_with_a_wrong_hash(tmp_path: Path):
    file = put_corrupt(tmp_path, "whisper-base")
    expected = load_manifest(MANIFEST).model("whisper-base").files[file].sha256
    lines = await refuses(
        file,
        "is corrupt",
        expected[:12],
        "run.py models fetch whisper-base",
        code=1,
        engines="scripted:llm=0,tts=0",
        sets={"models.dir": tmp_path, "models.offline": "true"},
    )
    assert len(lines) == 2
    assert os.listdir(tmp_path) == ["whisper-base"]


async def test_a_model_that_is_not_there(tmp_path: Path):
    lines = await refuses(
        "run.py models fetch whisper-base",
        code=1,
        engines="scripted:llm=0,tts=0",
        sets={"models.dir": tmp_path, "models.offline": "true"},
    )
    assert len(lines) == 2
    assert os.listdir(tmp_path) == []


async def test_a_language_model_that_cannot_be_reached():
    async with ScriptedLlmServer(reachable=False) as llm:
        lines = await refuses("cannot be reached", code=1, sets=server_sets(llm))
    assert lines[-2].startswith("error: The language model server at http://127.0.0.1:")
    assert lines[-1] == "fix:   Is it running, and is OPENAI_BASE_URL right?"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (LlmFault(kind="http_500"), "the scripted server fails"),
        (LlmFault(kind="http_429"), "has no room now"),
        (LlmFault(kind="unreachable"), "broke off the connection"),
        (LlmFault(kind="slow", delay_s=60), "was silent for too long"),
        (LlmFault(kind="dies", after_tokens=0), "broke off the connection"),
        (LlmFault(kind="garbage", after_tokens=0), "not JSON"),
    ],
    ids=lambda value: value.kind if isinstance(value, LlmFault) else "",
)
async def test_a_language_model_that_fails_at_the_start(fault: LlmFault, message: str):
    async with ScriptedLlmServer(script=LlmScript(fault=fault)) as llm:
        sets = {"llm.first_token_timeout_s": 0.5, "llm.idle_timeout_s": 0.5}
        async with inside({**server_sets(llm), **sets}, ready=False) as served:
            await asyncio.wait_for(served.failed.wait(), 30)
            assert message in str(served.daemon.failure)
            async with httpx.AsyncClient(base_url=f"http://{served.address}") as http:
                answer = await http.get("/readyz")
                assert (answer.status_code, answer.json()["status"]) == (503, "failed")
                assert message in answer.json()["error"]
                assert (await http.get("/healthz")).status_code == 200


async def test_a_voice_that_the_engine_does_not_have():
    class Mute(ScriptedVoice):
        async def start(self) -> None:
            raise EngineFailed("The voice has no throat", mend="Give it one")

    async with inside(voice=Mute(), ready=False) as served:
        await asyncio.wait_for(served.failed.wait(), 30)
        assert str(served.daemon.failure) == "The voice has no throat. Give it one"


async def test_clients_that_come_too_early():
    script = LlmScript(fault=LlmFault(kind="slow", delay_s=3))
    async with (
        ScriptedLlmServer(script=script) as llm,
        serving(sets=server_sets(llm), ready=False) as daemon,
    ):
        await script.arrived.wait()  # the warm-up's first request, held for 3 s
        url = await asyncio.to_thread(lambda: daemon.url)
        async with httpx.AsyncClient(base_url=daemon.http) as http:
            assert (await http.get("/healthz")).json()["status"] == "ok"
            early = await http.get("/readyz")
            assert (early.status_code, early.headers["retry-after"]) == (503, "1")
            assert early.json() == {"status": "warming", "waiting_for": ["llm"]}
            assert (await http.get("/metrics")).status_code == 200
        status, error = await turned_away(url)
        assert (error["code"], status) == ("at_capacity", 503)
        assert "warming up" in error["message"]
        script.fault = None
        await asyncio.to_thread(daemon.ready)
        async with talking(url) as client:
            await client.speak()
            assert (await client.done())["status"] == "completed"


def test_the_engines_of_these_tests_need_no_model():
    config = load_config(None, overrides(engines="scripted:instant"), environ={})
    assert {config.asr.provider, config.tts.provider, config.llm.engine} == {"scripted"}

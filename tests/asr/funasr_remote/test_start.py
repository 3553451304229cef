"""A server that cannot be used is told of at the start, in words that mend it."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection, serve

from services.access.certificate import Names
from services.access.tls import own_tls
from services.asr.funasr_remote.engine import RemoteFunAsrEngine
from tts_engine.errors import AtCapacity, ConfigError, EngineFailed

from ..letters import say
from .client import feed, final, remote
from .runtime import running


async def test_nobody_answers() -> None:
    async with running() as runtime:
        url = runtime.url
    engine = RemoteFunAsrEngine(url=url.replace("ws://", "ws://me:secret@") + "?token=secret")
    with pytest.raises(EngineFailed, match="No FunASR server answers") as failure:
        await engine.start()
    assert "127.0.0.1" in str(failure.value)
    assert "asr.remote.url" in failure.value.mend
    assert "secret" not in str(failure.value)
    await engine.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("hello", "not JSON"),
        ("[1]", "not an object"),
        (b"\x00", "bytes"),
        ('{"is_speaking": false}', "without a text"),
        ('{"event": "hello"}', "without a text"),
        ('{"text": 5}', "whose text is none"),
    ],
)
async def test_a_server_of_another_protocol(words: str | bytes, said: str) -> None:
    async with running() as runtime:
        runtime.last_words = [words]
        with pytest.raises(EngineFailed, match=f"FunASR's protocol: .*{said}"):
            async with remote(runtime, start=True):
                pass


async def test_a_server_that_says_nothing() -> None:
    async with running() as runtime:
        runtime.deaf = True
        with pytest.raises(EngineFailed, match="does not finish an utterance in mode 2pass"):
            async with remote(runtime, start=True, timeout_s=0.3):
                pass


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (404, EngineFailed, "no FunASR server: HTTP 404"),
        (429, AtCapacity, "no room"),
        (302, EngineFailed, "HTTP 302"),
    ],
)
async def test_a_server_that_refuses(status: int, error: type[Exception], said: str) -> None:
    async with running() as runtime:
        runtime.refuse = [status]
        with pytest.raises(error, match=said):
            async with remote(runtime, start=True):
                pass


async def test_a_server_that_has_no_room() -> None:
    async def close(connection: ServerConnection) -> None:
        await connection.close(1013, "later")

    async with serve(close, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        engine = RemoteFunAsrEngine(url=f"ws://127.0.0.1:{port}")
        with pytest.raises(AtCapacity, match="no room"):
            await engine.start()
        await engine.close()


async def test_a_server_that_is_none() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail\r\n")
        writer.close()

    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(await asyncio.start_server(greet, "127.0.0.1", 0))
        port = server.sockets[0].getsockname()[1]
        for url, said in (
            (f"ws://127.0.0.1:{port}", "speaks no WebSocket"),
            (f"wss://127.0.0.1:{port}", "speaks no TLS"),
            ("http://127.0.0.1", "cannot be used"),
        ):
            engine = RemoteFunAsrEngine(url=url)
            with pytest.raises((EngineFailed, ConfigError), match=said):
                await engine.start()
            await engine.close()


async def test_a_server_that_accepts_and_says_nothing() -> None:
    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(wait, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        engine = RemoteFunAsrEngine(url=f"ws://127.0.0.1:{port}", timeout_s=0.2)
        with pytest.raises(EngineFailed, match="does not"):
            await engine.start()
        await engine.close()


async def test_certificates(tmp_path: Path) -> None:
    names = Names(hostname="test", names=frozenset({"localhost"}), addresses=frozenset())
    own = own_tls(tmp_path, names)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate, own.key)
    async with running(tls=context) as runtime:
        with pytest.raises(EngineFailed, match="is not trusted") as failure:
            async with remote(runtime, start=True):
                pass
        assert "asr.remote.verify" in failure.value.mend
        async with remote(runtime, start=True, verify=False) as engine:
            recogniser = engine.open(session="s")
            feed(recogniser, say("今天"))
            assert (await final(recogniser)).text == "今天。"

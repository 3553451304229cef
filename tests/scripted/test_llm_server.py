"""Invariant: the scripted LLM server speaks HTTP/1.1, survives nonsense, and leaves nothing."""

import asyncio
import contextlib

import openai
import pytest
from openai import AsyncOpenAI

from services.scripted.llm_script import LlmScript
from services.scripted.llm_server import ScriptedLlmServer


async def raw(server, *parts, responses=1):
    """Sends the parts, one packet each, and reads that many responses, or to the end."""
    port = int(server.base_url.split(":")[2].split("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = b""
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.002)
        async with asyncio.timeout(5):
            while answer.count(b"0\r\n\r\n") < responses and (data := await reader.read(65536)):
                answer += data
    finally:
        writer.close()
    return answer


async def test_refuses_connections_when_unreachable():
    async with (
        ScriptedLlmServer(reachable=False) as server,
        AsyncOpenAI(base_url=server.base_url, api_key="x", max_retries=0) as client,
    ):
        with pytest.raises(openai.APIConnectionError):
            await client.models.list()


async def test_requests_share_a_connection_and_may_come_in_pieces():
    async with ScriptedLlmServer() as server:
        get = b"GET /v1/models HTTP/1.1\r\n\r\n"
        post = b"POST /v1/nothing HTTP/1.1\r\nContent-Length: 4\r\n\r\nab"
        answer = await raw(server, get + post, b"cd" + get[:9], get[9:], responses=3)
        assert answer.count(b"HTTP/1.1 200 OK") == 2
        assert answer.count(b"HTTP/1.1 404 Not Found") == 1


@pytest.mark.parametrize(
    "nonsense", [b"hello\r\n\r\n", b"POST / HTTP/1.1\r\ncontent-length: many\r\n\r\n"]
)
async def test_nonsense_closes_the_connection(nonsense):
    async with ScriptedLlmServer() as server:
        with contextlib.suppress(ConnectionResetError):
            assert await raw(server, nonsense) == b""
        assert b"200 OK" in await raw(server, b"GET /v1/models HTTP/1.1\r\n\r\n")


async def test_closing_ends_answers_in_flight_and_frees_everything():
    before = len(asyncio.all_tasks())
    server = ScriptedLlmServer(script=LlmScript(first_token_s=60))
    await server.start()
    await server.start()
    url = server.base_url
    async with AsyncOpenAI(base_url=url, api_key="x", max_retries=0) as client:
        stream = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "x"}], stream=True
        )
        await server.close()
        await server.close()
        with pytest.raises(openai.APIConnectionError):
            await anext(stream)
        with pytest.raises(openai.APIConnectionError):
            await client.models.list()
    assert server.script.requests[0].cancelled
    assert not server.tasks
    assert not server.connections
    assert len(asyncio.all_tasks()) == before
    with pytest.raises(RuntimeError):
        _ = server.base_url

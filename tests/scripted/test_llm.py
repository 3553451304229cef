"""Invariant: the real OpenAI client sees a server; the script sees what the client really did."""

import asyncio
import contextlib
import json
import math
import time

import openai
import pytest
from openai import AsyncOpenAI

from services.scripted.llm import ScriptedOpenAI, scripted_client
from services.scripted.llm_script import ConnectionDropped, LlmFault, LlmScript
from services.scripted.llm_server import ScriptedLlmServer
from services.scripted.spec import ScriptedTexts

REPLY = "一二三四五六七八，one two three。"
TOKENS = ["一二", "三四", "五六", "七八", "，", "one", " two", " three", "。"]
TEXTS = ScriptedTexts(replies=[REPLY])
MESSAGES = [{"role": "user", "content": "你好"}]


@contextlib.asynccontextmanager
async def in_process(**options):
    client = scripted_client(**{"texts": TEXTS, **options})
    yield client, client.script
    await client.close()


@contextlib.asynccontextmanager
async def over_socket(**options):
    async with ScriptedLlmServer(script=LlmScript(**{"texts": TEXTS, **options})) as server:
        client = AsyncOpenAI(base_url=server.base_url, api_key="x", max_retries=0)
        yield client, server.script
        await client.close()


@pytest.fixture(params=[in_process, over_socket])
def connect(request):
    return request.param


async def ask(client, **options):
    return await client.chat.completions.create(
        **{"model": "m", "messages": MESSAGES, "stream": True, **options}
    )


async def texts_of(stream):
    return [
        chunk.choices[0].delta.content
        async for chunk in stream
        if chunk.choices and chunk.choices[0].delta.content
    ]


async def read_to_failure(stream):
    """What came before the stream failed, and how it failed."""
    texts = []
    try:
        async for chunk in stream:
            texts.extend(choice.delta.content for choice in chunk.choices if choice.delta.content)
    except (openai.APIError, ValueError) as failure:
        return texts, failure
    return texts, None


async def until_settled(request):
    """A server sees the end of a socket a moment later."""
    async with asyncio.timeout(5):
        await request.over.wait()


async def test_an_answer_comes_token_by_token(connect):
    async with connect() as (client, script):
        stream = await ask(client, stream_options={"include_usage": True}, user="s1")
        chunks = [chunk async for chunk in stream]
        assert chunks[0].choices[0].delta.role == "assistant"
        assert {chunk.model for chunk in chunks} == {"m"}
        contents = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
        assert [content for content in contents if content] == TOKENS
        assert chunks[-2].choices[0].finish_reason == "stop"
        assert chunks[-1].usage.completion_tokens == len(TOKENS)
        assert chunks[-1].usage.prompt_tokens == 2
        request = script.requests[0]
        assert request.messages == MESSAGES
        assert (request.session, request.turn) == ("s1", 1)
        assert (request.tokens, request.tokens_sent) == (len(TOKENS), len(TOKENS))
        assert request.text_sent == REPLY
        assert (request.finished, request.cancelled) == (True, False)
        assert (script.stats.jobs, script.stats.depth, script.stats.errors) == (1, 0, {})


async def test_no_usage_unless_asked_for(connect):
    async with connect() as (client, _):
        assert all([chunk.usage is None async for chunk in await ask(client)])


async def test_an_answer_in_one_piece(connect):
    async with connect(first_token_s=0.01, tokens_per_s=1000) as (client, script):
        before = time.monotonic()
        answer = await ask(client, stream=False)
        assert time.monotonic() - before >= 0.018
        assert answer.choices[0].message.content == REPLY
        assert answer.choices[0].finish_reason == "stop"
        assert answer.usage.total_tokens == len(TOKENS) + 2
        assert script.requests[0].finished


async def test_every_token_comes_when_it_is_due(connect):
    async with connect(first_token_s=0.06, tokens_per_s=50) as (client, script):
        times = [
            time.monotonic() async for chunk in await ask(client) if chunk.choices[0].delta.content
        ]
        started = script.requests[0].started
        for index, at in enumerate(times):
            due = started + 0.06 + index / 50
            assert due <= at <= due + 0.1


async def test_a_slow_reader_gets_the_late_tokens_at_once(connect):
    async with connect(tokens_per_s=200) as (client, _):
        stream = await ask(client)
        await anext(stream)
        await asyncio.sleep(0.06)
        before = time.monotonic()
        assert await texts_of(stream) == TOKENS
        assert time.monotonic() - before < 0.03


async def test_closing_the_stream_is_seen(connect):
    async with connect(tokens_per_s=100) as (client, script):
        stream = await ask(client)
        for _ in range(3):
            await anext(stream)
        await stream.close()
        request = script.requests[0]
        await until_settled(request)
        assert (request.cancelled, request.finished) == (True, False)
        assert 1 <= request.tokens_sent < len(TOKENS)
        assert REPLY.startswith(request.text_sent)
        assert (script.stats.jobs, script.stats.depth) == (0, 0)


@pytest.mark.parametrize("streamed", [True, False])
async def test_cancelling_the_reader_is_seen(connect, streamed):
    async with connect(first_token_s=60) as (client, script):

        async def read():
            answer = await ask(client, stream=streamed)
            await texts_of(answer)

        task = asyncio.create_task(read())
        async with asyncio.timeout(5):
            await script.arrived.wait()
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until_settled(script.requests[0])
        assert script.requests[0].cancelled
        assert script.requests[0].tokens_sent == 0
        assert script.stats.depth == 0


async def test_a_stream_closed_before_it_is_read_is_cancelled():
    async with in_process() as (client, script):
        stream = await ask(client)
        await stream.response.aclose()
        assert script.requests[0].cancelled
        assert script.stats.depth == 0


async def test_a_closed_reply_says_nothing_more():
    script = LlmScript()
    body = json.dumps({"messages": MESSAGES, "stream": True}).encode()
    reply = script.answer("POST", "/v1/chat/completions", body)
    await anext(reply)
    await reply.aclose()
    await reply.aclose()
    with pytest.raises(ConnectionDropped):
        await anext(reply)
    assert script.requests[0].tokens_sent == 1


async def test_closing_from_another_task_breaks_the_reader():
    async with in_process(first_token_s=60) as (client, script):
        stream = await ask(client)
        task = asyncio.create_task(texts_of(stream))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(openai.APIConnectionError):
            await task
        assert script.requests[0].cancelled
        await script.close()


async def test_the_client_gives_up_after_its_own_timeout(connect):
    async with connect(first_token_s=60) as (client, script):
        with pytest.raises(openai.APITimeoutError):
            await texts_of(await ask(client.with_options(timeout=0.3)))
        await until_settled(script.requests[0])
        assert script.requests[0].cancelled


TOOLS = [{"type": "function", "function": {"name": "set_volume", "parameters": {}}}]


async def test_functions_are_called_in_pieces_at_the_pace_of_tokens(connect):
    texts = ScriptedTexts(
        replies=['好。@call set_volume {"level": 70, "why": "太吵了"}@then {tool}%。']
    )
    async with connect(texts=texts, tokens_per_s=100) as (client, script):
        arguments, name, reasons, order = "", None, [], []
        options = {"tools": TOOLS, "stream_options": {"include_usage": True}}
        async for chunk in await ask(client, **options):
            if not chunk.choices:
                assert chunk.usage.completion_tokens == script.requests[0].tokens
                continue
            choice = chunk.choices[0]
            reasons.append(choice.finish_reason)
            if choice.delta.content:
                order.append("text")
            for call in choice.delta.tool_calls or ():
                order.append("call")
                name = name or call.function.name
                arguments += call.function.arguments
        assert name == "set_volume"
        assert json.loads(arguments) == {"level": 70, "why": "太吵了"}
        assert reasons[-1] == "tool_calls"
        assert order[:3] == ["text", "text", "call"]
        assert len(order) == script.requests[0].tokens_sent
        assert script.requests[0].text_sent == "好。"
        output = {"role": "tool", "tool_call_id": "x", "content": "70"}
        assert "".join(await texts_of(await ask(client, messages=[*MESSAGES, output]))) == "70%。"


async def test_a_whole_answer_with_a_call(connect):
    texts = ScriptedTexts(replies=['好。@call set_volume {"level": 70}'])
    async with connect(texts=texts) as (client, _):
        answer = await ask(client, stream=False, tools=TOOLS)
        [call] = answer.choices[0].message.tool_calls
        assert answer.choices[0].message.content == "好。"
        assert (call.function.name, call.function.arguments) == ("set_volume", '{"level": 70}')
        assert answer.choices[0].finish_reason == "tool_calls"


async def test_requests_are_remembered_up_to_a_limit(connect):
    async with connect(keep=2) as (client, script):
        for number in range(4):
            await texts_of(await ask(client, user=str(number)))
        assert [request.session for request in script.requests] == ["2", "3"]
        assert script.stats.jobs == 4


async def test_slow_means_late(connect):
    async with connect(failures={1: LlmFault(kind="slow", delay_s=0.06)}) as (client, script):
        before = time.monotonic()
        assert await texts_of(await ask(client)) == TOKENS
        assert time.monotonic() - before >= 0.06
        assert script.stats.errors == {}


async def test_an_empty_answer_is_regular(connect):
    async with connect(failures={1: LlmFault(kind="empty")}) as (client, script):
        chunks = [chunk async for chunk in await ask(client)]
        assert [chunk.choices[0].finish_reason for chunk in chunks] == [None, "stop"]
        assert script.requests[0].finished
        assert script.stats.jobs == 1


@pytest.mark.parametrize("after", [0, 2, 99])
async def test_dying_mid_stream(connect, after):
    fault = LlmFault(kind="dies", after_tokens=after)
    async with connect(failures={1: fault}, tokens_per_s=500) as (client, script):
        got, failure = await read_to_failure(await ask(client))
        assert isinstance(failure, openai.APIConnectionError)
        assert got == TOKENS[:after]
        assert (script.requests[0].finished, script.requests[0].cancelled) == (True, False)
        assert script.stats.errors == {"engine_failed": 1}


async def test_garbage_mid_stream(connect):
    async with connect(failures={1: LlmFault(kind="garbage", after_tokens=2)}) as (client, _):
        got, failure = await read_to_failure(await ask(client))
        assert isinstance(failure, json.JSONDecodeError)
        assert got == ["一二", "三四"]


@pytest.mark.parametrize(
    "kind, failure, code",
    [
        ("http_500", openai.InternalServerError, "engine_failed"),
        ("http_429", openai.RateLimitError, "at_capacity"),
        ("unreachable", openai.APIConnectionError, "engine_failed"),
    ],
)
async def test_no_answer_at_all(connect, kind, failure, code):
    async with connect(failures={2: LlmFault(kind=kind)}) as (client, script):
        await texts_of(await ask(client))
        with pytest.raises(failure):
            await ask(client, messages=MESSAGES * 2)
        assert script.stats.errors == {code: 1}
        assert await texts_of(await ask(client)) == TOKENS


async def test_a_fault_for_every_turn_can_be_lifted(connect):
    async with connect() as (client, script):
        script.fault = LlmFault(kind="http_500")
        with pytest.raises(openai.InternalServerError):
            await ask(client)
        script.fault = None
        assert await texts_of(await ask(client)) == TOKENS


async def test_a_retry_reaches_the_script_again():
    client = scripted_client(failures={1: LlmFault(kind="http_500")}, max_retries=1)
    with pytest.raises(openai.InternalServerError):
        await ask(client)
    assert len(client.script.requests) == 2
    await client.close()


async def test_other_requests(connect):
    async with connect() as (client, script):
        assert [model.id async for model in await client.models.list()] == ["scripted"]
        with pytest.raises(openai.NotFoundError):
            await client.embeddings.create(model="m", input="x")
        with pytest.raises(openai.BadRequestError):
            await client.post("/chat/completions", body={"model": "m"}, cast_to=object)
        assert script.requests == []


async def test_copies_of_the_client_keep_the_script():
    async with in_process() as (client, script):
        copy = client.with_options(timeout=3)
        assert isinstance(copy, ScriptedOpenAI)
        assert copy.script is script


async def test_a_long_instant_answer_lets_the_loop_go_round():
    async with in_process(texts=ScriptedTexts(replies=["好的" * 400])) as (client, _):
        rounds = 0

        async def count():
            nonlocal rounds
            while True:
                rounds += 1
                await asyncio.sleep(0)

        counter = asyncio.create_task(count())
        await texts_of(await ask(client))
        counter.cancel()
        assert rounds >= 50


async def test_an_endless_wait_is_ended_by_close():
    slow = LlmFault(kind="slow", delay_s=math.inf)
    async with over_socket(failures={1: slow}) as (client, script):
        task = asyncio.create_task(ask(client, stream=False))
        async with asyncio.timeout(5):
            await script.arrived.wait()
        await script.close()
        with pytest.raises(openai.APIConnectionError):
            await task

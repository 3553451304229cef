"""The real model answers, keeps its prompts warm, stops when told to, and dies with its parent."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import openai
import psutil
import pytest
import pytest_asyncio
from platformdirs import user_cache_path

from services.items import FunctionCall
from services.llm import local_child
from services.llm.calls import CallDone
from services.llm.child_process import ServerProcess
from services.llm.client import make_client, probe, stream_chat, warm
from services.llm.load import ServerLoad
from services.llm.local import CHILD, LocalLlm
from services.llm.stream import AnswerStream, StreamLimits
from tts_engine.errors import EngineFailed

pytestmark = [pytest.mark.models, pytest.mark.asyncio(loop_scope="module")]

ROOT = Path(__file__).parents[2]
MODEL = next((user_cache_path("duplexd") / "models" / "qwen2.5-coder-0.5b").glob("*.gguf"), Path())
PROMPTS = {name: (ROOT / f"configs/prompts/{name}.md").read_text().strip() for name in ("zh", "en")}
#: a first token is due within this on a machine that others use as well, seconds; an answer that
#: is not cancelled would hold its slot for far longer
FIRST_TOKEN_S = 10.0
ENDLESS = "请从一数到一千，每个数字都要写出来。"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def local() -> AsyncIterator[LocalLlm]:
    server = LocalLlm(model_path=MODEL, threads=1)
    await server.start()
    yield server
    await server.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(local: LocalLlm) -> AsyncIterator[openai.AsyncOpenAI]:
    made = make_client(base_url=local.base_url, api_key=local.api_key, read_timeout_s=60)
    yield made
    await made.close()


def messages(language: str, text: str) -> list[Any]:
    return [
        {"role": "system", "content": PROMPTS[language]},
        {"role": "user", "content": text},
    ]


async def ask(client: openai.AsyncOpenAI, language: str, text: str, tokens: int = 1) -> Any:
    return await client.chat.completions.create(
        model="any", messages=messages(language, text), max_tokens=tokens, temperature=0
    )


async def begin(client: openai.AsyncOpenAI, text: str, *, tokens: int = 1500) -> Any:
    """A stream that has given its first piece of text."""
    stream = await client.chat.completions.create(
        model="any", messages=messages("zh", text), max_tokens=tokens, temperature=0, stream=True
    )
    async for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            break
    return stream


async def test_it_is_named_and_answers(local: LocalLlm, client: openai.AsyncOpenAI):
    assert await probe(client, None) == local.model == MODEL.stem
    answer = await ask(client, "zh", "你好，你是谁？", tokens=24)
    assert any("一" <= char <= "龥" for char in answer.choices[0].message.content)
    assert answer.usage.completion_tokens <= 24


async def test_it_calls_when_it_must(client: openai.AsyncOpenAI):
    city: Any = {"type": "object", "properties": {"city": {"type": "string"}}}
    weather: Any = {"name": "weather", "description": "The weather in a city", "parameters": city}
    whole = FunctionCall(call_id="id", name="weather", arguments='{"city": "Paris"}')
    told: list[Any] = []

    async def failed(error: Exception) -> None:
        raise error

    stream = AnswerStream(
        ask=partial(
            stream_chat,
            client,
            {
                "model": "any",
                "messages": messages("en", "What is the weather in Paris?"),
                "tools": [{"type": "function", "function": weather}],
                "tool_choice": "required",
                "temperature": 0,
                "max_tokens": 100,
            },
        ),
        load=ServerLoad(),
        limits=StreamLimits(first_token_s=60, idle_s=60, chars=800),
        offered=["weather"],
        new_call_id=lambda: "id",
        on_first_token=lambda: None,
        on_call=told.append,
        on_usage=lambda _: None,
        on_cut=told.append,
        on_failure=failed,
    )
    assert [chunk async for chunk in stream] == []
    await stream.close()
    assert told[-1] == CallDone(whole)


async def test_it_leaves_the_cores_to_the_voice(local: LocalLlm):
    assert local.pid is not None
    assert psutil.Process(local.pid).nice() == min(19, psutil.Process().nice() + local_child.NICER)


async def test_without_the_key_it_tells_nothing(local: LocalLlm):
    stranger = make_client(base_url=local.base_url, api_key="guess")
    with pytest.raises(EngineFailed, match="did not accept the key"):
        await warm(stranger, local.model, ["hi"])
    await stranger.close()


async def test_warm_prompts_stay_warm_when_languages_alternate(client: openai.AsyncOpenAI):
    await warm(client, "any", list(PROMPTS.values()))
    for question in ("今天怎么样", "明天怎么样"):
        for language in ("zh", "en"):
            answer = await ask(client, language, question)
            fresh = answer.usage.prompt_tokens - answer.timings["cache_n"]
            assert fresh <= 12  # the question and the template's end; the prompt is not among it


async def test_warm_prompts_survive_more_conversations_than_slots(client: openai.AsyncOpenAI):
    await warm(client, "any", list(PROMPTS.values()))
    await asyncio.gather(*(ask(client, "zh", f"{number}加一是多少") for number in range(4)))
    answer = await ask(client, "en", "Hi there")
    assert answer.usage.prompt_tokens - answer.timings["cache_n"] <= 12


async def test_a_closed_stream_stops_the_decoding(local: LocalLlm, client: openai.AsyncOpenAI):
    streams = await asyncio.gather(begin(client, ENDLESS), begin(client, ENDLESS + "快"))
    for stream in streams:
        await stream.close()
    start = time.monotonic()
    last = await begin(client, "你好", tokens=4)
    assert time.monotonic() - start < FIRST_TOKEN_S
    async for _ in last:
        pass
    child = psutil.Process(local.pid)
    before = child.cpu_times()
    await asyncio.sleep(0.5)
    after = child.cpu_times()
    assert after.user + after.system - before.user - before.system < 0.2


async def test_a_request_cancelled_in_its_prompt_frees_its_slot(client: openai.AsyncOpenAI):
    lengthy = [asyncio.create_task(begin(client, f"{n}" + "春天来了" * 300)) for n in range(2)]
    await asyncio.sleep(0.5)  # in the midst of prompts that take tens of seconds
    for task in lengthy:
        task.cancel()
    await asyncio.gather(*lengthy, return_exceptions=True)
    start = time.monotonic()
    await ask(client, "en", "Hello")
    assert time.monotonic() - start < FIRST_TOKEN_S


async def test_the_client_survives_the_childs_death(local: LocalLlm, client: openai.AsyncOpenAI):
    address, first = local.base_url, local.pid
    assert first is not None
    ready = asyncio.Event()
    local._on_state = lambda state, _: ready.set() if state == "ready" else None
    stream = await begin(client, ENDLESS)
    os.kill(first, signal.SIGKILL)
    with pytest.raises(openai.APIConnectionError):
        async for _ in stream:
            pass
    async with asyncio.timeout(60):
        await ready.wait()
    assert local.base_url == address
    assert local.pid != first
    assert (await ask(client, "en", "Hello")).usage.completion_tokens == 1


PARENT = """
import asyncio, pathlib, sys
from services.llm.local import LocalLlm

async def main():
    local = LocalLlm(model_path=pathlib.Path(sys.argv[1]), threads=1)
    await local.start()
    print(local.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_it_dies_with_a_parent_that_was_killed():
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PARENT, str(MODEL)),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    assert parent.stdout
    child = psutil.Process(int(await parent.stdout.readline()))
    assert "local_child" in " ".join(child.cmdline())
    parent.kill()
    await parent.wait()
    gone, _ = await asyncio.to_thread(psutil.wait_procs, [child], 3.0)
    # a container's first process may not reap orphans; a zombie is dead enough
    assert gone or child.status() == psutil.STATUS_ZOMBIE


async def test_it_ends_when_its_stdin_does():
    arguments = ["--parent", str(os.getpid()), "--model", str(MODEL), "--port", "0"]
    arguments += ["--threads", "1", "--context", "512", "--parallel", "1"]
    child = await ServerProcess.spawn((*CHILD, *arguments), name="model")
    child.write(b'{"api_key": "k"}\n')
    try:
        assert (await child.ready(60)).startswith("http://127.0.0.1:")
        child._stdin.close()
        async with asyncio.timeout(20):
            assert "exit status 0" in await child.ended()
    finally:
        await child.stop()


async def test_an_orphan_ends_before_it_loads():
    arguments = ["--parent", "1", "--model", "none", "--port", "0"]
    arguments += ["--threads", "1", "--context", "512", "--parallel", "1"]
    result = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, str(Path(local_child.__file__)), *arguments],
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert (result.returncode, result.stdout) == (0, b"")

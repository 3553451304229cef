"""Invariants: no client can crash the daemon, fill its memory, or take the others' time: whatever
it does, nothing of it stays, nothing unexpected is logged, and the next client is served.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.daemon.abuse import (
    BINARY,
    CONTINUATION,
    EVENTS,
    HANDSHAKE,
    PING,
    TEXT,
    Fuzz,
    by_hand,
    event,
    frame,
    message,
)
from tests.daemon.client import DONE, PATIENCE_S, Client, talking
from tests.daemon.inside import inside, settled
from tests.daemon.process import DaemonProcess, serving
from tests.daemon.test_input import LONG, answered

#: longest silence inside an answer that a listener may get, milliseconds
GAP_MS = 100
#: what the allocator may keep of what was freed, and the collector has yet to find, bytes
SLACK = 48 << 20


async def emptied(daemon: DaemonProcess) -> None:
    """Waits until no conversation is left."""
    await asyncio.to_thread(daemon.metric, "sessions", 0, timeout_s=PATIENCE_S)


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    """One for all of them: what one test leaves behind, the next one finds."""
    with DaemonProcess(sets={"scripted.replies": "[好。]"}) as served:
        yield served.ready()


@asynccontextmanager
async def unharmed(daemon: DaemonProcess) -> AsyncIterator[None]:
    """Whatever is done to the daemon meanwhile, it has to be as it was afterwards."""
    async with talking(daemon.url) as client:
        await answered(client)
    await emptied(daemon)
    process = daemon.process
    files, memory = process.num_fds(), process.memory_info().rss
    yield
    await emptied(daemon)
    async with talking(daemon.url) as client:
        await answered(client)
        assert not client.of("error")
    await emptied(daemon)
    await settled(lambda: process.num_fds() <= files, "files are left open")
    await settled(lambda: process.memory_info().rss < memory + SLACK, "memory is not freed")
    check_log(daemon)


def check_log(daemon: DaemonProcess) -> None:
    """Nothing unexpected happened."""
    assert not [line for line in daemon.lines if " ERROR " in line or "Traceback" in line]


async def synchronised(client: Client, name: str) -> None:
    """Waits until everything sent before was dealt with."""
    await client.send("conversation.item.retrieve", event_id=name, item_id="nobody")
    await client.until(
        lambda: any(each["error"]["event_id"] == name for each in client.of("error")), name
    )


# --- messages ------------------------------------------------------------------------------------


async def test_ten_thousand_random_messages(daemon: DaemonProcess):
    fuzz = Fuzz(7)
    async with unharmed(daemon), talking(daemon.url) as client:
        for count in range(10_000):
            await client.connection.send(fuzz.message())
            if count % 500 == 499:  # as a client that reads
                await synchronised(client, f"s{count}")
        assert client.closed is None
        # what it was told makes sense: every response that was created is done
        await client.send("session.update", session={"type": "realtime"})
        await client.send("response.cancel")
        await synchronised(client, "last")
        created = [each["response"]["id"] for each in client.of("response.created")]
        await client.until(lambda: len(client.of(DONE)) >= len(created), "the end of them")
        assert [each["response"]["id"] for each in client.of(DONE)][: len(created)] == created
        assert len(created) > 50


async def test_a_thousand_events_at_once(daemon: DaemonProcess):
    chance = random.Random(5)
    kinds = [chance.choice(sorted(EVENTS)) for _ in range(1000)]
    events = [event(kind, **EVENTS[kind], event_id=f"e{n}") for n, kind in enumerate(kinds)]
    async with unharmed(daemon), talking(daemon.url) as client:
        transport = client.connection.transport
        transport.write(b"".join(frame(each) for each in events))  # in one piece
        await synchronised(client, "last")
        accepted = len(client.of("session.updated")), len(client.of("input_audio_buffer.cleared"))
        assert accepted == (
            kinds.count("session.update"),
            kinds.count("input_audio_buffer.clear"),
        )
        refused = {each["error"]["event_id"] for each in client.of("error")}
        missing = {f"e{n}" for n, kind in enumerate(kinds) if kind.endswith("retrieve")}
        assert missing <= refused


@pytest.mark.parametrize("seed", range(6))
async def test_events_in_every_wrong_order(seed: int):
    chance = random.Random(seed)
    async with inside({"scripted.replies": "[好。]"}) as served:
        for _ in range(4):
            async with talking(served.url) as client:
                order = sorted(EVENTS) * 2
                chance.shuffle(order)
                for kind in order:
                    await client.send(kind, **EVENTS[kind])
                await synchronised(client, "last")
                assert {each["error"]["type"] for each in client.of("error")} == {
                    "invalid_request_error"
                }
                await client.send(
                    "session.update",
                    session={"type": "realtime", "tools": [], "output_modalities": ["audio"]},
                )
                await client.send("input_audio_buffer.clear")
                await client.send("response.cancel")
                done = len(client.of(DONE))
                await client.send("conversation.item.create", item=message("最后"))
                await client.send("response.create", response={"metadata": {"n": "last"}})
                await client.until(
                    lambda client=client: any(
                        each["response"]["metadata"] == {"n": "last"}
                        and each["response"]["status"] == "completed"
                        for each in client.of(DONE)
                    ),
                    f"an answer after {done}",
                )
        await served.empty()
        assert served.count("errors_total", code="engine_failed") == 0


async def test_a_message_of_ten_megabytes(daemon: DaemonProcess):
    async with unharmed(daemon), talking(daemon.url) as client:
        for _ in range(2):
            await client.send("input_audio_buffer.append", audio="A" * 10_000_000)
        await synchronised(client, "audio")
        await client.connection.send("[" + "[]," * 3_300_000 + "[]]")
        await synchronised(client, "lists")
        codes = [each["error"]["code"] for each in client.of("error")]
        # 312 s of audio at once are more than it may send, and are heard all the same
        assert sorted(codes) == [
            *("item_not_found", "item_not_found", "message_too_large", "rate_limit_exceeded")
        ]
        await answered(client)


@pytest.mark.parametrize(
    "audio",
    [
        *({"rate": 44100}, {"rate": 8000}, {"rate": "24000"}, {"rate": -1}, {"rate": 24000.5}),
        *({"type": "audio/pcmu", "rate": 16000}, {"type": "audio/opus"}),
    ],
    ids=str,
)
async def test_a_wrong_rate(audio: dict[str, Any]):
    async with inside({"scripted.replies": "[好。]"}) as served, talking(served.url) as client:
        for way in ("input", "output"):
            wanted = {way: {"format": {"type": "audio/pcm", **audio}}}
            await client.send("session.update", session={"type": "realtime", "audio": wanted})
            error = (await client.wait("error", 1 if way == "input" else 2))["error"]
            assert error["param"].startswith(f"session.audio.{way}.format")
        await answered(client)


@pytest.mark.parametrize(
    "value",
    ["NaN", "1e999", "-Infinity", '{"a":' * 950 + "1" + "}" * 950, '"\\ud800"'],
    ids=["nan", "infinite", "minus infinite", "deep", "half a pair"],
)
async def test_a_schema_that_nobody_could_read_from_us(value: str):
    tool = f'{{"type":"function","name":"f","parameters":{{"maximum":{value}}}}}'
    text = f'{{"type":"session.update","session":{{"type":"realtime","tools":[{tool}]}}}}'
    async with inside({"scripted.replies": "[好。]"}) as served, talking(served.url) as client:
        await client.connection.send(text)
        assert (await client.wait("error"))["error"]["code"] == "invalid_json"
        await answered(client)


# --- sockets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"GET /v1/real", HANDSHAKE[:-2], HANDSHAKE),
        HANDSHAKE + frame("x" * 1000)[:500],
        HANDSHAKE + frame("x" * 100_000)[:70_000],
        HANDSHAKE + frame("x", last=False),
        HANDSHAKE + frame(event("response.create")) * 3,
        HANDSHAKE + b"\x81\x05hello",  # not masked
        HANDSHAKE + frame(b"\xff\xfe"),  # not UTF-8
        HANDSHAKE + frame(b"", 3),  # no such kind of frame
        HANDSHAKE + b"\xff\xff" + b"\xff" * 8,
    ],
    ids=range(12),
)
async def test_a_peer_that_is_gone_in_the_middle(data: bytes):
    async with inside({"scripted.replies": "[好。]"}) as served:
        host, port = served.address.split(":")
        for _ in range(5):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(data)
            await writer.drain()
            writer.transport.abort()
        async with talking(served.url) as client:
            await answered(client)
        await served.empty()


#: what costs the daemon most for the least that is sent
FLOODS = {
    "empty frames": frame("") * 2000,
    "pings": frame("x", PING) * 2000,
    "fragments": frame("x", TEXT, last=False)
    + frame("x", CONTINUATION, last=False) * 2000
    + frame("", CONTINUATION),
    "appends": frame(event("input_audio_buffer.append", audio="AAA=")) * 1000,
    "items": frame(event("conversation.item.create", item=message("x"))) * 1000,
    "responses": (frame(event("response.create")) + frame(event("response.cancel"))) * 500,
    "binary": frame(bytes(1000), BINARY) * 200,
}


@pytest.mark.alone
async def test_a_flood_costs_nobody_else(record_property):
    sets = {"scripted.replies": f"[{LONG * 4}]"}
    async with serving(sets=sets) as daemon, talking(daemon.url) as client:
        await client.speak()
        await client.playing(300)
        [audio] = client.audio.values()
        for name, data in FLOODS.items():
            reader, writer = await by_hand(daemon.port)
            drained = asyncio.create_task(_drain(reader))
            started, before = asyncio.get_running_loop().time(), len(audio.frames)
            while asyncio.get_running_loop().time() < started + 0.7:
                writer.write(data)
                try:
                    async with asyncio.timeout(0.7):
                        await writer.drain()
                except TimeoutError:
                    break  # it reads more slowly than this
            writer.transport.abort()
            await drained
            await client.until(lambda before=before: len(audio.frames) > before, "more of it")
            record_property(name, audio.gap_ms())
            assert audio.gap_ms() <= GAP_MS, name


async def _drain(reader: asyncio.StreamReader) -> None:
    try:
        while await reader.read(1 << 20):
            pass
    except ConnectionError:
        pass


async def test_pings_of_a_client_that_reads_nothing_do_not_fill_the_memory(daemon: DaemonProcess):
    async with unharmed(daemon):
        reader, writer = await by_hand(daemon.port)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        memory = daemon.process.memory_info().rss
        pings = frame("x" * 125, PING) * 8000
        for _ in range(20):
            writer.write(pings)
            async with asyncio.timeout(PATIENCE_S):
                await writer.drain()
        assert daemon.process.memory_info().rss < memory + (8 << 20)
        writer.transport.abort()


@pytest.mark.alone
async def test_one_shots_by_the_hundred_beside_a_conversation(record_property):
    body = json.dumps({"input": LONG * 4, "voice": "alloy", "response_format": "pcm"}).encode()
    head = "POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    request = f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    async def ask(number: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
        # every third leaves: in the middle of its request, or of its answer
        writer.write(request[:-10] if number % 6 == 0 else request)
        status = b"left"
        if number % 6:
            async with asyncio.timeout(PATIENCE_S):
                status = (await reader.readline()).split()[1]
        if number % 3:
            await _drain(reader)
        writer.transport.abort()
        return status

    sets = {"scripted.replies": f"[{LONG * 3}]"}
    async with serving(sets=sets) as daemon, talking(daemon.url) as client:
        await client.speak()
        await client.playing(300)
        statuses = await asyncio.gather(*(ask(number) for number in range(100)))
        assert set(statuses) <= {b"200", b"429", b"left"}
        assert b"200" in statuses
        await client.playing(2000)
        [audio] = client.audio.values()
        record_property("gap_ms", audio.gap_ms())
        assert audio.gap_ms() <= GAP_MS
        assert (await ask(1)) == b"200"
        check_log(daemon)

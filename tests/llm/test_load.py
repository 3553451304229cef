"""Invariants: a request counts from its beginning to its end, however that comes."""

from __future__ import annotations

from services.llm.load import ServerLoad
from tests.llm.raw_server import RawServer, silent_after, text
from tests.llm.reading import stream_of


def test_a_server_with_a_slot_for_each_is_never_full() -> None:
    load = ServerLoad()
    with load.request(), load.request():
        assert not load.full


def test_a_server_is_full_while_all_its_slots_are_taken() -> None:
    load = ServerLoad(2)
    with load.request():
        assert not load.full
        with load.request():
            assert load.full
        assert not load.full


async def test_an_answer_counts_while_it_is_read() -> None:
    server, load = RawServer(lambda: silent_after(*text("好"))), ServerLoad(1)
    stream = stream_of(server, load=load)
    assert not load.full
    assert (await anext(aiter(stream))).text == "好"
    assert load.full
    await stream.close()
    assert not load.full
    await server.client.close()

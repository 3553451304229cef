"""Invariants: what follows a function that the daemon runs itself is a response like the one that
called it: of the same request, with the same options.
"""

from __future__ import annotations

from services.realtime.requests import Requests
from services.realtime.schema_response import ResponseOptions
from tests.realtime.test_openai_daemon import WEATHER, talking

REPLIES = '["@call get_time {}@then 现在{tool}。"]'


async def test_what_follows_is_as_the_request_wanted_it() -> None:
    async with talking(replies=REPLIES) as talker:
        await talker.write("几点了？")
        await talker.connection.response.create(
            response={"output_modalities": ["text"], "metadata": {"topic": "clock"}}
        )
        first, second = [await talker.done() for _ in range(2)]
        for response in (first, second):
            assert response.status == "completed"
            assert response.output_modalities == ["text"]
            assert response.metadata == {"topic": "clock"}
        assert first.output == []
        [item] = second.output
        assert "UTC" in item.content[0].text
        assert talker.audio() == b""
        # The next one is no part of it.
        await talker.write("几点了？")
        await talker.connection.response.create()
        for _ in range(2):
            response = await talker.done()
            assert response.metadata is None
            assert response.output_modalities == ["audio"]
        assert talker.audio()


async def test_a_function_that_must_be_called_is_the_clients() -> None:
    replies = '["@call get_time {}@call weather {}@then 好。"]'
    async with talking(replies=replies) as talker:
        await talker.update(tools=[WEATHER], tool_choice="required")
        await talker.write("天气？")
        await talker.connection.response.create()
        response = await talker.done()
        assert [each.name for each in response.output] == ["weather"]


def test_a_request_that_has_begun_begins_again_until_another_one_does() -> None:
    requests = Requests()
    first, aside, second = (
        requests.new(ResponseOptions(conversation=conversation), untold=0)
        for conversation in ("auto", "none", "auto")
    )
    for request in (first, aside):
        requests.asked(request)
    assert requests.begin(first.ask) is first
    assert requests.begin(aside.ask) is aside
    assert requests.begin(aside.ask) is None
    assert requests.begin(first.ask) is first
    assert requests.begin(None) is None
    assert not requests
    requests.asked(second)
    assert requests.begin(second.ask) is second
    assert requests.begin(first.ask) is None
    assert requests.take(second.ask) is None

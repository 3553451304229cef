"""Invariant: what cannot be transcribed, or not now, is refused in OpenAI's words, costs nothing,
and the next request is answered.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import openai
import pytest

from services.scripted.asr import ScriptedAsr
from tests.audio_api.conftest import http, openai_client
from tests.audio_api.hearing import ValveAsr
from tests.audio_api.recordings import container, silent, sound, spoken
from tests.audio_api.test_transcriptions import ONE, PATH, counted, daemon, form, talk
from tests.daemon.inside import inside, settled


async def refused(client: httpx.AsyncClient, **request: Any) -> tuple[int, dict[str, Any]]:
    reply = await client.post(PATH, **request)
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return reply.status_code, error


@pytest.mark.parametrize(
    "data, why",
    [
        (b"", "is empty"),
        (b"This is a text.\n" * 1000, "cannot be read as audio"),
        (ONE[:44], "no audio in the file"),
        (container(None, form="mp4", video=True), "no track of sound"),
    ],
    ids=["empty", "a text", "a header", "a video without sound"],
)
async def test_what_is_no_recording(data: bytes, why: str):
    async with daemon() as (served, api):
        with pytest.raises(openai.BadRequestError, match=why) as caught:
            await api.audio.transcriptions.create(model="m", file=("a.wav", data))
        assert (caught.value.code, caught.value.param) == ("bad_audio", "file")
        await counted(served, "refused")
        assert served.count("errors_total", code="bad_audio") == 1
        heard = await api.audio.transcriptions.create(model="m", file=("a.wav", ONE))
        assert heard.text == "今天天气怎么样？"


async def test_half_a_recording_is_heard_as_far_as_it_goes():
    data = sound(
        spoken(gaps=(6.0,), rate=44_100), form="MP3", subtype="MPEG_LAYER_III", rate=44_100
    )
    async with daemon() as (_, api):
        heard: Any = await api.audio.transcriptions.create(
            model="m", file=("a.mp3", data[: len(data) // 2]), response_format="verbose_json"
        )
    assert heard.text == "今天天气怎么样？"
    assert 2 < heard.duration < 7


async def test_more_audio_than_is_taken():
    async with daemon({"transcription.max_audio_s": 60}) as (_, api):
        with pytest.raises(openai.BadRequestError, match="more than 60 s") as caught:
            await api.audio.transcriptions.create(model="m", file=("a.flac", silent(100)))
    assert (caught.value.code, caught.value.param) == ("audio_too_long", "file")


@pytest.mark.parametrize(
    "fields, param, code",
    [
        ({"language": "fr"}, "language", "invalid_value"),
        ({"languages[]": "xx"}, "languages", "invalid_value"),
        ({"language": "x" * 40}, "language", "invalid_value"),
        ({"response_format": "diarized_json"}, "response_format", "invalid_value"),
        ({"response_format": "srt", "stream": "true"}, "response_format", "invalid_value"),
        ({"temperature": "hot"}, "temperature", "invalid_type"),
        ({"temperature": "1.5"}, "temperature", "invalid_value"),
        ({"stream": "maybe"}, "stream", "invalid_type"),
        ({"timestamp_granularities[]": "letter"}, "timestamp_granularities", "invalid_value"),
        ({"chunking_strategy": "none"}, "chunking_strategy", "invalid_value"),
        ({"include[]": "logprobs"}, "include[]", "unknown_parameter"),
        ({"prompt": "x" * 9000}, "prompt", "invalid_value"),
    ],
)
async def test_fields_that_are_wrong(fields: dict[str, str], param: str, code: str):
    async with daemon() as (served, _), http(served) as client:
        status, error = await refused(client, **form(**fields))
        assert (status, error["param"], error["code"]) == (400, param, code)


async def test_a_form_that_is_none():
    async with daemon() as (served, _), http(served) as client:
        status, error = await refused(client, json={"model": "m"})
        assert (status, error["code"]) == (415, "unsupported_media_type")
        status, error = await refused(client, files={"model": (None, "m")})
        assert (status, error["param"]) == (400, "file")
        assert error["code"] == "missing_required_parameter"
        status, error = await refused(client, files={"file": (None, "a.wav")})
        assert (status, error["param"], error["code"]) == (400, "file", "invalid_type")
        twice = [("model", (None, "m")), ("model", (None, "m")), ("file", ("a", ONE))]
        status, error = await refused(client, files=twice)
        assert (status, error["code"]) == (400, "invalid_form")
        status, error = await refused(
            client, content=b"x", headers={"Content-Type": "multipart/form-data; boundary=b"}
        )
        assert (status, error["code"]) == (400, "invalid_form")


async def test_a_recording_that_is_too_large():
    async with daemon({"transcription.max_upload_mb": 0.5}) as (served, api):
        for size in (700_000, 30_000_000):
            with pytest.raises(openai.APIStatusError) as caught:
                await api.audio.transcriptions.create(model="m", file=("a", bytes(size)))
            assert (caught.value.status_code, caught.value.code) == (413, "body_too_large")
            assert "transcription.max_upload_mb" in caught.value.message

        async def chunks() -> Any:
            for _ in range(100):
                yield bytes(20_000)

        async with http(served) as client:
            head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'

            async def body() -> Any:
                yield head
                async for chunk in chunks():
                    yield chunk

            status, error = await refused(
                client,
                content=body(),
                headers={"Content-Type": "multipart/form-data; boundary=b"},
            )
            assert (status, error["code"]) == (413, "body_too_large")
        heard = await api.audio.transcriptions.create(model="m", file=("a.wav", ONE))
        assert heard.text == "今天天气怎么样？"


async def test_who_asks_first_is_told_without_sending():
    async with daemon({"transcription.max_upload_mb": 0.01}) as (served, _):
        host, port = served.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
            "Content-Type: multipart/form-data; boundary=b\r\n"
            "Content-Length: 10000000\r\n\r\n".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 413 ")
        writer.close()


async def test_more_than_the_limit_are_asked_to_come_back():
    asr = ValveAsr()
    one = {"transcription.parallel": 1}
    async with daemon(one, asr=asr) as (served, api), http(served) as client:
        first = asyncio.create_task(client.post(PATH, **form()))
        await settled(lambda: len(asr.asked) == 1, "nothing was asked for")
        # three that are received meanwhile wait: whoever uploads slowly takes nobody's turn
        others = [asyncio.create_task(client.post(PATH, **form())) for _ in range(3)]
        await asyncio.sleep(0.3)
        assert len(asr.asked) == 1
        with pytest.raises(openai.RateLimitError) as caught:
            await api.audio.transcriptions.create(model="m", file=("a", bytes(5_000_000)))
        assert caught.value.code == "at_capacity"
        assert "transcription.parallel" in caught.value.message
        asr.give("first")
        assert (await first).json()["text"] == "first"
        for number in range(2, 5):  # in the order in which they were received
            await settled(lambda: len(asr.asked) == number, "the next was not asked for")  # noqa: B023
            asr.give("next")
        assert [(await other).json()["text"] for other in others] == ["next"] * 3


async def test_a_body_that_comes_drop_by_drop_is_given_up(monkeypatch: pytest.MonkeyPatch):
    from services.audio_api import upload

    monkeypatch.setattr(upload, "PIECE_S", 0.2)
    async with daemon() as (served, _):
        reader, writer = await talk(served, ONE, length=10_000_000)

        async def drip() -> None:
            while True:
                writer.write(b"x")
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 ")
        dripping.cancel()
        await asyncio.gather(dripping, return_exceptions=True)
        writer.close()


async def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    from services.audio_api import upload

    for piece_s, body_s in ((0.1, 20.0), (20.0, 0.1)):
        monkeypatch.setattr(upload, "PIECE_S", piece_s)
        monkeypatch.setattr(upload, "BODY_S", body_s)
        async with daemon() as (served, _):
            reader, writer = await talk(served, ONE, length=10_000_000)
            if piece_s > 1:
                monkeypatch.setattr(upload, "PIECE_S", 0.1)  # of what is received for nothing
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 408 ")
            writer.close()


async def test_a_client_that_is_refused_and_sends_no_more_is_told(
    monkeypatch: pytest.MonkeyPatch,
):
    from services.audio_api import upload

    monkeypatch.setattr(upload, "PIECE_S", 0.1)
    async with daemon({"transcription.max_upload_mb": 0.01}) as (served, _):
        reader, writer = await talk(served, bytes(100_000), length=10_000_000)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 413 ")
        writer.close()


async def test_a_client_that_leaves_while_it_is_refused_is_forgotten():
    async with daemon({"transcription.max_upload_mb": 0.01}) as (served, _):
        _, writer = await talk(served, bytes(100_000), length=10_000_000)
        writer.close()
        await counted(served, "gone")


async def test_a_daemon_that_warms_up_asks_to_come_back():
    never = asyncio.Event()

    class Slow(ScriptedAsr):
        async def start(self) -> None:
            await never.wait()

    async with inside(asr=Slow(), ready=False) as served, openai_client(served) as api:
        with pytest.raises(openai.InternalServerError) as caught:
            await api.audio.transcriptions.create(model="m", file=("a.wav", ONE))
        never.set()
    assert (caught.value.status_code, caught.value.code) == (503, "not_ready")


async def test_a_key_is_asked_for_as_everywhere(tmp_path: Any):
    sets = {"server.require_key": True, "server.keys_file": str(tmp_path / "keys.json")}
    async with inside(sets) as served, openai_client(served) as api:
        with pytest.raises(openai.AuthenticationError):
            await api.audio.transcriptions.create(model="m", file=("a.wav", ONE))


def test_it_is_counted_before_it_happens():
    """See the tests of /metrics: a rate has to see the first one."""
    from pipeline.service_metrics import ServiceMetrics
    from pipeline.transcription_metrics import TranscriptionMetrics

    metrics = ServiceMetrics()
    TranscriptionMetrics(metrics)
    assert b'duplexd_transcription_requests_total{outcome="gone"} 0.0' in metrics.page()

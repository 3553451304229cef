"""Invariants: a voice is there from its registration to its removal, its recording comes only from
where the service is allowed to take it, and a voice for one request is gone with it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from pipeline.service_metrics import ServiceMetrics
from tests.daemon.inside import settled
from tests.tts_service.served import (
    RATE,
    TEXT,
    CloningVoice,
    error_of,
    recording,
    seconds_of,
    served,
)
from tts_engine.errors import EngineFailed
from tts_engine.service import references
from tts_engine.service.desk import SpeechDesk
from tts_engine.service.voices import VoiceDesk
from tts_engine.text.stream import segment

FORM = {"name": "小明", "text": "你好，我是小明。", "consent": "小明, 2026-01-02"}


async def test_a_voice_is_registered_listed_spoken_and_removed():
    voice = CloningVoice()
    async with served(voice) as at, at.http() as client:
        audio = recording()
        made = await client.post("/register-voice", data=FORM, files={"audio": ("a.wav", audio)})
        assert made.status_code == 201
        assert made.json()["id"] == "小明"
        assert voice.heard == [audio]
        listed = (await client.get("/list-voice")).json()
        assert listed["cloning"] is True
        first, _, mine = listed["voices"]
        assert first == {"id": "one", "default": True, "registered": False}
        assert mine == {
            "id": "小明",
            "default": False,
            "registered": True,
            "text": FORM["text"],
            "language": "zh",
            "created": "2026-01-02T03:04:05Z",
            "consent": FORM["consent"],
            "duration_s": pytest.approx(3.0, abs=0.2),
        }
        assert (await client.post("/tts", json={"text": TEXT, "voice": "小明"})).status_code == 200
        assert set(voice.used) == {"小明"}
        gone = await client.delete("/voices/小明")
        assert gone.json() == {"id": "小明", "deleted": True}
        again = await client.delete("/voices/小明")
        assert error_of(again) == (404, "unknown_voice", "voice")
        unknown = await client.post("/tts", json={"text": TEXT, "voice": "小明"})
        assert error_of(unknown) == (400, "unknown_voice", "voice")


@pytest.mark.parametrize(
    "change, status, code, param",
    [
        ({"name": "../up"}, 400, "invalid_value", "name"),
        ({"name": ""}, 400, "invalid_value", "name"),
        ({"name": "x" * 65}, 400, "invalid_value", "name"),
        ({"name": "once-more"}, 400, "invalid_value", "name"),
        ({"name": "one"}, 409, "voice_exists", "name"),
        ({"text": ""}, 400, "invalid_value", "text"),
        ({"more": "x"}, 400, "unknown_parameter", "more"),
        ({"file": "a.wav"}, 400, "missing_required_parameter", "audio"),
    ],
)
async def test_what_cannot_be_registered_is_refused(
    change: dict[str, str], status: int, code: str, param: str
):
    voice = CloningVoice()
    async with served(voice) as at:
        async with at.http() as client:
            files = {"audio": ("a.wav", recording())}
            reply = await client.post("/register-voice", data={**FORM, **change}, files=files)
        assert error_of(reply) == (status, code, param)
        assert not voice.cloned
        await at.works()


async def test_a_form_without_a_recording_or_with_another_file_is_refused():
    async with served(CloningVoice()) as at, at.http() as client:
        nothing = await client.post("/register-voice", json=FORM)
        other = await client.post("/register-voice", data=FORM, files={"wav": ("a.wav", b"x")})
        wrong = await client.post("/register-voice", content=b"x")
    assert error_of(nothing) == (400, "missing_required_parameter", "audio")
    assert error_of(other) == (400, "invalid_form", None)
    assert error_of(wrong) == (415, "unsupported_media_type", None)


async def test_a_text_whose_voice_is_deleted_breaks_off_behind_its_clause():
    voice = CloningVoice("mine")
    pause = voice.pause = asyncio.Event()
    async with served(voice) as at, at.http() as client:
        asked = {"text": TEXT, "voice": "mine", "format": "pcm"}
        audio: list[bytes] = []

        async def listen(reply: httpx.Response) -> None:
            async for piece in reply.aiter_bytes():
                audio.append(piece)
                if len(audio) == 1:
                    await client.delete("/voices/mine")
                    pause.set()

        async with client.stream("POST", "/tts", json=asked) as reply:
            with pytest.raises(httpx.RemoteProtocolError):
                await listen(reply)
        first = next(iter(segment(TEXT))).text
        assert len(b"".join(audio)) / 2 / RATE == seconds_of(first)
        assert voice.used == ["mine", "mine"]
        assert at.count("errors_total", code="unknown_voice") == 1
        assert error_of(await client.post("/tts", json=asked)) == (400, "unknown_voice", "voice")
        await at.works()


async def test_a_whole_text_whose_voice_is_deleted_is_an_error():
    voice = CloningVoice("mine")
    voice.pause = asyncio.Event()
    async with served(voice) as at, at.http() as client:
        asked = {"text": TEXT, "voice": "mine", "streaming": False}
        request = asyncio.create_task(client.post("/tts", json=asked))
        await settled(lambda: voice.used == ["mine"], "nobody speaks")
        assert (await client.delete("/voices/mine")).status_code == 200
        voice.pause.set()
        assert error_of(await request) == (400, "unknown_voice", "voice")


@pytest.mark.parametrize("audio", ["", "a.wav"])
async def test_a_text_in_place_of_a_file_is_told(audio: str):
    async with served(CloningVoice()) as at, at.http() as client:
        said = {"text": TEXT, "reference_text": "你好"}
        for path, name, fields in (("/register-voice", "audio", FORM), ("/tts", "reference", said)):
            given = {**fields, name: audio}
            form = {key: (None, value) for key, value in given.items()}
            for reply in (await client.post(path, files=form), await client.post(path, json=given)):
                assert error_of(reply) == (400, "invalid_type", name)
                message = reply.json()["error"]["message"]
                assert message.startswith(f"'{name}' is a text here, not a file. Send a form")
                assert f"-F {name}=@" in message


async def test_a_name_is_given_once_also_while_its_voice_is_being_made():
    voice = CloningVoice()
    voice.hold = asyncio.Event()
    async with served(voice) as at, at.http() as client:
        files = {"audio": ("a.wav", recording())}
        first = asyncio.create_task(client.post("/register-voice", data=FORM, files=files))
        second = asyncio.create_task(client.post("/register-voice", data=FORM, files=files))
        done, _ = await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
        voice.hold.set()
        replies = await asyncio.gather(first, second)
    assert len(done) == 1
    assert sorted(reply.status_code for reply in replies) == [201, 409]


async def test_more_recordings_at_a_time_than_there_is_room_for_are_asked_to_come_back():
    voice = CloningVoice()
    voice.hold = asyncio.Event()
    async with served(voice) as at, at.http() as client:
        tasks = [
            asyncio.create_task(
                client.post(
                    "/register-voice",
                    data={**FORM, "name": f"n{number}"},
                    files={"audio": ("a.wav", recording())},
                )
            )
            for number in range(5)
        ]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        voice.hold.set()
        replies = await asyncio.gather(*tasks)
    assert [error_of(task.result())[:2] for task in done] == [(429, "at_capacity")]
    assert sorted(reply.status_code for reply in replies) == [201] * 4 + [429]


async def test_an_engine_that_cannot_clone_says_so():
    async with served() as at:
        async with at.http() as client:
            files = {"audio": ("a.wav", recording())}
            made = await client.post("/register-voice", data=FORM, files=files)
            once = await client.post(
                "/tts",
                data={"text": TEXT, "reference_text": "你好"},
                files={"reference": ("a.wav", recording())},
            )
            removed = await client.delete("/voices/one")
            listed = (await client.get("/list-voice")).json()
        assert error_of(made) == (501, "cannot_clone", None)
        assert "scripted cannot clone" in made.json()["error"]["message"]
        assert error_of(once) == (501, "cannot_clone", None)
        assert error_of(removed) == (403, "voice_is_built_in", "voice")
        assert listed["cloning"] is False
        assert [each["id"] for each in listed["voices"]] == ["one", "two"]
        await at.works()


async def test_the_voices_of_a_cloning_engine_itself_stay():
    async with served(CloningVoice()) as at, at.http() as client:
        assert error_of(await client.delete("/voices/one")) == (403, "voice_is_built_in", "voice")


async def test_an_engine_without_any_voice_waits_for_its_first():
    class Empty(CloningVoice):
        @property
        def voices(self) -> tuple[str, ...]:
            return tuple(self.cloned)

    async with served(Empty()) as at, at.http() as client:
        for path, asked in (
            ("/tts", {"text": TEXT}),
            ("/v1/audio/speech", {"input": TEXT, "voice": "alloy"}),
        ):
            assert error_of(await client.post(path, json=asked)) == (400, "unknown_voice", "voice")
        assert (await client.get("/list-voice")).json()["voices"] == []
        files = {"audio": ("a.wav", recording())}
        assert (await client.post("/register-voice", data=FORM, files=files)).status_code == 201
        await at.works()


# --- from the folder ----------------------------------------------------------------------------


async def test_a_file_of_the_folder_is_taken_and_none_beside_it(tmp_path: Path):
    folder = tmp_path / "references"
    folder.mkdir()
    (folder / "me.flac").write_bytes(recording(form="FLAC"))
    (folder / "large.wav").write_bytes(bytes(2 * 1024 * 1024))
    (tmp_path / "secret.wav").write_bytes(recording())
    (folder / "link.wav").symlink_to(tmp_path / "secret.wav")
    (folder / "inner").mkdir()
    sets = {"speech.reference_dir": json.dumps(str(folder)), "speech.max_upload_mb": 1.0}
    voice = CloningVoice()
    async with served(voice, sets) as at, at.http() as client:

        async def take(file: str) -> Any:
            asked = {"name": "me", "text": "Hello", "language": "en", "file": file}
            return await client.post("/register-voice", json=asked)

        for file in ("../secret.wav", "link.wav", "inner", "none.wav", ".", "a\0b", "/etc/passwd"):
            assert error_of(await take(file)) == (404, "no_such_file", "file")
        assert error_of(await take("large.wav")) == (413, "body_too_large", None)
        assert (await take("me.flac")).status_code == 201
    assert list(voice.cloned) == ["me"]
    assert voice.cloned["me"].language == "en"


async def test_without_a_folder_there_are_no_files():
    async with served(CloningVoice()) as at, at.http() as client:
        asked = {"name": "me", "text": "你好", "file": "me.wav"}
        reply = await client.post("/register-voice", json=asked)
    assert error_of(reply) == (403, "no_reference_dir", "file")


# --- for one request ----------------------------------------------------------------------------


async def test_a_recording_may_come_with_the_text_and_its_voice_is_gone_afterwards():
    voice = CloningVoice()
    async with served(voice) as at, at.http() as client:
        audio = recording()
        reply = await client.post(
            "/tts",
            data={"text": TEXT, "reference_text": "你好", "format": "pcm"},
            files={"reference": ("a.wav", audio)},
        )
        assert reply.status_code == 200
        assert voice.heard == [audio]
        [used] = set(voice.used)
        assert used is not None
        assert used.startswith("once-")
        await settled(lambda: not voice.cloned, "the voice is still there")
        await at.works()


async def test_the_voice_for_one_request_is_nobody_elses():
    voice = CloningVoice("once-0123", rate=1.0)
    voice.hold = asyncio.Event()
    async with served(CloningVoice("once-left", "mine")) as at, at.http() as client:
        # what the end of another process had left was forgotten at the start
        listed = (await client.get("/list-voice")).json()["voices"]
        assert [each["id"] for each in listed] == ["one", "two", "mine"]
        assert list(at.service.voice.cloned) == ["mine"]  # type: ignore[attr-defined]
    async with served(voice, ready=False) as at:
        await at.ready.wait()
        voice.cloned["once-0123"] = CloningVoice("x").cloned["x"]
        async with at.http() as client:
            reply = await client.post("/tts", json={"text": TEXT, "voice": "once-0123"})
            assert error_of(reply) == (400, "unknown_voice", "voice")


async def test_a_client_that_leaves_takes_its_voice_along():
    voice = CloningVoice(rate=1.0)
    async with served(voice) as at, at.http() as client:
        request = client.build_request(
            "POST",
            "/tts",
            data={"text": TEXT, "reference_text": "你好", "format": "pcm"},
            files={"reference": ("a.wav", recording())},
        )
        reply = await client.send(request, stream=True)
        assert len(voice.cloned) == 1
        await reply.aclose()
        await settled(lambda: not voice.cloned, "the voice is still there")
        await settled(lambda: at.count("speech_requests_total", outcome="gone") == 1, "lost")


async def test_a_client_that_leaves_while_its_voice_is_made_takes_it_along():
    voice = CloningVoice(rate=1.0)
    voice.hold = asyncio.Event()
    async with served(voice) as at, at.http() as client:
        post = client.post(
            "/tts",
            data={"text": TEXT, "reference_text": "你好"},
            files={"reference": ("a.wav", recording())},
        )
        request = asyncio.create_task(post)
        await settled(lambda: voice.asked == 1, "no voice was asked for")
        request.cancel()
        await settled(
            lambda: any(
                task.get_name() == "speech stream" and task.cancelling()
                for task in asyncio.all_tasks()
            ),
            "nobody has noticed",
        )
        voice.hold.set()
        await settled(lambda: at.count("speech_requests_total", outcome="gone") == 1, "lost")
        assert len(voice.heard) == 1  # it was made
        assert not voice.cloned
        assert not voice.used


async def test_a_server_that_ends_does_not_wait_for_a_voice_that_is_being_made():
    voice = CloningVoice()
    voice.hold = asyncio.Event()
    desk = SpeechDesk(
        engine=voice, accounts=ServiceMetrics(), ready=lambda: True, voices=lambda: voice.voices
    )

    async def given() -> bytes:
        return recording()

    async def speak() -> None:
        async with VoiceDesk(desk=desk, about="a voice").once(given, "你好"):
            raise AssertionError("there is no voice")

    request = asyncio.create_task(speak())
    await settled(lambda: voice.asked == 1, "no voice was asked for")
    for _ in range(2):  # the client leaves, and the server ends
        request.cancel()
        await asyncio.wait({request}, timeout=0.01)
    with pytest.raises(asyncio.CancelledError):
        await request
    await settled(lambda: len(asyncio.all_tasks()) == 1, "somebody still makes it")
    assert not voice.heard


async def test_a_voice_that_cannot_be_removed_is_no_failure_of_the_request():
    class Sticky(CloningVoice):
        async def remove(self, name: str) -> None:
            raise EngineFailed("The worker died")

    async with served(Sticky()) as at, at.http() as client:
        reply = await client.post(
            "/tts",
            data={"text": TEXT, "reference_text": "你好"},
            files={"reference": ("a.wav", recording())},
        )
        assert reply.status_code == 200
        await settled(lambda: at.count("speech_requests_total", outcome="done") == 1, "failed")


@pytest.mark.parametrize(
    "fields, files, code, param",
    [
        ({"voice": "one", "reference_text": "你好"}, True, "invalid_value", "voice"),
        ({}, True, "missing_required_parameter", "reference_text"),
        ({"reference_url": "http://a/b", "reference_text": "x"}, True, "invalid_value", "voice"),
    ],
)
async def test_contradictions_are_refused(
    fields: dict[str, str], files: bool, code: str, param: str
):
    async with served(CloningVoice()) as at, at.http() as client:
        given = {"reference": ("a.wav", recording())} if files else {}
        reply = await client.post("/tts", data={"text": TEXT, **fields}, files=given)
    assert error_of(reply) == (400, code, param)


# --- from an address ----------------------------------------------------------------------------


@asynccontextmanager
async def hosting(answers: dict[str, bytes]) -> AsyncIterator[str]:
    """A web server with these answers; gives its host:port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            writer.write(answers[head.split(" ")[1]])
            await writer.drain()
            if head.split(" ")[1] == "/slow":
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


def ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body


async def test_recordings_come_from_hosts_that_are_allowed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(references, "FETCH_TIMEOUT_S", 3.0)
    voice = CloningVoice()
    moved = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    audio = recording()
    answers = {
        "/me.wav": ok(audio),
        "/moved": moved,
        "/large": ok(bytes(2 * 1024 * 1024)),
        "/broken": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx",
        "/slow": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx",
        "/text": ok(b"hello"),
    }
    async with hosting(answers) as host:
        sets = {"speech.reference_hosts": f'["{host}"]', "speech.max_upload_mb": 1.0}
        async with served(voice, sets) as at, at.http() as client:

            async def say(url: str) -> Any:
                asked = {"text": TEXT, "reference_url": url, "reference_text": "你好"}
                return await client.post("/tts", json=asked)

            assert (await say(f"http://{host}/me.wav")).status_code == 200
            assert voice.heard == [audio]
            for path, refusal in {
                "/moved": (400, "reference_unavailable", "reference_url"),
                "/broken": (400, "reference_unavailable", "reference_url"),
                "/large": (413, "body_too_large", None),
                "/slow": (400, "timed_out", "reference_url"),
                "/text": (400, "bad_audio", None),
            }.items():
                assert error_of(await say(f"http://{host}{path}")) == refusal
            for url in (
                "http://127.0.0.1:1/x",
                f"http://localhost:{host.split(':')[1]}/me.wav",
                f"ftp://{host}/me.wav",
                "file:///etc/passwd",
                "http://[::1",
                "http://127.0.0.1:99999/",
                "me.wav",
            ):
                assert error_of(await say(url)) == (403, "host_not_allowed", "reference_url")
            await at.works()

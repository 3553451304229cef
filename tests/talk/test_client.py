"""What the client reports is what the written file holds, measured by somebody else's code.

Parts sum to v2v; an interruption cuts what is heard; every way to fail ends in a clear message.
"""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from pipeline.talk import client as module
from pipeline.talk.client import TalkClient
from pipeline.talk.stereo import RATE
from pipeline.talk.turn import measure
from services.scripted.speech import synthetic_speech
from services.scripted.tts import ScriptedVoice
from tests.talk.served import Peer, daemon, peer, scripted_config
from tts_engine.errors import AtCapacity, EngineFailed, TimedOut

SHORT = "scripted.replies=[好的。]"


def speech(seconds: float = 0.8, **more: Any) -> NDArray[np.int16]:
    return synthetic_speech(seconds=seconds, rate=RATE, **more)


# --- the file, analysed without any code of ours ---------------------------------------------


def sounds(channel: NDArray[np.float64], rate: int) -> list[tuple[float, float]]:
    """Start and end, in seconds, of every stretch of at least three 10 ms frames over -45 dBFS."""
    size = rate // 100
    stretches: list[tuple[float, float]] = []
    run = 0
    for index in range(len(channel) // size + 1):
        frame = channel[index * size : (index + 1) * size]
        rms = float(np.sqrt(np.mean(np.square(frame)))) if len(frame) == size else 0.0
        if rms > 0 and 20 * np.log10(rms) > -45:
            run += 1
            continue
        if run >= 3:
            stretches.append(((index - run) / 100, index / 100))
        run = 0
    return stretches


def joined(stretches: list[tuple[float, float]], gap: float = 0.45) -> list[tuple[float, float]]:
    """Stretches with less than `gap` seconds between them are one."""
    result: list[tuple[float, float]] = []
    for start, end in stretches:
        if result and start - result[-1][1] < gap:
            result[-1] = (result[-1][0], end)
        else:
            result.append((start, end))
    return result


def heard_in(path: Path) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """What was said (left) and what was heard (right), in seconds."""
    both, rate = soundfile.read(path, always_2d=True)
    assert both.shape[1] == 2
    return joined(sounds(both[:, 0], rate)), joined(sounds(both[:, 1], rate))


def v2v_in(path: Path) -> list[float]:
    """Milliseconds from the end of the voice to the answer, for every answer in the file."""
    said, heard = heard_in(path)
    return [(start - max(end for _, end in said if end <= start)) * 1000 for start, _ in heard]


def check_parts(turn: dict[str, Any]) -> None:
    assert sum(turn["parts_ms"].values()) == pytest.approx(turn["v2v_ms"], abs=1)
    stamps = list(turn["stamps_s"].values())
    assert turn["v2v_ms"] == pytest.approx((stamps[-1] - stamps[0]) * 1000, abs=1)
    assert all(ms >= 0 for ms in turn["parts_ms"].values())


# --- conversations ---------------------------------------------------------------------------


@pytest.mark.parametrize("silence_s", [0.0, 0.25])
async def test_v2v_is_what_the_file_holds(silence_s: float, tmp_path: Path) -> None:
    voice = ScriptedVoice(first_chunk_s=0.15, leading_silence_s=silence_s)
    said = [speech(), speech(1.0, tail_s=0.12), speech(0.6, lead_s=0.2)]
    async with daemon(scripted_config(SHORT), voice=voice) as address:
        client = TalkClient(f"ws://{address}/v1/realtime")
        turns = await client.talk(said)
    client.recording.write(tmp_path / "talk.wav")
    assert [turn["status"] for turn in turns] == ["completed"] * 3
    assert [turn["utterance"] for turn in turns] == [0, 1, 2]
    assert [turn["answer"] for turn in turns] == ["好的。"] * 3
    measured = v2v_in(tmp_path / "talk.wav")
    assert [turn["v2v_ms"] for turn in turns] == pytest.approx(measured, abs=20)
    for turn in turns:
        check_parts(turn)
        # nothing can be faster than the engines' delays, from the silence on that asks for the text
        assert turn["v2v_ms"] > 128 + 60 + 150 + 150 + silence_s * 1000
        assert turn["parts_ms"]["leading_silence"] == pytest.approx(silence_s * 1000, abs=15)
        # the text is there when the turn ends: recognition lies inside the wait
        assert turn["parts_ms"]["asr_final"] == pytest.approx(0, abs=1)
        assert turn["parts_ms"]["endpoint_wait"] > 60
    # The same talk, with a daemon on another machine: v2v stays, and parts are its own.
    for turn, seen in zip(turns, client.turns, strict=True):
        seen.report["stamps"] = {k: at + 1e6 for k, at in seen.report["stamps"].items()}
        seen.same_clock = False
        apart = measure(seen, client.recording, began=client._began)
        assert apart["v2v_ms"] == turn["v2v_ms"]
        assert apart["v2v_server_ms"] == turn["v2v_server_ms"]
        assert apart["stamps_s"] == {}
        ends = {"frame_in", "frame_out"}
        assert {*apart["parts_ms"]} == {*turn["parts_ms"]} - ends
        for part, ms in apart["parts_ms"].items():
            assert ms == pytest.approx(turn["parts_ms"][part], abs=2)


async def test_an_interruption_cuts_what_is_heard(tmp_path: Path) -> None:
    config = scripted_config("scripted.replies=[我先说一个很长很长的故事给你听吧。, 好的。]")
    said = speech(2.8, pauses=[(0.8, 1.2)])
    events: list[str] = []
    async with daemon(config) as address:
        client = TalkClient(
            f"ws://{address}/v1/realtime", on_event=lambda event: events.append(event["type"])
        )
        first, second = await client.talk([said])
    client.recording.write(tmp_path / "talk.wav")
    assert (first["status"], second["status"]) == ("cancelled", "completed")
    assert (first["utterance"], second["utterance"]) == (0, 0)
    assert second["answer"] == "好的。"
    assert events.count("response.created") == 2
    spoken, heard = heard_in(tmp_path / "talk.wav")
    assert len(heard) == 2
    # the answer fell silent within what the detector and the lead cost
    assert 0 < heard[0][1] - spoken[1][0] < 0.6
    assert first["audio_s"] == pytest.approx(heard[0][1] - heard[0][0], abs=0.03)
    assert [first["v2v_ms"], second["v2v_ms"]] == pytest.approx(
        v2v_in(tmp_path / "talk.wav"), abs=20
    )
    check_parts(first)
    check_parts(second)


# --- failures --------------------------------------------------------------------------------


async def test_a_daemon_that_is_full_says_so() -> None:
    async with daemon(scripted_config(SHORT, "server.max_sessions=1")) as address:
        url = f"ws://{address}/v1/realtime"
        inside = asyncio.Event()
        first = TalkClient(url, on_event=lambda _: inside.set())
        talking = asyncio.create_task(first.talk([speech()]))
        async with asyncio.timeout(10):
            await inside.wait()
        with pytest.raises(AtCapacity, match="refused: All 1 places are taken"):
            await TalkClient(url).talk([speech()])
        [turn] = await talking
    assert turn["status"] == "completed"


async def test_other_refusals_are_told_as_they_are() -> None:
    async def refuse(it: Peer) -> None:
        await it.send("error", error={"code": "invalid_api_key", "message": "no key"})

    async with peer(refuse, welcome=False) as url:
        with pytest.raises(EngineFailed, match="refused: no key"):
            await TalkClient(url).talk([speech()])


async def test_nobody_there(unused_tcp_port: int) -> None:
    with pytest.raises(EngineFailed, match="No daemon can be reached") as caught:
        await TalkClient(f"ws://127.0.0.1:{unused_tcp_port}/v1/realtime").talk([speech()])
    assert "run.py serve" in caught.value.mend


async def test_somebody_else_there() -> None:
    async with daemon(scripted_config(SHORT)) as address:
        with pytest.raises(EngineFailed, match=r"is not a duplexd daemon: .* HTTP 4"):
            await TalkClient(f"ws://{address}/nothing").talk([speech()])


@pytest.mark.parametrize("how", ["dies", "leaves"])
async def test_a_daemon_that_ends_in_the_middle(how: str) -> None:
    async def script(it: Peer) -> None:
        await it.transcript("你好")
        await it.send("response.created", response={"id": "r1"})
        if how == "dies":
            it.socket.transport.abort()
        else:
            await it.socket.close(1011, "out of memory")

    async with peer(script) as url:
        client = TalkClient(url)
        with pytest.raises(EngineFailed, match="ended the conversation in utterance 1") as caught:
            await client.talk([speech()])
    assert ("out of memory" in caught.value.message) == (how == "leaves")
    [turn] = client.measured()
    assert (turn["transcript"], turn["status"], turn["v2v_ms"]) == ("你好", "", None)
    assert client.recording.sent


async def test_an_answer_that_never_ends() -> None:
    async def script(it: Peer) -> None:
        await it.transcript("你好")

    async with peer(script) as url:
        with pytest.raises(TimedOut, match=r"utterance 1 was not over after 0\.2 s"):
            await TalkClient(url).talk([speech(0.1)], turn_timeout_s=0.2)


@pytest.mark.parametrize(
    "message",
    [
        b"\0\1",
        b'{"type":"x"}',
        "{",
        "[" * 100_000,
        "[]",
        "null",
        "{}",
        '{"type":"response.output_audio.delta","response_id":"x","delta":"AAAA"}',
        '{"type":"response.done","response":{"id":"x","status":"completed"}}',
        '{"type":"response.created","response":"x"}',
        '{"type":"error","error":"x"}',
        '{"type":"conversation.item.input_audio_transcription.completed"}',
    ],
    ids=lambda message: str(message)[:70],
)
async def test_what_is_no_daemon_is_called_so(message: str | bytes) -> None:
    async def script(it: Peer) -> None:
        await it.socket.send(message)

    async with peer(script) as url:
        with pytest.raises(EngineFailed, match="is not a duplexd daemon") as caught:
            await TalkClient(url).talk([speech(0.1)])
    assert url in caught.value.message
    assert len(caught.value.message) < 250
    assert "--url" in caught.value.mend


async def test_a_report_that_is_none() -> None:
    async def script(it: Peer) -> None:
        await it.send("response.created", response={"id": "r1"})
        await it.send("duplexd.turn", report=7, response_id="r1")

    async with peer(script) as url:
        with pytest.raises(EngineFailed, match="is not a duplexd daemon"):
            await TalkClient(url).talk([speech(0.1)])


# --- events ----------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_QUIET_S", 0.2)


@pytest.mark.usefixtures("impatient")
async def test_nothing_was_heard() -> None:
    async def script(_: Peer) -> None:
        pass

    async with peer(script) as url:
        assert await TalkClient(url).talk([speech(0.1)]) == []


@pytest.mark.usefixtures("impatient")
async def test_nothing_was_said() -> None:
    async def script(it: Peer) -> None:
        await it.send("input_audio_buffer.speech_started")
        await it.transcript("")

    async with peer(script) as url:
        [turn] = await TalkClient(url).talk([speech(0.1)])
    assert (turn["transcript"], turn["status"], turn["v2v_ms"]) == ("", "", None)


@pytest.mark.usefixtures("impatient")
async def test_a_turn_that_could_not_be_recognised() -> None:
    async def script(it: Peer) -> None:
        await it.send("input_audio_buffer.speech_started")
        kind = "conversation.item.input_audio_transcription.failed"
        await it.send(kind, error={"message": "too slow"})
        await it.send("error", error={"code": "timed_out", "message": "too slow"})

    async with peer(script) as url:
        [turn] = await TalkClient(url).talk([speech(0.1)])
    assert (turn["status"], turn["error"]) == ("failed", "too slow")


@pytest.mark.usefixtures("impatient")
async def test_an_error_outside_of_turns_ends_nothing() -> None:
    async def script(it: Peer) -> None:
        await it.send("error", error={"code": "x"})
        await it.send("duplexd.turn", report={}, response_id=None)

    async with peer(script) as url:
        assert await TalkClient(url).talk([speech(0.1)]) == []


@pytest.mark.usefixtures("impatient")
async def test_an_answer_that_fails_says_why() -> None:
    async def script(it: Peer) -> None:
        await it.transcript("你好")
        await it.send("response.created", response={"id": "r1"})
        await it.send("error", error={"message": "by the way"})
        details = {"error": {"message": "no brain"}}
        failed = {"id": "r1", "status": "failed", "status_details": details}
        await it.send("response.done", response=failed)
        report = {"turn": 1, "v2v_server_ms": None, "work_ms": {}, "underruns": 2}
        clock = {"boot_id": "another machine's"}
        await it.send("duplexd.turn", report=report, clock=clock, response_id="r1")

    async with peer(script) as url:
        client = TalkClient(url)
        [turn] = await client.talk([speech(0.1)])
    assert (turn["status"], turn["error"]) == ("failed", "no brain")
    assert turn["underruns"] == 2
    assert not client.turns[0].same_clock


@pytest.mark.usefixtures("impatient")
async def test_an_answer_to_nobody_is_a_turn_of_its_own() -> None:
    async def script(it: Peer) -> None:
        await it.send("response.created", response={"id": "r1"})
        await it.send("response.output_audio_transcript.delta", response_id="r1", delta="您好")
        await it.send("response.done", response={"id": "r1", "status": "completed"})

    async with peer(script) as url:
        [turn] = await TalkClient(url).talk([speech(0.1)])
    assert (turn["transcript"], turn["answer"], turn["status"]) == ("", "您好", "completed")


def delta(samples: NDArray[np.int16], response: str = "r1") -> dict[str, str]:
    return {"response_id": response, "delta": base64.b64encode(samples.tobytes()).decode()}


async def played(*events: tuple[str, dict[str, Any]]) -> tuple[TalkClient, list[float]]:
    """A talk in which a peer sends events, each after the client has taken the one before.

    Returns:
        The client, and when it took each of the events of playback, in seconds of the recording.
    """
    taken: asyncio.Queue[str] = asyncio.Queue()
    at: list[float] = []

    def take(event: dict[str, Any]) -> None:
        taken.put_nowait(event["type"])
        if event["type"].startswith(("duplexd.playback", "input_audio", "response.done")):
            at.append(client._last_event - client._began)

    async def script(it: Peer) -> None:
        await it.transcript("你好")
        await it.send("response.created", response={"id": "r1"})
        for kind, fields in events:
            while not taken.empty():
                taken.get_nowait()
            await it.send(kind, **fields)
            while await taken.get() != kind:
                pass
            for _ in range(5):  # the microphone paces the peer: 100 ms
                await it.socket.recv()

    async with peer(script) as url:
        client = TalkClient(url, on_event=take)
        await client.talk([speech(0.1)], turn_timeout_s=30)
    return client, at


async def test_the_daemon_is_told_what_the_client_is_like() -> None:
    told: list[dict[str, Any]] = []

    async def script(it: Peer) -> None:
        told.extend(it.told)
        await it.socket.close()

    async with peer(script) as url:
        with pytest.raises(EngineFailed, match="ended the conversation"):
            await TalkClient(url).talk([speech()])
    [update] = told
    assert update["type"] == "session.update"
    assert update["session"]["duplexd"] == {"pauses": True, "echo_cancelled": True}


PAUSED = ("duplexd.playback.paused", {"response_id": "r1", "item_id": "i1"})
RESUMED = ("duplexd.playback.resumed", {"response_id": "r1", "item_id": "i1"})
DONE = {"id": "r1", "status": "completed"}
#: five seconds: whatever stalls, it still plays when the events come
COUNT = np.arange(5 * RATE) % 30_000 + 1


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("end", [RESUMED, ("response.done", {"response": DONE})])
async def test_a_pause_is_heard_as_silence_and_loses_no_sample(
    end: tuple[str, dict[str, Any]],
) -> None:
    count = COUNT.astype(np.int16)
    client, [paused, resumed, *_] = await played(
        ("response.output_audio.delta", delta(count[: 4 * RATE])),
        PAUSED,
        ("response.output_audio.delta", delta(count[4 * RATE :])),  # it was on its way
        end,
        *([("response.done", {"response": DONE})] if end is RESUMED else []),
    )
    right = client.recording.right()
    silent = right[round(paused * RATE) : round(resumed * RATE)]
    assert resumed - paused > 0.1
    assert not silent.any()
    assert right[right != 0].tolist() == count.tolist()
    [turn] = client.measured()
    assert (turn["status"], turn["audio_s"]) == ("completed", 5.0)


@pytest.mark.usefixtures("impatient")
async def test_an_interruption_in_a_pause_drops_what_it_held() -> None:
    count = COUNT.astype(np.int16)
    client, [paused, *_] = await played(
        ("response.output_audio.delta", delta(count)),
        PAUSED,
        ("input_audio_buffer.speech_started", {}),
        ("response.done", {"response": {"id": "r1", "status": "cancelled"}}),
        PAUSED,  # late: it is over
        ("conversation.item.input_audio_transcription.completed", {"transcript": "停"}),
        ("response.created", {"response": {"id": "r2"}}),
        ("response.output_audio.delta", delta(np.full(480, 7, np.int16), "r2")),
        ("response.done", {"response": {"id": "r2", "status": "completed"}}),
    )
    before, after = np.split(client.recording.right(), [round(paused * RATE)])
    heard = before[before != 0]
    assert heard.tolist() == count[: len(heard)].tolist()
    assert after[after != 0].tolist() == [7] * 480
    first, second = client.measured()
    assert (first["status"], second["status"], second["audio_s"]) == (
        "cancelled",
        "completed",
        0.02,
    )


@pytest.mark.usefixtures("impatient")
async def test_an_answer_that_is_cancelled_falls_silent() -> None:
    client, [cancelled] = await played(
        ("response.output_audio.delta", delta(COUNT.astype(np.int16))),
        ("response.done", {"response": {"id": "r1", "status": "cancelled"}}),
    )
    assert client.recording.heard.end == round(cancelled * RATE)


def test_a_system_without_boot_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.boot_id()

    def fail(_: Path) -> str:
        raise OSError

    monkeypatch.setattr(Path, "read_text", fail)
    assert module.boot_id() == ""

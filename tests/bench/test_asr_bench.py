"""`bench asr` measures what it says, of whoever it is told to, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from rich.console import Console

from pipeline.bench import asr_sides
from pipeline.bench.asr import AsrPlan, run_asr
from pipeline.bench.asr_corpus import Utterance, read_corpus
from pipeline.bench.asr_crowd import Crowd, Side
from pipeline.bench.asr_listening import Listener, Manner
from pipeline.bench.asr_passes import Passes
from pipeline.bench.asr_report import asr_table, build, write_report
from pipeline.bench.asr_result import AsrResult
from pipeline.bench.asr_sides import PeerSide
from pipeline.bench.asr_usage import cpu_s, memory_mb
from pipeline.commands.options import configured
from pipeline.store import open_store
from services.asr.base import SAMPLE_RATE, AsrEngine, OnPartial, Recogniser, Samples, Transcript
from services.scripted.speech import synthetic_speech
from services.vad.base import WINDOW
from tests.pipeline.conftest import Run, own_log, plain_environment, run
from tts_engine.engine import EngineStats
from tts_engine.errors import AtCapacity, BadRequest, EngineFailed

__all__ = ["own_log", "plain_environment", "run"]  # fixtures

MANNER = Manner(silence_ms=100, preroll_ms=50)
#: what is said in the recordings, by how loud they are
SAID = {-20.0: "打开灯", -26.0: "turn it on", -32.0: "嗯"}
#: what is heard in them
HEARD = {-20.0: "打开等", -26.0: "turn on", -32.0: "嗯"}


# --- recordings and ears ----------------------------------------------------------------------
@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three recordings of 0.3 s of speech, with silence around it, and their list."""
    lines: list[str] = []
    for level, text in SAID.items():
        soundfile.write(tmp_path / f"{-level:.0f}.wav", speech(level), SAMPLE_RATE)
        lines.append(f"{-level:.0f}.wav\t{text}\n")
    (tmp_path / "list.tsv").write_text("".join(lines), encoding="utf-8")
    return tmp_path


@pytest.fixture
def utterances(folder: Path) -> list[Utterance]:
    return read_corpus(folder)


def speech(level: float = -20.0, *, tail_s: float = 0.2) -> Samples:
    pcm = synthetic_speech(seconds=0.3, level_dbfs=level, lead_s=0.1, tail_s=tail_s)
    return pcm.astype(np.float32) / 32768


@dataclass
class Ear(AsrEngine):
    """Knows recordings by how loud they are.

    Parameters:
        places: turns that it recognises at a time.
        partial_s: audio from which on it makes partials.
        log: who was asked for a text, in which manner.
    """

    name: str = "ours"
    places: int = 100
    partial_s: float = 0.2
    log: list[tuple[str, bool]] = field(default_factory=list)
    stats: EngineStats = field(default_factory=EngineStats)
    opened: list[EarHandle] = field(default_factory=list)
    busy: int = 0
    most: int = 0

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def open(self, *, session: str, on_partial: OnPartial | None = None) -> EarHandle:
        self.opened.append(EarHandle(self, on_partial))
        return self.opened[-1]


class EarHandle(Recogniser):
    def __init__(self, ear: Ear, on_partial: OnPartial | None) -> None:
        self.ear = ear
        self.on_partial = on_partial
        self.fed: list[Samples] = []
        self.turns: list[list[Samples]] = []
        self.closed = False

    @property
    def text(self) -> str:
        audio = np.concatenate(self.fed)
        loud = audio[np.abs(audio) > 1e-3]
        level = 10 * np.log10(float(np.mean(loud**2))) if len(loud) else -90.0
        return HEARD[min(HEARD, key=lambda each: abs(each - level))] if level > -50 else ""

    def feed(self, samples: Samples) -> None:
        self.fed.append(samples)
        if self.on_partial and sum(map(len, self.fed)) >= self.ear.partial_s * SAMPLE_RATE:
            self.on_partial(Transcript(text=self.text, final=False))

    async def finalise(self) -> Transcript:
        if self.ear.busy >= self.ear.places:
            raise AtCapacity("no place")
        self.ear.busy += 1
        self.ear.most = max(self.ear.most, self.ear.busy)
        try:
            for _ in range(5):
                await asyncio.sleep(0)
        finally:
            self.ear.busy -= 1
        self.turns.append(self.fed)
        self.ear.log.append((self.ear.name, self.on_partial is not None))
        return Transcript(text=self.text)

    def restrict(self, languages: tuple[str, ...] | None) -> None: ...

    def cancel(self) -> None: ...

    def reset(self) -> None:
        self.fed = []

    def close(self) -> None:
        self.closed = True


def side_of(ear: Ear, **options: Any) -> Side:
    given: dict[str, Any] = {
        "about": f"{ear.name}: letters",
        "manner": MANNER,
        "cpu_s": lambda: 0.5 * len(ear.log),
        "memory_mb": lambda: 100.0,
    }
    return Side(engine=ear, **{**given, **options})


# --- one utterance ----------------------------------------------------------------------------
async def test_a_file_is_given_as_a_whole() -> None:
    ear, samples = Ear(partial_s=0.0), speech()
    listener = Listener(ear, name="a", manner=None)
    heard = await listener.hear(samples)
    listener.close()
    [handle] = ear.opened
    assert heard.text == "打开等"
    assert heard.audio_s == 0.6
    assert heard.took_s is not None
    assert heard.took_s >= heard.answer_s > 0
    assert (heard.first_partial_s, heard.asked_s, heard.final_s) == (None, None, None)
    assert handle.closed
    [[fed]] = handle.turns
    assert np.array_equal(fed, samples)


@pytest.mark.parametrize("tail_s", [0.2, 0.03])
async def test_speech_is_fed_as_the_ear_feeds_it(tail_s: float) -> None:
    ear, samples = Ear(), speech(tail_s=tail_s)
    heard = await Listener(ear, name="a", manner=MANNER).hear(samples)
    [turn] = ear.opened[0].turns
    assert {len(window) for window in turn} == {WINDOW}
    fed = np.concatenate(turn)
    # From 50 ms before the onset to 100 ms behind the last voiced sample, and on to a window's end.
    begin, end = int(0.05 * SAMPLE_RATE), int(0.5 * SAMPLE_RATE)
    assert len(fed) == -(-(end - begin) // WINDOW) * WINDOW
    there = min(len(fed), len(samples) - begin)
    assert np.array_equal(fed[:there], samples[begin : begin + there])
    assert not fed[there:].any()
    assert heard.asked_s is not None
    assert heard.final_s is not None
    assert heard.first_partial_s is not None
    assert heard.late_s is not None
    assert heard.took_s is None
    # Each of them is never sooner than speech allows.
    assert heard.asked_s >= 0.1
    assert heard.final_s >= heard.asked_s
    assert heard.first_partial_s >= 0.2 - 0.05
    assert heard.late_s >= 0


async def test_where_nothing_sounds_all_of_it_is_heard() -> None:
    ear = Ear()
    heard = await Listener(ear, name="a", manner=MANNER).hear(np.zeros(3000, np.float32))
    assert heard.text == ""
    assert heard.first_partial_s is None
    assert sum(map(len, ear.opened[0].turns[0])) == 9 * WINDOW  # 3000 and 1600


async def test_a_partial_of_another_utterance_does_not_count() -> None:
    ear = Ear()
    listener = Listener(ear, name="a", manner=MANNER)
    assert (await listener.hear(speech())).first_partial_s is not None
    ear.partial_s = 100
    assert (await listener.hear(speech())).first_partial_s is None


# --- several at a time ------------------------------------------------------------------------
async def test_conversations_share_the_utterances(utterances: list[Utterance]) -> None:
    ear, ticks = Ear(), []
    crowd = Crowd(side=side_of(ear), count=2, spoken=False, tick=lambda: ticks.append(1))
    step, heard = await crowd.hear([*utterances, *utterances])
    assert sorted(each.name for each, _ in heard) == sorted([each.name for each in utterances] * 2)
    assert len(ear.opened) == 2
    assert all(handle.closed for handle in ear.opened)
    assert ear.most == 2
    assert len(ticks) == len(step.heard) == 6
    assert step.audio_s == pytest.approx(6 * 0.6)
    # Both recognised one before the clock started.
    assert step.cpu_s == pytest.approx(0.5 * 6, abs=0.2)
    assert step.memory_mb == 100
    assert step.failures == {}


async def test_failures_are_counted(utterances: list[Utterance]) -> None:
    ear = Ear(places=1)
    step, _ = await Crowd(side=side_of(ear), count=3, spoken=False).hear(utterances)
    assert step.failures.keys() == {"at_capacity"}
    assert len(step.heard) + step.failures["at_capacity"] == 3


async def test_who_hears_alone_must_not_fail(utterances: list[Utterance]) -> None:
    ear = Ear(places=0)
    with pytest.raises(AtCapacity):
        await Crowd(side=side_of(ear), count=1, spoken=False, tolerant=False).hear(utterances)
    assert all(handle.closed for handle in ear.opened)


# --- all of it --------------------------------------------------------------------------------
async def measured(utterances: list[Utterance], **options: Any) -> tuple[list[AsrResult], Any]:
    log: list[tuple[str, bool]] = []
    told: list[tuple[float, str]] = []
    sides = [side_of(Ear(name=name, log=log)) for name in ("ours", "theirs")]
    given: dict[str, Any] = {"counts": (1, 2), "paced": True, **options}
    passes = Passes(
        sides, utterances, on_progress=lambda share, words: told.append((share, words)), **given
    )
    return await passes.run(), (log, told)


async def test_both_hear_the_same_and_take_turns(utterances: list[Utterance]) -> None:
    results, (log, told) = await measured(utterances)
    order = [log[0]]
    for each in log:
        if each != order[-1]:
            order.append(each)
    # Files, then speech; handles that listen are warmed up too.
    one = [("ours", False), ("theirs", False), ("ours", True), ("theirs", True)]
    assert order == one * 3
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert told[0][1] == "ours: letters: 1 at a time, files"
    for result in results:
        assert result.alone is not None
        assert len(result.alone.files.heard) == 3
        assert [len(level.files.heard) for level in result.by_concurrency.values()] == [6, 6]


async def test_one_object(utterances: list[Utterance]) -> None:
    (own, peer), _ = await measured(utterances)
    own.peer = peer
    found = own.to_json()
    assert found["engine"] == "ours: letters"
    assert found["utterances"] == 3
    assert found["audio_s"] == 1.8
    assert found["cer"] == 0.25  # of 打开灯 and 嗯
    assert found["wer"] == round(1 / 3, 4)
    assert found["error_rate"] == round(2 / 7, 4)
    assert found["by_language"]["zh"] == {
        "utterances": 2,
        "units": 4,
        "rate": 0.25,
        "substitutions": 1,
        "deletions": 0,
        "insertions": 0,
        "wrong_utterances": 1,
    }
    assert found["rtf"] > 0
    assert found["cpu_s_per_audio_s"] == pytest.approx(0.5 * 3 / 1.8, abs=0.1)
    assert found["spoken_cpu_s_per_audio_s"] == pytest.approx(0.5 * 3 / 1.8, abs=0.1)
    assert found["silence_ms"] == 100
    assert found["partials"] == 3
    assert found["asked_ms"]["p50"] >= 100
    assert found["final_ms"]["p95"] >= found["asked_ms"]["p50"]
    assert found["first_partial_ms"]["p50"] >= 150
    assert found["memory_mb"] == 100
    assert found["by_concurrency"].keys() == {"1", "2"}
    for level in found["by_concurrency"].values():
        assert level["audio_s_per_s"] > 0
        assert level["final_ms"]["p95"] >= 100
        assert level["failures"] == {}
    assert [each["marked"] for each in found["worst"]] == ["打开[灯→等]", "turn [it→] on"]
    assert found["ratio"].keys() == {
        *("cer", "wer", "rtf", "cpu_s_per_audio_s", "final_ms", "memory_mb", "audio_s_per_s")
    }
    assert found["ratio"]["cer"] == found["ratio"]["memory_mb"] == 1
    assert found["ratio"]["audio_s_per_s"].keys() == {"1", "2"}
    own_keys = found.keys() - {"peer", "ratio"}
    assert found["peer"].keys() == own_keys
    json.dumps(found)


async def test_files_alone_tell_nothing_of_waiting(utterances: list[Utterance]) -> None:
    (own, _), _ = await measured(utterances, paced=False, counts=())
    found = own.to_json()
    assert found["cer"] == 0.25
    assert found["peer"] is found["ratio"] is found["partials"] is None
    assert found["by_concurrency"] == {}
    for key in ("final_ms", "first_partial_ms", "asked_ms"):
        assert found[key]["p50"] is None
    assert "final text, p50" not in build(found, {}).html()


async def test_a_page_and_tables(utterances: list[Utterance], tmp_path: Path) -> None:
    (own, peer), _ = await measured(utterances)
    own.peer = peer
    page = write_report(own, tmp_path / "new" / "asr.html", {"machine": "two cores"})
    html = page.read_text(encoding="utf-8")
    assert page == tmp_path / "new" / "asr.html"
    for part in ("two cores", "打开[灯→等]", "final text, p95, ms", "audio_s_per_s, 2", "<svg"):
        assert part in html
    assert json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))["cer"] == 0.25
    console = Console(record=True, width=160)
    for part in asr_table(own):
        console.print(part)
    shown = console.export_text()
    for part in (
        "ours: letters",
        "characters wrong (zh)",
        "25.0%",
        "audio s/s",
        "ours over",
        "打开[灯→等]",
    ):
        assert part in shown


def test_nothing_that_was_not_heard_is_divided_by() -> None:
    found = AsrResult(about="nobody", asked_ms=100).to_json()
    assert found["cer"] is found["rtf"] is found["memory_mb"] is None
    assert build(found, {}).html()


# --- processes --------------------------------------------------------------------------------
async def test_what_a_child_uses_counts() -> None:
    busy = "x = 0\nfor _ in range(3_000_000): x += 1\nprint('done', flush=True)\ninput()"
    child = await asyncio.create_subprocess_exec(
        "python3", "-c", busy, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    await child.stdout.readline()
    try:
        alone = cpu_s(child.pid)
        assert alone > 0
        without = cpu_s(but=(child.pid,))
        assert cpu_s() >= without + alone
        assert memory_mb() > memory_mb(but=(child.pid,))
        assert memory_mb(os.getpid()) > memory_mb(child.pid) > 0
    finally:
        child.kill()
        await child.wait()
    assert cpu_s(child.pid) == memory_mb(child.pid) == 0


# --- whom it measures -------------------------------------------------------------------------
SCRIPTED = ("--engines", "scripted:asr=0", "--fast", "--concurrency", "1")


@pytest.mark.usefixtures("plain_environment")
def test_the_recogniser_of_the_configuration(folder: Path) -> None:
    config = configured(engines="scripted:asr=0", sets=["turns.finalise_ms=64"])
    plan = AsrPlan(place=folder, limit=2, counts=(2,))
    told: list[str] = []
    found = run_asr(
        config, open_store(config), plan, on_progress=lambda _, words: told.append(words)
    ).to_json()
    assert found["engine"] == "scripted"
    assert found["utterances"] == 2
    assert found["silence_ms"] == 64
    assert found["memory_mb"] > 10
    assert found["by_concurrency"].keys() == {"2"}
    assert told[0] == "starting"
    assert told[-1] == "scripted: 2 at a time, as spoken"


@pytest.mark.usefixtures("plain_environment", "own_log")
def test_the_command(run: Run, folder: Path, tmp_path: Path) -> None:
    code, out, err = run("bench", "asr", str(folder), *SCRIPTED, "--json")
    assert code == 0, err
    assert err == ""
    found = json.loads(out)
    assert found["utterances"] == 3
    for key in ("date", "machine", "cer", "wer", "rtf", "by_concurrency", "memory_mb", "ratio"):
        assert key in found
    page = tmp_path / "page.html"
    code, out, err = run(
        "bench", "asr", str(folder), *SCRIPTED, "--limit", "1", "--html", str(page)
    )
    assert code == 0, err
    assert page.exists()
    assert "real-time factor" in out
    assert "page.html" in out.replace("\n", "")


@pytest.mark.usefixtures("plain_environment", "own_log")
@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--peer", "pipecat-funasr"], "--provider funasr"),
        (["--peer", "other"], "pipecat-funasr"),
        (["--html", "page.txt"], "ends in .html"),
        (["--concurrency", "257"], "At most 256"),
        (["--concurrency", "0"], "no list of numbers"),
    ],
)
def test_what_cannot_be_meant(run: Run, folder: Path, options: list[str], why: str) -> None:
    code, _, err = run("bench", "asr", str(folder), "--engines", "scripted:asr=0", *options)
    assert code == 2
    assert why in err


@pytest.mark.parametrize(
    ("sets", "about"),
    [
        ([], "whisper: whisper-base"),
        (["asr.provider=funasr-remote"], "funasr-remote, 2pass, at ws://127.0.0.1:10095"),
        (
            ["asr.provider=funasr", "asr.funasr.mode=streaming+offline"],
            "funasr, streaming+offline: paraformer-zh-streaming, sensevoice-small",
        ),
    ],
)
async def test_who_is_measured(
    monkeypatch: pytest.MonkeyPatch, sets: list[str], about: str
) -> None:
    monkeypatch.setattr(asr_sides, "build_asr", lambda *_, **__: Ear())
    config = configured(sets=sets)
    peer = PeerSide(side=side_of(Ear()), pid=lambda: None)
    async with asr_sides.own_side(config, open_store(config), beside=peer) as side:
        assert side.about == about
        assert side.manner == Manner(silence_ms=128, preroll_ms=500)
        assert side.cpu_s() > 0


async def test_who_cannot_start_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Ear):
        closed = False

        async def start(self) -> None:
            raise EngineFailed("no")

        async def close(self) -> None:
            self.closed = True

    ear = Broken()
    monkeypatch.setattr(asr_sides, "build_asr", lambda *_, **__: ear)
    config = configured()
    with pytest.raises(EngineFailed):
        async with asr_sides.own_side(config, open_store(config)):
            pass
    assert ear.closed


def test_the_peer_needs_a_model_of_its_kind() -> None:
    for sets in (["asr.provider=whisper"], ["asr.provider=funasr", "asr.funasr.mode=streaming"]):
        with pytest.raises(BadRequest, match="offline model"):
            asr_sides.check_peer(configured(sets=sets))
    asr_sides.check_peer(configured(sets=["asr.provider=funasr", "asr.funasr.mode=offline"]))

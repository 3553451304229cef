"""`bench tts` measures what it says, of whoever it is told to, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.bench import tts, tts_fixed, tts_own, tts_random, tts_upstream
from pipeline.bench.tts import TtsPlan, run_tts
from pipeline.bench.tts_fixed import FixedPlan, run_fixed, settled
from pipeline.bench.tts_own import Own
from pipeline.bench.tts_random import random_dir, reference_of
from pipeline.bench.tts_report import build, tts_table, write_report
from pipeline.bench.tts_result import Cost, SecondCost, Spoken, Step, TtsResult
from pipeline.bench.tts_speakers import EngineSpeaker, ServiceSpeaker, service_speaker, timed
from pipeline.bench.tts_sweep import Sweep, at_a_time, sweep
from pipeline.bench.tts_texts import INTRODUCTION, PASSAGE, text_of
from pipeline.bench.tts_upstream import Upstream, few_steps
from pipeline.commands.options import configured
from services.scripted.tts import ScriptedVoice
from tests.cosyvoice.conftest import home, model, model_dir
from tests.pipeline.conftest import Run, plain_environment, run
from tests.tts_service.served import served
from tts_engine.cosyvoice.engine import Decoding
from tts_engine.cosyvoice.loader import CosyVoice
from tts_engine.cosyvoice.make_random import recipe
from tts_engine.cosyvoice.wire import Failed
from tts_engine.engine import SpeechChunk
from tts_engine.errors import AtCapacity, BadRequest, EngineFailed, ModelError

__all__ = ["home", "model", "model_dir", "plain_environment", "run"]  # fixtures

#: keys of the object, of each side
SIDE = {
    "engine",
    "first_chunk_ms",
    "first_chunk_cpu_s",
    "first_chunk_runs",
    "by_length",
    "by_concurrency",
    "cpu_s_per_audio_s",
    "decode_steps_per_token",
    "memory_mb",
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def nobody_watches(_share: float, _words: str) -> None:
    """Progress of no interest."""


# --- texts ------------------------------------------------------------------------------------
def test_the_introduction_is_as_long_as_the_field_has_it() -> None:
    assert len(INTRODUCTION) == 87


@given(st.integers(2, len(PASSAGE)), st.integers(0, 30))
def test_texts_have_their_length_and_end(length: int, turn: int) -> None:
    text = text_of(length, turn=turn)
    assert len(text) == length
    assert text.endswith("。")
    assert not text.endswith(("。。", "，。"))


@pytest.mark.parametrize("length", [0, 1, len(PASSAGE) + 1])
def test_there_are_no_other_texts(length: int) -> None:
    with pytest.raises(BadRequest, match="no text of"):
        text_of(length)


# --- by the clock -----------------------------------------------------------------------------
class Voice(ScriptedVoice):
    """A voice that has a language model, and no place for some texts."""

    def __init__(self, *, refused: str = "", silent: bool = False) -> None:
        super().__init__()
        self.decoding = Decoding()
        self._refused = refused
        self._silent = silent

    async def synthesize(self, text: str, **options: Any) -> AsyncGenerator[SpeechChunk, None]:
        if self._refused and self._refused in text:
            raise AtCapacity("full")
        self.decoding = Decoding(self.decoding.steps + 1, self.decoding.tokens + 4)
        async for chunk in super().synthesize(text, **options):
            yield SpeechChunk(pcm=b"") if self._silent else chunk


async def speaker(**options: Any) -> EngineSpeaker:
    voice = Voice(**options)
    await voice.start()
    return EngineSpeaker(voice, about="a voice")


async def test_a_sweep_measures_everything_it_was_asked_for() -> None:
    told: list[tuple[float, str]] = []
    found = await sweep(
        await speaker(),
        Sweep(lengths=(20, 50), counts=(1, 4), repeat=2),
        lambda share, words: told.append((share, words)),
    )
    shown = found.to_json()
    assert {*shown} == {*SIDE, "peer", "ratio"}
    assert shown["first_chunk_ms"]["first"] > 0
    assert shown["first_chunk_ms"]["later_p95"] >= shown["first_chunk_ms"]["later_p50"] > 0
    assert [*shown["by_length"]] == ["20", "50"]
    assert shown["by_length"]["50"]["requests"] == 2
    assert shown["by_length"]["50"]["audio_s"] > shown["by_length"]["20"]["audio_s"]
    assert shown["by_concurrency"]["4"]["requests"] == 8
    assert shown["by_concurrency"]["4"]["requests_per_s"] > 0
    assert shown["decode_steps_per_token"] == 0.25
    assert shown["memory_mb"] > 10
    assert shown["peer"] is None
    assert shown["ratio"] == {"of": "wall", "first": None, "later": None}
    assert [share for share, _ in told] == sorted(share for share, _ in told)
    assert told[0][0] == 0
    assert told[-1] == (pytest.approx(1 - 8 / 17), "4 at a time")


async def test_who_is_refused_among_many_is_counted() -> None:
    refusing = await speaker(refused=PASSAGE[:6])
    step = (await at_a_time(refusing, 2, 1)).to_json()
    assert (step["requests"], step["failures"]) == (1, {"at_capacity": 1})


async def test_nothing_was_spoken_and_nothing_is_measured() -> None:
    step = (await at_a_time(await speaker(refused=PASSAGE[:4]), 1, 1)).to_json()
    assert step["rtf"] == dict.fromkeys(("p50", "p90", "p95", "p99", "max"))
    assert step["decode_steps_per_token"] is None
    assert "-" in shown_table(TtsResult(about="x", by_concurrency={1: Step(spoken=[], wall_s=1)}))


async def test_an_engine_without_audio_is_a_failure() -> None:
    with pytest.raises(EngineFailed, match="No audio"):
        await timed(await speaker(silent=True), "你好。")


def test_the_configured_engine(plain_environment: None) -> None:
    config = configured(None, None, engines="scripted:tts=1")
    plan = TtsPlan(lengths=[20], counts=[], repeat=1, voice="two")
    found = run_tts(config, plan, on_progress=nobody_watches)
    assert found.about == "scripted, voice two"
    assert [*found.by_length] == [20]
    assert found.decode_steps_per_token is None
    default = run_tts(config, TtsPlan(lengths=[], counts=[1], repeat=1), on_progress=nobody_watches)
    assert default.about == "scripted, voice one"


def test_the_configured_pace(plain_environment: None) -> None:
    plan = TtsPlan(lengths=[20], counts=[], repeat=1)
    audio_s = [
        run_tts(
            configured(None, [f"tts.speed={speed}"], engines="scripted:tts=1"),
            plan,
            on_progress=nobody_watches,
        )
        .by_length[20]
        .spoken[0]
        .audio_s
        for speed in (1, 2)
    ]
    assert audio_s[1] == pytest.approx(audio_s[0] / 2, abs=0.01)


def test_a_voice_that_is_not_there(plain_environment: None) -> None:
    config = configured(None, None, engines="scripted:tts=1")
    with pytest.raises(BadRequest, match="three"):
        run_tts(config, TtsPlan(voice="three"), on_progress=nobody_watches)


# --- a service --------------------------------------------------------------------------------
async def test_a_service_that_runs() -> None:
    async with (
        served() as service,
        service_speaker(service.address, voice="two") as asked,
    ):
        found = await sweep(asked, Sweep(lengths=(20,), counts=(2,), repeat=1), nobody_watches)
    assert found.by_length[20].spoken[0].audio_s > 1
    assert found.memory_mb is None
    assert found.by_concurrency[2].decode_steps_per_token is None


async def test_a_service_that_refuses_or_is_not_there() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if "乙" in json.loads(request.content)["text"]:
            raise httpx.ReadError("gone")
        status = 429 if "甲" in json.loads(request.content)["text"] else 401
        return httpx.Response(status, text="no")

    transport = httpx.MockTransport(answer)
    async with httpx.AsyncClient(base_url="http://there", transport=transport) as client:
        asked = ServiceSpeaker(client, about="http://there")
        with pytest.raises(AtCapacity, match="429"):
            await timed(asked, "甲。")
        with pytest.raises(EngineFailed, match="http://there breaks off: gone"):
            await timed(asked, "乙。")
        with pytest.raises(EngineFailed, match="401"):
            await timed(asked, "你好。")


def test_a_service_by_its_address(plain_environment: None) -> None:
    config = configured(None, None)
    with pytest.raises(BadRequest, match="no address"):
        run_tts(config, TtsPlan(url="http://"), on_progress=nobody_watches)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"url": "x:1", "peer": True}, "from outside"),
        ({"lengths": [20, 100_000]}, "no text of 100000"),
        ({"counts": [1000]}, "At most"),
    ],
)
def test_plans_that_cannot_be_meant(options: dict[str, Any], why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        TtsPlan(**options)


# --- random weights ---------------------------------------------------------------------------
@pytest.fixture
def cache(model_dir: Path, tmp_path: Path) -> Path:
    """A cache that has the tiny model."""
    at = tmp_path / "cache"
    at.mkdir()
    (at / f"cosyvoice2-tiny-{recipe()}").symlink_to(model_dir)
    return at


def test_both_sides_are_measured(
    cache: Path, home: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tts_fixed, "SECONDS", (1, 4))  # what is late is slow
    told: list[float] = []
    plan = FixedPlan(
        size="tiny",
        device="cpu",
        home=home,
        peer=True,
        lengths=(20,),
        counts=(2,),
        rounds=1,
        cache=cache,
    )
    threads = threading.active_count()
    found = run_fixed(plan, lambda share, _: told.append(share)).to_json()
    assert threading.active_count() == threads
    assert told == sorted(told)
    assert told[-1] == 1
    assert {*found} == {*SIDE, "peer", "ratio"}
    assert {*found["peer"]} == SIDE
    assert found["ratio"]["of"] == "cpu"
    assert 0 < found["ratio"]["later"] < found["ratio"]["first"] < 1
    for side, share in ((found, 0.25), (found["peer"], 1.0)):
        assert side["decode_steps_per_token"] == pytest.approx(share, abs=0.05)
        for costs in (side["first_chunk_ms"], side["first_chunk_cpu_s"]):
            assert all(cost > 0 for cost in costs.values())
        seconds = side["cpu_s_per_audio_s"]
        assert seconds["stages"]["second_4"]["flow"] > 0
        assert seconds["second_1"] == pytest.approx(
            sum(seconds["stages"]["second_1"].values()), abs=2e-3
        )
        assert side["by_length"]["20"]["audio_s"] == pytest.approx(111 / 25, abs=0.3)
        assert side["by_concurrency"]["2"]["requests"] == 2
    assert found["by_concurrency"]["2"]["decode_steps_per_token"] < 0.6
    assert found["peer"]["by_concurrency"]["2"]["decode_steps_per_token"] >= 1


@given(st.lists(st.floats(0.1, 100), min_size=3, max_size=3))
def test_a_third_measurement_is_left_out_where_it_could_not_matter(times: list[float]) -> None:
    assert not settled(times[:1])
    if settled(times[:2]):
        assert median(times[:2]) == pytest.approx(median(times), rel=0.026)


def test_steps_that_were_not_taken_count_as_the_last_one(model: CosyVoice) -> None:
    flow = model.flow
    with closing(Upstream(model, reference_of(model), home=None)) as peer:
        early, late = (peer.second(number, token=Cost(wall_s=0, cpu_s=0)) for number in (1, 4))
    assert (early.euler_steps, late.euler_steps) == (10, 2)
    with few_steps(flow, 3) as taken:
        voice = reference_of(model)
        row = torch.tensor([voice.tokens])
        count = torch.tensor([row.shape[1]])
        mel, _ = flow.inference(  # type: ignore[operator]
            token=row[:, :28],
            token_len=torch.tensor([28]),
            prompt_token=row,
            prompt_token_len=count,
            prompt_feat=voice.mel[None],
            prompt_feat_len=torch.tensor([len(voice.mel)]),
            embedding=voice.embedding[None],
            streaming=True,
            finalize=False,
        )
    assert len(taken) == 3
    assert mel.isfinite().all()
    assert "forward" not in vars(flow.decoder)  # as it was


def test_ours_alone(cache: Path, home: Path | None) -> None:
    plan = FixedPlan(size="tiny", device="auto", home=home, rounds=1, cache=cache)
    found = run_fixed(plan, nobody_watches)
    assert found.peer is None
    assert found.to_json()["ratio"]["first"] is None


def test_a_model_is_made_once_and_old_ones_go(
    tmp_path: Path, model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []

    def make(_kind: str, _size: str, out: Path, **_: Any) -> None:
        made.append(out)
        shutil.copytree(model_dir, out)

    monkeypatch.setattr(tts_random, "make_random", make)
    old = tmp_path / "cosyvoice2-tiny-000"
    old.mkdir()
    full = tmp_path / "cosyvoice2-full-000"
    full.mkdir()
    first = random_dir("tiny", cache=tmp_path)
    assert random_dir("tiny", cache=tmp_path) == first
    assert made == [first]
    assert not old.exists()
    assert full.exists()


def test_no_room_for_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(*_: Any, **__: Any) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(tts_random, "make_random", fill)
    with pytest.raises(ModelError, match="No space left"):
        random_dir("tiny", cache=tmp_path)

    def overtaken(_kind: str, _size: str, out: Path, **_: Any) -> None:
        out.mkdir()
        raise OSError(39, os.strerror(39))

    monkeypatch.setattr(tts_random, "make_random", overtaken)
    assert random_dir("tiny", cache=tmp_path).is_dir()


def test_without_torch(monkeypatch: pytest.MonkeyPatch, plain_environment: None) -> None:
    import sys

    monkeypatch.delitem(sys.modules, "pipeline.bench.tts_fixed")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(EngineFailed, match="make engines"):
        run_tts(configured(None, None), TtsPlan(size="tiny"), on_progress=nobody_watches)


def test_the_configuration_reaches_the_comparison(
    monkeypatch: pytest.MonkeyPatch, plain_environment: None, tmp_path: Path
) -> None:
    kept: list[FixedPlan] = []

    def pretend(plan: FixedPlan, _: Any) -> TtsResult:
        kept.append(plan)
        return TtsResult(about="x")

    monkeypatch.setattr("pipeline.bench.tts_fixed.run_fixed", pretend)
    sets = [f"tts.cosyvoice.home={tmp_path}", "tts.cosyvoice.device=cpu"]
    plan = TtsPlan(peer=True, counts=[4], repeat=2)
    run_tts(configured(None, sets), plan, on_progress=nobody_watches)
    assert kept == [
        FixedPlan(
            size="full",
            device="cpu",
            home=tmp_path,
            peer=True,
            counts=[4],
            repeat=2,
        )
    ]


def test_a_late_second_has_its_whole_past(model: CosyVoice) -> None:
    own = Own(model, reference_of(model), requests=1)
    stream = own._parts.flow.open(own._begun)
    begun = stream.cache.tokens
    tts_own._fill(stream, 29, ratio=model.mel_ratio)
    stream.push(own._reference.tokens[:25])
    assert stream.cache.tokens == begun + 29 * 25
    assert {store.total for store in stream.cache.estimator} == {2 * (begun + 29 * 25)}
    assert stream.ready


def test_what_fails_is_told(model: CosyVoice, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Own(model, reference_of(model), requests=1)

    def fail(_: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(own._parts.flow, "step", fail)
    with pytest.raises(EngineFailed, match="broken"):
        own.first_chunk()
    with pytest.raises(EngineFailed, match="broken"):
        own.together(["你好。"], tokens=16)
    tts_own._check([])
    with pytest.raises(EngineFailed):
        tts_own._check([Failed(id=0, code="engine_failed", message="x")])


# --- upstream ---------------------------------------------------------------------------------
@pytest.fixture
def upstream(model: CosyVoice) -> Iterator[Upstream]:
    with closing(Upstream(model, reference_of(model), home=None)) as peer:
        yield peer


def test_upstreams_chunks_are_what_upstream_makes(upstream: Upstream, model: CosyVoice) -> None:
    loop = upstream._loop
    with torch.inference_mode():
        sizes = [len(piece) for piece in loop.speak(INTRODUCTION, 250)]
    # 25 + 13 that complete the prompt's 87, then 50, 100, and the rest; 8 frames are held back
    chunks = [38, 50, 100, 250 - 188]
    assert sizes == [
        960 * size - 480 * 8 * (at == 0) + 480 * 8 * (at == 3) for at, size in enumerate(chunks)
    ]
    assert loop.hop == tts_upstream.LATER_HOP


def test_upstreams_model_dies_and_nobody_waits_for_ever(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: Any) -> Iterator[int]:
        yield 1
        raise RuntimeError("broken")

    monkeypatch.setattr(upstream._llm, "llm", type("Llm", (), {"inference": staticmethod(fail)}))
    with pytest.raises(EngineFailed, match="broken"):
        upstream.first_chunk(later=False)
    with pytest.raises(EngineFailed, match="broken"):
        upstream.together(["你好。"], tokens=30)
    with pytest.raises(EngineFailed, match="broken"):
        upstream.token()


def test_the_class_of_a_checkout(
    model: CosyVoice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class CosyVoice2Model:
        """As upstream's is used."""

        def __init__(self, llm: Any, flow: Any, hift: Any) -> None:
            self.token_hop_len = 25
            self.llm, self.flow, self.hift, self.device = llm, flow, hift, None

        def tts(self, *, stream: bool, **given: Any) -> Iterator[dict[str, torch.Tensor]]:
            assert stream
            assert given["flow_embedding"].shape == (1, 192)
            given = {
                name: given[key]
                for name, key in (
                    ("text", "text"),
                    ("prompt_text", "prompt_text"),
                    ("prompt_speech_token", "llm_prompt_speech_token"),
                )
            }
            lengths = {f"{k}_len": torch.tensor([v.shape[1]]) for k, v in given.items()}
            tokens = [*self.llm.inference(**given, **lengths, embedding=torch.zeros(0, 192))]
            yield {"tts_speech": torch.zeros(1, 960 * len(tokens))}

    module = type("Module", (), {"CosyVoice2Model": CosyVoice2Model})
    monkeypatch.setattr(tts_upstream.importlib, "import_module", lambda _: module)
    with closing(Upstream(model, reference_of(model), home=tmp_path)) as checkout:
        assert "checkout" in checkout.about
        cost = checkout.first_chunk(later=True)
        assert cost.wall_s > 0
        assert checkout._loop.hop == 100
        step = checkout.together(["你好。"], tokens=5)
        assert step.spoken[0].audio_s == 0.2
        assert checkout.decode_steps_per_token == pytest.approx(1, abs=0.05)


def test_a_checkout_without_the_class(
    model: CosyVoice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def missing(_: str) -> None:
        raise ImportError("no cosyvoice.cli")

    monkeypatch.setattr(tts_upstream.importlib, "import_module", missing)
    with pytest.raises(EngineFailed, match=r"no cosyvoice\.cli"):
        Upstream(model, reference_of(model), home=tmp_path)


# --- shown ------------------------------------------------------------------------------------
def result() -> TtsResult:
    """Of both sides, with round figures."""
    spoken = Spoken(first_s=0.1, total_s=1.0, audio_s=2.0)
    step = Step(spoken=[spoken, spoken], wall_s=2.0, failures={"at_capacity": 3})
    sides = [
        TtsResult(
            about=name,
            first=[Cost(wall_s=wall, cpu_s=cpu)],
            later=[Cost(wall_s=wall, cpu_s=2 * cpu)],
            by_length={20: step, 200: step},
            by_concurrency={4: step},
            seconds={
                1: SecondCost(llm=1, flow=2, vocoder=cpu),
                30: SecondCost(llm=1, flow=9, vocoder=1),
            },
            decode_steps_per_token=0.25,
            memory_mb=100.0,
        )
        for name, wall, cpu in (("ours", 1.0, 2.0), ("theirs", 4.0, 10.0))
    ]
    sides[0].peer = sides[1]
    return sides[0]


def shown_table(found: TtsResult) -> str:
    from rich.console import Console

    console = Console(width=160)
    with console.capture() as capture:
        for part in tts_table(found):
            console.print(part)
    return capture.get()


def test_the_object() -> None:
    found = result()
    assert found.to_json()["ratio"] == {"of": "wall", "first": 0.25, "later": 0.25}
    found.compare = "cpu"
    shown = found.to_json()
    assert shown["ratio"] == {"of": "cpu", "first": 0.2, "later": 0.2}
    assert shown["cpu_s_per_audio_s"]["second_1"] == 5
    assert shown["cpu_s_per_audio_s"]["second_30"] == 11
    assert shown["by_length"]["20"]["rtf"]["p50"] == 0.5
    assert shown["by_length"]["20"]["requests_per_s"] == 1.0
    empty = TtsResult(about="x", peer=TtsResult(about="y")).to_json()
    assert empty["ratio"] == {"of": "wall", "first": None, "later": None}
    assert empty["cpu_s_per_audio_s"] == {
        "second_1": None,
        "second_30": None,
        "stages": {},
        "euler_steps": {},
    }


def test_the_page_and_the_table(tmp_path: Path) -> None:
    found = result()
    page = write_report(found, tmp_path, {"machine": "2 cores"})
    text = page.read_text()
    for words in ("upstream, second 30", "By the length", "Several at a time", "3 at_capacity"):
        assert words in text
    assert json.loads(page.with_suffix(".json").read_text())["ratio"]["first"] == 0.25
    table = shown_table(found)
    assert "ratio of time, first" in table
    assert "3 at_capacity" in table
    alone = TtsResult(about="x", first=[Cost(wall_s=1.0)])
    assert "By the length" not in build(alone.to_json(), {}).html()
    assert "1000" in shown_table(alone)
    found.compare = "cpu"
    assert "ratio of processor time" in shown_table(found)


def test_the_command(
    run: Run, plain_environment: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept: list[TtsPlan] = []

    def pretend(_config: Any, plan: TtsPlan, *, on_progress: Any) -> TtsResult:
        kept.append(plan)
        on_progress(0.5, "half of it")
        return result()

    monkeypatch.setattr(tts, "run_tts", pretend)
    options = ["--peer", "upstream", "--size", "tiny", "--lengths", "20,50", "--counts", "4"]
    code, out, err = run("bench", "tts", *options, "--repeat", "2", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["ratio"]["first"] == 0.25
    assert found["command"].startswith("run.py")
    plan = TtsPlan(size="tiny", peer=True, lengths=[20, 50], counts=[4], repeat=2)
    assert kept == [plan]
    options = ["--url", "there:8090", "--key", "k", "--voice", "amy", "--report", str(tmp_path)]
    code, out, err = run("bench", "tts", *options)
    assert code == 0, err
    assert kept[1:] == [TtsPlan(url="there:8090", key="k", voice="amy")]
    assert "half of it" in err
    assert "tts.html" in out.replace("\n", "")
    code, out, err = run("bench", "tts", "--engines", "scripted:tts=1", "--lengths", "20")
    assert code == 0, err
    code, out, err = run("bench", "tts", "--url", "x:1", "--size", "tiny")
    assert code == 2
    assert "from outside" in err

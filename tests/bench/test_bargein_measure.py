"""What a client played, and when, decides; what the server thinks of it does not."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pipeline.bench import bargein, bargein_trials
from pipeline.bench.bargein import BargeInResult
from pipeline.bench.bargein_measure import (
    Outcome,
    Reference,
    heard_in_context,
    is_exact,
    outcome_of,
    quantiles,
    reference_of,
)
from pipeline.bench.bargein_report import bargein_table, build, write_report
from pipeline.bench.bargein_signs import Signs
from pipeline.bench.bargein_sounds import BargeSound, Kind
from pipeline.bench.bargein_trials import Heard, Trial
from pipeline.bench.speech import Clip
from services.scripted.llm_script import LlmRequest
from services.scripted.tts import SAMPLE_RATE, char_ends
from tts_engine.errors import BadRequest
from tts_engine.text.stream import segment

TEXT = "大海很宽很深，里面住着许多奇怪的动物。"


@pytest.fixture
async def reference() -> Reference:
    return await reference_of(TEXT)


def heard(reference: Reference, *, pieces: list[tuple[float, float]], **changes: Any) -> Heard:
    found = {"name": "r", "text": TEXT, "sent": reference.samples, "status": "completed"}
    return Heard(**{**found, "pieces": pieces, **changes})


def trial(answer: Heard, *, kind: Kind = "interruption", **changes: Any) -> Trial:
    clip = Clip(
        name="x", text="停", samples=np.zeros(0, np.int16), start=0.0, end=0.2, kind="command"
    )
    sound = BargeSound(kind=kind, clip=clip)
    found = {"honours": True, "tag": "[a]", "onset": 10.0, "end": 10.2}
    signs = {name: changes.pop(name) for name in ("opened", "paused", "resumed") if name in changes}
    return Trial(sound=sound, answer=answer, signs=Signs(**signs), **{**found, **changes})


async def test_the_reference_is_what_the_voice_says(reference: Reference) -> None:
    [first, *_] = segment(TEXT)
    assert len(reference.samples) == reference.ends[-1]
    assert reference.chars[-1] == len(TEXT)
    assert reference.heard(0) == 0
    assert reference.heard(char_ends(first.text)[0]) == 1
    assert reference.heard(char_ends(first.text)[0] - 1) == 0
    assert reference.heard(10**9) == len(TEXT)
    assert reference.seconds == pytest.approx(len(reference.samples) / SAMPLE_RATE)


async def test_exactness(reference: Reference) -> None:
    whole = reference.samples
    frame = 480
    dropped = np.concatenate((whole[:frame], whole[2 * frame :]))
    repeated = np.concatenate((whole[: 2 * frame], whole[frame:]))
    assert is_exact(heard(reference, pieces=[]), reference)
    assert not is_exact(heard(reference, pieces=[], sent=dropped), reference)
    assert not is_exact(heard(reference, pieces=[], sent=repeated), reference)
    assert not is_exact(heard(reference, pieces=[], sent=whole[:frame]), reference)
    cut = heard(reference, pieces=[], sent=whole[:frame], status="cancelled")
    assert is_exact(cut, reference)
    silence = np.zeros(frame, np.int16)
    filled = heard(reference, pieces=[], sent=np.concatenate((whole, silence)), status="stopped")
    assert is_exact(filled, reference)
    more = heard(reference, pieces=[], sent=np.concatenate((whole, silence + 1)))
    assert not is_exact(more, reference)


async def test_an_interruption(reference: Reference) -> None:
    chars = 5
    played = (reference.ends[chars - 1] + 1) / SAMPLE_RATE
    answer = heard(reference, pieces=[(10.15 - played, 10.15)], status="cancelled")
    found = outcome_of(
        trial(answer, paused=(10.12,), opened=10.4), reference, context=TEXT[: chars + 2]
    )
    assert found.fate == "interrupted"
    assert found.stop_ms == pytest.approx(150)
    assert found.beyond_ms == pytest.approx(30)
    assert (found.truncation, found.prefix) == (2, True)
    assert found.resume_ms is None


async def test_an_interruption_that_no_request_followed(reference: Reference) -> None:
    found = outcome_of(trial(heard(reference, pieces=[]), opened=10.4), reference, context=None)
    assert (found.truncation, found.prefix, found.stop_ms) == (None, None, 0.0)


async def test_a_context_that_holds_something_else(reference: Reference) -> None:
    answer = heard(reference, pieces=[(9.0, 10.1)])
    found = outcome_of(trial(answer, opened=10.4), reference, context="森林")
    assert found.prefix is False


async def test_going_on_is_counted_from_the_end_of_the_sound(reference: Reference) -> None:
    pieces = [(9.0, 10.12), (10.5, 11.0), (12.0, 13.0)]
    answer = heard(reference, pieces=pieces)
    found = outcome_of(
        trial(answer, kind="noise", paused=(10.12,), resumed=(10.5,)), reference, context=None
    )
    assert found.fate == "resumed"
    assert found.resume_ms == pytest.approx(300)  # the later silence is another sound's
    assert found.exact is True


async def test_a_client_that_was_never_silent_went_on_at_once(reference: Reference) -> None:
    answer = heard(reference, pieces=[(9.0, 10.2), (10.2, 13.0)])
    found = outcome_of(
        trial(answer, kind="backchannel", paused=(10.12,), resumed=(10.3,)), reference, context=None
    )
    assert found.resume_ms == 0


@pytest.mark.parametrize(
    ("changes", "fate"),
    [
        ({}, "unnoticed"),
        ({"paused": (10.1,)}, "lost"),
        ({"paused": (10.1,), "resumed": (10.3,)}, "lost"),  # and nothing came after that
        ({"paused": (10.1,), "opened": 10.3}, "interrupted"),
    ],
)
async def test_fates(reference: Reference, changes: dict[str, Any], fate: str) -> None:
    answer = heard(reference, pieces=[(9.0, 10.1)])
    assert outcome_of(trial(answer, **changes), reference, context=None).fate == fate


def test_what_a_request_holds_of_the_answer() -> None:
    user, said = {"role": "user", "content": "停"}, {"role": "assistant", "content": "大海"}
    assert heard_in_context([{"role": "system"}, user, said, user]) == "大海"
    assert heard_in_context([{"role": "system"}, user]) == ""
    assert heard_in_context([user, {"role": "assistant", "content": None}, user]) == ""


def request(started: float, tag: str, held: str, heard: str) -> LlmRequest:
    messages = [
        {"role": "system", "content": f"{tag} 请回答。"},
        {"role": "assistant", "content": held},
        {"role": "user", "content": heard},
    ]
    return LlmRequest(body={"messages": messages}, turn=1, started=started)


async def test_the_first_request_after_a_sound_counts_whatever_was_understood(
    reference: Reference,
) -> None:
    sound = trial(heard(reference, pieces=[]))
    requests = [
        request(9.9, "[a]", "以前", "停"),
        request(10.1, "[b]", "别人", "停"),
        request(10.2, "[a]", "大海", "听"),
        request(15.0, "[a]", "森林", "停"),
    ]
    assert bargein._context(requests, sound) == "大海"
    assert bargein._context(requests[:2], sound) is None
    noise = BargeSound(kind="noise", clip=replace(sound.sound.clip, text=""))
    assert bargein._context(requests, replace(sound, sound=noise)) is None


async def test_no_sound_is_made_over_an_answer_that_has_ended(
    reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Talk:
        """Its answer ends while the client waits."""

        async def playing(self) -> Heard:
            return heard(reference, pieces=[])

        def over(self, _answer: Heard) -> bool:
            return True

    monkeypatch.setattr(bargein_trials, "_BEFORE_S", (0.0, 0.0))
    nobody: Any = None
    caller = bargein_trials.Caller(
        script=nobody, questions=(), sounds=deque(), honours=True, name="a", advance=lambda: None
    )
    talk: Any = Talk()
    sound = trial(heard(reference, pieces=[])).sound
    assert await caller._try(talk, sound, "[a]") is None


def test_quantiles() -> None:
    assert quantiles([3.0, 1.0, 2.0], ("p50", 50)) == {"p50": 2.0}
    assert quantiles([], ("p50", 50)) == {"p50": None}


def result() -> BargeInResult:
    def one(kind: str, fate: Any, **changes: Any) -> Outcome:
        return Outcome(
            kind=kind, clip="c", honours=changes.pop("honours", True), fate=fate, **changes
        )

    return BargeInResult(
        lead_ms=200.0,
        outcomes=[
            one(
                "interruption",
                "interrupted",
                stop_ms=150.0,
                beyond_ms=0.0,
                truncation=-1,
                prefix=True,
            ),
            one("interruption", "interrupted", stop_ms=390.0, beyond_ms=210.0, honours=False),
            one("interruption", "resumed", exact=True),
            one("backchannel", "resumed", resume_ms=120.0, exact=True),
            one("noise", "interrupted", stop_ms=1.0),
            one("noise", "resumed", resume_ms=300.0, exact=False),
            one("noise", "unnoticed"),
        ],
    )


def test_the_figures() -> None:
    found = result().to_json()
    assert found["stop_ms"] == {"p50": 150.0, "p95": 150.0}
    assert found["stop_plain_beyond_ms"]["p95"] == 10.0
    assert found["resume_ms"]["p50"] == 210.0
    assert found["resume_exact_rate"] == 0.5
    assert found["resumed_rate"] == pytest.approx(2 / 3, abs=1e-4)
    assert found["false_interruption_rate"] == 0.25
    assert found["unnoticed_rate"] == 0.25
    assert found["taken_rate"] == pytest.approx(2 / 3, abs=1e-4)
    assert found["truncation_chars"] == {"median": 1.0, "p95": 1.0}
    assert found["context_is_prefix_rate"] == 1.0
    assert found["sounds"]["noise"] == {
        "unnoticed": 1,
        "resumed": 1,
        "interrupted": 1,
        "lost": 0,
    }


def test_a_device_may_have_decoded_two_frames_more() -> None:
    stopped = Outcome(
        kind="interruption",
        clip="c",
        honours=False,
        fate="interrupted",
        stop_ms=250.0,
        beyond_ms=0.0,
    )
    found = BargeInResult(lead_ms=120.0, face="xiaozhi", outcomes=[stopped]).to_json()
    assert found["stop_plain_ms"]["p95"] == 250.0
    assert found["stop_decoded_ms"]["p95"] == 370.0
    assert found["stop_plain_beyond_ms"]["p95"] is None


def test_nothing_was_measured() -> None:
    found = BargeInResult(lead_ms=0.0).to_json()
    assert found["stop_ms"] == {"p50": None, "p95": None}
    assert found["taken_rate"] is None
    assert [*bargein_table(BargeInResult(lead_ms=0.0))]


def test_the_page_and_the_table(tmp_path: Any) -> None:
    page = write_report(result(), tmp_path / "report", {"machine": "2 cores"})
    assert "2 cores" in page.read_text()
    assert page.with_suffix(".json").exists()
    assert "coughs and knocks" in build(result(), {}).html()
    assert len([*bargein_table(result())]) > 5
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "bargein.json").mkdir()
    with pytest.raises(BadRequest, match="Cannot write"):
        write_report(result(), tmp_path / "taken", {})

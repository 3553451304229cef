"""A turn as the client measured it: the daemon's stamps, with the client's own at both ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pipeline.latency import PATH, TurnReport, first_sound, last_sound
from pipeline.talk.stereo import RATE, StereoRecording


@dataclass(slots=True, kw_only=True)
class ClientTurn:
    """What the client saw of a turn.

    Parameters:
        transcript: what the daemon understood.
        answer: text of the answer.
        status: of the response: "completed", "cancelled" or "failed".
        error: why it failed.
        audio_at: position of the answer's first sample on the recording, samples.
        audio_end: position just past its last one.
        report: the daemon's report, `TurnReport.to_json`.
        same_clock: the daemon's stamps are of this machine's clock.
    """

    transcript: str = ""
    answer: str = ""
    status: str = ""
    error: str = ""
    audio_at: int | None = None
    audio_end: int = 0
    report: dict[str, Any] = field(default_factory=dict[str, Any])
    same_clock: bool = False


def measure(turn: ClientTurn, recording: StereoRecording, *, began: float) -> dict[str, Any]:
    """Adds the client's ends to the daemon's stamps.

    The last voiced sample is looked for in what was sent before the daemon's decision, the first
    audible one in what was heard from the answer's start, both by the rule of `pipeline.latency`.

    Args:
        turn: what was seen.
        recording: both channels.
        began: monotonic time of the recording's first sample.

    Returns:
        The turn as `talk --json` prints it; times in milliseconds, None where there is no answer.
    """
    stamps: dict[str, float] = dict(turn.report.get("stamps", {})) if turn.same_clock else {}
    result = TurnReport(turn=int(turn.report.get("turn", 0)), stamps=stamps)
    if turn.audio_at is not None:
        decided = stamps.get("endpoint")
        until = round((decided - began) * RATE) if decided else turn.audio_at
        voiced = last_sound(recording.left()[: max(0, until)], RATE)
        audible = first_sound(recording.right()[turn.audio_at : turn.audio_end], RATE)
        if voiced is not None and audible is not None:
            result.stamps["voiced_end"] = began + voiced / RATE
            result.stamps["heard"] = began + (turn.audio_at + audible) / RATE
    v2v_ms = result.v2v_ms
    return {
        "transcript": turn.transcript,
        "answer": turn.answer,
        "status": turn.status,
        "error": turn.error or None,
        "v2v_ms": None if v2v_ms is None else round(v2v_ms, 1),
        "v2v_server_ms": turn.report.get("v2v_server_ms"),
        "parts_ms": {k: round(v, 1) for k, v in result.parts_ms.items()} if v2v_ms else {},
        "work_ms": turn.report.get("work_ms", {}),
        "underruns": turn.report.get("underruns", 0),
        "audio_s": round((turn.audio_end - (turn.audio_at or turn.audio_end)) / RATE, 2),
        "stamps_s": {
            name: round(result.stamps[name] - began, 4) for name, _ in PATH if name in result.stamps
        },
    }

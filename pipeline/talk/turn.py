"""A turn as the client measured it: the daemon's stamps, with the client's own at both ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pipeline.latency import PATH, TurnReport, first_sound, last_sound
from pipeline.talk.stereo import RATE, Piece, StereoRecording


@dataclass(slots=True, kw_only=True)
class ClientTurn:
    """What the client saw of a turn.

    Parameters:
        utterance: number of the utterance that it belongs to, from 0.
        transcript: what the daemon understood.
        answer: text of the answer.
        status: of the response: "completed", "cancelled" or "failed"; empty while there is none.
        error: why it failed.
        report: the daemon's report, `TurnReport.to_json`.
        same_clock: the daemon's stamps are of this machine's clock.
    """

    utterance: int = 0
    transcript: str = ""
    answer: str = ""
    status: str = ""
    error: str = ""
    report: dict[str, Any] = field(default_factory=dict[str, Any])
    same_clock: bool = False


def measure(turn: ClientTurn, recording: StereoRecording, *, began: float) -> dict[str, Any]:
    """Adds the client's ends to the daemon's stamps.

    Voice to voice is the distance, on the recording, from the last voiced sample that was sent
    before the daemon's decision to the first audible one of the answer, both by the rule of
    `pipeline.latency`. It needs no clock but the recording's.

    `parts_ms` sum to it where the daemon shares this machine's clock. Where it does not, they are
    the parts between its own stamps: `frame_in` and `frame_out`, the way there and back, cannot be
    told apart and are left out; and voice counts up to the answer's first sample, since nobody can
    say where the decision lies on the recording.

    Args:
        turn: what was seen.
        recording: both channels.
        began: monotonic time of the recording's first sample.

    Returns:
        The turn as `talk --json` prints it; times in milliseconds, None where there is no answer.
    """
    stamps: dict[str, float] = dict(turn.report.get("stamps", {}))
    answer = recording.heard.of(turn)
    ends = _ends(answer, recording, stamps.get("endpoint") if turn.same_clock else None, began)
    v2v_ms = None
    if ends is not None:
        voiced, heard = (began + end / RATE for end in ends)
        v2v_ms = (heard - voiced) * 1e3
        if turn.same_clock:
            # A stamp taken just after a send may be later than the sound it let out.
            stamps = {name: min(at, heard) for name, at in stamps.items()}
            stamps |= {"voiced_end": voiced, "heard": heard}
    parts = TurnReport(turn=0, stamps=stamps).parts_ms if ends is not None else {}
    known = {part for name, part in PATH if name in stamps}
    return {
        "utterance": turn.utterance,
        "transcript": turn.transcript,
        "answer": turn.answer,
        "status": turn.status,
        "error": turn.error or None,
        "v2v_ms": None if v2v_ms is None else round(v2v_ms, 1),
        "v2v_server_ms": _rounded(turn.report.get("v2v_server_ms")),
        "parts_ms": {part: round(ms, 1) for part, ms in parts.items() if part in known},
        "work_ms": turn.report.get("work_ms", {}),
        "underruns": turn.report.get("underruns", 0),
        "audio_s": round(sum(len(piece.samples) for piece in answer) / RATE, 2),
        "stamps_s": {
            name: round(stamps[name] - began, 4)
            for name, _ in PATH
            if name in stamps and turn.same_clock
        },
    }


def _ends(
    answer: list[Piece], recording: StereoRecording, decided: float | None, began: float
) -> tuple[int, int] | None:
    """Positions on the recording of the end of the user's voice and of the answer's first sound."""
    if not answer:
        return None
    start = answer[0].start
    until = start if decided is None else round((decided - began) * RATE)
    voiced = last_sound(recording.left()[: max(0, until)], RATE)
    audible = first_sound(recording.right()[start : answer[-1].end], RATE)
    if voiced is None or audible is None:
        return None
    return voiced, start + audible


def _rounded(ms: float | None) -> float | None:
    return None if ms is None else round(ms, 1)

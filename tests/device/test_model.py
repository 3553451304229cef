"""Invariants: every frame is played or lost for a reason; what is played takes its time, one frame
after the other; a device that gets its frames in time hears all of them.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.device.model import FIRMWARES, SWITCH_S, Firmware, Losses, Loudspeaker, Phase

FRAME = 0.06


def speaking(firmware: str = "2.2.2", **members: object) -> Loudspeaker:
    """It has been told to speak at 0, and has switched."""
    speaker = Loudspeaker(firmware=FIRMWARES[firmware], **members)  # type: ignore[arg-type]
    speaker.start(0.0)
    return speaker


def test_frames_in_time_are_heard_whole() -> None:
    speaker = speaking("1.6.0")
    for number in range(1000):
        at = 0.1 + max(0, number - 2) * FRAME
        assert speaker.frame(at) == "played"
    assert speaker.plays_until == pytest.approx(0.1 + 1000 * FRAME)
    assert speaker.stop(speaker.plays_until + 0.15)
    assert speaker.losses == Losses(frames=1000)
    assert speaker.losses.whole


def test_what_comes_with_the_start_is_lost() -> None:
    speaker = speaking()
    assert [speaker.frame(at) for at in (0.0, 0.04)] == ["lost_at_start"] * 2
    assert speaker.frame(SWITCH_S) == "played"
    speaker.start(0.06)  # it speaks already
    assert speaker.phase is Phase.SPEAKING
    assert not speaker.losses.whole


def test_what_comes_when_it_is_quiet_is_dropped() -> None:
    speaker = Loudspeaker(firmware=Firmware())
    assert speaker.frame(1.0) == "outside"
    assert not speaker.stop(1.0)
    assert speaker.losses == Losses(frames=1, outside=1)


@pytest.mark.parametrize(("firmware", "queue"), [("1.6.0", 5), ("1.6.2", 10), ("1.7.0", 40)])
def test_a_burst_overflows(firmware: str, queue: int) -> None:
    speaker = speaking(firmware)
    fates = [speaker.frame(1.0) for _ in range(60)]
    played = fates.index("overflowed")
    assert played == queue + 2
    assert set(fates[played:]) == {"overflowed"}


def test_a_gap_starves_it() -> None:
    speaker = speaking()
    speaker.frame(1.0)
    speaker.frame(1.0 + FRAME + 0.004)  # nobody hears that
    assert speaker.losses.starved_ms == 0
    speaker.frame(1.5)
    assert speaker.losses.starved_ms == pytest.approx((1.5 - 1.0 - 2 * FRAME - 0.004) * 1000)


@pytest.mark.parametrize(
    ("firmware", "mode", "cut_ms"),
    [
        ("1.7.0", "auto", 180),
        ("2.2.2", "auto", 0),
        ("1.7.0", "manual", 0),
        ("1.7.0", "realtime", 0),
    ],
)
def test_a_stop_that_is_too_early(firmware: str, mode: str, cut_ms: float) -> None:
    speaker = speaking(firmware, mode=mode)
    for _ in range(5):
        speaker.frame(1.0)
    assert speaker.stop(1.0) == (mode == "auto")
    assert speaker.losses.cut_ms == pytest.approx(cut_ms)
    assert speaker.plays_until == pytest.approx(1.0 + 5 * FRAME - cut_ms / 1000)


@given(
    st.lists(
        st.tuples(st.floats(0, 0.3), st.sampled_from(["start", "stop", "frame"])),
        max_size=60,
    ),
    st.sampled_from(sorted(FIRMWARES)),
    st.sampled_from(["auto", "manual", "realtime"]),
)
def test_every_frame_is_played_or_lost_for_a_reason(
    steps: list[tuple[float, str]], firmware: str, mode: str
) -> None:
    speaker = Loudspeaker(firmware=FIRMWARES[firmware], mode=mode)  # type: ignore[arg-type]
    now, fates = 0.0, []
    for pause, what in steps:
        now += pause
        match what:
            case "start":
                speaker.start(now)
            case "stop":
                speaker.stop(now)
            case _:
                fates.append(speaker.frame(now))
        assert speaker.waiting(now) <= speaker.firmware.queue + 2
    losses = speaker.losses
    assert losses.frames == len(fates)
    lost = losses.outside + losses.lost_at_start + losses.overflowed
    assert lost == sum(each != "played" for each in fates)

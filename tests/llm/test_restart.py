"""A child that keeps dying is started ever more rarely, and never given up for good."""

from hypothesis import given
from hypothesis import strategies as st

from tts_engine.restart import Backoff, RestartPolicy


def test_delays_double_until_it_is_called_failed():
    backoff = Backoff(RestartPolicy())
    verdicts = [backoff.died(served_s=1.0) for _ in range(7)]
    assert [verdict.delay_s for verdict in verdicts] == [0.5, 1, 2, 4, 30, 30, 30]
    assert [verdict.failed for verdict in verdicts] == [False] * 4 + [True] * 3


def test_delays_are_bounded():
    backoff = Backoff(RestartPolicy(longest_s=3, give_up_after=9))
    assert [backoff.died(served_s=0).delay_s for _ in range(4)] == [0.5, 1, 2, 3]


def test_health_forgives():
    backoff = Backoff(RestartPolicy())
    for _ in range(6):
        backoff.died(served_s=59.9)
    verdict = backoff.died(served_s=60.0)
    assert verdict.delay_s == 0.5
    assert not verdict.failed


@given(st.lists(st.floats(0, 200), max_size=200))
def test_there_is_always_a_next_try_within_the_limit(lives: list[float]):
    policy = RestartPolicy()
    backoff = Backoff(policy)
    for served_s in lives:
        assert policy.first_s <= backoff.died(served_s=served_s).delay_s <= policy.longest_s

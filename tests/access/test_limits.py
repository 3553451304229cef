"""Invariants: nobody gets more than a bucket and its refill; whoever is told to wait gets in after
that; the memory is bounded, whoever comes.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.access.limits import ADDRESSES, Buckets, payer


def test_a_full_bucket_then_one_at_a_time():
    buckets = Buckets(per_minute=3)
    assert [buckets.take("a", now=0.0) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert buckets.take("a", now=0.0) == pytest.approx(20)
    assert buckets.take("a", now=15.0) == pytest.approx(5)
    assert buckets.take("a", now=20.001) == 0.0
    assert buckets.take("a", now=20.002) > 0


def test_a_bucket_holds_no_more_than_a_minutes_worth():
    buckets = Buckets(per_minute=2)
    buckets.take("a", now=0.0)
    assert [bool(buckets.take("a", now=1e6)) for _ in range(3)] == [False, False, True]


def test_others_do_not_pay():
    buckets = Buckets(per_minute=1)
    assert not buckets.take("a", now=0.0)
    assert buckets.take("a", now=0.0)
    assert not buckets.take("b", now=0.0)


def test_the_one_that_was_silent_longest_is_forgotten():
    buckets = Buckets(per_minute=1, addresses=2)
    for address in ("a", "b", "a", "c"):  # a came again, b is forgotten
        buckets.take(address, now=0.0)
    assert buckets.take("a", now=0.0)
    assert not buckets.take("b", now=0.0)


def test_memory_is_bounded():
    buckets = Buckets(per_minute=1)
    for number in range(ADDRESSES + 100):
        buckets.take(str(number), now=0.0)
    assert len(buckets) == ADDRESSES


@given(
    per_minute=st.integers(1, 100),
    steps=st.lists(st.floats(0, 30), max_size=200),
)
def test_no_more_than_the_bucket_and_its_refill(per_minute: int, steps: list[float]):
    buckets, now, granted = Buckets(per_minute=per_minute), 0.0, 0
    for step in steps:
        now += step
        wait_s = buckets.take("a", now=now)
        granted += not wait_s
        if wait_s:
            now += wait_s + 1e-6
            assert not buckets.take("a", now=now)
            granted += 1
        assert granted <= per_minute + now * per_minute / 60 + 1e-3


@pytest.mark.parametrize(
    ("address", "pays"),
    [
        ("192.168.1.5", "192.168.1.5"),
        ("::ffff:192.168.1.5", "192.168.1.5"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("a local socket", "a local socket"),
    ],
)
def test_whose_bucket_pays(address: str, pays: str):
    assert payer(address) == pays


@given(st.text())
def test_any_address_has_a_bucket(address: str):
    assert isinstance(payer(address), str)

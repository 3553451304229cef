"""Invariants: what is packed is unpacked as it was, in every framing; whatever else comes is an
`Ignored` that says why.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.xiaozhi.events import Audio, Ignored
from services.xiaozhi.framing import MAX_MESSAGE, pack, unpack

VERSIONS = st.integers(1, 3)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (1, "f8fffe"),
        (2, "00020000 00000000 000003e8 00000003 f8fffe"),
        (3, "00000003 f8fffe"),
    ],
)
def test_the_examples_of_the_protocol(version: int, message: str) -> None:
    data = bytes.fromhex(message)
    timestamp = 1000 if version == 2 else 0
    assert unpack(data, version) == Audio(b"\xf8\xff\xfe", timestamp)
    assert pack(b"\xf8\xff\xfe", version, timestamp_ms=1000) == data


@given(st.binary(max_size=1300), VERSIONS, st.integers(0, 2**40))
def test_round_trip(packet: bytes, version: int, timestamp: int) -> None:
    found = unpack(pack(packet, version, timestamp_ms=timestamp), version)
    assert found == Audio(packet, timestamp % 2**32 if version == 2 else 0)


@given(st.binary(max_size=MAX_MESSAGE + 10), VERSIONS)
def test_anything_is_audio_or_ignored(message: bytes, version: int) -> None:
    found = unpack(message, version)
    if isinstance(found, Audio):
        assert message.endswith(found.packet)


@pytest.mark.parametrize(
    ("version", "message", "kind"),
    [
        (1, bytes(MAX_MESSAGE + 1), "too_large"),
        (2, bytes(15), "short_frame"),
        (2, bytes.fromhex("00010000 00000000 00000000 00000000"), "bad_version"),
        (2, bytes.fromhex("00020001 00000000 00000000 00000000"), "bad_type"),
        (2, bytes.fromhex("00020000 00000000 00000000 00000001"), "bad_size"),
        (3, bytes(3), "short_frame"),
        (3, bytes.fromhex("01000000"), "bad_type"),
        (3, bytes.fromhex("0000000100ff"), "bad_size"),
    ],
)
def test_what_is_wrong_says_why(version: int, message: bytes, kind: str) -> None:
    found = unpack(message, version)
    assert isinstance(found, Ignored)
    assert found.kind == kind

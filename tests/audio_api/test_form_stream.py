"""Invariant: a form that a client writes is read as it was meant, however it comes in; what is none
is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.audio_api.form_stream import FormReader
from tts_engine.service.forms import BadForm

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1).filter(
    lambda name: not set(name) & set('\\"%;')
)
TYPE = "multipart/form-data; boundary=b"


def read(body: bytes, kind: str, sizes: Sequence[int] = ()) -> tuple[FormReader, bytes]:
    """Reads a body in pieces of these sizes, and the rest at once."""
    reader = FormReader(kind, file="file")
    content = bytearray()
    for size in sizes:
        content += reader.push(body[:size])
        body = body[size:]
    content += reader.push(body)
    reader.finish()
    return reader, bytes(content)


def part(head: str, content: bytes = b"x") -> bytes:
    return b"--b\r\n" + head.encode() + b"\r\n\r\n" + content + b"\r\n"


FIELD = part('Content-Disposition: form-data; name="f"')
FILE = part('Content-Disposition: form-data; name="file"; filename="a.wav"', b"RIFF")


@given(
    st.lists(st.tuples(NAMES, st.text(st.characters(codec="utf-8"), max_size=20)), max_size=5),
    st.binary(max_size=400) | st.sampled_from([b"\r\n--b\r", b"\r\n--", b"--b--", b"\r\n" * 50]),
    st.lists(st.integers(1, 40), max_size=40),
    st.booleans(),
)
def test_what_a_client_writes_is_read(
    fields: list[tuple[str, str]], content: bytes, sizes: list[int], first: bool
):
    file = ("file", ("录音.wav", content))
    texts = [(name, (None, value.encode())) for name, value in fields]
    parts = [file, *texts] if first else [*texts, file]
    request = httpx.Request("POST", "http://x/", files=parts)  # type: ignore[arg-type]
    reader, got = read(request.read(), request.headers["content-type"], sizes)
    assert got == content
    assert reader.fields == fields
    assert reader.has_file


@given(st.lists(st.integers(1, 5), max_size=60))
def test_what_looks_like_a_boundary_stays(sizes: list[int]):
    content = b"\r\n--c\r\n--\r\n-\r\r\n\n--b\r"
    body = part('Content-Disposition: form-data; name="file"; filename=""', content) + b"--b--"
    assert read(body, TYPE, sizes)[1] == content


def test_what_follows_the_form_is_passed_over():
    reader, content = read(FILE + FIELD + b"--b--\r\nepilogue", TYPE, [5, 90])
    assert (reader.fields, content) == ([("f", "x")], b"RIFF")
    assert reader.push(FILE) == b""


def test_a_form_need_not_have_a_file_and_fields_may_be_empty():
    empty = part('Content-Disposition: form-data; name="e"', b"")
    reader, content = read(empty + FIELD + FIELD + b"--b--", TYPE)
    assert (reader.fields, content, reader.has_file) == (
        [("e", ""), ("f", "x"), ("f", "x")],
        b"",
        False,
    )


def test_a_name_may_be_written_as_rfc_2231_has_it():
    field = part("Content-Disposition: form-data; name*=UTF-8''%E4%BD%A0")
    assert read(field + b"--b--", TYPE)[0].fields == [("你", "x")]


@pytest.mark.parametrize(
    "body, kind",
    [
        (FIELD + b"--b--", "multipart/form-data"),
        (FIELD + b"--b--", "multipart/form-data; boundary=" + "x" * 71),
        (b"", TYPE),
        (b"preamble\r\n" + FIELD + b"--b--", TYPE),
        (FIELD, TYPE),
        (FIELD + b"--b", TYPE),
        (FIELD + b"--b-", TYPE),
        (FIELD + b"--b\r\nmore", TYPE),
        (b"--bad\r\n\r\n--b--", TYPE),
        (b"--b\r\n" + b"x" * 10_000, TYPE),
        (part("Content-Disposition: form-data") + b"--b--", TYPE),
        (part("Content-Type: text/plain") + b"--b--", TYPE),
        (b"--b\r\n\r\nx\r\n--b--", TYPE),
        (part('Content-Disposition: form-data; name="f"', b"\xff") + b"--b--", TYPE),
        (part('Content-Disposition: form-data; name="f"', b"x" * 70_000) + b"--b--", TYPE),
        (part('Content-Disposition: form-data; name="g"; filename="x"') + b"--b--", TYPE),
        (FILE + FILE + b"--b--", TYPE),
        (FIELD * 257 + b"--b--", TYPE),
    ],
)
@pytest.mark.parametrize("sizes", [[], [1] * 300])
def test_what_is_no_form_is_refused(body: bytes, kind: str, sizes: list[int]):
    with pytest.raises(BadForm):
        read(body, kind, sizes)


@given(st.binary(max_size=300), st.sampled_from([TYPE, "multipart/form-data", "x"]))
def test_nothing_else_ever_happens(body: bytes, kind: str):
    for content in (body, b"--b\r\n" + body, FIELD + body, FILE + body):
        with suppress(BadForm):
            read(content, kind, [7])

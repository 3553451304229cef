"""Invariant: a form that a client writes is read as it was meant; what is none is refused."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tts_engine.service.forms import MAX_PARTS, BadForm, parse_form

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1).filter(
    lambda name: not set(name) & set('\\"%;')
)
TYPE = "multipart/form-data; boundary=b"


def part(head: str, content: bytes = b"x") -> bytes:
    return b"--b\r\n" + head.encode() + b"\r\n\r\n" + content + b"\r\n"


FIELD = part('Content-Disposition: form-data; name="f"')


@given(
    st.dictionaries(NAMES, st.text(st.characters(codec="utf-8"), max_size=20), max_size=5),
    st.dictionaries(NAMES, st.binary(max_size=50), max_size=3),
)
def test_what_a_client_writes_is_read(fields: dict[str, str], files: dict[str, bytes]):
    fields = {name: value for name, value in fields.items() if name not in files}
    parts = {
        **{name: (None, value.encode()) for name, value in fields.items()},
        **{name: ("录音.wav", content) for name, content in files.items()},
    }
    if not parts:
        return
    request = httpx.Request("POST", "http://x/", files=parts)
    form = parse_form(request.read(), request.headers["content-type"])
    assert (form.fields, form.files) == (fields, files)


def test_line_ends_and_boundaries_in_a_recording_stay():
    content = b"\r\n--c\r\n--b-not\r\r\n\n"
    body = part('Content-Disposition: form-data; name="f"; filename="a"', content[:5]) + b"--b--"
    assert parse_form(body, TYPE).files == {"f": content[:5]}


@pytest.mark.parametrize(
    "body, kind",
    [
        (FIELD + b"--b--", "multipart/form-data"),
        (FIELD + b"--b--", "multipart/form-data; boundary=" + "x" * 71),
        (b"", TYPE),
        (b"preamble\r\n" + FIELD + b"--b--", TYPE),
        (FIELD, TYPE),
        (FIELD + b"--b", TYPE),
        (FIELD + b"--b\r\nmore", TYPE),
        (b"--bad\r\n\r\n--b--", TYPE),
        (part("Content-Disposition: form-data") + b"--b--", TYPE),
        (part(f"Content-Disposition: form-data; name*{'9' * 5000}*=f") + b"--b--", TYPE),
        (part("Content-Disposition: form-data; name*=idna''%ff%ff") + b"--b--", TYPE),
        (part("Content-Disposition: form-data; name*=undefined''f") + b"--b--", TYPE),
        (part("Content-Disposition: form-data; name*=a\0b''f") + b"--b--", TYPE),
        (FIELD + b"--b--", "multipart/form-data; boundary*0=b; boundary*=utf-8''b"),
        (FIELD + b"--b--", "multipart/form-data; boundary*=undefined''b"),
        (part("Content-Type: text/plain") + b"--b--", TYPE),
        (b"--b\r\nContent-Disposition: form-data; name=f\r\n--b--", TYPE),
        (part('Content-Disposition: form-data; name="f"', b"\xff") + b"--b--", TYPE),
        (FIELD + FIELD + b"--b--", TYPE),
        (
            b"".join(
                part(f"Content-Disposition: form-data; name=f{n}") for n in range(MAX_PARTS + 1)
            )
            + b"--b--",
            TYPE,
        ),
    ],
)
def test_what_is_no_form_is_refused(body: bytes, kind: str):
    with pytest.raises(BadForm):
        parse_form(body, kind)


@given(st.binary(max_size=300), st.sampled_from([TYPE, "multipart/form-data", "x"]))
def test_nothing_else_ever_happens(body: bytes, kind: str):
    for content in (body, b"--b\r\n" + body, FIELD + body):
        try:
            parse_form(content, kind)
        except BadForm:
            continue

# pyright: strict
"""multipart/form-data (RFC 7578), of a body that is there as a whole."""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.message import Message
from email.utils import collapse_rfc2231_value

from tts_engine.errors import BadRequest

#: parts that a form may have; ours have a dozen fields
MAX_PARTS = 32
#: bytes of a part's head
_MAX_HEAD = 8 * 1024
#: as RFC 2046 has it
_BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]", re.ASCII)


class BadForm(BadRequest):
    """A body that is no form."""

    code = "invalid_form"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What was filled in.

    Parameters:
        fields: texts by name.
        files: contents by name.
    """

    fields: dict[str, str]
    files: dict[str, bytes]


def parse_form(body: bytes, content_type: str) -> Form:
    """Reads a form.

    Args:
        body: all of it.
        content_type: the request's header, with the boundary.

    Raises:
        BadForm: it is none, a name comes twice, a field is not UTF-8.
    """
    boundary = boundary_of(content_type)
    fields: dict[str, str] = {}
    files: dict[str, bytes] = {}
    for part in _parts(body, b"--" + boundary.encode()):
        name, is_file, content = _read(part)
        if name in fields or name in files:
            raise BadForm(f"The field {name[:100]!r} comes twice")
        if is_file:
            files[name] = content
            continue
        try:
            fields[name] = content.decode("utf-8")
        except UnicodeDecodeError:
            raise BadForm(f"The field {name[:100]!r} is not UTF-8") from None
    return Form(fields=fields, files=files)


def boundary_of(content_type: str) -> str:
    """The boundary that a request's header names.

    Raises:
        BadForm: it names none.
    """
    boundary = _parameter("content-type", content_type, "boundary")
    if boundary is None or not _BOUNDARY.fullmatch(boundary):
        raise BadForm("The Content-Type names no boundary")
    return boundary


def disposition_of(head: bytes) -> tuple[str, bool]:
    """The name of a part by its head, and whether it is a file.

    Raises:
        BadForm: it has no name.
    """
    for line in head.decode("utf-8", "replace").split("\r\n"):
        header, _, value = line.partition(":")
        if header.strip().lower() == "content-disposition":
            name = _parameter("content-disposition", value, "name")
            if name:
                return name, _parameter("content-disposition", value, "filename") is not None
    raise BadForm("A field of the form has no name")


def _parts(body: bytes, delimiter: bytes) -> list[bytes]:
    """The parts as they lie between the delimiters."""
    if not body.startswith(delimiter):
        raise BadForm("The body does not begin with its boundary")
    body = b"\r\n" + body
    delimiter = b"\r\n" + delimiter
    parts: list[bytes] = []
    at = len(delimiter)
    while not body.startswith(b"--", at):
        end = body.find(delimiter, at)
        if not body.startswith(b"\r\n", at) or end < 0:
            raise BadForm("The form is cut off")
        parts.append(body[at + 2 : end])
        if len(parts) > MAX_PARTS:
            raise BadForm(f"The form has more than {MAX_PARTS} fields")
        at = end + len(delimiter)
    return parts


def _read(part: bytes) -> tuple[str, bool, bytes]:
    """Name of a part, whether it is a file, and its content."""
    end = part.find(b"\r\n\r\n", 0, _MAX_HEAD)
    if end < 0:
        raise BadForm("A field of the form has no head")
    return (*disposition_of(part[:end]), part[end + 4 :])


def _parameter(header: str, value: str, name: str) -> str | None:
    message = Message()
    try:
        message[header] = value.strip().replace("\r", " ").replace("\n", " ")
        found = message.get_param(name, None, header)
        return None if found is None else collapse_rfc2231_value(found)
    except (ValueError, LookupError, TypeError):  # a code, or a number, that there is not
        raise BadForm(f"The header {header} cannot be read") from None

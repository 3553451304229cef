# pyright: strict
"""multipart/form-data (RFC 7578) as it comes: a file goes on to where it is kept. Pure.

reader = FormReader(request.headers["content-type"], file="file")
async for data in request.stream():
    keep(reader.push(data))
reader.finish()
"""

from __future__ import annotations

from tts_engine.service.forms import BadForm, boundary_of, disposition_of

#: parts that a form may have, bytes of a part's head, and of all fields together
_MAX_PARTS, _MAX_HEAD, _MAX_FIELDS = 256, 8 * 1024, 64 * 1024


class FormReader:
    """Reads one form.

    Parameters:
        content_type: the request's header, with the boundary.
        file: name of the one field that is a file.

    Attributes:
        fields: names and texts of the other fields, in their order.
        has_file: the file has begun.

    Raises:
        BadForm: the header names no boundary.
    """

    def __init__(self, content_type: str, *, file: str) -> None:
        boundary = boundary_of(content_type)
        self.fields: list[tuple[str, str]] = []
        self.has_file = False
        self._file = file
        self._delimiter = b"\r\n--" + boundary.encode()
        # the first delimiter may be at the very start
        self._buffer = bytearray(b"\r\n")
        self._name: str | None = None  # of the part that is being read; None: there is none yet
        self._is_file = False
        self._text = bytearray()  # of the field that is being read
        self._in_head = False
        self._parts = 0
        self._size = 0
        self._over = False

    def push(self, data: bytes) -> bytes:
        """Takes the next bytes of the body.

        Returns:
            What of the file became known by them.

        Raises:
            BadForm: it is no form, has a field that is not UTF-8, a file too many, or too much
                beside the file.
        """
        content = bytearray()
        self._buffer += data
        while not self._over and (self._head() if self._in_head else self._body(content)):
            pass
        if self._over:
            self._buffer.clear()  # an epilogue, which nobody has to read
        return bytes(content)

    def finish(self) -> None:
        """The body is over.

        Raises:
            BadForm: the form is not.
        """
        if not self._over:
            raise BadForm("The form is cut off")

    def _head(self) -> bool:
        """Reads what follows a delimiter; False: more has to come."""
        buffer = self._buffer
        if len(buffer) < 2:
            return False
        if buffer.startswith(b"--"):
            self._over = True
            return True
        end = buffer.find(b"\r\n\r\n", 0, _MAX_HEAD)
        if not buffer.startswith(b"\r\n") or (end < 0 and len(buffer) >= _MAX_HEAD):
            raise BadForm("A field of the form has no head")
        if end < 0:
            return False
        self._begin(bytes(buffer[2:end]))
        del buffer[: end + 4]
        self._in_head = False
        return True

    def _begin(self, head: bytes) -> None:
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise BadForm(f"The form has more than {_MAX_PARTS} fields")
        name, is_file = disposition_of(head)
        if name == self._file and is_file:
            if self.has_file:
                raise BadForm(f"The field {name!r} comes twice")
            self.has_file = True
        elif is_file:
            raise BadForm(f"There is no file {name[:100]!r} in this form")
        self._name = name
        self._is_file = is_file

    def _body(self, content: bytearray) -> bool:
        """Reads up to the next delimiter; False: more has to come."""
        buffer, delimiter = self._buffer, self._delimiter
        end = buffer.find(delimiter)
        # the end of what is there may be the beginning of a delimiter
        known = end if end >= 0 else max(0, len(buffer) - len(delimiter) + 1)
        self._take(bytes(buffer[:known]), content)
        if end < 0:
            del buffer[:known]
            return False
        self._end()
        del buffer[: end + len(delimiter)]
        self._in_head = True
        return True

    def _take(self, data: bytes, content: bytearray) -> None:
        if self._name is None:
            if data:
                raise BadForm("The body does not begin with its boundary")
        elif self._is_file:
            content += data
        else:
            self._size += len(data)
            if self._size > _MAX_FIELDS:
                raise BadForm(f"The fields of the form have more than {_MAX_FIELDS} bytes")
            self._text += data

    def _end(self) -> None:
        if self._name is None or self._is_file:
            return
        try:
            self.fields.append((self._name, self._text.decode("utf-8")))
        except UnicodeDecodeError:
            raise BadForm(f"The field {self._name[:100]!r} is not UTF-8") from None
        self._text.clear()

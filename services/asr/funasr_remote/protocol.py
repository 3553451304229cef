"""The WebSocket protocol of FunASR's runtime, without a socket.

        client   {"mode": "2pass", "is_speaking": true, "wav_name", ...}   begins an utterance
                 PCM, 16 bit, 16 kHz, 60 ms a message                      as often as wanted
                 {"is_speaking": false}                                    ends it
        server   {"mode": "2pass-online", "text"}     what the first pass heard since its last reply
                 {"mode": "2pass-offline", "text"}    a stretch of speech again, by the second pass

The server cuts an utterance where its own voice detector hears a pause; each stretch gets its
second pass. Which reply is the last one is told differently by every server: the C++ runtime says
`is_final` in it and in no other, the Python servers say it in every second pass, or never, and
newer ones acknowledge an end that asked for it by `is_end`. What all have in common is that a reply
carries the `wav_name` of the message that caused it. So the end of an utterance has a name of its
own, and a reply with that name comes after everything else.
"""
# pyright: strict

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np

from services.asr.base import SAMPLE_RATE, Samples

Mode = Literal["2pass", "online", "offline"]

#: what the streaming model looks back, decodes, and looks ahead, in frames of 60 ms
CHUNK = (5, 10, 5)
#: messages that a chunk is sent in
CHUNK_INTERVAL = 10
#: samples a message: 60 ms, which the servers take for granted
FRAME = CHUNK[1] * SAMPLE_RATE * 60 // 1000 // CHUNK_INTERVAL
#: how likely a hotword is that says nothing of it
_WEIGHT = 20
#: what the names of our utterances begin with
_OURS = "duplexd-"
_END = "-end"
#: a reply has at least one of these
_FIELDS = frozenset({"text", "is_final", "is_end"})


class ProtocolError(Exception):
    """The server sent what the protocol does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What an utterance is recognised with.

    Parameters:
        mode: two passes, or only one of them.
        itn: numbers and dates are written as digits.
        hotwords: likely words, and how likely: 1 to 100 or so.
        language: "auto", or the code of the only one that is spoken; SenseVoice heeds it.
    """

    mode: Mode = "2pass"
    itn: bool = True
    hotwords: Mapping[str, int] = field(default_factory=dict[str, int])
    language: str = "auto"


def weights(lines: Iterable[str]) -> dict[str, int]:
    """Hotwords as people write them: a word, and after a space how likely it is, or nothing."""
    words: dict[str, int] = {}
    for line in lines:
        word, _, weight = line.strip().rpartition(" ")
        likely = bool(word) and weight.isascii() and weight.isdigit()
        words[word.strip() if likely else line.strip()] = int(weight) if likely else _WEIGHT
    return words


def utterance_name(number: int) -> str:
    """The `wav_name` of an utterance."""
    return f"{_OURS}{number}"


def begin(name: str, wishes: Wishes) -> str:
    """The message that begins an utterance."""
    # A string in the string; servers without hotwords of the client's take an empty one for none.
    hotwords = json.dumps(dict(wishes.hotwords), ensure_ascii=False) if wishes.hotwords else ""
    message = {
        "mode": wishes.mode,
        "wav_name": name,
        "wav_format": "pcm",
        "audio_fs": SAMPLE_RATE,
        "is_speaking": True,
        "chunk_size": list(CHUNK),
        "chunk_interval": CHUNK_INTERVAL,
        "hotwords": hotwords,
        "itn": wishes.itn,
        "svs_itn": wishes.itn,
        "svs_lang": wishes.language,
    }
    return json.dumps(message, ensure_ascii=False)


def end(name: str) -> str:
    """The message that ends the utterance `name`."""
    return json.dumps({"is_speaking": False, "is_end": True, "wav_name": name + _END})


def pcm(samples: Samples) -> bytes:
    """Samples as they are sent."""
    scaled = np.clip(np.rint(samples * np.float32(32768)), -32768, 32767)
    return scaled.astype("<i2").tobytes()


@dataclass(frozen=True, slots=True)
class TimedWord:
    """A word of a reply; milliseconds from the start of the utterance."""

    text: str
    start_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A message of the server.

    Parameters:
        name: `wav_name`, if it is one of ours.
        second_pass: its text replaces what the first pass gave since the last second pass.
        last: `is_final`, whatever the server means by it.
        acknowledges: the end of the utterance.
        error: what failed, in the server's words.
    """

    name: str | None = None
    text: str = ""
    second_pass: bool = False
    last: bool = False
    acknowledges: bool = False
    error: str = ""
    words: tuple[TimedWord, ...] = ()


def parse(message: str | bytes) -> Reply:
    """Reads a message of the server.

    Raises:
        ProtocolError
    """
    if isinstance(message, bytes):
        raise ProtocolError("it sent bytes")
    try:
        parsed: Any = json.loads(message)
    except (ValueError, RecursionError):
        raise ProtocolError("it sent something that is not JSON") from None
    if not isinstance(parsed, dict):
        raise ProtocolError("it sent JSON that is not an object")
    body = cast(dict[str, Any], parsed)
    # An echo of our own message is no reply.
    if "is_speaking" in body or not _FIELDS & body.keys():
        raise ProtocolError("it sent an object without a text")
    name, text, error = body.get("wav_name"), body.get("text", ""), body.get("error", "")
    mode = body.get("mode", "")
    if not isinstance(text, str) or not isinstance(mode, str):
        raise ProtocolError("it sent an object whose text is none")
    acknowledges = body.get("is_end") is True
    final = body.get("is_final") is True
    if acknowledges and not final and not error:
        error = "it could not finish the utterance"
    return Reply(
        name=name if isinstance(name, str) and name.startswith(_OURS) else None,
        text=text,
        second_pass=mode.endswith("offline"),
        last=final,
        acknowledges=acknowledges,
        error=str(error),
        words=_words(body.get("stamp_sents")),
    )


def _words(sentences: Any) -> tuple[TimedWord, ...]:
    """The words of `stamp_sents`; none where it is not as documented.

    `timestamp` is left alone: some servers count it from the start of the stretch of speech, which
    they do not tell.
    """
    words: list[TimedWord] = []
    try:
        for sentence in sentences or ():
            spoken, times = sentence["text_seg"].split(), sentence["ts_list"]
            words += [
                TimedWord(word, float(start), float(stop))
                for word, (start, stop) in zip(spoken, times, strict=True)
            ]
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
        return ()
    return tuple(words)


class Utterance:
    """What the server has said about one utterance.

    Attributes:
        name: its `wav_name`.
        ended: its end was sent; set by whoever sends it.
        done: nothing more will come.
        error: what failed, if anything did.
        stretches: texts of the second pass, as the server wrote them.
        increments: texts of the first pass since the last of them.
        words: of the stretches, where the server tells.
    """

    def __init__(self, name: str, mode: Mode) -> None:
        self.name = name
        self.ended = False
        self.done = False
        self.error = ""
        self.stretches: list[str] = []
        self.increments: list[str] = []
        self.words: list[TimedWord] = []
        self._two = mode == "2pass"

    def take(self, reply: Reply) -> bool:
        """Takes a reply.

        Returns:
            Whether it belongs to this utterance, and told anything.
        """
        if reply.name not in (None, self.name, self.name + _END):
            return False
        at_end = self.ended and reply.name != self.name
        if reply.acknowledges:
            self.done, self.error = at_end, reply.error
            return at_end
        if reply.second_pass:
            self.increments.clear()
            self.words += reply.words
            if reply.text:
                self.stretches.append(reply.text)
        elif reply.text:
            self.increments.append(reply.text)
        # Python servers do not mark the last second pass. The C++ runtime may send another one, for
        # the 50 ms that it had not looked at when it was told of the end: there is no word in them.
        self.done = at_end and (reply.last or reply.second_pass)
        if self.done and self._two:
            # What the second pass did not confirm was nothing.
            self.increments.clear()
        return self.done or bool(reply.text) or reply.second_pass

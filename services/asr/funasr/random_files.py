"""The files beside the weights of a model of random numbers: vocabularies and feature statistics.

They have the names and formats of the published ones, so FunASR's own classes read them.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

#: rich tags of SenseVoice, at the ids where its published vocabulary has them
TAGS = {
    24884: "<|zh|>",
    24885: "<|en|>",
    24888: "<|yue|>",
    24892: "<|ja|>",
    24896: "<|ko|>",
    24992: "<|nospeech|>",
    24993: "<|Speech|>",
    24995: "<|BGM|>",
    24997: "<|Laughter|>",
    24999: "<|Applause|>",
    25001: "<|HAPPY|>",
    25002: "<|SAD|>",
    25003: "<|ANGRY|>",
    25004: "<|NEUTRAL|>",
    25009: "<|EMO_UNKNOWN|>",
    25012: "<|Cough|>",
    25016: "<|withitn|>",
    25017: "<|woitn|>",
}
#: pieces of the published vocabulary of SenseVoice
SENSEVOICE_PIECES = 25_055

_SPOKEN = ("hello", "world", "the", "of", "and", "yes", "no")
_BEGUN = ("a@@", "be@@", "in@@", "re@@", "un@@", "st@@")
#: kinds of pieces in a sentencepiece model
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4


def write_tokens(directory: Path, *, count: int) -> None:
    """Writes tokens.json for a CharTokenizer: Hanzi, some words, some beginnings of words."""
    ordinary = [*_SPOKEN, *_BEGUN, *"abcdefghijklmnopqrstuvwxyz", *_hanzi()]
    tokens = ["<blank>", "<s>", "</s>", *ordinary]
    tokens += [f"unused{number}" for number in range(count - 1 - len(tokens))]
    tokens = [*tokens[: count - 1], "<unk>"]
    written = json.dumps(tokens, ensure_ascii=False)
    (directory / "tokens.json").write_text(written, encoding="utf-8")


def write_words(directory: Path) -> None:
    """Writes seg_dict, the tokens of which a word consists, for the tokens of `write_tokens`."""
    whole = [f"{word} {word}\n" for word in (*_SPOKEN, *_hanzi())]
    (directory / "seg_dict").write_text("".join([*whole, "abe a@@ b e\n"]), encoding="utf-8")


def write_pieces(directory: Path, *, full: bool) -> None:
    """Writes bpe.model: a sentencepiece model with SenseVoice's tags among its pieces."""
    plain = [f"\u2581{word}" for word in _SPOKEN] + ["\u2581", "ing", "er", *"abcdefgh", *"，。？"]
    tags = TAGS if full else {40 + place: tag for place, tag in enumerate(TAGS.values())}
    count = SENSEVOICE_PIECES if full else 300
    ordinary = iter([*plain, *_hanzi(), *(f"unused{number}" for number in range(count))])
    pieces = [("<unk>", _UNKNOWN), ("<s>", _CONTROL), ("</s>", _CONTROL)]
    while len(pieces) < count:
        tag = tags.get(len(pieces))
        pieces.append((tag, _USER_DEFINED) if tag else (next(ordinary), _NORMAL))
    model = b"".join(_piece(text, kind, place) for place, (text, kind) in enumerate(pieces))
    (directory / "bpe.model").write_bytes(model)


def write_statistics(directory: Path, *, width: int) -> None:
    """Writes am.mvn: what is added to each of `width` features and what each is multiplied by."""
    numbers = {"AddShift": " ".join(["-12.0"] * width), "Rescale": " ".join(["0.2"] * width)}
    layers = (
        f"<{name}> {width} {width}\n<LearnRateCoef> 0 [ {values} ]"
        for name, values in numbers.items()
    )
    lines = ("<Nnet>", f"<Splice> {width} {width}", "[ 0 ]", *layers, "</Nnet>", "")
    (directory / "am.mvn").write_text("\n".join(lines), encoding="ascii")


def _hanzi() -> list[str]:
    """The 6763 Hanzi of GB 2312, the frequent ones first."""
    both = range(0xA1, 0xFF)
    pairs = (bytes((high, low)) for high in range(0xB0, 0xF8) for low in both)
    return [text for pair in pairs if (text := pair.decode("gb2312", "ignore"))]


def _piece(text: str, kind: int, place: int) -> bytes:
    """One piece of a sentencepiece ModelProto, as protobuf writes it: text, score, kind."""
    encoded = text.encode()
    inside = b"\x0a" + bytes((len(encoded),)) + encoded
    inside += b"\x15" + struct.pack("<f", -float(place)) + b"\x18" + bytes((kind,))
    return b"\x0a" + bytes((len(inside),)) + inside

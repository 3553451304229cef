"""What a server sends is cut into the same messages, however the bytes arrive."""

from __future__ import annotations

import base64
import itertools
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.server import ServerProtocol

from pipeline.bench.sessions_dialects import dialect_of
from pipeline.bench.sessions_wire import (
    BINARY,
    CLOSE,
    TEXT,
    ServerStream,
    WireError,
    client_frame,
    handshake,
    message,
    realtime_audio_ms,
)

ACCEPTED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"


def served(*payloads: tuple[int, bytes]) -> bytes:
    """What a server writes."""
    return b"".join(
        Frame(Opcode(opcode), payload).serialize(mask=False) for opcode, payload in payloads
    )


def read(stream: ServerStream, data: bytes, cuts: list[int]) -> list[tuple[int, bytes]]:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [
        found for start, end in itertools.pairwise(edges) for found in stream.feed(data[start:end])
    ]


payloads = st.lists(
    st.tuples(
        st.sampled_from([TEXT, BINARY]),
        st.one_of(
            st.binary(max_size=300), st.sampled_from([bytes(125), bytes(126), bytes(70_000)])
        ),
    ),
    max_size=4,
)


@example([(BINARY, bytes(70_000))], [len(ACCEPTED) + at for at in range(12)])
@given(payloads, st.lists(st.integers(0, 2000), max_size=6))
def test_messages_do_not_depend_on_how_they_are_cut(
    sent: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    assert read(ServerStream(), ACCEPTED + served(*sent), cuts) == sent


@given(st.sampled_from([TEXT, BINARY, CLOSE]), st.integers(0, 70_000))
def test_a_real_server_reads_what_the_client_writes(opcode: int, size: int) -> None:
    payload = (1000).to_bytes(2, "big") if opcode == CLOSE else b"x" * size
    server = ServerProtocol()
    server.receive_data(handshake(host="h:1", path="/v1/realtime", headers=[("A", "b")]))
    [request] = server.events_received()
    assert request.headers["A"] == "b"  # type: ignore[union-attr]
    server.send_response(server.accept(request))  # type: ignore[arg-type]
    server.receive_data(client_frame(opcode, payload))
    [frame] = server.events_received()
    assert (frame.opcode, frame.data) == (opcode, payload)  # type: ignore[union-attr]
    [*_] = ServerStream().feed(b"".join(server.data_to_send()))  # and its answer is accepted


def test_a_message_is_text_or_binary() -> None:
    assert message("好")[0] & 0x0F == TEXT
    assert message(b"\x01")[0] & 0x0F == BINARY


def test_a_refusal_names_its_status() -> None:
    with pytest.raises(WireError, match="503 Service Unavailable"):
        [*ServerStream().feed(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")]


def test_an_endless_answer_to_the_handshake_is_given_up() -> None:
    stream = ServerStream()
    assert [*stream.feed(b"HTTP/1.1 101 Switching Protocols\r\n")] == []
    with pytest.raises(WireError, match="no answer"):
        [*stream.feed(b"x" * 70_000)]


def test_messages_in_pieces_are_refused() -> None:
    with pytest.raises(WireError, match="several frames"):
        [*ServerStream().feed(ACCEPTED + b"\x01\x01x")]


def test_the_length_of_audio_is_read_without_decoding() -> None:
    event = {"type": "response.output_audio.delta", "event_id": "e", "delta": ""}
    event["delta"] = base64.b64encode(bytes(48 * 60)).decode()
    shown = json.dumps(event, separators=(",", ":")).encode()
    assert realtime_audio_ms(shown) == pytest.approx(60)
    assert realtime_audio_ms(b'{"type":"response.done"}') == 0


def test_dialects() -> None:
    ours, peers = dialect_of("realtime"), dialect_of("peer")
    assert ours.opening[0] & 0x0F == TEXT
    assert b"session.update" in ours.opening
    assert b"input_audio_buffer.append" in ours.frame(bytes(4))
    assert ours.audio_ms(TEXT, b"{}") == 0
    assert peers.opening == b""
    assert peers.frame(bytes(4)) == client_frame(BINARY, bytes(4))
    assert peers.audio_ms(BINARY, bytes(960)) == 20
    assert peers.audio_ms(TEXT, b'{"type":"turn"}') == 0

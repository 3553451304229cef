"""A download that breaks goes on from its last byte, and no server's answer is believed before its
hash is right.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from services.models import Manifest, ModelState, ModelStore
from services.models.manifest import Source
from services.models.sources import hub_url
from tests.services.wheelhouse import model, sha, spec
from tts_engine.errors import ModelCorrupt, ModelMissing

DATA = os.urandom(300_000)
HALF = len(DATA) // 2


class Hub:
    """A file server on loopback that can be told to misbehave.

    Parameters:
        data: what every path holds.
        ranges: whether it knows Range.
        cuts: bytes after which it breaks each connection, one per request; then it is well.
        status: of every answer; None is the right one.
        requests: path and Range of every request.
    """

    def __init__(self) -> None:
        self.data = DATA
        self.ranges = True
        self.cuts: list[int] = []
        self.status: int | None = None
        self.lied_about_range = False
        self.requests: list[tuple[str, str | None]] = []

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        asked = handler.headers.get("Range")
        self.requests.append((handler.path, asked))
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.ranges else 0
        body = self.data[start:]
        handler.send_response(self.status or (206 if start else 200))
        if start:
            told = 0 if self.lied_about_range else start
            handler.send_header("Content-Range", f"bytes {told}-{len(self.data) - 1}/*")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        cut = self.cuts.pop(0) if self.cuts else len(body)
        handler.wfile.write(body[:cut])
        handler.close_connection = True


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    state = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.answer(self)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        base = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("HF_ENDPOINT", f"{base}/hf/")
        monkeypatch.setenv("MODELSCOPE_ENDPOINT", f"{base}/ms")
        yield state
        server.shutdown()
        thread.join()


HUGGING = {"huggingface": {"repo": "own/toy", "path": "sub/model.bin", "revision": "v1"}}
SCOPE = {"modelscope": {"repo": "own/toy", "path": "model.bin"}}


def store_of(tmp_path: Path, *sources: dict[str, Any]) -> ModelStore:
    toy = model({"model.bin": spec(DATA, *sources)})
    return ModelStore(
        root=tmp_path / "models", manifest=Manifest.model_validate({"models": {"toy": toy}})
    )


def part(store: ModelStore) -> Path:
    return store.root / "toy" / f".model.bin.{sha(DATA)[:12]}.part"


def test_both_hubs_are_asked_at_their_addresses(
    tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(tmp_path, HUGGING)
    seen: list[tuple[str, int, int, str]] = []
    store.fetch("toy", lambda *step: seen.append(step))
    assert seen[-1] == ("model.bin", len(DATA), len(DATA), "downloading")
    (tmp_path / "again").mkdir()
    store_of(tmp_path / "again", SCOPE).fetch("toy")
    assert hub.requests == [
        ("/hf/own/toy/resolve/v1/sub/model.bin", None),
        ("/ms/models/own/toy/resolve/master/model.bin", None),
    ]
    monkeypatch.delenv("HF_ENDPOINT")
    monkeypatch.delenv("MODELSCOPE_ENDPOINT")
    assert hub_url(Source.model_validate(HUGGING)) == (
        "https://huggingface.co/own/toy/resolve/v1/sub/model.bin"
    )
    assert hub_url(Source.model_validate(SCOPE)) == (
        "https://www.modelscope.cn/models/own/toy/resolve/master/model.bin"
    )


def test_a_broken_connection_is_taken_up_again(tmp_path: Path, hub: Hub) -> None:
    hub.cuts = [HALF, 1000]
    store = store_of(tmp_path, HUGGING)
    store.fetch("toy")
    ranges = [asked for _, asked in hub.requests]
    assert ranges == [None, f"bytes={HALF}-", f"bytes={HALF + 1000}-"]
    assert not part(store).exists()


def test_a_server_that_gives_up_is_gone_on_from_next_time(tmp_path: Path, hub: Hub) -> None:
    hub.cuts = [HALF, 0]
    store = store_of(tmp_path, HUGGING)
    with pytest.raises(ModelMissing, match=r"sub/model\.bin: "):
        store.fetch("toy")
    assert part(store).read_bytes() == DATA[:HALF]

    store_of(tmp_path, SCOPE).fetch("toy")  # another source goes on as well

    assert hub.requests[-1] == ("/ms/models/own/toy/resolve/master/model.bin", f"bytes={HALF}-")
    assert store.status("toy") is ModelState.PRESENT


def test_a_part_of_another_set_of_files_does_not_stay(tmp_path: Path, hub: Hub) -> None:
    hub.cuts = [HALF, 0]
    (tmp_path / "other").write_bytes(b"other")
    toy = model(
        {"model.bin": spec(DATA, HUGGING)},
        {"model.bin": spec(b"other", {"file": str(tmp_path / "other")})},
    )
    manifest = Manifest.model_validate({"models": {"toy": toy}})
    directory = ModelStore(root=tmp_path / "models", manifest=manifest).fetch("toy")
    assert {path.name for path in directory.iterdir()} == {".verified.json", "model.bin"}


def test_a_connection_that_keeps_breaking_is_given_up(tmp_path: Path, hub: Hub) -> None:
    hub.cuts = [1000] * 5
    store = store_of(tmp_path, HUGGING)
    with pytest.raises(ModelMissing, match="the connection broke 5 times"):
        store.fetch("toy")
    assert part(store).stat().st_size == 5000


def test_a_server_without_ranges_starts_over(tmp_path: Path, hub: Hub) -> None:
    hub.ranges = False
    hub.cuts = [HALF]
    store_of(tmp_path, HUGGING).fetch("toy")
    assert [asked for _, asked in hub.requests] == [None, f"bytes={HALF}-"]


def test_a_complete_part_needs_no_server(tmp_path: Path, hub: Hub) -> None:
    store = store_of(tmp_path, HUGGING)
    part(store).parent.mkdir(parents=True)
    part(store).write_bytes(DATA)
    store.fetch("toy")
    assert hub.requests == []


def test_a_part_that_is_too_long_is_dropped(tmp_path: Path, hub: Hub) -> None:
    store = store_of(tmp_path, HUGGING)
    part(store).parent.mkdir(parents=True)
    part(store).write_bytes(DATA + b"more")
    store.fetch("toy")
    assert [asked for _, asked in hub.requests] == [None]


def test_a_damaged_part_costs_one_more_download(tmp_path: Path, hub: Hub) -> None:
    store = store_of(tmp_path, HUGGING)
    part(store).parent.mkdir(parents=True)
    part(store).write_bytes(b"?" * HALF)
    store.fetch("toy")
    assert [asked for _, asked in hub.requests] == [f"bytes={HALF}-", None]


@pytest.mark.parametrize(
    "data, reason",
    [
        (DATA[::-1], f"expected sha256 {sha(DATA)}, got {sha(DATA[::-1])}"),
        (DATA + b"!", f"expected {len(DATA)} bytes, got more"),
        (DATA[:-1], f"expected {len(DATA)} bytes, got {len(DATA) - 1}"),
    ],
)
def test_wrong_content_is_thrown_away(tmp_path: Path, hub: Hub, data: bytes, reason: str) -> None:
    hub.data = data
    store = store_of(tmp_path, HUGGING)
    with pytest.raises(ModelCorrupt, match=reason):
        store.fetch("toy")
    assert list((store.root / "toy").iterdir()) == []


def test_an_answer_that_is_no_file(tmp_path: Path, hub: Hub) -> None:
    hub.status = 404
    with pytest.raises(ModelMissing, match="HTTP 404"):
        store_of(tmp_path, HUGGING).fetch("toy")


def test_an_answer_from_another_place_in_the_file(tmp_path: Path, hub: Hub) -> None:
    hub.lied_about_range = True
    hub.cuts = [HALF]
    with pytest.raises(ModelMissing, match="HTTP 206"):
        store_of(tmp_path, HUGGING).fetch("toy")


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1", "http://[", "nonsense"])
def test_an_endpoint_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(ModelMissing) as caught:
        store_of(tmp_path, HUGGING).fetch("toy")
    assert f"{endpoint}/own/toy/resolve/v1/sub/model.bin: " in caught.value.message

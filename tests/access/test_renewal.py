"""Invariants: new connections get the certificate that the files hold, without a restart; a bad one
changes nothing, and is told once.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from loguru import logger

from services.access import renewal
from services.access.certificate import make_bundle
from services.access.key_file import KeyFile
from services.access.renewal import Renewal
from services.access.tls import Tls, own_tls
from tests.access.fakes import House, open_house
from tests.access.test_tls import NAMES
from tts_engine.files import replace_file


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    return own_tls(tmp_path / "tls", NAMES)


@pytest.fixture
def lines() -> Iterator[list[str]]:
    found: list[str] = []
    sink = logger.add(lambda line: found.append(str(line)), level="INFO", format="{message}")
    yield found
    logger.remove(sink)


def put(tls: Tls) -> bytes:
    """Puts other files in place of these; returns the certificate, in DER."""
    other = make_bundle(NAMES)
    replace_file(tls.key, other.key, mode=0o600)
    replace_file(tls.certificate, other.certificate, mode=0o644)
    return ssl.PEM_cert_to_DER_cert(other.certificate.decode())


async def shown(house: House) -> bytes:
    """What a client is shown that takes any certificate."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    host, _, port = house.address.partition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=trusting)
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return certificate


async def test_the_server_shows_a_new_one_without_a_restart(
    tls: Tls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(renewal, "LOOK_EVERY_S", 0)
    house = House(KeyFile(tmp_path / "keys.json"))
    async with open_house(house, tls=tls):
        assert await shown(house) == ssl.PEM_cert_to_DER_cert(tls.certificate.read_text())
        new = put(tls)
        async with asyncio.timeout(30):
            while await shown(house) != new:  # noqa: ASYNC110 - it looks once a second
                await asyncio.sleep(0.1)


async def test_a_new_one_is_told(tls: Tls, lines: list[str]):
    renewing = Renewal(tls)
    await renewing.look()
    assert lines == []
    put(tls)
    for _ in range(3):
        await renewing.look()
    assert lines == ["new connections get the certificate that was renewed\n"]


async def test_a_bad_one_changes_nothing(tls: Tls, lines: list[str]):
    renewing = Renewal(tls)
    good = tls.certificate.read_bytes()
    replace_file(tls.certificate, make_bundle(NAMES).certificate, mode=0o644)  # the key comes later
    for _ in range(3):
        await renewing.look()
    [line] = lines
    assert "cannot be used, the one before stays" in line
    assert "is not the key of" in line
    tls.certificate.unlink()
    await renewing.look()
    assert "Cannot read" in lines[1]
    replace_file(tls.certificate, good, mode=0o644)
    await renewing.look()
    assert "renewed" in lines[2]

"""Invariants: a client that trusts the authority verifies the certificate by every name and address
of this machine; it is made anew exactly when it has to be; a certificate of somebody's that cannot
work is refused with its reason.
"""

from __future__ import annotations

import os
import ssl
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from loguru import logger

from services.access.certificate import (
    VALIDITY,
    Bundle,
    Names,
    fingerprint_of,
    make_bundle,
    still_good,
)
from services.access.tls import Tls, given_tls, own_tls
from tts_engine.errors import ConfigError, DuplexdError

NAMES = Names(
    hostname="studio",
    names=frozenset({"localhost", "studio", "studio.local"}),
    addresses=frozenset({"127.0.0.1", "::1", "192.168.1.5", "fd00::5"}),
)
NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return make_bundle(NAMES, now=NOW)


def handshake(tls: Tls, authority: Path | None, host: str, *, strict: bool = False) -> None:
    """A whole handshake in memory, with Python's default verification."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tls.certificate, tls.key)
    client = ssl.create_default_context(cafile=authority)
    if strict:
        client.verify_flags |= ssl.VERIFY_X509_STRICT
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(down, up, server_hostname=host),
        server.wrap_bio(up, down, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert ends[0].version() in ("TLSv1.2", "TLSv1.3")


@pytest.mark.parametrize("host", sorted(NAMES.names | NAMES.addresses))
def test_a_client_that_trusts_the_authority(tmp_path: Path, host: str):
    tls = own_tls(tmp_path, NAMES)
    assert tls.authority is not None
    handshake(tls, tls.authority, host)
    handshake(tls, tls.authority, host, strict=True)  # Python's default from 3.13 on


def test_a_client_that_does_not_or_calls_another_host(tmp_path: Path):
    tls = own_tls(tmp_path, NAMES)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tls, None, "localhost")
    for host in ("evil.example", "192.168.1.6"):
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(tls, tls.authority, host)


def test_what_phones_ask_for(bundle: Bundle):
    authority, certificate = map(
        x509.load_pem_x509_certificate, (bundle.authority, bundle.certificate)
    )
    constraints = [
        each.extensions.get_extension_for_class(x509.BasicConstraints)
        for each in (authority, certificate)
    ]
    assert [(each.critical, each.value.ca) for each in constraints] == [(True, True), (True, False)]
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [each.dotted_string for each in usage] == ["1.3.6.1.5.5.7.3.1"]
    for each in (authority, certificate):
        assert each.not_valid_after_utc - each.not_valid_before_utc == VALIDITY
        assert each.not_valid_before_utc < NOW
    # the authority's key is gone: what the server has is not it
    key = serialization.load_pem_private_key(bundle.key, None)
    assert key.public_key() == certificate.public_key() != authority.public_key()
    assert "studio" in authority.subject.rfc4514_string()


def test_the_fingerprint_is_as_phones_show_it(bundle: Bundle):
    parts = fingerprint_of(bundle.authority).split(":")
    assert len(parts) == 32
    assert all(len(part) == 2 and part == part.upper() for part in parts)


def test_long_names():
    name = f"{'a' * 63}.example.net"
    long = Names(hostname=name, names=frozenset({name}), addresses=frozenset())
    assert still_good(make_bundle(long), long)


def test_when_it_is_good(bundle: Bundle):
    assert still_good(bundle, NAMES)
    assert still_good(bundle, replace(NAMES, addresses=frozenset({"192.168.1.5"})))
    # IPv6 addresses come and go
    assert still_good(bundle, replace(NAMES, addresses=frozenset({"192.168.1.5", "fd00::6"})))
    assert not still_good(bundle, replace(NAMES, addresses=frozenset({"192.168.1.6"})))
    assert not still_good(bundle, replace(NAMES, names=frozenset({"studio", "other"})))
    last = NOW + VALIDITY - timedelta(days=8, minutes=5)
    assert still_good(bundle, NAMES, now=last)
    assert not still_good(bundle, NAMES, now=last + timedelta(minutes=10))


def test_one_that_was_made_while_the_clock_was_wrong():
    ahead = make_bundle(NAMES, now=NOW + timedelta(days=100))
    assert not still_good(ahead, NAMES)
    assert still_good(ahead, NAMES, now=NOW + timedelta(days=100))


def test_a_bundle_that_does_not_belong_together(bundle: Bundle):
    other = make_bundle(NAMES)
    for damaged in (
        replace(bundle, key=other.key),
        replace(bundle, authority=other.authority),
        replace(bundle, certificate=b""),
        replace(bundle, certificate=bundle.authority),
        replace(bundle, key=b"no key"),
    ):
        assert not still_good(damaged, NAMES)


def test_it_is_kept(tmp_path: Path):
    folder = tmp_path / "data" / "tls"
    first = own_tls(folder, NAMES)
    assert first.authority is not None
    assert stat.S_IMODE(first.key.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert own_tls(folder, NAMES) == first
    moved = own_tls(folder, replace(NAMES, addresses=frozenset({"10.0.0.9"})))
    assert moved.fingerprint != first.fingerprint
    assert moved.fingerprint == fingerprint_of(first.authority.read_bytes())
    handshake(moved, moved.authority, "10.0.0.9")


def test_a_folder_that_cannot_be_used(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(DuplexdError, match="Cannot keep a certificate") as caught:
        own_tls(tmp_path / "file", NAMES)
    assert "--tls CERT,KEY" in caught.value.mend


def test_what_is_good_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It may lie where nothing can be written."""
    first = own_tls(tmp_path, NAMES)
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: pytest.fail("it was written"))
    monkeypatch.setattr("services.access.tls.locked", lambda *_, **__: pytest.fail("locked"))
    assert own_tls(tmp_path, NAMES) == first


def test_two_daemons_that_start_at_a_time(tmp_path: Path):
    made: list[Tls] = []
    threads = [
        threading.Thread(target=lambda: made.append(own_tls(tmp_path, NAMES))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4
    assert len({tls.fingerprint for tls in made}) == 1


# --- certificates of others -----------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path, bundle: Bundle) -> tuple[Path, Path]:
    certificate, key = tmp_path / "site.crt", tmp_path / "site.key"
    certificate.write_bytes(bundle.certificate + bundle.authority)
    key.write_bytes(bundle.key)
    return certificate, key


def test_a_pair_of_somebodys(pair: tuple[Path, Path]):
    assert given_tls(*pair) == Tls(certificate=pair[0], key=pair[1])


@contextmanager
def refused(said: str) -> Iterator[None]:
    with pytest.raises(ConfigError, match=said) as caught:
        yield
    assert caught.value.mend


def test_pairs_that_cannot_work(pair: tuple[Path, Path], bundle: Bundle):
    certificate, key = pair
    gone = certificate.with_name("gone")
    with refused("Cannot read .*gone: No such file"):
        given_tls(gone, key)
    with refused("Cannot read .*gone: No such file"):
        given_tls(certificate, gone)
    with refused("Cannot read .*Is a directory"):
        given_tls(certificate.parent, key)
    with refused("site.key is not a PEM certificate"):
        given_tls(key, key)
    with refused("site.crt is not a PEM private key"):
        given_tls(certificate, certificate)
    gone.write_bytes(make_bundle(NAMES).key)
    with refused("gone is not the key of .*site.crt"):
        given_tls(certificate, gone)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_key_that_may_not_be_read(pair: tuple[Path, Path]):
    pair[1].chmod(0)
    with refused("Cannot read .*site.key: Permission denied"):
        given_tls(*pair)


def test_a_key_that_everybody_can_read(pair: tuple[Path, Path]):
    lines: list[str] = []
    sink = logger.add(lambda line: lines.append(str(line)), level="WARNING", format="{message}")
    try:
        pair[1].chmod(0o640)  # a group that may read it was made for that
        given_tls(*pair)
        assert lines == []
        pair[1].chmod(0o644)
        given_tls(*pair)
    finally:
        logger.remove(sink)
    assert lines == [f"everybody on this machine can read {pair[1]}: chmod o-r it\n"]


def test_a_key_with_a_passphrase(pair: tuple[Path, Path], bundle: Bundle):
    key = serialization.load_pem_private_key(bundle.key, None)
    pair[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with refused("site.key is protected by a passphrase"):
        given_tls(*pair)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (NOW - VALIDITY, "site.crt expired on "),
        (NOW + timedelta(days=3), "site.crt is not valid before "),
    ],
)
def test_a_pair_whose_time_it_is_not(pair: tuple[Path, Path], made: datetime, said: str):
    other = make_bundle(NAMES, now=made)
    pair[0].write_bytes(other.certificate)
    pair[1].write_bytes(other.key)
    with refused(said):
        given_tls(*pair)


def test_a_key_that_is_too_weak(pair: tuple[Path, Path]):
    key = rsa.generate_private_key(65537, 1024)
    name = x509.Name([])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(NOW + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pair[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pair[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    with refused("TLS cannot use .*site.crt"):
        given_tls(*pair)

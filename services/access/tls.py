"""The certificate that the daemon serves TLS with: its own, or one that it is given."""

from __future__ import annotations

import ssl
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from loguru import logger

from services.access.certificate import Bundle, Names, fingerprint_of, make_bundle, still_good
from services.access.public import CA_PATH
from tts_engine.errors import ConfigError, DuplexdError
from tts_engine.files import locked, replace_file

_CERTIFICATE, _KEY = "server.crt", "server.key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Files in PEM.

    Parameters:
        certificate: the server's, its issuers after it where there are some.
        key: its private key.
        authority: what clients are to trust, if it is one of ours.
        fingerprint: SHA-256 of the authority; empty where there is none.
    """

    certificate: Path
    key: Path
    authority: Path | None = None
    fingerprint: str = ""


def own_tls(folder: Path, names: Names) -> Tls:
    """The certificate of this machine in `folder`, made where it is missing or no longer good.

    Raises:
        DuplexdError: the folder cannot be used.
    """
    try:
        bundle = _kept(folder, names)
        if bundle is None:  # otherwise nothing is written, also where nothing can be
            bundle = _made(folder, names)
    except OSError as error:
        raise DuplexdError(
            f"Cannot keep a certificate in {folder}: {error.strerror or error}",
            mend="Make the folder writable, or give a certificate with --tls CERT,KEY",
        ) from error
    return Tls(
        certificate=folder / _CERTIFICATE,
        key=folder / _KEY,
        authority=folder / CA_PATH,
        fingerprint=fingerprint_of(bundle.authority),
    )


def _made(folder: Path, names: Names) -> Bundle:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(folder / "lock"):
        bundle = _kept(folder, names)  # another process was faster
        if bundle is None:
            bundle = make_bundle(names)
            replace_file(folder / _KEY, bundle.key, mode=0o600)
            replace_file(folder / _CERTIFICATE, bundle.certificate, mode=0o644)
            replace_file(folder / CA_PATH, bundle.authority, mode=0o644)
        return bundle


def given_tls(certificate: Path, key: Path) -> Tls:
    """A certificate and its key, checked before anybody depends on them.

    Raises:
        ConfigError: one cannot be read, they do not belong together, or it is not the time.
    """
    try:
        chain = x509.load_pem_x509_certificates(_read(certificate))
    except ValueError as error:
        raise _wrong(f"{certificate} is not a PEM certificate") from error
    try:
        private = serialization.load_pem_private_key(_read(key), None)
    except TypeError as error:
        raise _wrong(f"{key} is protected by a passphrase", "Give one that is not") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _wrong(f"{key} is not a PEM private key that can be used") from error
    first, now = chain[0], datetime.now(UTC)
    if private.public_key() != first.public_key():
        raise _wrong(f"{key} is not the key of {certificate}", "Give the two that belong together")
    if now > first.not_valid_after_utc:
        raise _wrong(f"{certificate} expired on {first.not_valid_after_utc:%Y-%m-%d}", "Renew it")
    if now < first.not_valid_before_utc:
        raise _wrong(
            f"{certificate} is not valid before {first.not_valid_before_utc:%Y-%m-%d}",
            "Is the clock right?",
        )
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise _wrong(f"TLS cannot use {certificate}: {error.reason}") from error
    if stat.S_IMODE(key.stat().st_mode) & stat.S_IROTH:
        logger.warning("everybody on this machine can read {}: chmod o-r it", key)
    return Tls(certificate=certificate, key=key)


def _kept(folder: Path, names: Names) -> Bundle | None:
    """What there is already, if it is good."""
    try:
        bundle = Bundle(
            authority=(folder / CA_PATH).read_bytes(),
            certificate=(folder / _CERTIFICATE).read_bytes(),
            key=(folder / _KEY).read_bytes(),
        )
    except FileNotFoundError:
        return None
    return bundle if still_good(bundle, names) else None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _wrong(f"Cannot read {path}: {error.strerror}") from error


def _wrong(message: str, mend: str = "") -> ConfigError:
    return ConfigError(message, mend=mend or "Give two PEM files: --tls CERT,KEY")

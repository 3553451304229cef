"""A certificate for this machine that phones accept once they trust its maker.

Phones let their owner trust an authority, not a server: what is installed by hand must be allowed
to sign others, and not every client takes a server's certificate that is. So an authority is made
that signs one certificate, and its key is thrown away: whoever trusts it trusts nothing else, and
there is no key that could be stolen to sign more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

#: what is made is good for so long; iOS takes no server's certificate of more than 825 days
VALIDITY = timedelta(days=397)
#: what is made is good already on a phone whose clock is slow
_SLOW_CLOCKS = timedelta(days=1)
#: a certificate that ends so soon is made anew
_RENEW_BEFORE = timedelta(days=7)
#: longest common name, characters
_COMMON_NAME = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What a certificate is for.

    Parameters:
        hostname: of this machine; for people, in the authority's name.
        names: DNS names.
        addresses: IP addresses.
    """

    hostname: str
    names: frozenset[str]
    addresses: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """An authority's certificate, a server's and its key, in PEM."""

    authority: bytes
    certificate: bytes
    key: bytes


def make_bundle(names: Names, *, now: datetime | None = None) -> Bundle:
    """Makes an authority and a certificate of it, with P-256 keys."""
    start = (now or datetime.now(UTC)) - _SLOW_CLOCKS
    maker, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _authority(names, maker, start)
    certificate = _certificate(names, key, authority, maker, start)
    return Bundle(
        authority=authority.public_bytes(serialization.Encoding.PEM),
        certificate=certificate.public_bytes(serialization.Encoding.PEM),
        key=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def still_good(bundle: Bundle, names: Names, *, now: datetime | None = None) -> bool:
    """Whether a bundle is whole, lasts, and covers these names and addresses.

    IPv6 addresses may be missing: for privacy machines change them daily, and every new
    certificate must be trusted anew.
    """
    try:
        authority = x509.load_pem_x509_certificate(bundle.authority)
        certificate = x509.load_pem_x509_certificate(bundle.certificate)
        key = serialization.load_pem_private_key(bundle.key, None)
        certificate.verify_directly_issued_by(authority)
        covered = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    now = now or datetime.now(UTC)
    wanted = {each for each in map(ip_address, names.addresses) if isinstance(each, IPv4Address)}
    return (
        key.public_key() == certificate.public_key()
        and certificate.not_valid_before_utc <= now  # it was made while the clock was wrong
        and certificate.not_valid_after_utc - now > _RENEW_BEFORE
        and names.names <= {*covered.get_values_for_type(x509.DNSName)}
        and wanted <= {*covered.get_values_for_type(x509.IPAddress)}
    )


def fingerprint_of(certificate: bytes) -> str:
    """SHA-256 of a PEM certificate, as phones and browsers show it: AA:BB:..."""
    digest = x509.load_pem_x509_certificate(certificate).fingerprint(hashes.SHA256())
    return digest.hex(":").upper()


def _authority(
    names: Names, maker: ec.EllipticCurvePrivateKey, start: datetime
) -> x509.Certificate:
    subject = _name(f"duplexd on {names.hostname}")
    public = maker.public_key()
    return (
        _builder(start)
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(public)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(maker, hashes.SHA256())
    )


def _certificate(
    names: Names,
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    maker: ec.EllipticCurvePrivateKey,
    start: datetime,
) -> x509.Certificate:
    public = key.public_key()
    alternatives: list[x509.GeneralName] = [
        *(x509.DNSName(name) for name in sorted(names.names)),
        *(x509.IPAddress(ip_address(each)) for each in sorted(names.addresses)),
    ]
    maker_id = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return (
        _builder(start)
        .subject_name(_name("duplexd"))
        .issuer_name(authority.subject)
        .public_key(public)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(maker_id),
            critical=False,
        )
        .sign(maker, hashes.SHA256())
    )


def _builder(start: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + VALIDITY)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:_COMMON_NAME])])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )

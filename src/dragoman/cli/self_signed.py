"""A certificate that the server signs itself, so that browsers on other devices get HTTPS."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from ssl import PEM_cert_to_DER_cert
from typing import TYPE_CHECKING

import msgspec

from dragoman.extras import require_extra

if TYPE_CHECKING:
    from cryptography import x509

VALID_DAYS = 365
RENEWED_DAYS = 30
"""One that ends sooner than this is made anew at the next start."""

_ANY_ADDRESS = ("0.0.0.0", "::", "")
_FAR_ADDRESS = ("192.0.2.1", 9)
"""Nothing is sent there: the system only says which own address it would send from."""


class Certificate(msgspec.Struct, frozen=True):
    """A certificate and its key, as files."""

    certificate: Path
    key: Path
    names: tuple[str, ...]
    """The names and addresses that it is good for."""
    fingerprint: str
    """SHA-256, as browsers show it."""


def self_signed(folder: Path, host: str, now: datetime | None = None) -> Certificate:
    """The certificate in the folder; made, where there is none that will do."""
    require_extra("tls", "--self-signed")
    now = now or datetime.now(UTC)
    names = own_names(host)
    files = folder / "self-signed.crt", folder / "self-signed.key"
    found = _found(*files, names, now)
    if found is None:
        folder.mkdir(parents=True, exist_ok=True)
        found = _made(names, now)
        _write(files[1], found[1], private=True)
        _write(files[0], found[0], private=False)
    return Certificate(*files, names, _fingerprint(found[0]))


def own_names(host: str) -> tuple[str, ...]:
    """The names and addresses by which browsers may reach a server that listens on a host."""
    named = {"localhost", "127.0.0.1", "::1"}
    if host not in _ANY_ADDRESS:
        named.add(host)
    else:
        named |= {socket.gethostname().lower(), *_own_addresses()}
    return tuple(sorted(named))


def _own_addresses() -> Iterable[str]:
    """The address that this machine has in its network; none, where it has no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(_FAR_ADDRESS)
        except OSError:
            return ()
        address: str = asking.getsockname()[0]
        return (address,)


def _found(
    certificate: Path, key: Path, names: tuple[str, ...], now: datetime
) -> tuple[bytes, bytes] | None:
    """What an earlier start made, if it is good for these names, and for long enough."""
    from cryptography import x509

    try:
        written = certificate.read_bytes(), key.read_bytes()
        known = x509.load_pem_x509_certificate(written[0])
        alternative = known.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        return None
    good_for = {str(name.value) for name in alternative}
    lasts = known.not_valid_after_utc - now > timedelta(days=RENEWED_DAYS)
    return written if lasts and good_for >= set(names) else None


def _made(names: tuple[str, ...], now: datetime) -> tuple[bytes, bytes]:
    """A new certificate and its key, both as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Dragoman, signed by itself")])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(list(map(_alternative, names))), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return (
        made.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def _alternative(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _fingerprint(pem: bytes) -> str:
    digest = hashlib.sha256(PEM_cert_to_DER_cert(pem.decode())).hexdigest().upper()
    return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))


def _write(path: Path, content: bytes, *, private: bool) -> None:
    """Write a file whole or not at all; a key is for its owner alone."""
    part = path.with_name(path.name + ".new")
    part.unlink(missing_ok=True)
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    if not private:
        part.chmod(0o644)
    part.replace(path)

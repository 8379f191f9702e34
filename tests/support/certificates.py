"""An authority of our own and what it signs, as PEM files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as generate_ec_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

PrivateKey = EllipticCurvePrivateKey | Ed25519PrivateKey


def _builder(subject: str, issuer: str, key: PrivateKey) -> x509.CertificateBuilder:
    named = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in (subject, issuer)]
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(*reversed(named), public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
    )


def self_signed(key: PrivateKey, name: str = "authority") -> x509.Certificate:
    algorithm = None if isinstance(key, Ed25519PrivateKey) else SHA256()
    builder = _builder(name, name, key).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    use = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return builder.add_extension(use, critical=True).add_extension(identifier, critical=False).sign(key, algorithm)


class Authority:
    """Signs certificates for loopback; `file` is what clients trust."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = generate_ec_key(SECP256R1())
        self._certificate = self_signed(self._key)
        self.file = directory / "ca.crt"
        self.file.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def sign_loopback(self) -> tuple[Path, Path]:
        """Certificate and key of a server at 127.0.0.1."""
        key = generate_ec_key(SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = _builder("server", "authority", key).add_extension(names, critical=False)
        signed = builder.add_extension(issuer, critical=False).sign(self._key, SHA256())
        certificate, private = self._directory / "tls.crt", self._directory / "tls.key"
        certificate.write_bytes(signed.public_bytes(Encoding.PEM))
        private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return certificate, private

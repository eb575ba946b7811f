"""The authority of a cluster: whom its processes believe, as a key in a private directory of the JobManager."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import hashlib
import ipaddress
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.host.whole_files import replace_file
from sqlstream.runtime.net.endpoint import TlsFiles

AUTHORITY_DAYS = 3650
"""How long the authority itself counts; its end is that of the cluster's directory."""

CERTIFICATE_DAYS = 90
"""How long the certificate of a TaskManager counts. It asks for another at each start, and after half to two thirds of this."""

_CLOCKS_APART = datetime.timedelta(hours=24)
"""Clocks of hosts may differ: a certificate counts from so long before it was made."""

REQUEST_BYTES_MAX = 16_384
_NAME = "sqlstream cluster"


@dataclass(frozen=True)
class Request:
    """A new private key, and what asks for a certificate of it. Both are PEM; the key stays in the process that made it."""

    key: bytes
    signing_request: bytes


def new_request(common_name: str) -> Request:
    key = ec.generate_private_key(ec.SECP256R1())
    asked = (
        x509.CertificateSigningRequestBuilder().subject_name(_name(common_name)).sign(key, hashes.SHA256())
    )
    return Request(_key_pem(key), asked.public_bytes(serialization.Encoding.PEM))


class Authority:
    """Signs the certificates of a cluster's processes. State: the key, which is read or made at the start."""

    def __init__(self, directory: str) -> None:
        """`directory` is there and private. ExternalError SS5001 when it cannot be read or written, UserError SS4070 when a file
        in it is damaged."""
        self._directory = directory
        try:
            with locked(directory):
                if not os.path.exists(self.key_path):
                    self._make()
            with open(self.key_path, "rb") as stream:
                key = serialization.load_pem_private_key(stream.read(), None)
            with open(self.certificate_path, "rb") as stream:
                self.certificate = stream.read()
            self._certificate = x509.load_pem_x509_certificate(self.certificate)
        except OSError as error:
            raise _unreadable(directory, error) from error
        except ValueError as error:
            raise self._damaged() from error
        if (
            not isinstance(key, ec.EllipticCurvePrivateKey)
            or key.public_key() != self._certificate.public_key()
        ):
            raise self._damaged()
        self._key = key

    def _damaged(self) -> UserError:
        return UserError(
            "SS4070",
            f'the authority of the cluster in "{self._directory}" is damaged',
            hint="remove that directory: a new one is made at the next start, and TaskManagers need its new token",
        )

    @property
    def certificate_path(self) -> str:
        return os.path.join(self._directory, "authority.pem")

    @property
    def key_path(self) -> str:
        return os.path.join(self._directory, "authority-key.pem")

    @property
    def fingerprint(self) -> str:
        """By which a TaskManager knows the authority before it has its certificate."""
        return fingerprint_of(self._certificate.public_bytes(serialization.Encoding.DER))

    def sign(self, signing_request: bytes, hosts: Sequence[str], days: int = CERTIFICATE_DAYS) -> bytes:
        """A certificate for the request, good for these names and addresses and no other; PEM. ValueError for what is no request,
        or one that was changed."""
        if len(signing_request) > REQUEST_BYTES_MAX:
            raise ValueError("the request is too large")
        asked = x509.load_pem_x509_csr(signing_request)
        try:
            is_whole = asked.is_signature_valid
        except InvalidSignature:
            is_whole = False
        if not is_whole:
            raise ValueError("the request was changed")
        key = asked.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise ValueError("the key of the request is none of an elliptic curve")
        signed = self._builder(asked.subject, key, days)
        signed = signed.add_extension(
            x509.SubjectAlternativeName([_alternative(host) for host in dict.fromkeys(hosts)]), critical=False
        ).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), False
        )
        return signed.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def own_files(self, hosts: Sequence[str]) -> TlsFiles:
        """A fresh certificate of this process for these hosts, as files of the directory. It counts as long as the authority,
        whose key lies beside it: a server may run for years."""
        request = new_request("sqlstream jobmanager")
        certificate = self.sign(request.signing_request, hosts, AUTHORITY_DAYS)
        return write_files(self._directory, request.key, certificate, self.certificate)

    def _make(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._builder(_name(_NAME), key.public_key(), AUTHORITY_DAYS).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        made = made.add_extension(_usage_of_authority(), critical=True)
        certificate = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        _write(self.certificate_path, certificate)
        # Last: what is there is whole.
        _write(self.key_path, _key_pem(key))

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, days: int
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(_name(_NAME))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCKS_APART)
            .not_valid_after(now + datetime.timedelta(days=days))
        )


@contextlib.contextmanager
def locked(directory: str) -> Iterator[None]:
    """One process at a time, so that what one makes is not mixed with what another makes."""
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def write_files(directory: str, key: bytes, certificate: bytes, authority: bytes) -> TlsFiles:
    """The key and the certificates as files that only this user reads."""
    found = TlsFiles(
        os.path.join(directory, "certificate.pem"),
        os.path.join(directory, "key.pem"),
        os.path.join(directory, "authority.pem"),
    )
    try:
        for path, data in ((found.key, key), (found.certificate, certificate), (found.authority, authority)):
            _write(path, data)
    except OSError as error:
        raise _unreadable(directory, error) from error
    return found


def fingerprint_of(certificate: bytes) -> str:
    """Of a certificate in DER: 64 hexadecimal digits."""
    return hashlib.sha256(certificate).hexdigest()


def _write(path: str, data: bytes) -> None:
    replace_file(path, f"{path}.{secrets.token_hex(4)}.draft", data)


def _usage_of_authority() -> x509.KeyUsage:
    # It also answers TaskManagers that ask to join: they know it by its fingerprint.
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])


def _alternative(host: str) -> x509.GeneralName:
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(host))
    return x509.DNSName(host)


def _unreadable(directory: str, error: OSError) -> ExternalError:
    return ExternalError(
        "SS5001", f'could not keep the cluster\'s certificates in "{directory}": {error.strerror or error}'
    )

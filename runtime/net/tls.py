"""The certificates with which the processes of a cluster know each other."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sqlstream.errors import UserError

PREFIX = "security.ssl.internal."


class TlsFiles(msgspec.Struct, frozen=True):
    """PEM files of one process. `server_name` is the name in every certificate of the cluster; empty: that of the host."""

    certificate: str
    key: str
    authority: str
    server_name: str = ""


@dataclass(frozen=True)
class TlsIdentity:
    """What a process shows others and what it expects of them: a certificate that `authority` has signed, both ways."""

    certificate: bytes
    key: bytes
    authority: bytes
    server_name: str


def read_identity(files: TlsFiles) -> TlsIdentity:
    """UserError SS4070 for a file that is not there or holds something else."""
    contents = {}
    for name, path in (
        ("certificate-file", files.certificate),
        ("key-file", files.key),
        ("ca-file", files.authority),
    ):
        if not path:
            raise UserError(
                "SS4070",
                f'option "{PREFIX}{name}" is not set, but TLS is on',
                hint=f"give a PEM file with -D {PREFIX}{name}=FILE",
            )
        try:
            contents[name] = Path(path).read_bytes()
        except OSError as error:
            raise _unusable(name, path, (error.strerror or str(error)).lower()) from error
    _check(files)
    return TlsIdentity(
        contents["certificate-file"], contents["key-file"], contents["ca-file"], files.server_name
    )


def _check(files: TlsFiles) -> None:
    """Flight would report a wrong file as a connection that cannot be made."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # A key with a password would ask for it on the terminal.
        context.load_cert_chain(files.certificate, files.key, password=lambda: "")
    except (ssl.SSLError, OSError) as error:
        raise _unusable(
            "key-file", files.key, "it is no private key without a password of the certificate"
        ) from error
    try:
        context.load_verify_locations(files.authority)
    except (ssl.SSLError, OSError) as error:
        raise _unusable("ca-file", files.authority, "it holds no certificate") from error


def _unusable(name: str, path: str, reason: str) -> UserError:
    return UserError(
        "SS4070",
        f'option "{PREFIX}{name}" names "{path}", which cannot be used: {reason}',
        hint="give a PEM file",
    )

"""Where a process listens over TCP, and under which address others reach it."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from sqlstream import config as options
from sqlstream.errors import ExternalError, UserError
from sqlstream.options.network_options import NEED_AN_ADDRESS

PREFIX = "security.ssl.internal."


class TlsFiles(msgspec.Struct, frozen=True):
    """PEM files of one process, by which those of a cluster know each other. `server_name` is the name in every certificate of
    the cluster; empty: that of the host."""

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


PLAIN = "grpc://"
ENCRYPTED = "grpc+tls://"

_CONNECT_TIMEOUT_S = 5.0


class Endpoint(msgspec.Struct, frozen=True):
    """A process listens on `bind_host` and `port`, any free one for 0. Others reach it by `host`, a part of its address."""

    host: str
    bind_host: str
    port: int = 0
    tls: TlsFiles | None = None

    def location(self) -> str:
        """Where it listens, as a URI of Arrow Flight."""
        return f"{self._scheme}{_bracketed(self.bind_host)}:{self.port}"

    def address(self, port: int) -> str:
        """The address under which others reach it when it listens on `port`."""
        return f"{self._scheme}{_bracketed(self.host)}:{port}"

    def identity(self) -> TlsIdentity | None:
        return read_identity(self.tls) if self.tls is not None else None

    @property
    def _scheme(self) -> str:
        return PLAIN if self.tls is None else ENCRYPTED


def job_manager_endpoint(config: Mapping[str, str]) -> Endpoint | None:
    """Where the JobManager listens for TaskManagers of other hosts; None when all are on this machine and meet on Unix sockets.
    UserError SS4070 for wrong certificates, SS4071 for what strangers could read or enter, SS4073 for settings that have no
    effect without an address."""
    host, tls = options.get(config, "jobmanager.rpc.address"), internal_tls(config)
    if not host:
        if tls is not None:
            raise UserError(
                "SS4073",
                'option "security.ssl.internal.enabled" is true, but processes meet on Unix sockets, which have no TLS',
                hint="set jobmanager.rpc.address, or leave TLS off",
            )
        for key in NEED_AN_ADDRESS:
            if options.get(config, key) != options.get({}, key):
                raise UserError(
                    "SS4073",
                    f'option "{key}" is set, but processes meet on Unix sockets, which have no hosts and ports',
                    hint=f"set jobmanager.rpc.address, or leave {key} out",
                )
        return None
    if tls is not None:
        # A wrong file is told before anything starts.
        read_identity(tls)
    return checked_endpoint(
        host, options.get(config, "jobmanager.bind-host"), options.get(config, "jobmanager.rpc.port"), tls
    )


def internal_tls(config: Mapping[str, str]) -> TlsFiles | None:
    """The files of `security.ssl.internal.*`, or None when TLS is off."""
    if not options.get(config, "security.ssl.internal.enabled"):
        return None
    return TlsFiles(
        options.get(config, "security.ssl.internal.certificate-file"),
        options.get(config, "security.ssl.internal.key-file"),
        options.get(config, "security.ssl.internal.ca-file"),
        options.get(config, "security.ssl.internal.server-name"),
    )


def checked_endpoint(host: str, bind_host: str, port: int, tls: TlsFiles | None) -> Endpoint:
    """UserError SS4071 when others than the users of this machine could connect, and nothing is encrypted."""
    endpoint = Endpoint(host, bind_host or host, port, tls)
    if tls is None and not (is_loopback(endpoint.host) and is_loopback(endpoint.bind_host)):
        wrong = endpoint.host if not is_loopback(endpoint.host) else endpoint.bind_host
        raise UserError(
            "SS4071",
            f'the cluster would send data and its secret over the network through "{wrong}" without encryption',
        )
    return endpoint


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine reach that host; names other than localhost are not looked up.

    >>> is_loopback("127.0.0.2"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("example.com")
    (True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_tcp(address: str) -> bool:
    return address.startswith((PLAIN, ENCRYPTED))


def host_towards(address: str) -> str:
    """The address of this host from which it reaches the process at `address` (Flink: ConnectionUtils). ExternalError SS6070 when
    it does not."""
    parts = urlsplit(address)
    try:
        with socket.create_connection((parts.hostname, parts.port), _CONNECT_TIMEOUT_S) as connection:
            return str(connection.getsockname()[0])
    except OSError as error:
        raise ExternalError(
            "SS6070",
            f"could not reach the JobManager at {parts.netloc}: {(error.strerror or str(error)).lower()}",
        ) from error


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host

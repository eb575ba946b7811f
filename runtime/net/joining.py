"""How a TaskManager that nobody has started from here becomes one of the cluster: what it asks, and what it is given.

It knows an address and a token. The token has the fingerprint of the cluster's authority, so that it tells nobody else its
secret, and the secret, by which the JobManager knows it. It sends a request for a certificate and gets one, with the address of
the JobManager and the word that all processes of the cluster have.
"""

from __future__ import annotations

import hmac
import http.client
import ipaddress
import re
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from sqlstream import __version__
from sqlstream.bounds import Count
from sqlstream.errors import ExternalError, UserError
from sqlstream.messages.rpc import PROTOCOL_VERSION
from sqlstream.runtime.host.rooted_files import FilePlaces
from sqlstream.runtime.net.authority import REQUEST_BYTES_MAX, Authority, fingerprint_of

JOIN_PATH = "/join"
BODY_BYTES_MAX = REQUEST_BYTES_MAX + 4096

_TIMEOUT_S = 20.0
_LOOK_S = 3.0
_HOST_MAX = 253
_HOST = re.compile(r"[A-Za-z0-9_.:-]{1,253}")
_TOKEN = re.compile(r"([0-9a-f]{64})\.([A-Za-z0-9_-]{43})")


@dataclass(frozen=True)
class JoinToken:
    """What a host that joins is told: `fingerprint` is that of the cluster's authority, `secret` 256 random bits."""

    fingerprint: str
    secret: str

    @staticmethod
    def parse(text: str) -> JoinToken:
        """UserError SS4080 for anything else; the text may have blanks around it."""
        found = _TOKEN.fullmatch(text.strip())
        if found is None:
            raise UserError(
                "SS4080",
                "the token to join the cluster is none: it has 64 hexadecimal digits, a point and 43 characters",
                hint="take it from the host of the JobManager: sqlstream cluster token",
            )
        return JoinToken(found[1], found[2])

    def __str__(self) -> str:
        return f"{self.fingerprint}.{self.secret}"


class JoinRequest(msgspec.Struct, frozen=True):
    """`host` is the name or address under which others reach the TaskManager; empty: the address from which it asks. `release`
    and `protocol_version` are those of its code."""

    secret: str
    signing_request: str
    host: str = ""
    release: str = ""
    protocol_version: Count = 2


class Admission(msgspec.Struct, frozen=True):
    """`job_manager` is where the JobManager listens, `token` what processes of the cluster show each other, `host` the name or
    address for which the certificate counts. Certificates are PEM, and empty where the processes of the cluster have others.
    Files of tables lie at `places`, or anywhere. `takes_gateways`: the JobManager answers those too."""

    job_manager: str
    token: str
    certificate: str
    authority: str
    host: str
    places: FilePlaces | None = None
    takes_gateways: bool = False


class Refusal(msgspec.Struct, frozen=True):
    code: str
    message: str
    hint: str = ""


# The JobManager's side.


class Door:
    """Admits who knows the secret. `find_addresses` tells the addresses of a host's name. A cluster that `has_own_certificates`
    signs none: who joins has one of the same authority. Thread-safe. State: none."""

    def __init__(
        self,
        authority: Authority,
        secret: Callable[[], str],
        token: str,
        job_manager: str,
        find_addresses: Callable[[str], frozenset[str]],
        places: FilePlaces | None = None,
        has_own_certificates: bool = False,
        takes_gateways: bool = False,
    ) -> None:
        self._takes_gateways = takes_gateways
        self._places = places
        self._authority = authority
        self._secret = secret
        self._token = token
        self._job_manager = job_manager
        self._find_addresses = find_addresses
        self._has_own_certificates = has_own_certificates

    def answer(self, body: bytes, peer: str) -> tuple[int, Admission | Refusal]:
        """The status of HTTP, and what to tell the host at the address `peer`."""
        try:
            asked = msgspec.json.decode(body, type=JoinRequest)
        except msgspec.MsgspecError:
            return 400, Refusal("SS4081", "the request to join the cluster cannot be read", _SAME_RELEASE)
        if not hmac.compare_digest(asked.secret.encode(), self._secret().encode()):
            return 403, Refusal("SS4080", "the token does not count (any more)", _NEW_TOKEN)
        if asked.protocol_version != PROTOCOL_VERSION:
            return 409, _other_release(asked)
        peer = _plain(peer)
        host = asked.host or peer
        if self._has_own_certificates:
            return 200, self._admission("", "", host)
        try:
            is_of_host = self._is_of(host, peer)
        except OSError:
            return 503, Refusal("SS6076", f'the name "{host[:_HOST_MAX]}" cannot be looked up now')
        if not is_of_host:
            return 403, Refusal(
                "SS4082",
                f'the TaskManager asks from {peer}, which is no address of "{host[:_HOST_MAX]}"',
                "leave taskmanager.host out, or have the JobManager's host find the name",
            )
        try:
            certificate = self._authority.sign(asked.signing_request.encode(), [host])
        except ValueError:
            return 400, Refusal("SS4081", "the request for a certificate cannot be read", _SAME_RELEASE)
        authority = self._authority.certificate.decode()
        return 200, self._admission(certificate.decode(), authority, host)

    def _admission(self, certificate: str, authority: str, host: str) -> Admission:
        return Admission(
            self._job_manager, self._token, certificate, authority, host, self._places, self._takes_gateways
        )

    def _is_of(self, host: str, peer: str) -> bool:
        """Whether the peer may have a certificate for the host: else it could take the place of another."""
        if host == peer:
            return True
        return _HOST.fullmatch(host) is not None and peer in self._find_addresses(host)


def _other_release(asked: JoinRequest) -> Refusal:
    return Refusal(
        OTHER_RELEASE,
        f"the cluster is sqlstream {__version__} (protocol {PROTOCOL_VERSION}), and this host has sqlstream"
        f" {asked.release[:40]} (protocol {asked.protocol_version})",
        f"install sqlstream {__version__} here, or upgrade the servers first",
    )


OTHER_RELEASE = "SS6141"
_SAME_RELEASE = "install the same release of sqlstream on all hosts"
_NEW_TOKEN = "take the one that counts from the host of the JobManager: sqlstream cluster token"


def addresses_of(host: str) -> frozenset[str]:
    """The addresses of a host's name, as this machine finds them; none for a name that is not known. OSError when it cannot
    ask."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        if error.errno == socket.EAI_AGAIN:
            raise
        return frozenset()
    except UnicodeError:
        return frozenset()
    return frozenset(_plain(str(address[0])) for *_, address in found)


def _plain(address: str) -> str:
    """An address of IPv4 that comes in one of IPv6, as itself."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)


# The TaskManager's side.


def ask_to_join(address: str, token: JoinToken, signing_request: bytes, host: str) -> Admission:
    """Ask the JobManager whose door is at `address`, HOST:PORT. ExternalError SS6076 when it is not reached, UserError when it is
    another cluster's, is no door, or refuses."""
    place = urlsplit(f"//{address}")
    asked = JoinRequest(token.secret, signing_request.decode(), host, __version__, PROTOCOL_VERSION)
    connection = http.client.HTTPSConnection(place.hostname or "", place.port, timeout=_TIMEOUT_S)
    try:
        with socket.create_connection((place.hostname, place.port), _TIMEOUT_S) as plain:
            connection.sock = _believed(plain, token, address)
            connection.request("POST", JOIN_PATH, msgspec.json.encode(asked))
            reply = connection.getresponse()
            data = reply.read(1 << 20)
    except ssl.SSLError as error:
        if _speaks_http(place.hostname or "", place.port or 0):
            raise UserError(
                "SS6166",
                f"what listens at {address} speaks HTTP without TLS, and is no door of a cluster",
                hint=_RIGHT_PORT,
            ) from error
        raise ExternalError(
            "SS6076",
            f"what listens at {address} is no door of a cluster: {_reason(error)}",
            hint=_RIGHT_PORT,
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise ExternalError(
            "SS6076",
            f"could not reach the cluster at {address}: {_reason(error)}",
            hint="start the server there, with execution.target = standalone",
        ) from error
    finally:
        connection.close()
    if reply.status >= http.client.INTERNAL_SERVER_ERROR:
        raise ExternalError("SS6076", f"the cluster at {address} cannot answer now: HTTP {reply.status}")
    try:
        if reply.status == http.client.OK:
            return msgspec.json.decode(data, type=Admission)
        refused = msgspec.json.decode(data, type=Refusal)
    except msgspec.MsgspecError as error:
        raise UserError(
            "SS4081", f"what listens at {address} is no cluster to join", hint=_SAME_RELEASE
        ) from error
    raise UserError(refused.code, refused.message, hint=refused.hint)


def _believed(plain: socket.socket, token: JoinToken, address: str) -> ssl.SSLSocket:
    """The encrypted connection, when the authority of the token is at its other end: nothing is told to another."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # The certificate is known by its fingerprint, whatever its names.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    secure = context.wrap_socket(plain)
    shown = secure.getpeercert(binary_form=True) or b""
    if not hmac.compare_digest(fingerprint_of(shown), token.fingerprint):
        secure.close()
        raise UserError(
            "SS4083",
            f"what listens at {address} is not the cluster of this token: it shows another certificate",
            hint=f"check the address: {_RIGHT_PORT}. A cluster whose directory is new has a new token: {_NEW_TOKEN}",
        )
    return secure


_RIGHT_PORT = (
    "the server says where hosts join when it starts: at its jobmanager.join.port (6124), which is not the port of its clients"
    " (8083) or of TaskManagers (6123)"
)


def _speaks_http(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), _LOOK_S) as plain:
            plain.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
            return plain.recv(5, socket.MSG_WAITALL) == b"HTTP/"
    except OSError:
        return False


def _reason(error: Exception) -> str:
    return (
        (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
    ).lower()

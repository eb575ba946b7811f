"""Arrow Flight as this project uses it: one server per process, one client per peer, a token on every call."""

from __future__ import annotations

import dataclasses
import hmac
import itertools
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import flight

from sqlstream.bounds import Count
from sqlstream.errors import ExternalError, reason_of_error
from sqlstream.graph.artifacts import Digest
from sqlstream.runtime.net.channels import ChannelClosed
from sqlstream.runtime.net.endpoint import ENCRYPTED, Endpoint, TlsIdentity
from sqlstream.runtime.net.results import ResultReceiver
from sqlstream.runtime.net.socket_directory import OwnDirectory, flight_location, new_address

MESSAGES = "messages"
"""Action that carries one-way control messages, in order."""

REQUEST = "request"
"""Action of a client's request; its one result is the reply."""

ATTACH = "attach"
"""Action that a client keeps open; its results are what happens to the client's jobs."""

STREAM_ADDRESS = "stream-address"
"""Action whose one result is where consumers of this process's rows connect to."""

ARTIFACT = "artifact"
"""Action whose one result are the next bytes of a file that goes with a job."""

_AUTHORIZATION = "authorization"

OnMessage = Callable[[bytes], None]
OnRequest = Callable[[bytes], bytes]
OnAttach = Callable[[bytes, Callable[[], bool]], Iterator[bytes]]
"""Called with the client's message and a function that tells whether the client is gone."""
ArtifactPart = Callable[[str, int], bytes]
"""The bytes of the file with a digest, from an offset on."""
ResultsOf = Callable[[str], Iterable[pa.RecordBatch]]
"""The rows of a job, by its id."""


@dataclasses.dataclass(frozen=True)
class ServerCalls:
    """What a server's threads call. A client holds a thread while it is attached, and one for each job whose rows it reads;
    `receiver` takes the rows that sinks send, and `artifact_part` reads a file that goes with a job."""

    on_message: OnMessage
    on_request: OnRequest | None = None
    on_attach: OnAttach | None = None
    results_of: ResultsOf | None = None
    receiver: ResultReceiver | None = None
    artifact_part: ArtifactPart | None = None


class ResultStreamId(msgspec.Struct, frozen=True, tag="result"):
    """The result stream of a sink: rows of an operator, and printed lines."""

    job_id: str
    operator_id: int


class PrintedLines(msgspec.Struct, frozen=True):
    lines: list[str]
    is_error: bool


class ArtifactPartId(msgspec.Struct, frozen=True):
    """Which bytes of a file: from an offset on, as many as one message has."""

    digest: Digest
    offset: Count


encode = msgspec.msgpack.encode
_decode_part = msgspec.msgpack.Decoder(ArtifactPartId).decode
_decode_messages = msgspec.msgpack.Decoder(list[bytes]).decode
_decode_stream = msgspec.msgpack.Decoder(ResultStreamId).decode
_decode_lines = msgspec.msgpack.Decoder(PrintedLines).decode


class _TokenCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Refuses every call that does not carry the cluster's token.

    A stream is refused at its headers. The body of an action has been read by then, and Flight puts no bound on it, which is
    why other users must not reach the server at all (sqlstream.runtime.net.socket_directory)."""

    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}"

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> None:
        given = headers.get(_AUTHORIZATION, [""])[0]
        if not hmac.compare_digest(given.encode(), self._expected.encode()):
            raise flight.FlightUnauthenticatedError("the token of this cluster is missing or wrong")


_LISTEN_HINT = "set jobmanager.bind-host or taskmanager.bind-host to an address of this host, or another port"


def _require_free(endpoint: Endpoint) -> None:
    """ExternalError SS6071 with the reason why nothing can listen there: gRPC prints that, and says that it could not."""
    error: OSError | None = None
    try:
        for family, kind, protocol, _, place in socket.getaddrinfo(
            endpoint.bind_host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            try:
                with socket.socket(family, kind, protocol) as tried:
                    tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    tried.bind(place)
                return
            except OSError as failed:
                error = failed
    except OSError as failed:
        error = failed
    assert error is not None
    raise ExternalError(
        "SS6071",
        f'could not listen on "{endpoint.bind_host}" port {endpoint.port}: {reason_of_error(error)}',
        hint=_LISTEN_HINT,
    ) from error


class FlightServer(flight.FlightServerBase):  # type: ignore[misc]
    """The server of one process, for control messages, requests of clients and results. Rows between tasks go elsewhere: it only
    tells where (`stream_addresses`).

    Listens at `endpoint`, for processes of other hosts; without one, on a socket in `directory`, which other users must not be
    able to enter; without that, in a directory of its own, which lasts until `shutdown`. State: none."""

    def __init__(
        self,
        token: str,
        calls: ServerCalls,
        directory: str | None = None,
        endpoint: Endpoint | None = None,
        stream_addresses: tuple[str, ...] = (),
    ) -> None:
        self._calls = calls
        self._stream_addresses = stream_addresses
        self._own_directory: OwnDirectory | None = None
        check = {"token": _TokenCheck(token)}
        if endpoint is not None:
            self._listen(endpoint, check)
            self.address = endpoint.address(self.port)
            return
        if directory is None:
            self._own_directory = OwnDirectory()
            directory = self._own_directory.path
        self.address = new_address(directory)
        super().__init__(flight_location(self.address), middleware=check)

    def _listen(self, endpoint: Endpoint, middleware: dict[str, _TokenCheck]) -> None:
        identity = endpoint.identity()
        _require_free(endpoint)
        try:
            if identity is None:
                super().__init__(endpoint.location(), middleware=middleware)
                return
            super().__init__(
                endpoint.location(),
                tls_certificates=[(identity.certificate, identity.key)],
                # Who has no certificate of the cluster is refused before a call is read.
                verify_client=True,
                root_certificates=identity.authority,
                middleware=middleware,
            )
        except pa.ArrowException as error:
            raise ExternalError(
                "SS6071",
                f'could not listen on "{endpoint.bind_host}" port {endpoint.port}: {str(error).splitlines()[0]}',
                hint=_LISTEN_HINT,
            ) from error

    def shutdown(self) -> None:
        # The directory first: the server waits for its calls, and the process may end meanwhile.
        if self._own_directory is not None:
            self._own_directory.remove()
        super().shutdown()

    def do_action(self, context: Any, action: Any) -> Iterator[bytes]:
        data = action.body.to_pybytes()
        if action.type == MESSAGES:
            for message in _decode_messages(data):
                self._calls.on_message(message)
            return iter(())
        if action.type == REQUEST and self._calls.on_request is not None:
            return iter((self._calls.on_request(data),))
        if action.type == ATTACH and self._calls.on_attach is not None:
            return self._calls.on_attach(data, context.is_cancelled)
        if action.type == STREAM_ADDRESS and self._stream_addresses:
            return (address.encode() for address in self._stream_addresses)
        if action.type == ARTIFACT and self._calls.artifact_part is not None:
            asked = _decode_part(data)
            return iter((self._calls.artifact_part(asked.digest, asked.offset),))
        raise flight.FlightServerError(f"unknown action {action.type}")

    def do_get(self, context: Any, ticket: Any) -> Any:
        """The rows of the job that the ticket names, in one stream; without columns when there are no rows."""
        if self._calls.results_of is None:
            raise flight.FlightServerError("no job has results here")
        batches = iter(self._calls.results_of(ticket.ticket.decode()))
        first = next(batches, None)
        if first is None:
            return flight.GeneratorStream(pa.schema([]), iter(()))
        schema = first.schema
        rows = (under_schema(batch, schema) for batch in itertools.chain((first,), batches))
        return flight.GeneratorStream(schema, rows)

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """What a result sink sends."""
        stream = _decode_stream(descriptor.command)
        receiver = self._calls.receiver
        if receiver is None:
            raise flight.FlightServerError("no client waits for results here")
        try:
            for chunk in reader:
                if chunk.data is None:
                    printed = _decode_lines(chunk.app_metadata)
                    receiver.put_lines(stream.job_id, printed.lines, printed.is_error, context.is_cancelled)
                else:
                    receiver.put_rows(stream.job_id, stream.operator_id, chunk.data, context.is_cancelled)
        except ChannelClosed as error:
            raise flight.FlightCancelledError("the client wants no more rows") from error
        # The sink waits for this confirmation: the client has received what it sent.
        writer.write_metadata(b"received")


def under_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the schema of its stream: nullability and metadata of a batch may differ from it, types may
    not."""
    if batch.schema.equals(schema):
        return batch
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


class FlightConnections:
    """One client per peer, shared by all streams and calls to it. State: the open clients; thread-safe."""

    def __init__(self, token: str, identity: TlsIdentity | None = None) -> None:
        """`identity` is what this process shows peers whose addresses are encrypted."""
        self._headers = [(_AUTHORIZATION.encode(), f"Bearer {token}".encode())]
        self._identity = identity
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    def options(self, timeout_s: float | None = None) -> Any:
        return flight.FlightCallOptions(timeout=timeout_s, headers=self._headers)

    def client(self, address: str) -> Any:
        """The client for a peer; connects with the first call."""
        with self._lock:
            if address not in self._clients:
                self._clients[address] = self._connect(address)
            return self._clients[address]

    def _connect(self, address: str) -> Any:
        identity = self._identity
        if identity is None or not address.startswith(ENCRYPTED):
            return flight.FlightClient(flight_location(address))
        return flight.FlightClient(
            flight_location(address),
            tls_root_certs=identity.authority,
            cert_chain=identity.certificate,
            private_key=identity.key,
            override_hostname=identity.server_name or None,
        )

    def send_messages(self, address: str, messages: list[bytes], timeout_s: float) -> None:
        """Send one-way control messages in one call; returns when the peer has received them. pyarrow.ArrowException
        when it cannot be reached."""
        action = flight.Action(MESSAGES, encode(messages))
        for _ in self.client(address).do_action(action, self.options(timeout_s)):
            pass

    def request(self, address: str, data: bytes, timeout_s: float) -> bytes:
        """Send a client's request; returns the reply."""
        results = list(self.client(address).do_action(flight.Action(REQUEST, data), self.options(timeout_s)))
        reply: bytes = results[0].body.to_pybytes()
        return reply

    def artifact_part(self, address: str, digest: str, offset: int, timeout_s: float) -> bytes:
        """The next bytes of a file that goes with a job. ExternalError SS5089 when they cannot be had."""
        action = flight.Action(ARTIFACT, encode(ArtifactPartId(digest, offset)))
        try:
            results = list(self.client(address).do_action(action, self.options(timeout_s)))
        except pa.ArrowException as error:
            said = str(error).splitlines()[0]
            raise ExternalError(
                "SS5089", f"could not fetch the file with the digest {digest}: {said}"
            ) from error
        part: bytes = results[0].body.to_pybytes()
        return part

    def stream_addresses(self, address: str, timeout_s: float) -> list[str]:
        """Where the process at `address` hands out rows, to all of the cluster at the first. pyarrow.ArrowException when it
        cannot be reached."""
        asked = flight.Action(STREAM_ADDRESS, b"")
        told = self.client(address).do_action(asked, self.options(timeout_s))
        return [result.body.to_pybytes().decode() for result in told]

    def attach(self, address: str, data: bytes) -> Iterator[bytes]:
        """Attach as a client; what comes over the stream, until the peer ends it. pyarrow.ArrowException when the connection
        breaks."""
        for result in self.client(address).do_action(flight.Action(ATTACH, data), self.options()):
            yield result.body.to_pybytes()

    def read_results(self, address: str, job_id: str) -> Iterator[pa.RecordBatch]:
        """The rows of a job, as they come. pyarrow.ArrowException when the connection breaks."""
        reader = self.client(address).do_get(flight.Ticket(job_id.encode()), self.options())
        for chunk in reader:
            yield chunk.data

    def close(self) -> None:
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

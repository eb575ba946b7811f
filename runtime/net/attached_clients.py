"""Clients in other processes that are attached to a JobManager: what they are sent, and what ends with them."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sqlstream import __version__
from sqlstream.errors import ExternalError, SqlStreamError, UserError
from sqlstream.messages.client_rpc import AttachClient, ClientAttached, ClientEvent, JobEnded, JobPrinted
from sqlstream.messages.rpc import PROTOCOL_VERSION, JobStatusReply
from sqlstream.runtime.logs import of_job
from sqlstream.runtime.net.results import ABANDONED_CHECK_S, PrintLines

logger = logging.getLogger(__name__)

CLIENTS_MAX = 256
"""Attached clients: each holds a thread of the JobManager's server."""

LINES_BYTES_MAX = 4 * 1024 * 1024
"""Printed lines that wait for one client; beyond that the jobs that print wait for it too."""


@dataclass
class _Client:
    """`events` are not sent yet, `lines_bytes` is the size of the lines among them. `is_query` by the id of each of its jobs that
    has not ended."""

    id: str
    events: deque[ClientEvent] = field(default_factory=deque)
    lines_bytes: int = 0
    is_query: dict[str, bool] = field(default_factory=dict)
    is_leaving: bool = False


class AttachedClients:
    """Sends to each client what its jobs print and the ends of jobs that it awaits, in the order in which they come. A client is
    attached as long as its stream: when it leaves, dies or is cut off, `on_lost_query` is called with each of its queries, and
    what other jobs print goes to `print_lines`, beginning with what it has not received.

    State: the clients with their events and jobs, until they are gone; thread-safe."""

    def __init__(self, on_lost_query: Callable[[str], None], print_lines: PrintLines) -> None:
        self._on_lost_query = on_lost_query
        self._print_lines = print_lines
        self._changed = threading.Condition()
        self._clients: dict[str, _Client] = {}
        self._client_of: dict[str, _Client] = {}
        self._is_closed = False

    # --- the stream of a client

    def stream(self, attach: AttachClient, is_gone: Callable[[], bool]) -> Iterator[ClientEvent]:
        """What the client is sent until it leaves or `is_gone`. Errors as of `_add`, with the first event."""
        client = self._add(attach)
        try:
            yield ClientAttached()
            while (event := self._next(client, is_gone)) is not None:
                yield event
        finally:
            self._remove(client)

    def _add(self, attach: AttachClient) -> _Client:
        """UserError SS6033 for a client of another release, ExternalError SS6035 when there are too many."""
        if (attach.version, attach.protocol_version) != (__version__, PROTOCOL_VERSION):
            raise UserError(
                "SS6033",
                f"the server is sqlstream {__version__} (protocol {PROTOCOL_VERSION}), the command is"
                f" sqlstream {attach.version} (protocol {attach.protocol_version})",
            )
        with self._changed:
            if self._is_closed or len(self._clients) >= CLIENTS_MAX or attach.client_id in self._clients:
                reason = "it is stopping" if self._is_closed else f"it has {len(self._clients)} clients"
                raise ExternalError(
                    "SS6035",
                    f"the server takes no other client: {reason}",
                    hint="try again later, or use: sqlstream submit",
                )
            client = self._clients[attach.client_id] = _Client(attach.client_id)
            return client

    def _next(self, client: _Client, is_gone: Callable[[], bool]) -> ClientEvent | None:
        with self._changed:
            while not client.events:
                if client.is_leaving or self._is_closed:
                    return None
                self._changed.wait(ABANDONED_CHECK_S)
                # Also after a wake-up: what other clients are sent may come so often that no wait reaches its end.
                if is_gone():
                    return None
            event = client.events.popleft()
            if isinstance(event, JobPrinted):
                client.lines_bytes -= _size(event.lines)
                self._changed.notify_all()
            return event

    def _remove(self, client: _Client) -> None:
        with self._changed:
            self._clients.pop(client.id, None)
            for job_id in client.is_query:
                self._client_of.pop(job_id, None)
            unsent = [event for event in client.events if isinstance(event, JobPrinted)]
            queries = [job_id for job_id, is_query in client.is_query.items() if is_query]
            self._changed.notify_all()
        for event in unsent:
            self._print_lines(event.job_id, event.lines, event.is_error)
        for job_id in () if self._is_closed else queries:
            logger.info("the query has lost its client", extra=of_job(job_id))
            try:
                self._on_lost_query(job_id)
            except SqlStreamError as error:
                logger.warning("the query could not be cancelled: %s", error, extra=of_job(job_id))

    def detach(self, client_id: str) -> None:
        """The client leaves once it has what is there for it; harmless when it is gone."""
        with self._changed:
            client = self._clients.get(client_id)
            if client is not None:
                client.is_leaving = True
                self._changed.notify_all()

    def close(self) -> None:
        """End all streams once their clients have what is there for them; no other client is taken. Their queries are left to
        whoever ends the jobs."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    # --- jobs

    def adopt(self, client_id: str, job_id: str, is_query: bool) -> None:
        """A job of the client is about to be submitted. ExternalError SS6035 when the client is not attached."""
        with self._changed:
            client = self._clients.get(client_id)
            if client is None or client.is_leaving:
                raise ExternalError(
                    "SS6035", "the client is not attached to the server", hint="run the command again"
                )
            client.is_query[job_id] = is_query
            self._client_of[job_id] = client

    def release(self, job_id: str) -> None:
        """The job has ended; harmless when it is not known."""
        with self._changed:
            client = self._client_of.pop(job_id, None)
            if client is not None:
                client.is_query.pop(job_id, None)

    def has_client(self, job_id: str) -> bool:
        with self._changed:
            return job_id in self._client_of

    def take_lines(
        self, job_id: str, lines: list[str], is_error: bool, is_abandoned: Callable[[], bool]
    ) -> bool:
        """Keep printed lines for the job's client, waiting while it is behind; False when the job has none, when `is_abandoned`,
        called while waiting, returns True, and after `close`."""
        with self._changed:
            while (client := self._client_of.get(job_id)) is not None and not self._is_closed:
                if client.lines_bytes < LINES_BYTES_MAX:
                    client.lines_bytes += _size(lines)
                    client.events.append(JobPrinted(job_id, lines, is_error))
                    self._changed.notify_all()
                    return True
                self._changed.wait(ABANDONED_CHECK_S)
                if is_abandoned():
                    return False
            return False

    def tell_end(self, client_id: str, reply: JobStatusReply) -> None:
        """Send the end of a job that a client awaits; nothing when it is gone, and nothing after `close`: the end that comes with
        the cluster's own is not the job's last. Never waits."""
        with self._changed:
            client = self._clients.get(client_id)
            if client is not None and not self._is_closed:
                client.events.append(JobEnded(reply))
                self._changed.notify_all()


def _size(lines: list[str]) -> int:
    return sum(map(len, lines)) + len(lines)

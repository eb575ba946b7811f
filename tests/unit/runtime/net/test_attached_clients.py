"""What attached clients are sent, and what becomes of their jobs when they are gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from sqlstream import __version__
from sqlstream.errors import ExternalError, UserError
from sqlstream.messages.client_rpc import AttachClient, ClientAttached, ClientEvent, JobEnded, JobPrinted
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobStatusReply
from sqlstream.runtime.net import attached_clients
from sqlstream.runtime.net.attached_clients import AttachedClients

ENDED = JobStatusReply("insert", JobStatus.FINISHED)


class Clients:
    """The clients of a JobManager, and what is told of them."""

    def __init__(self) -> None:
        self.lost: list[str] = []
        self.logged: list[tuple[str, list[str], bool]] = []
        self.attached = AttachedClients(self.lost.append, lambda *printed: self.logged.append(printed))
        self.is_gone = threading.Event()

    def attach(self, name: str = "c") -> Iterator[ClientEvent]:
        stream = self.attached.stream(AttachClient(name, __version__), self.is_gone.is_set)
        assert next(stream) == ClientAttached()
        return stream

    def put(self, job_id: str, *lines: str) -> bool:
        return self.attached.take_lines(job_id, list(lines), False, lambda: False)


def test_lines_and_ends_come_in_order_to_the_client_of_the_job() -> None:
    clients = Clients()
    one, other = clients.attach("one"), clients.attach("other")
    clients.attached.adopt("one", "insert", is_query=False)
    clients.attached.adopt("other", "theirs", is_query=False)
    assert clients.put("insert", "a", "b")
    assert clients.put("theirs", "x")
    assert clients.put("insert", "c")
    clients.attached.tell_end("one", ENDED)
    clients.attached.detach("one")
    clients.attached.detach("other")
    assert list(one) == [
        JobPrinted("insert", ["a", "b"], False),
        JobPrinted("insert", ["c"], False),
        JobEnded(ENDED),
    ]
    assert list(other) == [JobPrinted("theirs", ["x"], False)]


def test_a_client_that_is_gone_loses_its_queries_and_its_lines_go_to_the_log() -> None:
    clients = Clients()
    stream = clients.attach()
    for job_id in ("query", "insert", "ended"):
        clients.attached.adopt("c", job_id, is_query=job_id != "insert")
    clients.attached.release("ended")
    assert clients.put("insert", "unread")
    assert next(stream) == JobPrinted("insert", ["unread"], False)
    assert clients.put("insert", "never sent")
    stream.close()  # type: ignore[attr-defined]
    assert clients.lost == ["query"]
    assert clients.logged == [("insert", ["never sent"], False)]
    assert not clients.put("insert", "later")
    assert not clients.attached.has_client("query")


def test_a_stream_ends_soon_after_its_client_is_gone() -> None:
    clients = Clients()
    stream = clients.attach()
    clients.is_gone.set()
    assert list(stream) == []


class BusyNeighbour:
    """A client that is sent lines all the time, within `with`: whoever waits is woken again and again."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._stream = clients.attach("neighbour")
        clients.attached.adopt("neighbour", "theirs", is_query=False)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._print, daemon=True)

    def _print(self) -> None:
        while not self._is_over.wait(0.001):
            assert self._clients.put("theirs", "x")
            next(self._stream)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join(60)


def test_a_stream_ends_after_its_client_is_gone_while_a_neighbour_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # So that no wait reaches its end.
    monkeypatch.setattr(attached_clients, "ABANDONED_CHECK_S", 60)
    clients = Clients()
    stream = clients.attach()
    received: list[list[ClientEvent]] = []
    clients.attached.adopt("c", "query", is_query=True)
    reader = threading.Thread(target=lambda: received.append(list(stream)), daemon=True)
    with BusyNeighbour(clients):
        reader.start()
        clients.is_gone.set()
        reader.join(60)
    assert received == [[]]
    assert clients.lost == ["query"]


def test_a_writer_that_is_abandoned_goes_on_while_a_neighbour_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attached_clients, "ABANDONED_CHECK_S", 60)
    monkeypatch.setattr(attached_clients, "LINES_BYTES_MAX", 10)
    clients = Clients()
    stream = clients.attach()
    clients.attached.adopt("c", "insert", is_query=False)
    assert clients.put("insert", "0123456789")
    taken: list[bool] = []
    writer = threading.Thread(
        target=lambda: taken.append(clients.attached.take_lines("insert", ["late"], False, lambda: True)),
        daemon=True,
    )
    with BusyNeighbour(clients):
        writer.start()
        writer.join(60)
    assert taken == [False]
    stream.close()  # type: ignore[attr-defined]


def test_a_job_that_prints_waits_for_a_client_that_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached_clients, "LINES_BYTES_MAX", 10)
    clients = Clients()
    stream = clients.attach()
    clients.attached.adopt("c", "insert", is_query=False)
    assert clients.put("insert", "0123456789")
    assert not clients.attached.take_lines("insert", ["abandoned"], False, lambda: True)
    taken: list[bool] = []
    writer = threading.Thread(target=lambda: taken.append(clients.put("insert", "second")), daemon=True)
    writer.start()
    writer.join(0.05)
    assert writer.is_alive()
    assert next(stream) == JobPrinted("insert", ["0123456789"], False)
    writer.join(60)
    assert taken == [True]
    assert next(stream) == JobPrinted("insert", ["second"], False)


def test_a_writer_that_waits_goes_on_when_the_client_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached_clients, "LINES_BYTES_MAX", 1)
    clients = Clients()
    stream = clients.attach()
    clients.attached.adopt("c", "insert", is_query=False)
    assert clients.put("insert", "first")
    taken: list[bool] = []
    writer = threading.Thread(target=lambda: taken.append(clients.put("insert", "second")), daemon=True)
    writer.start()
    stream.close()  # type: ignore[attr-defined]
    writer.join(60)
    # The caller writes it where lines of jobs without a client go.
    assert taken == [False]
    assert clients.logged == [("insert", ["first"], False)]


def test_lines_of_jobs_without_a_client_are_left_to_the_caller() -> None:
    assert not Clients().put("unknown", "a")


def test_a_client_of_another_release_or_one_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached_clients, "CLIENTS_MAX", 1)
    clients = Clients()
    with pytest.raises(UserError, match=r"the command is sqlstream 0\.0\.1") as wrong:
        next(clients.attached.stream(AttachClient("c", "0.0.1"), clients.is_gone.is_set))
    assert wrong.value.code == "SS6033"
    stream = clients.attach()
    with pytest.raises(ExternalError, match="it has 1 clients") as full:
        clients.attach("second")
    assert full.value.code == "SS6035"
    stream.close()  # type: ignore[attr-defined]
    clients.attach("second")


def test_a_job_of_a_client_that_is_not_attached_is_refused() -> None:
    clients = Clients()
    with pytest.raises(ExternalError, match="the client is not attached"):
        clients.attached.adopt("c", "query", is_query=True)
    clients.attach()
    clients.attached.detach("c")
    with pytest.raises(ExternalError, match="the client is not attached"):
        clients.attached.adopt("c", "query", is_query=True)


def test_the_end_of_the_cluster_ends_the_streams_and_leaves_the_jobs_alone() -> None:
    clients = Clients()
    stream = clients.attach()
    clients.attached.adopt("c", "query", is_query=True)
    assert clients.put("query", "last words")
    clients.attached.close()
    clients.attached.tell_end("c", ENDED)
    assert not clients.put("query", "too late")
    assert list(stream) == [JobPrinted("query", ["last words"], False)]
    assert clients.lost == []
    with pytest.raises(ExternalError, match="it is stopping"):
        clients.attach("late")

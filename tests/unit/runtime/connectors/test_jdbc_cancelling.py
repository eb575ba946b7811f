"""A task that reads or writes a database which does not answer ends when it is cancelled."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from jdbc_harness import context, sink, source

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import ExternalError, Retry
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.connectors.jdbc.postgres_sink import tried
from sqlstream.schema import Schema
from sqlstream.spi.connector import LooksUp

SCHEMA = Schema.of(("k", sql.BIGINT))
Interrupts = list[Callable[[], None]]


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """It takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def options(server: socket.socket) -> dict[str, str]:
    """Of a table of the server."""
    url = f"jdbc:postgresql://127.0.0.1:{server.getsockname()[1]}/db"
    return {"url": url, "table-name": "t", "username": "u", "password": "p"}


def write(options: dict[str, str], interrupts: Interrupts) -> None:
    connector("jdbc").sink(
        sink(options, SCHEMA), ChangelogMode.INSERT_ONLY, context(on_cancel=interrupts.append)
    )


def read(options: dict[str, str], interrupts: Interrupts) -> None:
    connector("jdbc").source(source(options, SCHEMA), context(on_cancel=interrupts.append), None).poll()


def look_up(options: dict[str, str], interrupts: Interrupts) -> None:
    made = connector("jdbc")
    assert isinstance(made, LooksUp)
    made.lookup_source(source(options, SCHEMA), ("k",), context(on_cancel=interrupts.append)).load(1)


@pytest.mark.parametrize("use", [write, read, look_up])
def test_a_connect_that_is_not_answered_ends_with_the_task(
    server: socket.socket, options: dict[str, str], use: Callable[[dict[str, str], Interrupts], None]
) -> None:
    interrupts: Interrupts = []

    def cancel_while_it_connects() -> None:
        # Accepted and kept open: what the connect waits for is the server's answer.
        connection, _ = server.accept()
        with connection:
            for interrupt in interrupts:
                interrupt()
            has_ended.wait(60)

    has_ended = threading.Event()
    cancelling = threading.Thread(target=cancel_while_it_connects)
    cancelling.start()
    with pytest.raises(ExternalError, match="the task is cancelled"):
        use(options, interrupts)
    has_ended.set()
    cancelling.join(60)
    assert interrupts


def test_no_try_begins_after_the_cancel() -> None:
    cancelled, tries = threading.Event(), list[int]()

    def fail(attempt: int) -> None:
        tries.append(attempt)
        cancelled.set()
        raise ExternalError("SS5060", "it is down", retry=Retry.BACKOFF)

    with pytest.raises(ExternalError, match="it is down"):
        tried(fail, 3, "a try failed", cancelled)
    with pytest.raises(ExternalError, match="the task is cancelled"):
        tried(fail, 3, "a try failed", cancelled)
    assert tries == [0]

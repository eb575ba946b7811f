"""A cursor after an INSERT, over HTTP as over a cluster of its own."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from gateway_harness import TIMEOUT_S, gateway_server

import sqlstream


@pytest.fixture(scope="module", params=["embedded", "http"])
def connection(request: pytest.FixtureRequest) -> Iterator[sqlstream.Connection]:
    if request.param == "embedded":
        with sqlstream.connect("embedded://") as made:
            yield made
        return
    with gateway_server(has_job_routes=True) as server, sqlstream.connect(server.url) as made:
        yield made


def test_an_insert_is_waited_for_counted_and_told_of(
    connection: sqlstream.Connection, tmp_path: Path
) -> None:
    cursor = connection.cursor()
    source = tmp_path / "in.jsonl"
    source.write_text('{"a": 1}\nnonsense\n{"a": 2}\n')
    options = f"'connector' = 'filesystem', 'path' = '{source}', 'format' = 'json', 'json.ignore-parse-errors' = 'true'"
    cursor.execute(f"CREATE TABLE broken (a INT) WITH ({options})")
    out = f"'connector' = 'filesystem', 'path' = '{tmp_path / 'out'}', 'format' = 'json'"
    cursor.execute(f"CREATE TABLE t (a INT) WITH ({out})")
    assert (cursor.rowcount, cursor.description, cursor.messages, cursor.job_id) == (-1, None, [], None)
    cursor.execute("INSERT INTO t SELECT a FROM broken")
    assert (cursor.rowcount, cursor.description) == (2, None)
    assert cursor.job_id is not None
    assert "1 row" in str(cursor.messages)
    with pytest.raises(sqlstream.Error, match=r"SS5102|cast"):
        cursor.execute("INSERT INTO t SELECT CAST(n AS INT) FROM (VALUES ('x')) AS v (n)")
    assert cursor.rowcount == -1
    cursor.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(5)])
    assert cursor.rowcount == 5
    cursor.execute("DROP TABLE t")
    cursor.execute("DROP TABLE broken")
    assert (cursor.rowcount, cursor.messages) == (-1, [])


@pytest.mark.parametrize("place", ["embedded", "http"])
def test_a_cursor_that_reads_while_its_connection_is_closed_is_told_so(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(gateway_server(has_job_routes=True)) if place == "http" else None
        connection = sqlstream.connect(server.url if server else "embedded://")
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE g (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '100')")
        has_rows, found = threading.Event(), Future[None]()

        def read() -> None:
            try:
                cursor.execute("SELECT n FROM g")
                for _ in cursor:
                    has_rows.set()
                found.set_result(None)
            except BaseException as error:
                found.set_exception(error)

        reader = threading.Thread(target=read)
        reader.start()
        assert has_rows.wait(TIMEOUT_S)
        connection.close()
        reader.join(TIMEOUT_S)
        error = found.exception(timeout=0)
        assert isinstance(error, sqlstream.OperationalError | sqlstream.InterfaceError), error
        assert re.search("closed|cancelled", error.message), error
        assert error.code != "SS9001"
        with pytest.raises(sqlstream.InterfaceError, match="the connection is closed"):
            cursor.execute("SELECT 1")
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == []


def test_a_connection_closes_when_its_cluster_has_forgotten_a_job() -> None:
    with sqlstream.connect("embedded://", config={"jobstore.max-capacity": "2"}) as connection:
        failed = connection.cursor()
        with pytest.raises(sqlstream.Error, match="division by zero") as held:
            failed.execute("SELECT 1 / n FROM (VALUES (0)) AS v (n)").fetchall()
        other = connection.cursor()
        other.execute("CREATE TABLE g (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1')")
        for _ in range(3):
            other.execute("SELECT n FROM g").fetchall()
    assert held is not None

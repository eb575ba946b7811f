"""A cursor after an INSERT, over HTTP as over a cluster of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_harness import gateway_server

import sqlstream
from sqlstream.client.sessions.outcomes import Job

TICKS = "CREATE TABLE g (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '100')"


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


def test_a_reader_that_learns_how_its_job_ended_when_the_cluster_is_gone_is_told_that_the_connection_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wait, is_closed = Job.wait, threading.Event()

    def wait_late(job: Job, timeout_s: float | None = None) -> object:
        is_closed.wait(60)
        return wait(job, timeout_s)

    monkeypatch.setattr(Job, "wait", wait_late)
    connection = sqlstream.connect("embedded://")
    cursor = connection.cursor()
    cursor.execute(TICKS)
    cursor.execute("SELECT n FROM g")
    assert cursor.fetchone()
    closing = threading.Timer(0, lambda: (connection.close(), is_closed.set()))
    closing.start()
    with pytest.raises(sqlstream.InterfaceError, match="the connection is closed"):
        list(cursor)
    closing.join()


async def _rest(cursor: sqlstream.AsyncCursor) -> list[object]:
    return [row async for row in cursor]


async def _read_of_closed() -> None:
    async with await sqlstream.connect_async("embedded://") as connection:
        cursor = connection.cursor()
        await cursor.execute(TICKS)
        await cursor.execute("SELECT n FROM g")
        assert await cursor.fetchone()
    with pytest.raises(sqlstream.InterfaceError, match="the connection is closed"):
        await _rest(cursor)


def test_a_cursor_of_a_closed_connection_is_told_so_on_an_event_loop() -> None:
    asyncio.run(_read_of_closed())

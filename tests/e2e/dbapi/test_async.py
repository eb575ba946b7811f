"""The awaited twin, for both ways to connect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import sqlstream
from sqlstream import RowKind

TIMEOUT_S = 60
TICKS = (
    "CREATE TEMPORARY TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000',"
    " 'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '1000000000')"
)
Use = Callable[[sqlstream.AsyncConnection], Coroutine[Any, Any, None]]


def run(url: str, use: Use) -> None:
    """Call `use` with a connection, on an event loop of its own."""

    async def main() -> None:
        async with asyncio.timeout(TIMEOUT_S), await sqlstream.connect_async(url) as connection:
            await use(connection)

    asyncio.run(main())


def test_rows_are_fetched_in_all_ways(url: str) -> None:
    async def use(connection: sqlstream.AsyncConnection) -> None:
        async with connection.cursor() as cursor:
            await cursor.execute("SELECT v FROM (VALUES (1), (2), (3), (4), (?)) AS t(v)", [5])
            assert cursor.description is not None
            assert cursor.description[0][:2] == ("v", "INTEGER")
            assert await cursor.fetchone() == (1,)
            assert await cursor.fetchmany(2) == [(2,), (3,)]
            assert [row async for row in cursor] == [(4,), (5,)]
            assert await cursor.fetchall() == []
            await cursor.execute("SELECT v, COUNT(*) AS c FROM (VALUES (1), (2), (1)) AS t(v) GROUP BY v")
            table = await cursor.fetch_arrow_table()
            assert sorted(zip(*table.to_pydict().values(), strict=True)) == [(1, 2), (2, 1)]

    run(url, use)


def test_all_rows_of_a_query_that_never_ends_are_not_to_be_had(url: str) -> None:
    async def use(connection: sqlstream.AsyncConnection) -> None:
        async with connection.cursor() as cursor:
            await cursor.execute(TICKS)
            await cursor.execute("SELECT n FROM ticks")
            for fetch in (cursor.fetchall, cursor.fetch_arrow_table):
                with pytest.raises(sqlstream.NotSupportedError, match="is never complete"):
                    await fetch()
            assert await cursor.fetchone() == (0,)

    run(url, use)


def test_inserts_are_waited_for(url: str, table: Callable[..., str]) -> None:
    async def use(connection: sqlstream.AsyncConnection) -> None:
        cursor = connection.cursor()
        await cursor.execute(table("t", "id INT, name STRING"))
        await cursor.executemany("INSERT INTO t VALUES (?, ?)", [(1, "a"), (2, "b")])
        assert cursor.rowcount == 2
        await cursor.execute("SELECT * FROM t")
        assert [batch.num_rows async for batch in cursor.fetch_record_batches()] == [2]

    run(url, use)


def test_changelogs_are_iterated_while_others_run(url: str) -> None:
    async def first_changes(connection: sqlstream.AsyncConnection) -> list[RowKind]:
        cursor = connection.cursor()
        await cursor.execute("SELECT COUNT(*) AS c FROM ticks")
        kinds = []
        async for kind, _ in cursor.changelog():
            kinds.append(kind)
            if len(kinds) == 3:
                break
        await cursor.close()
        return kinds

    async def use(connection: sqlstream.AsyncConnection) -> None:
        await connection.cursor().execute(TICKS)
        found = await asyncio.gather(*(first_changes(connection) for _ in range(3)))
        assert found == [[RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER]] * 3

    run(url, use)


def test_a_fetch_that_is_cancelled_loses_no_row(url: str) -> None:
    async def use(connection: sqlstream.AsyncConnection) -> None:
        cursor = connection.cursor()
        await cursor.execute(TICKS)
        await cursor.execute("SELECT n FROM ticks")
        expected = 0
        for timeout_s in [0.001] * 20 + [TIMEOUT_S] * 20:
            try:
                async with asyncio.timeout(timeout_s):
                    row = await cursor.fetchone()
            except TimeoutError:
                continue
            assert row == (expected,)
            expected += 1
        assert expected >= 20

    run(url, use)


def test_a_fetch_that_waits_ends_with_cancel_and_with_close(url: str) -> None:
    async def use(connection: sqlstream.AsyncConnection) -> None:
        await connection.cursor().execute(TICKS)
        cursor = connection.cursor()
        await cursor.execute("SELECT n FROM ticks WHERE n < 0")
        fetch = asyncio.create_task(cursor.fetchone())
        await asyncio.sleep(0.2)
        await cursor.cancel()
        with pytest.raises(sqlstream.OperationalError, match="cancel"):
            await fetch

    run(url, use)


def test_errors_are_those_of_the_module(url: str) -> None:
    async def use(connection: sqlstream.AsyncConnection) -> None:
        cursor = connection.cursor()
        with pytest.raises(sqlstream.ProgrammingError) as raised:
            await cursor.execute("SELECT nope")
        assert (raised.value.line, raised.value.column) == (1, 8)
        with pytest.raises(sqlstream.DataError, match="division by zero"):
            await (await cursor.execute("SELECT 1 / v FROM (VALUES (0)) AS t(v)")).fetchall()
        await connection.close()
        with pytest.raises(sqlstream.InterfaceError, match="connection is closed"):
            await cursor.execute("SELECT 1")

    run(url, use)


def test_no_server_is_an_operational_error_that_names_the_url() -> None:
    with pytest.raises(
        sqlstream.OperationalError, match=r"cannot connect to http://127\.0\.0\.1:1"
    ) as raised:
        sqlstream.connect("http://127.0.0.1:1")
    assert raised.value.code == "SS5040"
    with pytest.raises(sqlstream.OperationalError, match=r"cannot connect to http://127\.0\.0\.1:1"):
        asyncio.run(sqlstream.connect_async("http://127.0.0.1:1"))

"""PEP 249's contract, and what sqlstream has beyond it, for both ways to connect."""

from __future__ import annotations

import contextlib
import gc
import re
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pyarrow as pa
import pytest
from server_harness import RunningServer

import sqlstream
from sqlstream import RowKind

PAIRS = "(VALUES ('a', 1), ('b', 2), ('a', 3)) AS t(name, v)"
TICKS = (
    "CREATE TEMPORARY TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000',"
    " 'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '1000000000')"
)
WAIT_S = 240
PLANNING_ENDS = "cancelled while it was planned|in CLOSED status|the connection is closed"


def test_a_query_describes_its_columns_and_its_rows_are_fetched_in_all_ways(cursor: sqlstream.Cursor) -> None:
    cursor.execute(
        "SELECT v, name FROM (VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e')) AS t(v, name)"
    )
    assert cursor.description is not None
    assert [column[:2] for column in cursor.description] == [("v", "INTEGER"), ("name", "CHAR")]
    assert cursor.description[0][1] == sqlstream.NUMBER
    assert cursor.description[0][1] != sqlstream.STRING
    assert (cursor.rowcount, cursor.rownumber) == (-1, 0)
    assert cursor.fetchone() == (1, "a")
    assert cursor.fetchmany() == [(2, "b")]
    assert cursor.fetchmany(2) == [(3, "c"), (4, "d")]
    assert cursor.rownumber == 4
    assert list(cursor) == [(5, "e")]
    assert (cursor.fetchone(), cursor.fetchmany(3), cursor.fetchall()) == (None, [], [])


def test_a_bounded_updating_query_has_the_rows_of_its_final_table(cursor: sqlstream.Cursor) -> None:
    cursor.execute(f"SELECT name, SUM(v) AS total FROM {PAIRS} GROUP BY name")
    assert sorted(cursor.fetchall()) == [("a", 4), ("b", 2)]


def test_arrow_tables_and_readers_take_the_rows_that_were_not_fetched(cursor: sqlstream.Cursor) -> None:
    query = "SELECT v FROM (VALUES (1), (2), (3)) AS t(v)"
    assert cursor.execute(query).fetchone() == (1,)
    expected = pa.schema([pa.field("v", pa.int32())])
    assert cursor.fetch_arrow_table() == pa.table({"v": pa.array([2, 3], pa.int32())}, expected)
    reader = cursor.execute(query).fetch_record_batch_reader()
    assert reader.schema == expected
    assert reader.read_all().column("v").to_pylist() == [1, 2, 3]
    assert cursor.execute("SHOW VIEWS").fetch_arrow_table().num_rows == 0


def test_an_unbounded_updating_query_is_a_changelog(cursor: sqlstream.Cursor) -> None:
    cursor.execute(TICKS)
    cursor.execute("SELECT COUNT(*) AS c FROM ticks")
    for fetch in (cursor.fetchone, cursor.fetchall, cursor.fetch_arrow_table):
        with pytest.raises(sqlstream.NotSupportedError, match=r"no final rows|never complete"):
            fetch()
    changes = cursor.changelog()
    first, second, third = (next(changes) for _ in range(3))
    assert (first[0], second[0], third[0]) == (RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER)
    assert first[1] == second[1] < third[1]
    with pytest.raises(sqlstream.ProgrammingError, match=r"fetched already|as a changelog"):
        cursor.fetchone()


def test_an_unbounded_query_that_only_inserts_is_fetched_as_rows_come(cursor: sqlstream.Cursor) -> None:
    cursor.execute(TICKS)
    cursor.execute("SELECT n FROM ticks")
    assert cursor.fetchone() == (0,)
    assert 1 <= len(cursor.fetchmany(5)) <= 5
    with pytest.raises(sqlstream.NotSupportedError, match="never complete"):
        cursor.fetchall()
    reader = cursor.fetch_record_batch_reader()
    assert reader.read_next_batch().num_rows > 0


def test_changelog_batches_always_carry_row_kinds(cursor: sqlstream.Cursor) -> None:
    cursor.execute("SELECT v FROM (VALUES (1), (2)) AS t(v)")
    (batch,) = cursor.changelog_batches()
    assert batch.schema.names == ["v", "$row_kind"]
    assert batch.to_pydict() == {"v": [1, 2], "$row_kind": [0, 0]}


def test_inserts_are_waited_for_and_counted(cursor: sqlstream.Cursor, table: Callable[..., str]) -> None:
    cursor.execute(table("t", "id INT, name STRING"))
    assert (cursor.description, cursor.rowcount) == (None, -1)
    cursor.execute("INSERT INTO t VALUES (?, ?), (?, ?)", [1, "it's", 2, None])
    assert (cursor.rowcount, cursor.description) == (2, None)
    assert cursor.job_id is not None
    rows = [(number, f"name {number}") for number in range(3, 1503)]
    cursor.executemany("INSERT INTO t (id, name) VALUES (?, ?)", rows)
    assert cursor.rowcount == 1500
    assert sorted(cursor.execute("SELECT * FROM t").fetchall())[:3] == [(1, "it's"), (2, None), (3, "name 3")]
    assert cursor.execute("SELECT COUNT(*) AS c FROM t").fetchone() == (1502,)
    assert cursor.executemany("INSERT INTO t VALUES (?, ?)", []).rowcount == 0
    with pytest.raises(sqlstream.ProgrammingError, match="without rows"):
        cursor.executemany("SELECT ?", [[1]])


def test_errors_say_where_and_belong_to_their_class(cursor: sqlstream.Cursor) -> None:
    with pytest.raises(sqlstream.ProgrammingError) as raised:
        cursor.execute("SELECT v,\n  nope FROM (VALUES (?)) AS t(v)", ["x"])
    error = raised.value
    assert (error.code, error.line, error.column) == ("SS2003", 2, 3)
    assert "  2 |   nope FROM (VALUES ('x')) AS t(v)\n    |   ^^^^" in str(error)
    assert error.hint == "the columns are v"
    cases: dict[str, type[sqlstream.Error]] = {
        "SELEC 1": sqlstream.ProgrammingError,
        "SELECT * FROM nowhere": sqlstream.ProgrammingError,
        "SET 'parallelism.default' = 'x'": sqlstream.ProgrammingError,
        "SELECT 1 AS a GROUP BY (SELECT 1)": sqlstream.NotSupportedError,
        "SELECT 1 / v FROM (VALUES (0)) AS t(v)": sqlstream.DataError,
    }
    for statement, kind in cases.items():
        with pytest.raises(sqlstream.Error) as raised:
            cursor.execute(statement).fetchall()
        assert type(raised.value) is kind, statement


def test_a_missing_file_is_an_operational_error_and_a_null_an_integrity_error(
    cursor: sqlstream.Cursor, table: Callable[..., str]
) -> None:
    cursor.execute(table("t", "id INT NOT NULL"))
    with pytest.raises(sqlstream.OperationalError, match="no file or directory"):
        cursor.execute("SELECT * FROM t").fetchall()
    with pytest.raises(sqlstream.IntegrityError):
        cursor.execute("INSERT INTO t SELECT CASE WHEN v > 1 THEN v END FROM (VALUES (1), (2)) AS s(v)")


def test_what_was_closed_is_not_used(connection: sqlstream.Connection) -> None:
    cursor = connection.cursor()
    with pytest.raises(sqlstream.ProgrammingError, match="no statement was executed"):
        cursor.fetchone()
    cursor.execute("CREATE TEMPORARY VIEW v AS SELECT 1 AS a")
    with pytest.raises(sqlstream.ProgrammingError, match="was no query"):
        cursor.fetchone()
    cursor.close()
    cursor.close()
    with pytest.raises(sqlstream.InterfaceError, match="cursor is closed"):
        cursor.execute("SELECT 1")
    connection.commit()
    with pytest.raises(sqlstream.NotSupportedError, match="no transactions"):
        connection.rollback()
    other = connection.cursor()
    connection.close()
    for use in (connection.cursor, connection.commit, connection.close, lambda: other.execute("SELECT 1")):
        with pytest.raises(sqlstream.InterfaceError, match="connection is closed"):
            use()


def test_a_fetch_that_waits_ends_when_another_thread_cancels(cursor: sqlstream.Cursor) -> None:
    cursor.execute(TICKS)
    cursor.execute("SELECT n FROM ticks WHERE n < 0")
    cancel = threading.Timer(0.3, cursor.cancel)
    cancel.start()
    with pytest.raises(sqlstream.OperationalError, match="cancel"):
        cursor.fetchone()
    cancel.join(WAIT_S)


def test_closing_a_connection_ends_a_statement_that_is_planned(connection: sqlstream.Connection) -> None:
    cursor = connection.cursor()
    cursor.execute(TICKS)
    columns = ", ".join(f"{i} + n AS c{i}" for i in range(30_000))
    executing = threading.get_ident()
    is_over = threading.Event()

    def close() -> None:
        while not is_planned_for(executing) and not is_over.is_set():
            time.sleep(0.01)
        connection.close()

    closing = threading.Thread(target=close)
    closing.start()
    # Had it been planned to its end, it would have begun a job or failed for want of a cluster.
    with pytest.raises((sqlstream.OperationalError, sqlstream.InterfaceError), match=PLANNING_ENDS):
        cursor.execute(f"SELECT {columns} FROM ticks")
    is_over.set()
    closing.join(WAIT_S)
    assert not closing.is_alive()


def is_planned_for(thread: int) -> bool:
    """Whether a thread binds a statement, or has sent it to a server and waits for its answer."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        code = frame.f_code
        if "/planner/bind/" in code.co_filename or code.co_qualname == "HttpResult.__init__":
            return True
        frame = frame.f_back
    return False


@pytest.mark.parametrize("place", ["embedded", "http"])
def test_a_cursor_that_reads_while_its_connection_is_closed_is_told_so(place: str, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RunningServer(tmp_path / "data")) if place == "http" else None
        connection = sqlstream.connect(server.gateway if server else "embedded://")
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
        assert has_rows.wait(WAIT_S)
        connection.close()
        reader.join(WAIT_S)
        error = found.exception(timeout=0)
        assert isinstance(error, sqlstream.OperationalError | sqlstream.InterfaceError), error
        assert re.search("closed|cancelled", error.message), error
        assert error.code != "SS9001"
        with pytest.raises(sqlstream.InterfaceError, match="the connection is closed"):
            cursor.execute("SELECT 1")
    if server is not None:
        assert "ERROR" not in server.errors()


def test_closing_a_cursor_cancels_its_query(connection: sqlstream.Connection) -> None:
    cursor = connection.cursor()
    cursor.execute(TICKS)
    cursor.execute("SELECT n FROM ticks")
    cursor.fetchone()
    job_id = cursor.job_id
    cursor.close()
    assert status(connection, job_id) == "CANCELED"


def test_a_query_that_nobody_can_read_any_more_is_cancelled(connection: sqlstream.Connection) -> None:
    cursor = connection.cursor()
    cursor.execute(TICKS)
    cursor.execute("SELECT n FROM ticks")
    job_id = cursor.job_id
    del cursor
    gc.collect()
    assert status(connection, job_id) == "CANCELED"


def status(connection: sqlstream.Connection, job_id: str | None) -> str:
    """The state of a job once it has ended, or after WAIT_S."""
    deadline_s = time.monotonic() + WAIT_S
    while True:
        (job,) = (job for job in connection.session.jobs() if job.job_id == job_id)
        if job.status.is_terminal or time.monotonic() > deadline_s:
            return str(job.status.value)
        time.sleep(0.02)


def test_cursors_of_one_connection_read_side_by_side(connection: sqlstream.Connection) -> None:
    first, second = connection.cursor(), connection.cursor()
    first.execute(TICKS)
    first.execute("SELECT n FROM ticks")
    second.execute("SELECT n + 1 FROM ticks")
    assert (first.fetchone(), second.fetchone()) == ((0,), (1,))
    assert (first.fetchone(), second.fetchone()) == ((1,), (2,))


def test_statements_of_many_threads_share_a_connection(connection: sqlstream.Connection) -> None:
    found: dict[int, object] = {}

    def run(number: int) -> None:
        with connection.cursor() as cursor:
            found[number] = cursor.execute("SELECT ? * 2", [number]).fetchone()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert found == {number: (number * 2,) for number in range(8)}


def test_texts_are_one_row(cursor: sqlstream.Cursor) -> None:
    ((plan,),) = cursor.execute("EXPLAIN SELECT 1").fetchall()
    assert "Abstract Syntax Tree" in plan
    cursor.execute("CREATE TEMPORARY VIEW w AS SELECT 1 AS a")
    assert "AS SELECT 1 AS a" in cursor.execute("SHOW CREATE VIEW w").fetchall()[0][0]


def test_settings_of_the_url_and_of_config_are_in_force(url: str) -> None:
    with sqlstream.connect(
        f"{url}?parallelism.default=2", config={"table.local-time-zone": "Asia/Tokyo"}
    ) as opened:
        rows = dict(opened.cursor().execute("SET").fetchall())
        assert (rows["parallelism.default"], rows["table.local-time-zone"]) == ("2", "Asia/Tokyo")
    with pytest.raises(sqlstream.ProgrammingError, match=r"no\.such\.key"):
        sqlstream.connect(f"{url}?no.such.key=1")


def test_optional_methods_do_nothing_or_say_that_they_are_not_there(cursor: sqlstream.Cursor) -> None:
    cursor.setinputsizes([10])
    cursor.setoutputsize(1000)
    cursor.setoutputsize(1000, 0)
    with pytest.raises(sqlstream.NotSupportedError, match="stored procedures"):
        cursor.callproc("p", [1])
    with pytest.raises(sqlstream.NotSupportedError, match="one result"):
        cursor.nextset()
    assert cursor.connection.Error is sqlstream.Error


def test_lost_rows_are_messages(
    cursor: sqlstream.Cursor, table: Callable[..., str], tmp_path: object
) -> None:
    path = f"{tmp_path}/bad.csv"
    with open(path, "w", encoding="utf-8") as file:
        file.write("1\nx\n3\n")
    cursor.execute(
        "CREATE TEMPORARY TABLE numbers (n INT) WITH ('connector' = 'filesystem', 'format' = 'csv',"
        f" 'path' = '{path}', 'csv.ignore-parse-errors' = 'true')"
    )
    assert cursor.execute("SELECT * FROM numbers").fetchall() == [(1,), (3,)]
    kind, text = cursor.messages[0]
    assert (kind, str(text)) == (
        sqlstream.Warning,
        'warning: 1 row of table "numbers" was left out: undecodable; the first ones are shown above',
    )


def test_words_are_completed_from_the_session(
    connection: sqlstream.Connection, table: Callable[..., str]
) -> None:
    connection.cursor().execute(table("completed", "first_column INT"))
    text = "SELECT first_c FROM completed"
    found = connection.session.complete(text, len("SELECT first_c"))
    assert [(candidate.text, candidate.start) for candidate in found][:1] == [
        ("first_column", len("SELECT "))
    ]
    assert connection.session.complete("'open", 3) == ()

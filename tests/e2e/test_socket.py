"""Tables of connector `socket`: rows as they come, to the end of the connection, and what is refused."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import sqlstream
from sqlstream.client.sessions.outcomes import Job
from sqlstream.client.sessions.submission import guarantee_note
from sqlstream.client.sessions.target_session import local_session
from sqlstream.errors import ExternalError, UserError
from sqlstream.graph.job_graph import read_tables
from sqlstream.messages.job_state import JobStatus
from sqlstream.planner.dialect.parser import parse_statements
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.connectors.tcp_socket import Messages
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.rooted_files import FilePlaces, RootedFiles
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext, SourceReader, SourceStatus
from sqlstream.testing.check import Row, expect_refused, table_text

TIMEOUT_S = 60
"""Until a test fails, not what it needs."""


@contextmanager
def sender(*parts: bytes) -> Iterator[int]:
    """The port where each connection gets these bytes, of which each is sent by itself."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_S)

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                for part in parts:
                    connection.sendall(part)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(TIMEOUT_S)


def table(at: int, columns: str = "n BIGINT", **options: str) -> str:
    given = {"connector": "socket", "hostname": "localhost", "port": str(at), "format": "json"}
    return table_text("t", columns, {**given, **options})


def rows(*statements: str) -> list[Row]:
    with sqlstream.connect("embedded://") as connection:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        return [tuple(row) for row in cursor]


@pytest.mark.parametrize("batch_rows", [1, 2, 65_536])
def test_rows_are_read_wherever_the_bytes_are_cut(batch_rows: int) -> None:
    with sender(b'{"n": 1}\n{"n"', b": 2}\n", b'\n{"n": 3}') as port:
        setting = f"SET 'execution.batch-rows' = '{batch_rows}'"
        assert rows(setting, table(port), "SELECT * FROM t") == [(1,), (2,), (3,)]


def test_several_readers_have_one_connection() -> None:
    with sender(b'{"n": 1}\n{"n": 2}\n') as port:
        found = rows("SET 'parallelism.default' = '2'", table(port), "SELECT * FROM t")
    assert sorted(found) == [(1,), (2,)]


def test_a_job_whose_connection_breaks_connects_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_S)

        def serve() -> None:
            broken, _ = server.accept()
            broken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            broken.close()
            connection, _ = server.accept()
            with connection:
                connection.sendall(b'{"n": 7}\n')

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        script = (
            "SET 'restart-strategy.type' = 'fixed-delay'; SET 'restart-strategy.fixed-delay.attempts' = '3';"
            f" SET 'restart-strategy.fixed-delay.delay' = '10 ms'; {table(server.getsockname()[1])};"
            f" CREATE TABLE s (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'kept'}', 'format' = 'json');"
            " INSERT INTO s SELECT * FROM t"
        )
        with local_session() as session:
            *before, last = parse_statements(script)
            for statement in before:
                session.execute(statement)
            job = session.execute(last)
            assert isinstance(job, Job)
            assert job.wait(TIMEOUT_S)[0] is JobStatus.FINISHED
        thread.join(TIMEOUT_S)
    assert [path.read_text() for path in (tmp_path / "kept").glob("[!._]*")] == ['{"n":7}\n']


def test_a_server_connects_only_when_it_may() -> None:
    with pytest.raises(UserError) as raised:
        _reader(1, RootedFiles(FilePlaces()))
    assert raised.value.code == "SS5031"


def test_rows_of_csv_are_divided_by_any_byte() -> None:
    with sender(b"1,a|2,b\n|3,c") as port:
        declared = table(port, "n INT, name STRING", **{"format": "csv", "byte-delimiter": "124"})
        assert rows(declared, "SELECT * FROM t") == [(1, "a"), (2, "b"), (3, "c")]


def test_events_change_rows() -> None:
    made = b'{"op": "c", "before": null, "after": {"n": 1}}\n{"op": "d", "before": {"n": 1}, "after": null}\n'
    with sender(made) as port, sqlstream.connect("embedded://") as connection:
        cursor = connection.cursor()
        cursor.execute(table(port, format="debezium-json"))
        cursor.execute("SELECT n FROM t")
        assert [kind.name for kind, _ in cursor.changelog()] == ["INSERT", "DELETE"]


def test_an_undecodable_message_fails_the_job_or_is_passed_over() -> None:
    with (
        sender(b'{"n": 1}\nnothing\n{"n": 3}\n') as port,
        pytest.raises(sqlstream.Error, match="message 2 of"),
    ):
        rows(table(port), "SELECT * FROM t")
    with sender(b'{"n": 1}\nnothing\n{"n": 3}\n') as port:
        declared = table(port, **{"json.ignore-parse-errors": "true"})
        assert rows(declared, "SELECT * FROM t") == [(1,), (3,)]


@pytest.mark.parametrize("batch_rows", [1, 2, 65_536])
def test_undecodable_messages_are_kept_where_the_table_says_so(batch_rows: int, tmp_path: Path) -> None:
    options = {"json.ignore-parse-errors": "true", "source.rejected-rows.path": str(tmp_path)}
    with (
        sender(b'{"n": 1}\nnothing\n{"n": 3}\n{"n": "x"}\n') as port,
        sqlstream.connect("embedded://") as connection,
    ):
        cursor = connection.cursor()
        cursor.execute(f"SET 'execution.batch-rows' = '{batch_rows}'")
        cursor.execute(table(port, **options))
        cursor.execute("SELECT n FROM t")
        assert list(cursor) == [(1,), (3,)]
        kept = "SELECT place, `number`, CAST(`value` AS STRING), opened_at <= rejected_at FROM `t$errors`"
        cursor.execute(kept)
        place = f"localhost:{port}"
        assert sorted(cursor.fetchall()) == [(place, 2, "nothing", True), (place, 4, '{"n": "x"}', True)]


def test_a_job_that_takes_checkpoints_says_that_rows_cannot_be_read_again() -> None:

    with local_session() as session:
        *before, last = parse_statements(
            f"SET 'execution.checkpointing.interval' = '1 s';\n{table(1)};\n"
            "CREATE TABLE s (n BIGINT) WITH ('connector' = 'blackhole');\nINSERT INTO s SELECT * FROM t"
        )
        for statement in before:
            session.execute(statement)
        note = guarantee_note(session.compile(last).job_graph)
    assert 'rows of "t" cannot be read again' in note


def test_a_reader_does_not_wait_for_rows() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_S)
        reader = _reader(server.getsockname()[1])
        assert reader.poll() is SourceStatus.NOTHING_YET
        connection, _ = server.accept()
        with connection:
            connection.sendall(b'{"n": 1')
            assert reader.poll() is SourceStatus.NOTHING_YET
            connection.sendall(b"}\n")
            batch = _next(reader)
            assert batch is not None
            assert batch.to_pydict() == {"n": [1]}
            assert len(reader.snapshot()) == 1
        assert _next(reader) is None
        assert reader.snapshot() == []
        reader.close()


def test_a_place_where_nobody_listens_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ExternalError) as raised:
        _next(_reader(port))
    assert raised.value.code == "SS5331"
    assert f"localhost:{port}" in str(raised.value)


def test_messages_are_divided_alike_however_they_come() -> None:
    data = b"ab\n\nc\n" * 3 + b"d"
    for size in range(1, len(data) + 1):
        messages = Messages(10)
        found = [m for i in range(0, len(data), size) for m in messages.add(data[i : i + size]).to_pylist()]
        assert found + messages.rest().to_pylist() == data.split(b"\n")


def _reader(port: int, files: LocalFiles | None = None) -> SourceReader:

    with local_session() as session:
        declared, query = parse_statements(f"{table(port)};\nSELECT * FROM t")
        session.execute(declared)
        spec = next(spec for _, spec in read_tables(session.compile(query).job_graph))
    assert isinstance(spec, SourceSpec)
    context = ConnectorContext(
        *("j", "v", 0, 1, 0, 100), {}, lambda: 0, lambda name, n: None, files or LocalFiles()
    )
    return connector("socket").source(spec, context, None)


def _next(reader: SourceReader) -> pa.RecordBatch | None:
    """The next batch of a reader, None at its end."""
    while (polled := reader.poll()) is SourceStatus.NOTHING_YET:
        pass
    return None if polled is SourceStatus.END else polled


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"port": "0"}, "SS4002"),
        ({"port": "65536"}, "SS4002"),
        ({"byte-delimiter": "256"}, "SS4002"),
        ({"key.format": "json"}, "SS4003"),
        ({"format": "parquet"}, "SS4003"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], code: str) -> None:

    expect_refused(table(1, **options), code, str(options))

"""Results that are pushed: server-sent events and endless Arrow streams, slow readers, clients that go away."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import psutil
import pyarrow as pa
import pytest
from gateway_harness import (
    TIMEOUT_S,
    UNBOUNDED,
    Client,
    Server,
    gateway_server,
    gateway_service,
    running_jobs,
    until,
    with_whole_bodies,
)

from sqlstream.client.gateway.options import GatewayOptions
from sqlstream.client.gateway.routes import gateway_app
from sqlstream.client.server.http_listener import HttpListener

OPTIONS = GatewayOptions(heartbeat_ms=200, check_interval_ms=0)
ROWS = 400_000
RESULT_BYTES = 400_000_000
GROWTH_BYTES_MAX = RESULT_BYTES // 2
IDS = f"""CREATE TEMPORARY TABLE ids (id BIGINT) WITH ('connector'='datagen', 'rows-per-second'='100000000',
 'number-of-rows'='{ROWS}', 'fields.id.kind'='sequence', 'fields.id.start'='1', 'fields.id.end'='{ROWS}')"""
# A batch takes 4 MB, so that the few on the way are small beside the result.
BATCHES = "SET 'execution.batch-rows' = '4096'"
LARGE = "SELECT id, REPEAT('x', 1000) AS name FROM ids"

Event = tuple[str, Any]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with gateway_server(OPTIONS) as found:
        yield found


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url) as found:
        yield found
        found.http.delete(found.path)
    until(lambda: running_jobs(server.cluster) == 0)


@contextmanager
def events(client: Client, operation: str, row_format: str = "JSON") -> Iterator[Iterator[Event]]:
    """The events of a stream, comments as ("", text)."""
    url = f"{operation}/result/stream"
    with client.http.stream("GET", url, params={"rowFormat": row_format}) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield parsed(response.iter_lines())


def parsed(lines: Iterator[str]) -> Iterator[Event]:
    name = ""
    for line in lines:
        if line.startswith(":"):
            yield "", line[1:].strip()
        elif line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def named(stream: Iterator[Event]) -> Iterator[Event]:
    """Without the comments, which fill the time in which nothing comes, also before the first event."""
    return (event for event in stream if event[0])


def test_the_rows_of_a_query_come_between_its_columns_and_its_end(client: Client) -> None:
    operation = client.execute("SELECT COUNT(*) AS n FROM (VALUES (1), (2)) AS t (a)")
    with events(client, operation, "PLAIN_TEXT") as stream:
        found = list(named(stream))
    assert [name for name, _ in found] == ["columns", "rows", "end"]
    columns, rows, end = (data for _, data in found)
    assert len(columns.pop("jobID")) == 32
    assert columns == {
        "isQueryResult": True,
        "resultKind": "SUCCESS_WITH_CONTENT",
        "isBounded": True,
        "isUpdating": True,
        "columns": [{"name": "n", "logicalType": {"type": "BIGINT", "nullable": False}, "comment": None}],
    }
    assert rows == [{"kind": "INSERT", "fields": ["2"]}]
    assert end == {"status": "FINISHED", "warnings": []}


def test_a_statement_without_a_job_is_streamed_too(client: Client) -> None:
    with events(client, client.execute("SHOW TABLES")) as stream:
        assert [name for name, _ in named(stream)] == ["columns", "end"]


def test_an_error_is_an_event_with_its_place(client: Client) -> None:
    with events(client, client.execute("SELECT x FROM nowhere")) as stream:
        ((name, body),) = named(stream)
    assert name == "error"
    assert body["errors"][0] == "Internal server error."
    assert (body["error"]["line"], body["error"]["column"]) == (1, 15)


def test_a_job_that_fails_ends_its_stream_with_the_error(client: Client) -> None:
    client.rows(UNBOUNDED.format(rate=1000))
    with events(client, client.execute("SELECT CAST(CAST(id AS STRING) || 'x' AS BIGINT) FROM u")) as stream:
        found = list(named(stream))
    assert [name for name, _ in found] == ["columns", "error"]
    assert "cannot cast" in found[-1][1]["error"]["message"]


def test_rows_are_pushed_when_they_are_there_and_silence_is_filled(client: Client) -> None:
    client.rows(UNBOUNDED.format(rate=1))
    with events(client, client.execute("SELECT id FROM u")) as stream:
        names = []
        while names.count("rows") < 3 or "" not in names:
            names.append(next(stream)[0])
    assert next(filter(None, names)) == "columns"


def test_a_client_that_goes_away_frees_its_job(server: Server, client: Client) -> None:
    client.rows(UNBOUNDED.format(rate=100))
    operation = client.execute("SELECT id FROM u")
    with events(client, operation) as stream:
        assert next(named(stream))[0] == "columns"
        until(lambda: running_jobs(server.cluster) == 1)
    until(lambda: running_jobs(server.cluster) == 0)
    assert client.http.get(f"{operation}/status").status_code == 500


def test_a_session_that_is_closed_ends_its_streams(client: Client) -> None:
    client.rows(UNBOUNDED.format(rate=100))
    with events(client, client.execute("SELECT id FROM u")) as stream:
        assert next(named(stream))[0] == "columns"
        assert httpx.delete(str(client.http.base_url) + client.path.lstrip("/")).status_code == 200
        last = list(stream)[-1]
    assert last[0] == "error"
    assert "closed" in last[1]["error"]["message"]


def test_a_reader_that_stops_makes_the_job_wait(server: Server, client: Client) -> None:
    client.rows(UNBOUNDED.format(rate=50_000_000))
    operation = client.execute("SELECT id FROM u")
    request = f"GET /v4{operation}/result/stream?rowFormat=ARROW HTTP/1.1\r\nHost: localhost\r\n\r\n"
    until(lambda: running_jobs(server.cluster) == 1)
    (job,) = [found.job_id for found in server.cluster.jobs() if not found.status.is_terminal]
    with socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_S) as raw:
        raw.sendall(request.encode())
        raw.recv(1000)
        until(lambda: emitted(server, job) > 0)
        # All buffers on the way are full when no row more is emitted for a second.
        until(lambda: not grows(lambda: emitted(server, job), 1.0), 60)
        resident = psutil.Process().memory_info().rss
        time.sleep(1.0)
        assert psutil.Process().memory_info().rss < resident + 64 * 1024 * 1024
        assert running_jobs(server.cluster) == 1
    until(lambda: running_jobs(server.cluster) == 0)


def emitted(server: Server, job: str) -> float:
    return server.cluster.metrics(job).total.get("numRecordsRead", 0)


def grows(value: Any, seconds: float) -> bool:
    before = value()
    time.sleep(seconds)
    return bool(value() > before)


def test_a_result_many_times_the_memory_streams_as_arrow(client: Client) -> None:
    client.rows(IDS)
    client.rows(BATCHES)
    list(client.pages(client.execute("SELECT * FROM ids WHERE id < 10")))
    operation = client.execute(LARGE)
    resident = psutil.Process().memory_info().rss
    grown, count, size, total = 0, 0, 0, 0
    with client.http.stream("GET", f"{operation}/result/stream?rowFormat=ARROW") as response:
        reader = pa.ipc.open_stream(Body(response.iter_raw()))
        described = json.loads(reader.schema.metadata[b"sqlstream"])
        assert described["statement"] == {
            "kind": "QUERY", "label": "SELECT", "text": "", "note": "", "isBounded": True, "isUpdating": False,
        }  # fmt: skip
        while True:
            batch, metadata = reader.read_next_batch_with_custom_metadata()
            if metadata is not None and b"sqlstream" in metadata:
                break
            count += batch.num_rows
            size += batch.nbytes
            total += sum(batch.column(0).to_pylist())
            grown = max(grown, psutil.Process().memory_info().rss - resident)
        assert json.loads(metadata[b"sqlstream"]) == {"status": "FINISHED", "warnings": []}
        with pytest.raises(StopIteration):
            reader.read_next_batch()
    assert (count, total) == (ROWS, ROWS * (ROWS + 1) // 2)
    assert size > RESULT_BYTES
    assert grown < GROWTH_BYTES_MAX


def test_a_result_many_times_the_memory_comes_in_pages_of_json(client: Client) -> None:
    client.rows(IDS)
    client.rows(BATCHES)
    operation = client.execute(LARGE)
    client.page(operation)
    resident = psutil.Process().memory_info().rss
    grown, count, size, token = 0, 0, 0, 0
    while (body := client.fetch(operation, token).content).startswith(b'{"resultType":"PAYLOAD"'):
        count += body.count(b'{"kind":"INSERT"')
        size += len(body)
        grown = max(grown, psutil.Process().memory_info().rss - resident)
        token += 1
    assert body.startswith(b'{"resultType":"EOS"')
    assert count == ROWS
    assert size > RESULT_BYTES
    assert grown < GROWTH_BYTES_MAX


def test_an_arrow_stream_that_fails_is_cut_off_after_the_error(client: Client) -> None:
    client.rows(UNBOUNDED.format(rate=1000))
    operation = client.execute("SELECT CAST(CAST(id AS STRING) || 'x' AS BIGINT) FROM u")
    with client.http.stream("GET", f"{operation}/result/stream?rowFormat=ARROW") as response:
        reader = pa.ipc.open_stream(Body(response.iter_raw()))
        while (found := reader.read_next_batch_with_custom_metadata().custom_metadata) is None:
            pass
        with pytest.raises(httpx.RemoteProtocolError):
            reader.read_next_batch()
    found = json.loads(found[b"sqlstream"])
    assert "cannot cast" in found["error"]["message"]


def test_the_server_logs_a_stream_that_fails_as_a_note_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "sqlstream.client.gateway.pushed_results")
    with gateway_service(OPTIONS) as (service, _), socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        listener = HttpListener(with_whole_bodies(gateway_app(service)), [listening], None, lambda: None)
        listener.start()
        with Client(url) as client:
            operation = client.execute("SELECT CAST(CONCAT('x', CAST(RAND_INTEGER(9) AS STRING)) AS INT)")
            with pytest.raises(httpx.RemoteProtocolError):
                client.http.get(f"{operation}/result/stream?rowFormat=ARROW")
        listener.stop()
    said = [record for record in caplog.records if record.name.startswith(("sqlstream.client.", "uvicorn"))]
    handle = operation.rpartition("/")[2]
    assert [(record.levelname, record.getMessage()) for record in said] == [
        ("INFO", f"the stream of operation {handle} was cut off, as it has failed")
    ]


def test_an_arrow_stream_of_a_wrong_statement_is_an_answer_with_its_status(client: Client) -> None:
    operation = client.execute("SELECT x FROM nowhere")
    answer = client.http.get(f"{operation}/result/stream?rowFormat=ARROW")
    assert answer.status_code == 500
    assert answer.json()["errors"][0] == "Internal server error."


class Body:
    """Pieces of a response as the file that pyarrow reads."""

    closed = False

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = b""

    def read(self, size: int = -1) -> bytes:
        while len(self._left) < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._left += piece
        found, self._left = self._left[:size], self._left[size:]
        return found

    def readable(self) -> bool:
        return True

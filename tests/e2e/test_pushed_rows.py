"""Tables of the connectors `sse`, `websocket` and `webhook`: what servers and clients send by themselves."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from command_harness import free_port
from http_harness import TIMEOUT_S, Asked, Reply, http_server

import sqlstream
from sqlstream.client.dbapi.errors import Error
from sqlstream.client.sessions.outcomes import Job
from sqlstream.client.sessions.target_session import local_session
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import read_tables
from sqlstream.planner.dialect.parser import parse_statements
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.connectors.http.sse import Events
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.rooted_files import FilePlaces, RootedFiles
from sqlstream.spi.connector import ConnectorContext, SourceStatus
from sqlstream.testing.check import Row, expect_refused, table_text

EVENTS = {"content-type": "text/event-stream"}
TOKEN = "0123456789abcdef"


def table(kind: str, columns: str = "n BIGINT", **options: str) -> str:
    return table_text("t", columns, {"connector": kind, "format": "json", **options})


def rows(*statements: str) -> list[Row]:
    with sqlstream.connect("embedded://") as connection:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        return [tuple(row) for row in cursor]


# --- sse


TEXT = (
    b"\xef\xbb\xbf: a comment\n"
    b"data: a\rdata\r\ndata:  b\n\nevent: x\nid: 1\ndata: c\n\nid: 2\n\ndata: d\nretry: 7\n\nevent: z\n\ndata: last\n"
)


@pytest.mark.parametrize("seed", range(20))
def test_events_are_found_wherever_bytes_are_cut(seed: int) -> None:
    fate, events = random.Random(seed), Events("0", 1000)
    found, start = [], 0
    while start < len(TEXT):
        end = start + fate.randint(1, 9)
        received = events.add(TEXT[start:end])
        start = end
        if received is not None:
            columns = (received.messages, received.metadata["event"], received.metadata["id"])
            found += list(zip(*(c.to_pylist() for c in columns), strict=True))
    # The last one has no end, and was not sent as a whole.
    assert found == [(b"a\n\n b", "message", "0"), (b"c", "x", "1"), (b"d", "message", "2")]
    # What a server asks for is not done more often than is good for it.
    assert (events.retry_ms, events.last_id) == (100, "2")


def numbered(last: int, first_fails: bool = False) -> Any:
    """Two events an answer, from the one on that was last read."""

    def reply(asked: Asked) -> Reply:
        after = int(asked.headers.get("last-event-id", "0"))
        if after >= last:
            return Reply(status=204)
        events = [
            f'retry: 1\nevent: tick\nid: {n}\ndata: {{"n": {n}}}\n\n'
            for n in range(after + 1, min(after + 2, last) + 1)
        ]
        return Reply("".join(events).encode(), headers=EVENTS)

    return reply


def test_a_connection_that_ends_is_made_again_from_the_last_event_on() -> None:
    with http_server(numbered(5)) as server:
        declared = table(
            "sse", "n BIGINT, kind STRING METADATA FROM 'event', id STRING METADATA", url=server.url
        )
        found = rows(declared, "SELECT n, kind, id FROM t")
        assert found == [(n, "tick", str(n)) for n in range(1, 6)]
        assert [a.headers.get("last-event-id") for a in server.asked] == [None, "2", "4", "5"]


def test_a_reader_of_events_goes_on_behind_its_snapshot() -> None:
    with http_server(numbered(5)) as server:
        spec = _source(table("sse", url=server.url))
        reader = _reader(spec)
        assert _batch(reader).column(0).to_pylist() == [1, 2]
        position = json.loads(json.dumps(reader.snapshot()))
        _batch(reader)
        reader.close()
        later = _reader(spec, position)
        assert _batch(later).column(0).to_pylist() == [3, 4]
        later.close()


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(b"[]", headers={"content-type": "application/json"}), "SS5344"),
        (Reply(status=404), "SS5344"),
        (Reply(status=401), "SS5343"),
        (Reply(status=500), "SS5342"),
        (Reply(b"data: x\n\n", headers=EVENTS), "SS5346"),
        (Reply(b"data: " + b"x" * 5000, headers=EVENTS), "SS5345"),
        (Reply(b'id: \xff\ndata: {"n": 1}\n\n', headers=EVENTS), "SS5346"),
    ],
)
def test_what_is_no_stream_of_events_is_told(reply: Reply, code: str) -> None:
    options = {"sse.max-retries": "0", "http.response.max-size": "1 kb"}
    with http_server(lambda asked: reply) as server, pytest.raises(Error) as raised:
        rows(table("sse", url=server.url, **options), "SELECT * FROM t")
    assert raised.value.code == code


# --- websocket


@contextlib.contextmanager
def sender(*messages: str | bytes, heard: list[Any] | None = None, code: int = 1000) -> Iterator[str]:
    """The address of a server that sends these to whoever connects, and ends the connection."""
    from websockets.sync.server import serve

    def handle(connection: Any) -> None:
        if heard is not None:
            heard.append((connection.recv(TIMEOUT_S), connection.request.headers.get("X-Key")))
        for message in messages:
            connection.send(message)
        connection.close(code)

    with serve(handle, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join(TIMEOUT_S)


@pytest.mark.parametrize("batch_rows", [1, 2, 65_536])
def test_messages_of_a_websocket_are_rows(batch_rows: int) -> None:
    with sender('{"n": 1}', b'{"n":\n 2}', '{"n": 3}') as url:
        setting = f"SET 'execution.batch-rows' = '{batch_rows}'"
        assert rows(setting, table("websocket", url=url), "SELECT * FROM t") == [(1,), (2,), (3,)]


def test_a_server_is_told_what_a_table_wants() -> None:
    heard: list[Any] = []
    with sender('{"n": 1}', heard=heard) as url:
        options = {"subscribe-message": '{"op": "subscribe"}', "websocket.header.X-Key": "hunter22"}
        declared = table("websocket", url=url, **options)
        assert rows(declared, "SELECT * FROM t") == [(1,)]
        assert heard == [('{"op": "subscribe"}', "hunter22")]
        assert "subscribe'," not in str(rows(declared, "SHOW CREATE TABLE t"))


def test_a_websocket_that_breaks_fails_the_job() -> None:
    with sender('{"n": 1}', code=1011) as url, pytest.raises(Error) as raised:
        rows(table("websocket", url=url), "SELECT * FROM t")
    assert raised.value.code == "SS5342"


def test_a_message_that_is_too_large_fails_the_job() -> None:
    with sender("x" * 5000) as url, pytest.raises(Error) as raised:
        rows(table("websocket", url=url, **{"http.response.max-size": "1 kb"}), "SELECT * FROM t")
    assert raised.value.code == "SS5345"


def test_a_server_of_http_is_no_websocket() -> None:
    with http_server(lambda asked: Reply(status=404)) as server, pytest.raises(Error) as raised:
        rows(table("websocket", url=server.url.replace("http", "ws")), "SELECT * FROM t")
    assert raised.value.code == "SS5344"


@pytest.mark.parametrize(
    ("kind", "url"), [("sse", "http://127.0.0.1:9/"), ("websocket", "ws://127.0.0.1:9/")]
)
def test_a_server_does_not_listen_to_its_neighbours(kind: str, url: str) -> None:
    reader = _reader(_source(table(kind, url=url)), files=RootedFiles(FilePlaces(has_database_servers=True)))
    with pytest.raises(UserError) as raised:
        _batch(reader)
    assert raised.value.code == "SS5341"
    reader.close()
    with pytest.raises(UserError):
        _reader(_source(table(kind, url=url)), files=RootedFiles(FilePlaces()))


# --- webhook


def post(port: int, body: bytes | str, path: str = "/", **headers: str) -> httpx.Response:
    given = {"authorization": f"Bearer {TOKEN}", **headers}
    return httpx.post(f"http://127.0.0.1:{port}{path}", content=body, headers=given, timeout=TIMEOUT_S)


@contextlib.contextmanager
def listening(**options: str) -> Iterator[tuple[Any, int]]:
    port = free_port()
    declared = table("webhook", port=str(port), token=TOKEN, **options)
    reader = _reader(_source(declared), config={"execution.checkpointing.interval": "1 s"})
    assert reader.poll() is SourceStatus.NOTHING_YET
    try:
        yield reader, port
    finally:
        reader.close()


def in_thread(call: Any) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()
    return thread, found


def test_a_request_is_answered_when_a_checkpoint_has_its_rows() -> None:
    with listening() as (reader, port):
        thread, answers = in_thread(lambda: post(port, '[{"n": 1}, {"n": 2}]'))
        assert _batch(reader).column(0).to_pylist() == [1, 2]
        position = reader.snapshot()
        later, later_answers = in_thread(lambda: post(port, '{"n": 3}'))
        assert _batch(reader).column(0).to_pylist() == [3]
        reader.on_checkpoint_completed(position)
        thread.join(TIMEOUT_S)
        assert answers[0].status_code == 200
        assert later_answers == []
    later.join(TIMEOUT_S)
    # Nobody knows whether the rows are kept: they are sent again.
    assert later_answers[0].status_code == 503


def test_a_request_with_a_key_is_read_once() -> None:
    with listening(acknowledge="receipt") as (reader, port):
        for _ in range(2):
            thread, answers = in_thread(lambda: post(port, '{"n": 1}', **{"idempotency-key": "a"}))
            deadline_s = time.monotonic() + TIMEOUT_S
            found = []
            while thread.is_alive() and time.monotonic() < deadline_s:
                if not isinstance(polled := reader.poll(), SourceStatus):
                    found += polled.column(0).to_pylist()
            assert answers[0].status_code == 200
            assert found in ([1], [])
        assert found == []
        assert reader.snapshot() == [{"taken": 2, "keys": [hashlib.sha256(b"a").hexdigest()]}]


@pytest.mark.parametrize(
    ("body", "path", "headers", "status"),
    [
        ('{"n": 1}', "/", {"authorization": "Bearer wrong"}, 401),
        ('{"n": 1}', "/other", {}, 404),
        ("x" * 2000, "/", {}, 413),
    ],
)
def test_requests_that_are_not_taken_are_answered_at_once(
    body: str, path: str, headers: dict[str, str], status: int
) -> None:
    with listening(**{"request.max-size": "1 kb"}) as (_, port):
        assert post(port, body, path, **headers).status_code == status
        assert httpx.get(f"http://127.0.0.1:{port}/").status_code == 401


def test_rows_that_cannot_be_decoded_are_given_back() -> None:
    with listening() as (reader, port):
        thread, answers = in_thread(lambda: post(port, '[{"n": 1}, {"n": "x"}]'))
        deadline_s = time.monotonic() + TIMEOUT_S
        while thread.is_alive() and time.monotonic() < deadline_s:
            assert reader.poll() is SourceStatus.NOTHING_YET
        assert answers[0].status_code == 400
        assert "message 2" in answers[0].json()["message"]


def test_rows_of_requests_that_cannot_be_decoded_are_kept_on_request(tmp_path: Path) -> None:
    kept = {"json.ignore-parse-errors": "true", "source.rejected-rows.path": str(tmp_path)}
    with listening(acknowledge="receipt", **kept) as (reader, port):
        for body in ('[{"n": 1}, {"n": "x"}]', "nothing"):
            thread, answers = in_thread(lambda body=body: post(port, body))
            deadline_s = time.monotonic() + TIMEOUT_S
            while thread.is_alive() and time.monotonic() < deadline_s:
                reader.poll()
            assert answers[0].status_code == 200
    (path,) = tmp_path.iterdir()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    # Each has a number of its own, whatever request it was in.
    assert [(row["number"], base64.b64decode(row["value"])) for row in lines] == [
        (2, b'{"n": "x"}'),
        (3, b"nothing"),
    ]


def test_a_request_waits_no_longer_than_it_may() -> None:
    with listening(**{"request.timeout": "200 ms"}) as (_, port):
        answer = post(port, '{"n": 1}')
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


def test_an_address_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        options = {"port": port, "token": TOKEN, "acknowledge": "receipt"}
        with pytest.raises(Error) as raised:
            rows(table("webhook", **options), "SELECT * FROM t")
    assert raised.value.code == "SS5348"


def test_a_job_without_checkpoints_cannot_answer() -> None:
    with pytest.raises(Error) as raised:
        rows(table("webhook", port=str(free_port()), token=TOKEN), "SELECT * FROM t")
    assert raised.value.code == "SS5349"


def test_a_job_takes_rows_and_writes_them_once(tmp_path: Path) -> None:
    port = free_port()
    script = (
        "SET 'execution.checkpointing.interval' = '50 ms';"
        f"{table('webhook', port=str(port), token=TOKEN)};"
        f"CREATE TABLE s (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'kept'}', 'format' = 'json');"
        "INSERT INTO s SELECT * FROM t"
    )
    with local_session() as session:
        *before, last = parse_statements(script)
        for statement in before:
            session.execute(statement)
        job = session.execute(last)
        assert isinstance(job, Job)
        for n in range(3):
            assert _sent(port, f'{{"n": {n}}}').status_code == 200
        job.cancel()
        job.wait(TIMEOUT_S)
    found = "".join(path.read_text() for path in sorted((tmp_path / "kept").glob("[!._]*")))
    assert sorted(found.split()) == ['{"n":0}', '{"n":1}', '{"n":2}']


def _sent(port: int, body: str) -> httpx.Response:
    """Once the job listens."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return post(port, body)
        except httpx.ConnectError:
            assert time.monotonic() < deadline_s, "nobody listens"
            time.sleep(0.02)


# --- refused


@pytest.mark.parametrize(
    ("kind", "options", "code"),
    [
        ("sse", {"url": "ws://a/"}, "SS4002"),
        ("sse", {"url": "http://a/", "sse.header.X": "a\r\nb"}, "SS4002"),
        ("sse", {"url": "http://a/", "format": "parquet"}, "SS4003"),
        ("websocket", {"url": "http://a/"}, "SS4002"),
        ("websocket", {"url": "ws://u:p@a/"}, "SS4002"),
        ("webhook", {"port": "9"}, "SS4005"),
        ("webhook", {"port": "9", "token": "short"}, "SS4002"),
        ("webhook", {"port": "99999", "token": TOKEN}, "SS4002"),
        ("webhook", {"port": "9", "token": TOKEN, "path": "a"}, "SS4002"),
    ],
)
def test_options_that_do_not_fit_are_refused(kind: str, options: dict[str, str], code: str) -> None:
    expect_refused(table(kind, **options), code, str(options))


# --- a reader by itself


def _source(declared: str) -> Any:
    with local_session() as session:
        *before, last = parse_statements(f"{declared}; SELECT * FROM t")
        for statement in before:
            session.execute(statement)
        return next(spec for _, spec in read_tables(session.compile(last).job_graph))


def _reader(spec: Any, position: Any = None, files: Any = None, config: dict[str, str] | None = None) -> Any:
    context = ConnectorContext(
        job_id="0" * 32,
        vertex_id="v",
        subtask=0,
        parallelism=1,
        attempt=0,
        batch_rows=100,
        config=config or {},
        now_ms=lambda: 1_000,
        count=lambda name, n: None,
        files=files or LocalFiles(),
    )
    return connector(spec.connector).source(spec, context, position)


def _batch(reader: Any) -> Any:
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        polled = reader.poll()
        if polled is not SourceStatus.NOTHING_YET:
            return polled
    raise AssertionError("no rows have come")

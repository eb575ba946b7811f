"""Tables of connector `http`: pages as they come, rows as they are sent, keys that are asked for, and what is refused."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from http_harness import (
    TIMEOUT_S,
    Asked,
    HttpServer,
    Reply,
    first_rows,
    http_server,
    rows,
    sink_spec,
    source_spec,
    table,
    table_context,
)

from sqlstream.client.dbapi.errors import Error
from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.connectors.http.bodies import missing_field
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.http_addresses import Certificates
from sqlstream.runtime.host.http_client import HttpClient, Request
from sqlstream.runtime.host.rooted_files import FilePlaces, RootedFiles
from sqlstream.spi.connector import SourceStatus
from sqlstream.testing.check import Row, expect_refused


def always(value: Any, **headers: str) -> Callable[[Asked], Reply]:
    return lambda asked: Reply.json(value, **headers)


# --- read


@pytest.mark.parametrize(
    ("body", "options"),
    [
        (b'[{"n": 1},\n {"n": 2}]', {}),
        (b'{"n": 1}\n{"n": 2}\n', {}),
        (b'{"data": {"items": [{"n": 1}, {"n": 2}]}}', {"http.source.rows.path": "data.items"}),
        (b"1\r\n2\n", {"format": "csv"}),
    ],
)
def test_an_answer_is_a_list_of_rows_or_lines(body: bytes, options: dict[str, str]) -> None:
    with http_server(lambda asked: Reply(body)) as server:
        assert rows(table(server.url, **options), "SELECT * FROM t") == [(1,), (2,)]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("data.items", ""),
        ("data.none", ""),
        ("none.items", ""),
        ("data.itms", '"s" answers without the field "data.itms"; there are items, none'),
        ("dat.items", '"s" answers without the field "dat"; there are data, none'),
    ],
)
def test_a_list_that_an_answer_lacks_is_told(path: str, said: str) -> None:
    assert missing_field(b'{"data": {"items": [], "none": null}, "none": null}', path, "s") == said


@pytest.mark.parametrize("body", [b"", b"[]", b"\n", b"  "])
def test_an_empty_answer_has_no_rows(body: bytes) -> None:
    with http_server(lambda asked: Reply(body)) as server:
        assert rows(table(server.url), "SELECT * FROM t") == []


@pytest.mark.parametrize("batch_rows", [1, 2, 65_536])
def test_pages_are_followed_by_links(batch_rows: int) -> None:
    def reply(asked: Asked) -> Reply:
        page = int(asked.parameters.get("page", "0"))
        found = Reply.json([{"n": 2 * page}, {"n": 2 * page + 1}])
        if page < 2:
            found.headers["Link"] = f'</rows>; rel="first", </rows?page={page + 1}>; rel="next"'
        return found

    with http_server(reply) as server:
        setting = f"SET 'execution.batch-rows' = '{batch_rows}'"
        assert rows(setting, table(f"{server.url}/rows"), "SELECT * FROM t") == [(n,) for n in range(6)]


def paged(asked: Asked) -> Reply:
    after = int(asked.parameters["after"])
    return Reply.json([{"n": n, "name": f"row {n}"} for n in range(after + 1, min(after + 3, 8))])


CURSOR = {
    "http.source.cursor.column": "n",
    "http.source.cursor.parameter": "after",
    "http.source.cursor.start": "0",
}


def test_pages_are_followed_by_the_last_value_of_a_column() -> None:
    with http_server(paged) as server:
        declared = table(server.url, "n BIGINT, name STRING", **CURSOR)
        assert rows(declared, "SELECT name FROM t") == [(f"row {n}",) for n in range(1, 8)]
        assert rows(declared, "SELECT COUNT(*) FROM t")[-1] == (7,)
        assert [a.parameters["after"] for a in server.asked[:5]] == ["0", "2", "4", "6", "7"]


def test_pages_are_followed_by_a_value_or_address_in_the_answer() -> None:
    def reply(asked: Asked) -> Reply:
        if asked.path == "/more":
            return Reply.json({"rows": [{"n": 3}], "meta": {"next": None}})
        if asked.parameters.get("cursor") == "b c":
            return Reply.json({"rows": [{"n": 2}], "meta": {"next": "/more"}})
        return Reply.json({"rows": [{"n": 1}], "meta": {"next": "b c"}})

    with http_server(reply) as server:
        options = {"http.source.rows.path": "rows", "http.source.cursor.path": "meta.next"}
        assert rows(table(server.url, **options), "SELECT * FROM t") == [(1,), (2,), (3,)]


def test_a_server_that_does_not_heed_the_cursor_is_told_from_one_that_does() -> None:
    with http_server(always([{"n": 7}])) as server, pytest.raises(Error) as raised:
        rows(table(server.url, **{"http.source.cursor.column": "n"}), "SELECT * FROM t")
    assert raised.value.code == "SS5347"


def test_a_reader_goes_on_behind_the_page_of_its_snapshot() -> None:
    with http_server(paged) as server:
        spec = source_spec(table(server.url, **CURSOR), "SELECT n FROM t")
        reader = _reader(spec)
        first = _batch(reader)
        position = json.loads(json.dumps(reader.snapshot()))
        _batch(reader)
        reader.close()
        later = _reader(spec, position)
        assert first.column(0).to_pylist() + _batch(later).column(0).to_pylist() == [1, 2, 3, 4]
        later.close()


def test_a_table_with_an_interval_is_asked_again_for_what_has_come() -> None:
    has_more = threading.Event()

    def reply(asked: Asked) -> Reply:
        after = int(asked.parameters["after"])
        if after >= 2:
            has_more.set()
        last = 4 if has_more.is_set() else 2
        return Reply.json([{"n": n} for n in range(after + 1, last + 1)])

    with http_server(reply) as server:
        declared = table(server.url, **CURSOR, **{"http.source.poll.interval": "10 ms"})
        assert first_rows(4, declared, "SELECT * FROM t") == [(1,), (2,), (3,), (4,)]


def test_an_answer_that_has_not_changed_is_not_read_again() -> None:
    def reply(asked: Asked) -> Reply:
        if len(server.asked) > 5:
            return Reply.json([{"n": 2}])
        if asked.headers.get("if-none-match") == '"1"':
            return Reply(status=304)
        return Reply.json([{"n": 1}], ETag='"1"')

    with http_server(reply) as server:
        declared = table(server.url, **{"http.source.poll.interval": "5 ms"})
        assert first_rows(2, declared, "SELECT * FROM t") == [(1,), (2,)]


def test_what_fails_for_a_while_is_asked_again() -> None:
    def reply(asked: Asked) -> Reply:
        statuses = [429, 503, 200]
        status = statuses[min(len(server.asked), 3) - 1]
        return Reply.json([{"n": 1}] if status == 200 else "later", status, Retry_After="0")

    with http_server(reply) as server:
        assert rows(table(server.url), "SELECT * FROM t") == [(1,)]
        assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("status", "code"), [(400, "SS5344"), (401, "SS5343"), (404, "SS5344"), (500, "SS5342")]
)
def test_a_status_that_is_no_success_fails_the_job(status: int, code: str) -> None:
    with (
        http_server(lambda asked: Reply(b"no <such> thing", status)) as server,
        pytest.raises(Error) as raised,
    ):
        rows(table(f"{server.url}/a?token=abc", **{"http.source.max-retries": "0"}), "SELECT * FROM t")
    assert raised.value.code == code
    assert "abc" not in str(raised.value)


@pytest.mark.parametrize("body", [b"[1, 2", b'[{"n": 1}', b'{"n": "x"}', b"\xff\xfe"])
def test_an_answer_that_cannot_be_decoded_is_told(body: bytes) -> None:
    with http_server(lambda asked: Reply(body)) as server, pytest.raises(Error) as raised:
        rows(table(server.url), "SELECT * FROM t")
    assert raised.value.code in ("SS5344", "SS5346")


def test_rows_that_cannot_be_decoded_are_passed_over_on_request() -> None:
    with http_server(lambda asked: Reply(b'[{"n": 1}, {"n": "x"}, {"n": 3}]')) as server:
        declared = table(server.url, **{"json.ignore-parse-errors": "true"})
        assert rows(declared, "SELECT * FROM t") == [(1,), (3,)]


def test_an_answer_is_not_read_beyond_its_bound() -> None:
    body = b"[" + b" " * 5000 + b"]"
    with http_server(lambda asked: Reply(body)) as server, pytest.raises(Error) as raised:
        rows(table(server.url, **{"http.response.max-size": "4 kb"}), "SELECT * FROM t")
    assert raised.value.code == "SS5345"


def test_an_answer_that_comes_byte_by_byte_ends_at_the_time_of_its_request() -> None:
    is_over = threading.Event()

    def drip() -> Any:
        while not is_over.wait(0.02):
            yield b" "

    client = HttpClient(LocalFiles(), Certificates(), 0.3, 1 << 20)
    with http_server(lambda asked: Reply(b"[", parts=drip())) as server:
        before_s = time.monotonic()
        with pytest.raises(ExternalError) as raised:
            client.call(Request("GET", server.url))
        assert time.monotonic() - before_s < TIMEOUT_S / 2
        is_over.set()
    assert raised.value.code == "SS5342"
    client.close()


def test_certificates_of_the_system_are_read_for_the_first_https_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[Certificates] = []
    context = Certificates.context
    monkeypatch.setattr(
        Certificates, "context", lambda self, files: [read.append(self), context(self, files)][1]
    )
    with (
        http_server(always([])) as server,
        contextlib.closing(HttpClient(LocalFiles(), Certificates(), TIMEOUT_S, 1 << 20)) as client,
    ):
        client.call(Request("GET", server.url))
        assert read == []
        for _ in range(2):
            with pytest.raises(ExternalError):
                client.call(Request("GET", server.url.replace("http:", "https:")))
        assert read == [Certificates()]
    with pytest.raises(ExternalError, match="could not read the certificates"):
        HttpClient(LocalFiles(), Certificates(authorities="/is/not/there"), TIMEOUT_S, 1 << 20)


def test_a_client_that_is_told_to_abort_ends_its_request() -> None:
    is_asked, is_over = threading.Event(), threading.Event()

    def wait(asked: Asked) -> Reply:
        is_asked.set()
        is_over.wait(TIMEOUT_S)
        return Reply()

    client = HttpClient(LocalFiles(), Certificates(), TIMEOUT_S, 1 << 20)
    failures: list[ExternalError] = []

    def call() -> None:
        try:
            client.call(Request("GET", server.url))
        except ExternalError as error:
            failures.append(error)

    with http_server(wait) as server:
        thread = threading.Thread(target=call)
        thread.start()
        assert is_asked.wait(TIMEOUT_S)
        client.abort()
        thread.join(TIMEOUT_S)
        is_over.set()
    assert [f.code for f in failures] == ["SS5342"]


def test_an_answer_is_not_decompressed() -> None:
    reply = Reply(b"x", headers={"Content-Encoding": "gzip"})
    with http_server(lambda asked: reply) as server, pytest.raises(Error) as raised:
        rows(table(server.url), "SELECT * FROM t")
    assert raised.value.code == "SS5344"


def test_a_reader_whose_server_is_slow_is_closed_at_once() -> None:
    is_asked, is_over = threading.Event(), threading.Event()

    def wait(asked: Asked) -> Reply:
        is_asked.set()
        is_over.wait(TIMEOUT_S)
        return Reply()

    with http_server(wait) as server:
        reader = _reader(source_spec(table(server.url), "SELECT n FROM t"))
        assert reader.poll() is SourceStatus.NOTHING_YET
        assert is_asked.wait(TIMEOUT_S)
        before_s = time.monotonic()
        reader.close()
        assert time.monotonic() - before_s < TIMEOUT_S / 2
        is_over.set()


@pytest.mark.parametrize("statements", [["SELECT n FROM t"], ["INSERT INTO t VALUES (1)", "SHOW TABLES"]])
def test_an_address_with_places_for_keys_can_only_be_looked_up(statements: list[str]) -> None:
    with pytest.raises(Error) as raised:
        rows(table("http://127.0.0.1:9/{n}"), *statements)
    assert raised.value.code == "SS4003"


# --- who may be called


def test_a_server_calls_nobody_unless_it_may() -> None:
    spec = source_spec(table("http://127.0.0.1:1/"), "SELECT n FROM t")
    with pytest.raises(UserError) as raised:
        _reader(spec, files=RootedFiles(FilePlaces()))
    assert raised.value.code == "SS5031"


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "2130706433", "169.254.169.254"]
)
def test_a_server_does_not_call_its_neighbours(host: str) -> None:
    client = HttpClient(RootedFiles(FilePlaces(has_database_servers=True)), Certificates(), 5, 1 << 20)
    with pytest.raises(UserError) as raised:
        client.call(Request("GET", f"http://{host}:9/"))
    assert raised.value.code == "SS5341"
    client.close()


def test_a_redirection_is_followed_without_the_headers_of_the_table() -> None:
    with http_server(always([{"n": 1}])) as target:
        moved = Reply(status=302, headers={"Location": f"{target.url}/there"})
        with http_server(lambda asked: moved) as server:
            options = {"http.source.header.X-Key": "hunter22"}
            assert rows(table(server.url, **options), "SELECT * FROM t") == [(1,)]
            assert server.asked[0].headers["x-key"] == "hunter22"
        assert target.asked[0].path == "/there"
        assert "x-key" not in target.asked[0].headers


def test_a_redirection_to_a_neighbour_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    files = RootedFiles(FilePlaces(has_database_servers=True))
    asked: list[str] = []

    def require(host: str, address: str) -> None:
        asked.append(host)
        if len(asked) > 1:
            raise UserError("SS5341", "as a server says")

    monkeypatch.setattr(files, "require_callable", require)
    client = HttpClient(files, Certificates(), 5, 1 << 20)
    moved = Reply(status=307, headers={"Location": "http://localhost:9/"})
    with http_server(lambda a: moved) as server, pytest.raises(UserError) as raised:
        client.call(Request("GET", server.url))
    assert raised.value.code == "SS5341"
    assert asked == ["127.0.0.1", "localhost"]
    client.close()


# --- written


def test_rows_are_sent_in_batches_with_keys_of_their_own() -> None:
    with http_server(lambda asked: Reply()) as server:
        options = {"http.sink.request.batch.size": "2", "http.sink.header.Authorization": "ann:hunter22"}
        script = [table(server.url, **options), "INSERT INTO t VALUES (1), (2), (3)", "SHOW TABLES"]
        rows(*script)
        assert [json.loads(a.body) for a in server.asked] == [[{"n": 1}, {"n": 2}], [{"n": 3}]]
        assert len({a.headers["idempotency-key"] for a in server.asked}) == 2
        assert server.asked[0].headers["authorization"] == "Basic YW5uOmh1bnRlcjIy"
        assert server.asked[0].headers["content-type"] == "application/json"


def test_a_row_may_have_a_request_of_its_own() -> None:
    with http_server(lambda asked: Reply()) as server:
        options = {
            "connector": "http-sink",
            "insert-method": "PUT",
            "gid.connector.http.sink.writer.request.mode": "single",
            "gid.connector.http.sink.header.X-Of": "earlier",
        }
        rows(table(server.url, **options), "INSERT INTO t VALUES (1), (2)", "SHOW TABLES")
        assert [(a.method, a.body) for a in server.asked] == [("PUT", b'{"n":1}'), ("PUT", b'{"n":2}')]
        assert server.asked[0].headers["x-of"] == "earlier"


def test_a_request_whose_answer_is_lost_is_sent_again_with_its_key() -> None:
    with http_server(lambda asked: Reply(status=503 if len(server.asked) == 1 else 200)) as server:
        rows(table(server.url), "INSERT INTO t VALUES (1)", "SHOW TABLES")
        first, second = server.asked
        assert first.body == second.body
        assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


def test_rows_of_a_checkpoint_are_sent_by_its_commit_with_the_same_keys_again(tmp_path: Path) -> None:
    with http_server(lambda asked: Reply()) as server:
        declared = table(server.url, **_exactly_once(tmp_path))
        spec = sink_spec(declared, "INSERT INTO t VALUES (CAST(1 AS BIGINT))")
        made = connector("http")
        writer = made.sink(spec, None, table_context(writer_name="a/b/1"))
        import pyarrow as pa

        batch = pa.RecordBatch.from_arrays([pa.array([1, 2, 3])], names=["n"])
        writer.write(batch)
        committables = writer.prepare_commit(7)
        assert server.asked == []
        server.reply = lambda asked: Reply(status=400 if len(server.asked) == 2 else 200)
        with pytest.raises(UserError):
            made.commit(spec, 7, committables, LocalFiles())
        server.reply = lambda asked: Reply()
        for _ in range(2):
            made.commit(spec, 7, committables, LocalFiles())
        keys = [a.headers["idempotency-key"] for a in server.asked]
        assert keys == [keys[0], keys[1], keys[0], keys[1]]
        assert [json.loads(a.body) for a in server.asked[2:]] == [[{"n": 1}, {"n": 2}], [{"n": 3}]]
        writer.abort()


def test_a_commit_asks_once_and_is_repeated_by_others(tmp_path: Path) -> None:
    import pyarrow as pa

    with http_server(lambda asked: Reply(status=503)) as server:
        spec = sink_spec(
            table(server.url, **_exactly_once(tmp_path)), "INSERT INTO t VALUES (CAST(1 AS BIGINT))"
        )
        made = connector("http")
        writer = made.sink(spec, None, table_context(writer_name="a/b/1"))
        writer.write(pa.RecordBatch.from_arrays([pa.array([1])], names=["n"]))
        with pytest.raises(ExternalError):
            made.commit(spec, 7, writer.prepare_commit(7), LocalFiles())
        assert len(server.asked) == 1
        writer.abort()


def _exactly_once(tmp_path: Path) -> dict[str, str]:
    return {
        "sink.delivery-guarantee": "exactly-once",
        "sink.staging-directory": str(tmp_path / "staging"),
        "http.sink.request.batch.size": "2",
    }


# --- looked up


ORDERS = (
    "CREATE TABLE orders (id BIGINT, p AS PROCTIME()) WITH ('connector' = 'datagen', 'number-of-rows' = '3',"
    " 'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '3')"
)
JOIN = "SELECT o.id, c.name FROM orders AS o LEFT JOIN c FOR SYSTEM_TIME AS OF o.p AS c ON o.id = c.id"


def looked_up(server: HttpServer, path: str = "", **options: str) -> list[Row]:
    declared = table(server.url + path, "id BIGINT, name STRING", "c", **options)
    return sorted(rows(ORDERS, declared, JOIN), key=repr)


def test_a_key_is_a_parameter_of_a_request() -> None:
    def reply(asked: Asked) -> Reply:
        number = int(asked.parameters["id"])
        return Reply(status=404) if number == 2 else Reply.json({"name": f"c{number}"})

    with http_server(reply) as server:
        found = looked_up(server, **{"http.source.lookup.ignored-response-codes": "404"})
        assert found == [(1, "c1"), (2, None), (3, "c3")]


@pytest.mark.parametrize("is_concurrent", ["true", "false"])
def test_a_key_may_stand_in_the_address(is_concurrent: str) -> None:
    with http_server(lambda asked: Reply.json({"name": asked.path})) as server:
        options = {"http.request.url-map": "id:customer", "asyncPolling": is_concurrent}
        found = looked_up(server, "/c/{customer}/x", **options)
        assert found == [(1, "/c/1/x"), (2, "/c/2/x"), (3, "/c/3/x")]


@pytest.mark.parametrize("key", ["", ".", ".."])
def test_a_key_leads_to_no_other_place_of_a_server(key: str) -> None:
    orders = f"CREATE VIEW asked AS SELECT customer, PROCTIME() AS p FROM (VALUES ('{key}')) AS v (customer)"
    join = "SELECT c.name FROM asked AS o JOIN c FOR SYSTEM_TIME AS OF o.p AS c ON o.customer = c.id"
    with http_server(always({"name": "x"})) as server:
        declared = table(
            server.url + "/c/{id}", "id STRING, name STRING", "c", **{"http.request.url-map": "id:id"}
        )
        with pytest.raises(Error, match=r"SS5344.*has no place in the address"):
            rows(orders, declared, join)
        assert server.asked == []


def test_a_key_may_stand_in_a_body_and_have_several_rows() -> None:
    def reply(asked: Asked) -> Reply:
        number = json.loads(asked.body)["id"]
        return Reply.json([{"id": n, "name": f"{asked.method} {n}"} for n in range(number, 4)])

    with http_server(reply) as server:
        options = {
            "connector": "rest-lookup",
            "lookup-method": "POST",
            "gid.connector.http.source.lookup.result-type": "array",
        }
        # Rows of other keys are left out.
        assert looked_up(server, **options) == [(1, "POST 1"), (2, "POST 2"), (3, "POST 3")]


def test_a_lookup_that_fails_is_tried_again_and_kept() -> None:
    with http_server(
        lambda asked: Reply.json({"name": "x"}, 503 if len(server.asked) == 1 else 200)
    ) as server:
        found = looked_up(server, **{"lookup.cache": "PARTIAL", "lookup.partial-cache.max-rows": "10"})
        assert found == [(1, "x"), (2, "x"), (3, "x")]
        assert len(server.asked) == 4


def test_a_lookup_needs_all_keys_of_its_address() -> None:
    with http_server(always({})) as server, pytest.raises(Error) as raised:
        looked_up(server, "/{name}")
    assert raised.value.code == "SS5344"


# --- refused


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"url": "ftp://example.org"}, "SS4002"),
        ({"url": "http://"}, "SS4002"),
        ({"url": "http://a b"}, "SS4002"),
        ({"url": "http://example.org/#a"}, "SS4002"),
        ({"url": "http://ann:hunter22@example.org"}, "SS4002"),
        ({"url": "http://example.org:99999"}, "SS4002"),
        ({"http.sink.header.X-Key": "a\nb"}, "SS4002"),
        ({"http.sink.header.X Key": "a"}, "SS4002"),
        ({"http.sink.header.Content-Length": "3"}, "SS4002"),
        ({"http.source.header.transfer-encoding": "chunked"}, "SS4002"),
        ({"http.source.cursor.column": "m"}, "SS4002"),
        ({"http.source.cursor.start": "m"}, "SS4005"),
        ({"http.source.cursor.column": "n", "http.source.cursor.path": "n"}, "SS4003"),
        ({"http.source.rows.path": "a", "format": "csv"}, "SS4003"),
        ({"http.source.lookup.retry-codes": "600"}, "SS4002"),
        ({"http.request.body-fields": "n"}, "SS4003"),
        ({"http.request.url-map": "m:x"}, "SS4002"),
        ({"http.security.key.client": "key.pem"}, "SS4005"),
        ({"lookup.cache": "FULL"}, "SS4003"),
        ({"format": "parquet"}, "SS4003"),
        ({"value.format": "json"}, "SS4003"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, str], code: str) -> None:
    expect_refused(table("http://example.org/a", **options), code, str(options))


def test_headers_are_masked() -> None:
    declared = table("http://example.org/a?api_key=hunter23", **{"http.source.header.X": "hunter22"})
    shown = str(rows(declared, "SHOW CREATE TABLE t"))
    assert "hunter22" not in shown
    assert "hunter23" not in shown


# --- a reader and a writer by themselves


def _reader(spec: Any, position: Any = None, files: Any = None) -> Any:
    return connector(spec.connector).source(spec, table_context(files), position)


def _batch(reader: Any) -> Any:
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        polled = reader.poll()
        if polled is not SourceStatus.NOTHING_YET:
            return polled
    raise AssertionError("no rows have come")

"""The gateway over HTTP: wrong requests, sequences of several clients, Arrow pages, versions."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pyarrow as pa
import pytest
from gateway_harness import TIMEOUT_S, UNBOUNDED, Client, Server, gateway_server, running_jobs, until

from sqlstream.client.gateway.bodies import ExecuteStatementRequestBody, FetchResultsResponseBody
from sqlstream.client.gateway.options import GatewayOptions

BODY_BYTES_MAX = 3 * 1024 * 1024
OPTIONS = GatewayOptions(
    body_bytes_max=BODY_BYTES_MAX, statement_bytes_max=1024 * 1024, heartbeat_ms=300, check_interval_ms=0
)
NOBODY = "00000000-0000-4000-8000-000000000000"


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


def errors(answer: httpx.Response) -> list[str]:
    body = answer.json()
    assert list(body) == ["errors"]
    assert not any("Traceback" in text for text in body["errors"])
    found: list[str] = body["errors"]
    return found


# -- wrong requests --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v5/info"),
        ("GET", "/v4/nothing"),
        ("POST", "/v4/nothing"),
        ("GET", "/v1"),
    ],
)
def test_what_is_no_path_is_not_found(server: Server, method: str, path: str) -> None:
    answer = httpx.request(method, server.url + path)
    assert (answer.status_code, errors(answer)) == (404, [f"Not found: {path}"])


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/v4/info", "GET, HEAD"),
        ("GET", "/v4/sessions", "POST"),
        ("PUT", f"/v4/sessions/{NOBODY}", "DELETE, GET, HEAD"),
        ("HEAD", f"/v4/sessions/{NOBODY}/operations/{NOBODY}/result/stream", "GET"),
    ],
)
def test_a_method_that_a_path_does_not_have_is_answered_with_those_that_it_has(
    server: Server, method: str, path: str, allowed: str
) -> None:
    answer = httpx.request(method, server.url + path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    if method != "HEAD":
        assert errors(answer) == [f"Method {method} is not allowed for {path}: use {allowed}"]


def test_head_is_answered_as_get_without_a_body(server: Server, client: Client) -> None:
    for path in ("/v4/info", f"/v4{client.path}", "/v4/nothing", "/openapi.json"):
        head, get = httpx.head(server.url + path), httpx.get(server.url + path)
        assert (head.status_code, head.content) == (get.status_code, b"")
        for name in ("content-type", "content-length"):
            assert head.headers[name] == get.headers[name], path


@pytest.mark.parametrize(
    "path",
    [
        f"/v1/sessions/{NOBODY}/configure-session",
        f"/v1/sessions/{NOBODY}/scripts",
        f"/v3/sessions/{NOBODY}/scripts",
        f"/v4/sessions/{NOBODY}/materialized-tables/t/refresh",
    ],
)
def test_a_version_has_its_own_paths_alone(server: Server, path: str) -> None:
    assert errors(httpx.post(server.url + path)) == [f"Not found: {path}"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "Invalid JSON"),
        (b"[]", "object"),
        (b'{"statement": 1}', "statement: Input should be a valid string"),
        (b'{"statement": "SELECT 1", "executionTimeout": "x"}', "executionTimeout"),
        (b'{"statement": "SELECT 1", "executionConfig": {"a": 1}}', "executionConfig.a"),
        (b'{"statement": "SELECT 1", "extra": 1}', "extra"),
        (b"", "statement: Field required"),
        (b'{"statement": "\xff"}', "Invalid JSON"),
    ],
)
def test_a_malformed_body_is_refused(client: Client, body: bytes, said: str) -> None:
    answer = client.http.post(f"{client.path}/statements", content=body)
    (text,) = errors(answer)
    assert answer.status_code == 400
    assert text.startswith("Request did not match expected format ExecuteStatementRequestBody.")
    assert said in text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/sessions/nobody", 400),
        (f"/sessions/{NOBODY}", 500),
        (f"/sessions/{NOBODY}/operations/{NOBODY}/status", 500),
        (f"/sessions/{NOBODY}/operations/{NOBODY}/result/0?rowFormat=JSON", 500),
        (f"/sessions/{NOBODY}/operations/{NOBODY}/result/x?rowFormat=JSON", 400),
        (f"/sessions/{NOBODY}/operations/{NOBODY}/result/99999999999999999999", 400),
        (f"/sessions/{NOBODY}/operations/{NOBODY}/result/0?rowFormat=XML", 400),
    ],
)
def test_what_does_not_exist_is_an_error(server: Server, path: str, status: int) -> None:
    answer = httpx.get(f"{server.url}/v4{path}")
    assert answer.status_code == status
    text = errors(answer)[-1]
    if status == 400:
        assert text.startswith("Bad request, could not parse parameters: ")
    else:
        assert f"session '{NOBODY}' does not exist" in text


def test_an_operation_that_is_unknown_or_closed_has_no_results(client: Client) -> None:
    operation = client.execute("SHOW TABLES")
    assert client.page(operation)["resultType"] == "EOS"
    assert client.http.delete(f"{operation}/close").json() == {"status": "CLOSED"}
    for path in (operation, f"{client.path}/operations/{NOBODY}"):
        answer = client.fetch(path)
        assert answer.status_code == 500
        assert errors(answer)[0] == "Internal server error."
        assert "can not find the submitted operation" in errors(answer)[1]
        assert client.http.get(f"{path}/status").status_code == 500


def test_a_token_that_is_not_due_is_an_error(client: Client) -> None:
    operation = client.execute("VALUES (1), (2)")
    client.page(operation)
    assert "expecting token to be 1 or 0, but found 7" in errors(client.fetch(operation, 7))[1]
    assert "but found -1" in errors(client.fetch(operation, -1))[1]


def test_a_timeout_cannot_be_asked_for(client: Client) -> None:
    body = {"statement": "SELECT 1", "executionTimeout": 1000}
    answer = client.http.post(f"{client.path}/statements", json=body)
    assert answer.status_code == 500
    assert "doesn't support timeout mechanism" in errors(answer)[1]


def test_a_statement_or_body_that_is_too_long_is_refused(client: Client) -> None:
    long = {"statement": f"SELECT '{'x' * 1024 * 1024}'"}
    answer = client.http.post(f"{client.path}/statements", json=long)
    assert answer.status_code == 500
    assert "longer than 1048576 bytes" in errors(answer)[1]
    huge = {"statement": f"SELECT '{'x' * 10 * 1024 * 1024}'"}
    answer = client.http.post(f"{client.path}/statements", json=huge)
    assert answer.status_code == 413
    assert errors(answer)[0].startswith(f"HTTP content length exceeded {BODY_BYTES_MAX} bytes.")
    pieces = (b"x" * 65536 for _ in range(200))
    answer = client.http.post(f"{client.path}/statements", content=pieces)
    assert answer.status_code == 413


def test_a_session_is_opened_with_few_properties(client: Client) -> None:
    for body in (
        {"properties": {f"k{i}": "v" for i in range(3000)}},
        {"properties": {"k": "v" * 300_000}},
        {"sessionName": "n" * 300_000},
    ):
        answer = client.http.post("/sessions", json=body)
        assert answer.status_code == 500
        assert "take more than 262144 bytes" in errors(answer)[0]


def test_a_large_body_is_not_parsed_on_the_event_loop(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []
    parse = ExecuteStatementRequestBody.model_validate_json

    def parsed(text: bytes) -> ExecuteStatementRequestBody:
        threads.append(threading.current_thread().name)
        return parse(text)

    monkeypatch.setattr(ExecuteStatementRequestBody, "model_validate_json", parsed)
    assert client.rows("SELECT 1") == [[1]]
    assert client.rows(f"SELECT 1 -- {'x' * 20_000}") == [[1]]
    assert [name.startswith("gateway-http") for name in threads] == [False, True]


def test_a_body_that_is_cut_off_leaves_the_server_well(server: Server, client: Client) -> None:
    for sent in (b"POST /v4/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", b"GET /v4/in"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_S) as raw:
            raw.sendall(sent)
    assert client.rows("SELECT 1") == [[1]]


def test_an_error_for_programs_has_its_place(client: Client) -> None:
    operation = client.execute("SELECT 1,\n  x FROM nowhere")
    until(lambda: client.http.get(f"{operation}/status").json()["status"] == "ERROR")
    accept = {"accept": "application/vnd.sqlstream+json, */*"}
    answer = client.http.get(f"{operation}/result/0", headers=accept).json()
    assert answer["errors"][0] == "Internal server error."
    error = answer["error"]
    assert (error["code"], error["line"], error["column"], error["span"]) == ("SS2001", 2, 10, [19, 26])
    assert "nowhere" in error["message"]


# -- answers ---------------------------------------------------------------------------------------


def test_the_versions_answer_alike(server: Server) -> None:
    for version in ("/v1", "/v2", "/v3", "/v4", ""):
        assert httpx.get(f"{server.url}{version}/info").json()["productName"] == "sqlstream"
        with Client(server.url, version) as client:
            operation = client.execute("VALUES (1, 'a')")
            page = client.page(operation)
            FetchResultsResponseBody.model_validate(page)
            assert page["results"]["data"] == [{"kind": "INSERT", "fields": [1, "a"]}]
            suffix = "" if version == "/v1" else "?rowFormat=JSON"
            assert page["nextResultUri"] == f"{version or '/v4'}{operation}/result/1{suffix}"


def test_row_formats_are_read_in_any_case(client: Client) -> None:
    statement = "SELECT CAST(1.50 AS DECIMAL(10, 2)), TRUE, CAST(NULL AS INT)"
    assert client.rows(statement, "plain_text") == [["1.50", "TRUE", None]]
    assert client.rows(statement, "Json") == [[1.5, True, None]]


def test_an_arrow_page_has_rows_columns_and_the_next_uri(client: Client) -> None:
    operation = client.execute("SELECT COUNT(*) AS n FROM (VALUES (1), (2)) AS t (a)")
    until(lambda: client.http.get(f"{operation}/status").json()["status"] == "FINISHED")
    values, uri = [], f"/v4{operation}/result/0?rowFormat=ARROW"
    while uri:
        answer = httpx.get(str(client.http.base_url.join("/")).rstrip("/") + uri)
        assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
        reader = pa.ipc.open_stream(answer.content)
        described = json.loads(reader.schema.metadata[b"sqlstream"])
        assert described["columns"][0]["logicalType"] == {"type": "BIGINT", "nullable": False}
        assert described["statement"]["kind"] == "QUERY"
        assert reader.schema.names == ["n", "$row_kind"]
        values += [tuple(row.values()) for row in reader.read_all().to_pylist()]
        uri = answer.links["next"]["url"] if answer.links else ""
        assert uri == described.get("nextResultUri", "")
    assert described["resultType"] == "EOS"
    assert values == [(2, 0)]


def test_arrow_says_that_a_result_is_not_ready(client: Client) -> None:
    client.rows(UNBOUNDED.format(rate=10))
    client.rows("CREATE TEMPORARY TABLE sink (id BIGINT) WITH ('connector'='blackhole')")
    client.rows("SET 'table.dml-sync' = 'true'")
    operation = client.execute("INSERT INTO sink SELECT id FROM u")
    answer = client.fetch(operation, 0, "ARROW")
    described = json.loads(pa.ipc.open_stream(answer.content).schema.metadata[b"sqlstream"])
    assert described["resultType"] == "NOT_READY"
    assert client.http.post(f"{operation}/cancel").json() == {"status": "CANCELED"}


def test_a_script_is_deployed_and_its_errors_come_back(client: Client) -> None:
    tables = (
        f"{UNBOUNDED.format(rate=10)}; CREATE TEMPORARY TABLE k (id BIGINT) WITH ('connector'='blackhole');"
    )
    answer = client.http.post(
        f"{client.path}/scripts", json={"script": f"{tables} INSERT INTO k SELECT id FROM u;"}
    )
    assert (answer.status_code, len(answer.json()["clusterID"])) == (200, 32)
    (job,) = [row for row in client.rows("SHOW JOBS") if row[2] in ("RUNNING", "CREATED", "INITIALIZING")]
    client.rows(f"STOP JOB '{job[0]}'")
    answer = client.http.post(f"{client.path}/scripts", json={"script": "SELEC"})
    assert answer.status_code == 500
    assert 'did you mean "SELECT"?' in errors(answer)[1]
    assert client.http.post(f"{client.path}/scripts", json={"scriptUri": "file:///x"}).status_code == 400


def test_a_session_is_configured_at_once(client: Client) -> None:
    path = f"{client.path}/configure-session"
    body = {"statement": "CREATE TEMPORARY VIEW v AS SELECT 7 AS a", "executionTimeout": 0}
    assert client.http.post(path, json=body).json() == {}
    assert client.rows("SELECT a FROM v") == [[7]]
    assert "a session is configured by" in errors(client.http.post(path, json={"statement": "SELECT 1"}))[1]
    assert client.http.post(f"{client.path}/heartbeat").json() == {}


# -- sequences -------------------------------------------------------------------------------------


def test_a_request_for_rows_is_held_for_its_time_where_none_come(client: Client) -> None:
    client.rows(UNBOUNDED.format(rate=1))
    operation = client.execute("SELECT id FROM u WHERE id IS NULL")
    client.page(operation)
    started_s = time.monotonic()
    # Were it held until rows come, it would have no answer.
    page = client.page(operation, 1)
    assert (page["resultType"], page["results"]["data"]) == ("PAYLOAD", [])
    assert time.monotonic() - started_s >= OPTIONS.page_wait_ms / 1000


def test_a_request_for_rows_is_held_until_they_come_and_no_longer() -> None:
    with gateway_server(GatewayOptions(page_wait_ms=3_600_000)) as server, Client(server.url) as client:
        client.rows(UNBOUNDED.format(rate=1))
        operation = client.execute("SELECT id FROM u")
        # Without a row it would be held for an hour.
        pages = [client.page(operation, token)["results"]["data"] for token in range(3)]
        assert sum(map(len, pages)) > 0
        assert client.http.delete(f"{operation}/close").status_code == 200


def test_two_clients_share_a_session(server: Server, client: Client) -> None:
    client.rows("SET 'pipeline.name' = 'shared'")

    def count(number: int) -> list[list[object]]:
        with httpx.Client(base_url=f"{server.url}/v4", timeout=TIMEOUT_S, verify=False) as http:
            other = object.__new__(Client)
            other.http, other.session, other.path = http, client.session, client.path
            return [*other.rows("SET"), *other.rows(f"VALUES ({number})")]

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(count, range(40)))
    assert found == [[["pipeline.name", "shared"], [number]] for number in range(40)]


def test_an_operation_that_is_closed_in_mid_fetch_ends_the_fetch_and_frees_its_job(
    server: Server, client: Client
) -> None:
    client.rows(UNBOUNDED.format(rate=1))
    operation = client.execute("SELECT id FROM u WHERE id IS NULL")
    client.page(operation)
    with ThreadPoolExecutor(1) as threads:
        held = threads.submit(httpx.get, f"{server.url}/v4{operation}/result/1", timeout=TIMEOUT_S)
        time.sleep(0.1)
        assert client.http.delete(f"{operation}/close").json() == {"status": "CLOSED"}
        answer = held.result(TIMEOUT_S)
    assert answer.status_code == 500
    # Closed before the request came, or while it was held.
    assert "SS6021" in errors(answer)[1]
    until(lambda: running_jobs(server.cluster) == 0)


def test_many_held_requests_need_no_threads(server: Server, client: Client) -> None:
    client.rows(UNBOUNDED.format(rate=1))
    operation = client.execute("SELECT id FROM u WHERE id IS NULL")
    client.page(operation)
    before = threading.active_count()
    with ThreadPoolExecutor(60) as threads:
        held = [threads.submit(client.fetch, operation, 1) for _ in range(60)]
        time.sleep(0.2)
        assert threading.active_count() <= before + 60 + 16
        statuses = {request.result(TIMEOUT_S).status_code for request in held}
    # The first one's page is that of token 1; for the others it is the one before the current token.
    assert statuses == {200}


def test_an_unfinished_statement_is_completed(client: Client) -> None:
    client.rows("CREATE TEMPORARY VIEW people AS SELECT 'a' AS first_name, 1 AS age")
    body = {"statement": "SELECT fir FROM people", "position": 10}
    path = f"{client.path}/complete-statement"
    assert client.http.request("GET", path, json=body).json()["candidates"][0] == "first_name"
    accept = {"accept": "application/vnd.sqlstream+json"}
    first = client.http.request("GET", path, json=body, headers=accept).json()["details"][0]
    assert (first["text"], first["kind"], first["start"]) == ("first_name", "column", 7)
    for position in (-5, 10_000):
        body = {"statement": "SELECT 1", "position": position}
        assert client.http.request("GET", path, json=body).status_code == 200

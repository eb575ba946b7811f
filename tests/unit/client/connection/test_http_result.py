"""How a client waits for a job of a server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import pytest
from gateway_harness import BLACKHOLE, UNBOUNDED, gateway_server
from http_harness import TIMEOUT_S, Asked, Reply, http_server

from sqlstream.client.connection import http_connection
from sqlstream.client.connection.address import parse_address
from sqlstream.client.connection.failover import RETRY_S
from sqlstream.client.connection.http import HttpClient
from sqlstream.client.connection.http_connection import HttpConnection
from sqlstream.client.connection.http_result import HttpResult
from sqlstream.client.gateway.options import GatewayOptions
from sqlstream.client.sessions.outcomes import ResultKind
from sqlstream.errors import ExternalError, SqlStreamError, UserError
from sqlstream.messages.job_state import JobStatus

SLOW = (
    "CREATE TEMPORARY TABLE slow (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100',"
    " 'number-of-rows' = '40')"
)
BROKEN = "INSERT INTO sink SELECT CAST(s AS BIGINT) FROM (VALUES ('1'), ('x')) AS t (s)"


@pytest.fixture(scope="module")
def connection() -> Iterator[HttpConnection]:
    with (
        gateway_server(has_job_routes=True) as server,
        HttpConnection(parse_address(server.url), {}) as made,
    ):
        for text in (BLACKHOLE, UNBOUNDED.format(rate=10), SLOW):
            made.execute(text)
        yield made


@pytest.mark.parametrize("timeout_s", [None, 60.0])
def test_a_job_is_waited_for_until_it_ends(connection: HttpConnection, timeout_s: float | None) -> None:
    reply = connection.execute("INSERT INTO sink SELECT id FROM slow").wait(timeout_s)
    assert (reply.status, reply.error) == (JobStatus.FINISHED, None)


def test_a_wait_ends_with_its_time_and_the_job_runs_on(connection: HttpConnection) -> None:
    result = connection.execute("INSERT INTO sink SELECT id FROM u")
    with pytest.raises(TimeoutError, match="has not ended"):
        result.wait(0.05)
    result.cancel()
    reply = result.wait(60)
    assert (reply.job_id, reply.status, reply.error) == (result.job_id, JobStatus.CANCELED, None)


def test_the_cause_of_a_failure_comes_with_the_status(connection: HttpConnection) -> None:
    reply = connection.execute(BROKEN).wait(60)
    assert reply.status is JobStatus.FAILED
    assert reply.error is not None
    assert (reply.error.code, reply.error.message) == ("SS5102", 'cannot cast "x" to BIGINT')


def test_a_connection_is_closed_and_completes_nothing_when_no_server_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_connection, "CLOSE_TIMEOUT_S", 0.2)
    with gateway_server() as server:
        made = HttpConnection(parse_address(f"{server.url},127.0.0.1:1"), {})
    begun_s = time.monotonic()
    assert made.complete("SEL", 3) == ()
    made.close()
    assert time.monotonic() - begun_s < RETRY_S


def test_one_of_several_servers_is_asked_for_the_status_until_a_statement_has_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    call = HttpClient.call

    def noted(self: HttpClient, method: str, path: str, *given: Any, **named: str) -> Any:
        asked.append(path.rpartition("/")[2])
        return call(self, method, path, *given, **named)

    monkeypatch.setattr(HttpClient, "call", noted)
    with gateway_server(GatewayOptions(page_wait_ms=1)) as server:
        address = parse_address(f"{server.url},127.0.0.1:1")
        with HttpConnection(address, {"table.dml-sync": "true"}) as several:
            for text in (BLACKHOLE, SLOW):
                several.execute(text)
            # On a slow machine a short one has ended before it is first asked about.
            for rows in (40, 400, 4_000):
                hint = f"/*+ OPTIONS('number-of-rows' = '{rows}') */"
                result = several.execute(f"INSERT INTO sink SELECT id FROM slow {hint}")
                assert result.kind is ResultKind.JOB
                if "status" in asked:
                    break
            assert "status" in asked
            with pytest.raises(SqlStreamError) as caught:
                several.execute(BROKEN)
            assert caught.value.code == "SS5102"
        asked.clear()
        with HttpConnection(parse_address(server.url), {"table.dml-sync": "true"}) as single:
            for text in (BLACKHOLE, SLOW, "INSERT INTO sink SELECT id FROM slow"):
                single.execute(text)
        assert "status" not in asked


def test_a_statement_whose_answer_is_lost_at_a_server_that_goes_on_is_not_taken_for_unsent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lost(*_: Any, **__: str) -> NoReturn:
        raise ExternalError("SS5043", "the connection was lost")

    with gateway_server() as server, HttpConnection(parse_address(f"{server.url},127.0.0.1:1"), {}) as made:
        monkeypatch.setattr(HttpClient, "stream", lost)
        with pytest.raises(ExternalError) as caught:
            made.execute("SHOW TABLES")
        assert caught.value.code == "SS6174"
        assert caught.value.message.startswith(
            "the statement has reached the server, but the connection broke"
        )
        # Nothing is known of one that no server can be asked about.
        call = HttpClient.call

        def unasked(client: HttpClient, method: str, path: str, *given: Any, **query: str) -> Any:
            return lost() if path.endswith("/status") else call(client, method, path, *given, **query)

        monkeypatch.setattr(HttpClient, "call", unasked)
        with pytest.raises(ExternalError) as caught:
            made.execute("SHOW TABLES")
        assert caught.value.code == "SS6091"


@pytest.mark.parametrize(("wait_s", "answer"), [(60.0, "{'a': 1}"), (0.0, "SS4042")])
def test_who_closes_a_client_while_another_thread_waits_lets_it_have_its_answer_or_says_that_it_is_closed(
    wait_s: float, answer: str
) -> None:
    is_asked, is_answered = threading.Event(), threading.Event()

    def reply(_: Asked) -> Reply:
        is_asked.set()
        assert is_answered.wait(TIMEOUT_S)
        return Reply.json({"a": 1})

    def asked() -> str:
        try:
            return str(client.call("GET", "/slow"))
        except SqlStreamError as error:
            return error.code

    with http_server(reply) as server, ThreadPoolExecutor() as threads:
        client = HttpClient(parse_address(server.url))
        found = threads.submit(asked)
        assert is_asked.wait(TIMEOUT_S)
        closing = threads.submit(client.close, wait_s)
        if not wait_s:
            closing.result(TIMEOUT_S)
        is_answered.set()
        assert found.result(TIMEOUT_S) == answer
        closing.result(TIMEOUT_S)
        assert asked() == "SS4042"


@pytest.mark.parametrize("has_begun", [True, False])
def test_who_closes_a_client_ends_a_result_of_a_server_that_hangs(has_begun: bool) -> None:
    is_waiting, is_over = threading.Event(), threading.Event()

    def hang() -> Iterator[bytes]:
        is_waiting.set()
        assert is_over.wait(TIMEOUT_S)
        yield b""

    def reply(_: Asked) -> Reply:
        if not has_begun:
            next(hang())
        # Not all of the head of the result.
        return Reply(b"\xff" * 4, parts=hang())

    with http_server(reply) as server, ThreadPoolExecutor(1) as pool:
        client = HttpClient(parse_address(server.url))
        ended = pool.submit(HttpResult, client, "session", "operation")
        assert is_waiting.wait(TIMEOUT_S)
        client.close()
        try:
            error = ended.exception(TIMEOUT_S)
        finally:
            is_over.set()
    assert isinstance(error, UserError)
    assert error.code == "SS4042"

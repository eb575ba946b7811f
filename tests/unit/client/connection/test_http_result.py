"""How a client waits for a job of a server."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from gateway_harness import BLACKHOLE, UNBOUNDED, gateway_server

from sqlstream.client.connection import http_connection
from sqlstream.client.connection.address import parse_address
from sqlstream.client.connection.failover import RETRY_S
from sqlstream.client.connection.http_connection import HttpConnection
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

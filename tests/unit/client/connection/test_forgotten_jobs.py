"""What a client says of a job that the cluster knows no longer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from gateway_harness import UNBOUNDED, Server, gateway_server

from sqlstream.client.connection.address import parse_address
from sqlstream.client.connection.http_connection import HttpConnection
from sqlstream.client.connection.http_result import HttpResult
from sqlstream.errors import SqlStreamError
from sqlstream.messages.job_state import JobStatus

STATEMENTS = (
    UNBOUNDED.format(rate=10),
    "CREATE TEMPORARY TABLE sink (id BIGINT) WITH ('connector'='blackhole')",
    "INSERT INTO sink SELECT id FROM u",
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with gateway_server(has_job_routes=True) as found:
        yield found


@pytest.mark.parametrize("call", [HttpResult.wait, HttpResult.metrics, HttpResult.cancel])
def test_a_job_that_is_not_known_is_an_error_and_not_finished(
    server: Server, call: Callable[[HttpResult], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    with HttpConnection(parse_address(server.url), {}) as connection:
        for text in STATEMENTS:
            result = connection.execute(text)
        result.cancel()
        monkeypatch.setattr(HttpResult, "job_id", "f" * 32)
        with pytest.raises(SqlStreamError) as raised:
            call(result)
        assert raised.value.code == "SS6009"


def test_a_query_over_literal_rows_has_no_job_and_is_finished(server: Server) -> None:
    with HttpConnection(parse_address(server.url), {}) as connection:
        result = connection.execute("SELECT 1")
        result.cancel()
        assert (result.job_id, result.wait().status, result.metrics().total) == (None, JobStatus.FINISHED, {})

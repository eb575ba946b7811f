"""A gateway on a cluster in this process, called directly or by HTTP over loopback."""

from __future__ import annotations

import contextlib
import functools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import uvicorn

from sqlstream.client.catalog.catalogs import memory_catalogs
from sqlstream.client.gateway.asker import StatementListener
from sqlstream.client.gateway.operations import Operation
from sqlstream.client.gateway.options import GatewayOptions
from sqlstream.client.gateway.routes import gateway_app
from sqlstream.client.gateway.service import GatewayService
from sqlstream.client.rest.app import ServerInfo, rest_routes
from sqlstream.client.sessions.session import Session
from sqlstream.errors import SqlStreamError
from sqlstream.messages.job_state import JobStatus
from sqlstream.runtime.embedded import EmbeddedCluster

Running = tuple[GatewayService, EmbeddedCluster]

TIMEOUT_S = 240

BLACKHOLE = "CREATE TEMPORARY TABLE sink (id BIGINT) WITH ('connector'='blackhole')"
UNBOUNDED = "CREATE TEMPORARY TABLE u (id BIGINT) WITH ('connector'='datagen', 'rows-per-second'='{rate}')"


@contextlib.contextmanager
def gateway_service(
    options: GatewayOptions | None = None,
    clock_ms: Callable[[], int] | None = None,
    shares_catalogs: bool = True,
    listener: StatementListener | None = None,
) -> Iterator[tuple[GatewayService, EmbeddedCluster]]:
    """A gateway without HTTP, whose sessions share one cluster; its tasks are threads."""
    with EmbeddedCluster(in_process=True, print_lines=lambda *_: None) as cluster:
        catalogs = memory_catalogs() if shares_catalogs else None
        clock = {"clock_ms": clock_ms} if clock_ms is not None else {}
        service = GatewayService(
            lambda config: Session(cluster, config, catalogs), options, listener, **clock
        )
        try:
            yield service, cluster
        finally:
            service.close()


class Server:
    """A gateway's address, and what is behind it."""

    def __init__(self, port: int, service: GatewayService, cluster: EmbeddedCluster) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.service = service
        self.cluster = cluster


TCP = functools.partial(socket.socket, socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
"""A socket whose protocol is named, as the server's are: asyncio sends its small answers without delay."""


def with_whole_bodies(app: Any) -> Any:
    """The application behind one that reads each request to its end, as the server's access control does: a connection that is
    closed before its request was read is reset, and the answer may be lost."""

    async def reading(scope: Any, receive: Any, send: Any) -> None:
        messages = [await receive()]
        while messages[-1].get("more_body"):
            messages.append(await receive())
        waiting = iter(messages)

        async def replay() -> Any:
            return next(waiting, None) or await receive()

        await app(scope, replay, send)

    return reading


@contextlib.contextmanager
def gateway_server(
    options: GatewayOptions | None = None, shares_catalogs: bool = True, has_job_routes: bool = False
) -> Iterator[Server]:
    """The gateway behind uvicorn, on a free port of loopback; with the JobManager's REST if asked for."""
    with gateway_service(options, None, shares_catalogs) as (service, cluster), TCP() as listening:
        listening.bind(("127.0.0.1", 0))
        app = gateway_app(service)
        if has_job_routes:
            app.include_router(rest_routes(cluster, ServerInfo("0"), lambda: None))
        config = uvicorn.Config(with_whole_bodies(app), log_level="warning", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        until(lambda: server.started)
        try:
            yield Server(listening.getsockname()[1], service, cluster)
        finally:
            server.should_exit = True
            server.force_exit = True
            thread.join(TIMEOUT_S)


class Client:
    """One session of a gateway by HTTP; `calls` are those of httpx, with the version's prefix."""

    def __init__(self, url: str, version: str = "/v4", properties: dict[str, str] | None = None) -> None:
        # Without TLS no certificates need be read, which takes longer than most requests.
        self.http = httpx.Client(base_url=url + version, timeout=TIMEOUT_S, verify=False)
        opened = self.http.post("/sessions", json={"properties": properties or {}})
        assert opened.status_code == 200, opened.text
        self.session = opened.json()["sessionHandle"]
        self.path = f"/sessions/{self.session}"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def execute(self, statement: str) -> str:
        """The path of the statement's operation."""
        answer = self.http.post(f"{self.path}/statements", json={"statement": statement})
        assert answer.status_code == 200, answer.text
        return f"{self.path}/operations/{answer.json()['operationHandle']}"

    def fetch(self, operation: str, token: int = 0, row_format: str = "JSON") -> httpx.Response:
        return self.http.get(f"{operation}/result/{token}", params={"rowFormat": row_format})

    def page(self, operation: str, token: int = 0, row_format: str = "JSON") -> dict[str, Any]:
        """The page, once it is ready."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline_s:
            answer = self.fetch(operation, token, row_format)
            assert answer.status_code == 200, answer.text
            page: dict[str, Any] = answer.json()
            if page["resultType"] != "NOT_READY":
                return page
        raise TimeoutError(operation)

    def pages(self, operation: str, row_format: str = "JSON") -> Iterator[dict[str, Any]]:
        """All pages to the end, which is among them."""
        token = 0
        while True:
            page = self.page(operation, token, row_format)
            yield page
            if page["resultType"] == "EOS":
                return
            token += 1

    def rows(self, statement: str, row_format: str = "JSON") -> list[list[Any]]:
        """The fields of all rows of a statement."""
        pages = self.pages(self.execute(statement), row_format)
        return [row["fields"] for page in pages for row in page["results"]["data"]]


def until(holds: Callable[[], object], timeout_s: float = TIMEOUT_S) -> None:
    """Wait until it holds."""
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline_s, "it does not come true"
        time.sleep(0.01)


def settled(operation: Operation) -> Operation:
    until(lambda: not operation.status.is_unsettled)
    return operation


def running_jobs(cluster: EmbeddedCluster) -> int:
    return sum(not job.status.is_terminal for job in cluster.jobs())


def statuses(cluster: EmbeddedCluster) -> list[JobStatus]:
    return [job.status for job in cluster.jobs()]


def run(service: GatewayService, session: str, *statements: str) -> Operation:
    """Execute statements; the last one's operation, settled."""
    for text in statements:
        operation = settled(service.execute(session, text))
    return operation


def rows(operation: Operation) -> list[tuple[Any, ...]]:
    """All rows of a result, which ends."""
    pages = operation.result().pages
    found: list[tuple[Any, ...]] = []
    ready = threading.Event()
    while not (page := pages.page(pages.token)).is_end:
        for batch in page.batches:
            found += zip(*(c.to_pylist() for c in batch.columns), strict=True)
        ready.clear()
        pages.when_ready(ready.set)
        assert ready.wait(TIMEOUT_S)
    return found


def failure(operation: Operation) -> SqlStreamError:
    with pytest.raises(SqlStreamError) as raised:
        settled(operation).result()
    return raised.value

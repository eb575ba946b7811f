"""The server's HTTP application: gateway, JobManager REST, console, job logs, and what those ask who watch a server."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec
from fastapi import APIRouter, FastAPI, Response
from fastapi.concurrency import run_in_threadpool

from sqlstream.client.clusters.cluster_client import ServedCluster
from sqlstream.client.console.app import console_routes
from sqlstream.client.gateway.routes import gateway_routes, install_errors
from sqlstream.client.gateway.service import GatewayService
from sqlstream.client.http_api.answers import json_answer
from sqlstream.client.http_api.errors import RestError
from sqlstream.client.http_api.routes import add_routes
from sqlstream.client.rest.app import ServerInfo, rest_routes
from sqlstream.client.rest.route import RestRoute
from sqlstream.client.server.log_files import Cursor, LogFiles
from sqlstream.errors import SqlStreamError

HEALTH_PATHS = ("/health", "/ready", "/version")


def version_body(info: ServerInfo) -> dict[str, str]:
    """The release, and that of Flink whose protocol it speaks."""
    return {"version": info.version, "flink-version": info.flink_version}


def health_routes(
    ask_job_manager: Callable[[], object], is_stopping: Callable[[], bool], info: ServerInfo
) -> APIRouter:
    """`/health` is answered while requests are; `/ready` with 200 while the JobManager answers too, else with 503 and the reason;
    `/version` with `version_body`. They say no more than that: `ask_job_manager` returns or fails within a second, with an error
    that names no addresses."""
    router = APIRouter(tags=["health"])

    @router.get("/health")
    async def health() -> Response:
        return json_answer({"status": "OK"})

    @router.get("/version")
    async def version() -> Response:
        return json_answer(version_body(info))

    def readiness() -> Response:
        if is_stopping():
            return json_answer({"status": "STOPPING", "reason": "the server stops"}, 503)
        try:
            ask_job_manager()
        except SqlStreamError as error:
            return json_answer({"status": "NOT_READY", "reason": error.message}, 503)
        return json_answer({"status": "READY"})

    @router.get("/ready")
    def ready() -> Response:
        found = readiness()
        # The console of a server that is lost looks for the one that leads now.
        found.headers["access-control-allow-origin"] = "*"
        return found

    return router


_JOB_ID = re.compile(r"[0-9a-f]{32}")


class JobRecords(msgspec.Struct, frozen=True):
    """Records as they are in the log, oldest first; `next` continues behind them."""

    records: tuple[str, ...]
    next: str


def job_log_routes(files: LogFiles) -> APIRouter:
    """`GET /jobs/{id}/logs?after=…`, with and without `/v1`: repeated with the last answer's `next` it follows the log."""
    router = APIRouter(route_class=RestRoute, tags=["rest"])

    @router.get("/jobs/{job_id}/logs")
    @router.get("/v1/jobs/{job_id}/logs", include_in_schema=False)
    async def logs(job_id: str, after: str | None = None) -> JobRecords:
        if _JOB_ID.fullmatch(job_id.lower()) is None:
            raise RestError(400, f"Cannot resolve path parameter (jobid) from value '{job_id[:100]}'.")
        try:
            cursor = Cursor.parse(after) if after else None
        except ValueError as error:
            raise RestError(400, f"Cannot resolve query parameter (after) from value '{after}'.") from error
        records, place = await run_in_threadpool(files.read, job_id.lower(), cursor)
        return JobRecords(records, str(place))

    return router


def no_gateway_routes() -> APIRouter:
    """What a JobManager tells a client that opens a session."""
    router = APIRouter(route_class=RestRoute, include_in_schema=False)

    @router.post("/sessions")
    @router.post("/{version}/sessions")
    async def no_session(version: str = "") -> Response:
        raise RestError(
            404,
            "This JobManager takes no SQL: ask a sqlstream gateway, or start it with sqlstream jobmanager --gateway.",
        )

    return router


def server_app(
    service: GatewayService,
    cluster: ServedCluster,
    info: ServerInfo,
    logs: LogFiles,
    shut_down: Callable[[], None],
    is_stopping: Callable[[], bool],
    has_gateway: bool = True,
    others: Callable[[], Sequence[str]] = tuple,
) -> FastAPI:
    """One application for both ports, as one address is then enough for a client; Security stands before it. `shut_down` is
    called for `DELETE /cluster`, and must not wait. `others`: the URLs of servers that may lead next."""
    app = FastAPI(
        title="sqlstream", version=info.version, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    install_errors(app)

    add_routes(app, health_routes(cluster.check_answers, is_stopping, info).routes)
    add_routes(app, (gateway_routes(service) if has_gateway else no_gateway_routes()).routes)
    add_routes(app, console_routes(service.complete, info, others=others).routes)
    add_routes(app, job_log_routes(logs).routes)
    # Last, as it refuses what it does not have.
    add_routes(app, rest_routes(cluster, info, shut_down).routes)
    return app

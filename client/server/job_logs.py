"""The log of one job over HTTP; ours, Flink has no such path."""

from __future__ import annotations

import re

import msgspec
from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool

from sqlstream.client.http_api.errors import RestError
from sqlstream.client.rest.route import RestRoute
from sqlstream.client.server.log_files import Cursor, LogFiles

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

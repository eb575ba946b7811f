"""Routes about checkpoints and savepoints, and the stop with a savepoint."""

from __future__ import annotations

import re
import secrets
import threading
from collections import OrderedDict
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from sqlstream.client.http_api.answers import json_answer
from sqlstream.client.http_api.errors import BAD_REQUEST, NOT_FOUND, RestError
from sqlstream.client.http_api.request_body import read_value
from sqlstream.client.rest.checkpoint_requests import (
    CheckpointRequest,
    DisposalRequest,
    SavepointRequest,
    StopRequest,
)
from sqlstream.client.rest.checkpoints import (
    checkpoint_body,
    checkpoint_config,
    checkpoint_statistics,
    vertex_body,
)
from sqlstream.client.rest.cluster_view import ClusterView
from sqlstream.client.rest.ended_jobs import check_runs
from sqlstream.client.rest.parameters import checked_id, checked_number
from sqlstream.client.rest.route import RestRoute
from sqlstream.errors import ErrorInfo, SqlStreamError, render_error
from sqlstream.messages.checkpoint_statistics import CheckpointRecord

DISPOSALS_MAX = 1000
"""How many disposals are remembered for clients that ask how they went."""

_BODY_BYTES_MAX = 64 * 1024
_FORMATS = ("CANONICAL", "NATIVE")
_TRIGGER_ID = re.compile(r"[0-9a-f]{32}")


class Disposals:
    """How disposals of savepoints went, by request id. Thread-safe. State: the newest DISPOSALS_MAX."""

    def __init__(self) -> None:
        self._errors: OrderedDict[str, ErrorInfo | None] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, error: ErrorInfo | None) -> str:
        request_id = secrets.token_hex(16)
        with self._lock:
            self._errors[request_id] = error
            while len(self._errors) > DISPOSALS_MAX:
                self._errors.popitem(last=False)
        return request_id

    def error(self, request_id: str) -> ErrorInfo | None:
        """RestError 404 for an id that is not known."""
        with self._lock:
            if request_id not in self._errors:
                raise RestError(NOT_FOUND, f"There is no operation {request_id[:100]}.")
            return self._errors[request_id]


def checkpoint_routes(view: ClusterView) -> APIRouter:
    router = APIRouter(route_class=RestRoute)
    _add_views(router, view)
    _add_checkpoint_triggers(router, view)
    _add_savepoint_triggers(router, view)
    _add_disposals(router, view)
    return router


def _add_views(router: APIRouter, view: ClusterView) -> None:
    @router.get("/jobs/{job_id}/checkpoints")
    def checkpoints(job_id: str) -> Response:
        return json_answer(checkpoint_statistics(view.checkpoints(job_id)))

    @router.get("/jobs/{job_id}/checkpoints/config")
    def checkpoints_config(job_id: str) -> Response:
        return json_answer(checkpoint_config(view.graph(job_id).config))

    @router.get("/jobs/{job_id}/checkpoints/details/{checkpoint_id}")
    def checkpoint_details(job_id: str, checkpoint_id: str) -> Response:
        return json_answer(checkpoint_body(_record(view, job_id, checkpoint_id), has_tasks=True))

    @router.get("/jobs/{job_id}/checkpoints/details/{checkpoint_id}/subtasks/{vertex_id}")
    def checkpoint_subtasks(job_id: str, checkpoint_id: str, vertex_id: str) -> Response:
        id = checked_id("vertexid", vertex_id)
        record = _record(view, job_id, checkpoint_id)
        for vertex in record.vertices:
            if vertex.vertex_id == id:
                return json_answer(vertex_body(record, vertex))
        raise RestError(NOT_FOUND, f"There is no checkpoint statistics for task {id}.")


def _record(view: ClusterView, job_id: str, checkpoint_id: str) -> CheckpointRecord:
    number = checked_number("checkpointid", checkpoint_id)
    found = view.checkpoints(job_id)
    latest = (found.latest_completed, found.latest_savepoint, found.latest_failed)
    for record in (*found.history, *(record for record in latest if record is not None)):
        if record.id == number:
            return record
    raise RestError(NOT_FOUND, f"Could not find checkpointing statistics for checkpoint {number}.")


def _add_checkpoint_triggers(router: APIRouter, view: ClusterView) -> None:
    @router.post("/jobs/{job_id}/checkpoints")
    async def take_checkpoint(job_id: str, request: Request) -> Response:
        id = checked_id("jobid", job_id)
        asked = await read_value(request, CheckpointRequest, _BODY_BYTES_MAX, empty=b"{}")
        if asked.checkpoint_type not in (None, "CONFIGURED"):
            raise RestError(501, "A checkpoint is of the type that the job's settings give: CONFIGURED.")
        trigger_id = _trigger_id(asked.trigger_id)

        def take() -> None:
            check_runs(view, id, "Checkpoint triggering")
            view.cluster.take_checkpoint(id, trigger_id)

        await run_in_threadpool(take)
        return json_answer({"request-id": trigger_id}, 202)

    @router.get("/jobs/{job_id}/checkpoints/{trigger_id}")
    def checkpoint_status(job_id: str, trigger_id: str) -> Response:
        status = view.cluster.savepoint_status(
            checked_id("jobid", job_id), checked_id("triggerid", trigger_id)
        )
        if not status.is_done:
            return json_answer(IN_PROGRESS)
        cause = _failure_cause(status.error)
        return json_answer(_done({"checkpointId": status.checkpoint_id, "failureCause": cause}))


def _add_savepoint_triggers(router: APIRouter, view: ClusterView) -> None:
    @router.post("/jobs/{job_id}/savepoints")
    async def trigger_savepoint(job_id: str, request: Request) -> Response:
        id = checked_id("jobid", job_id)
        asked = await read_value(request, SavepointRequest, _BODY_BYTES_MAX, empty=b"{}")
        _check_format(asked.format_type)
        trigger_id = _trigger_id(asked.trigger_id)
        directory = asked.target_directory or ""

        def trigger() -> None:
            check_runs(view, id, "Savepoint triggering", ends_it=bool(asked.cancel_job))
            if asked.cancel_job:
                view.cluster.stop_with_savepoint(id, trigger_id, directory)
            else:
                view.cluster.trigger_savepoint(id, trigger_id, directory)

        await run_in_threadpool(trigger)
        return json_answer({"request-id": trigger_id}, 202)

    @router.post("/jobs/{job_id}/stop")
    async def stop(job_id: str, request: Request) -> Response:
        id = checked_id("jobid", job_id)
        asked = await read_value(request, StopRequest, _BODY_BYTES_MAX, empty=b"{}")
        _check_format(asked.format_type)
        trigger_id = _trigger_id(asked.trigger_id)

        def stop_job() -> None:
            check_runs(view, id, "Stopping with a savepoint", ends_it=True)
            view.cluster.stop_with_savepoint(id, trigger_id, asked.target_directory or "", bool(asked.drain))

        await run_in_threadpool(stop_job)
        return json_answer({"request-id": trigger_id}, 202)

    @router.get("/jobs/{job_id}/savepoints/{trigger_id}")
    def savepoint_status(job_id: str, trigger_id: str) -> Response:
        status = view.cluster.savepoint_status(
            checked_id("jobid", job_id), checked_id("triggerid", trigger_id)
        )
        if not status.is_done:
            return json_answer(IN_PROGRESS)
        if status.error is not None:
            return json_answer(_done({"failure-cause": _failure_cause(status.error)}))
        return json_answer(_done({"location": status.path}))


def _add_disposals(router: APIRouter, view: ClusterView) -> None:
    disposals = Disposals()

    @router.post("/savepoint-disposal")
    async def dispose(request: Request) -> Response:
        asked = await read_value(request, DisposalRequest, _BODY_BYTES_MAX, empty=b"{}")

        def dispose_savepoint() -> str:
            try:
                view.cluster.dispose_savepoint(asked.savepoint_path)
            except SqlStreamError as error:
                return disposals.add(ErrorInfo.of(error))
            return disposals.add(None)

        return json_answer({"request-id": await run_in_threadpool(dispose_savepoint)})

    @router.get("/savepoint-disposal/{trigger_id}")
    def disposal_status(trigger_id: str) -> Response:
        error = disposals.error(checked_id("triggerid", trigger_id))
        return json_answer(_done({"failure-cause": _failure_cause(error)} if error is not None else {}))


IN_PROGRESS: dict[str, Any] = {"status": {"id": "IN_PROGRESS"}, "operation": None}


def _done(operation: dict[str, Any]) -> dict[str, Any]:
    return {"status": {"id": "COMPLETED"}, "operation": operation}


def _failure_cause(error: ErrorInfo | None) -> dict[str, str] | None:
    return None if error is None else {"class": error.code, "stack-trace": render_error(error)}


def _trigger_id(given: str | None) -> str:
    """The id that the client has chosen, so that repeating its request is harmless, or a new one."""
    if given is None:
        return secrets.token_hex(16)
    if _TRIGGER_ID.fullmatch(given) is None:
        raise RestError(BAD_REQUEST, f'"{given[:100]}" is no trigger id: give 32 hexadecimal digits.')
    return given


def _check_format(given: str | None) -> None:
    """Savepoints have one format, which stands for both of Flink's."""
    if given is not None and given not in _FORMATS:
        raise RestError(
            BAD_REQUEST, f'"{given[:100]}" is no format of savepoints: give {" or ".join(_FORMATS)}.'
        )

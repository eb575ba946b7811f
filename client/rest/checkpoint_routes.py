"""Routes about checkpoints and savepoints, and the stop with a savepoint."""

from __future__ import annotations

import re
import secrets
import threading
from collections import OrderedDict
from typing import NotRequired, TypedDict

import msgspec
from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool

from sqlstream.client.http_api.answers import read_value
from sqlstream.client.http_api.errors import BAD_REQUEST, NOT_FOUND, RestError
from sqlstream.client.rest import route
from sqlstream.client.rest.checkpoints import (
    CheckpointBody,
    CheckpointConfig,
    CheckpointStatistics,
    Ledger,
    SubtasksInCheckpoint,
    checkpoint_body,
    checkpoint_config,
    checkpoint_statistics,
    ledger_body,
    vertex_body,
)
from sqlstream.client.rest.cluster_view import ClusterView
from sqlstream.client.rest.messages import keys
from sqlstream.errors import ErrorInfo, SqlStreamError, render_error
from sqlstream.messages.checkpoint_statistics import CheckpointRecord
from sqlstream.messages.client_rpc import StopWithSavepoint, TriggerSavepoint


class CheckpointRequest(msgspec.Struct, rename="camel"):
    checkpoint_type: str | None = None
    trigger_id: str | None = None


class SavepointRequest(msgspec.Struct, rename=keys("format_type", "trigger_id")):
    target_directory: str | None = None
    cancel_job: bool | None = None
    format_type: str | None = None
    trigger_id: str | None = None


class StopRequest(msgspec.Struct, rename="camel"):
    target_directory: str | None = None
    drain: bool | None = None
    format_type: str | None = None
    trigger_id: str | None = None


class DisposalRequest(msgspec.Struct, rename="kebab"):
    savepoint_path: str


DISPOSALS_MAX = 1000
"""How many disposals are remembered for clients that ask how they went."""

_BODY_BYTES_MAX = 64 * 1024
_FORMATS = ("CANONICAL", "NATIVE")
_TRIGGER_ID = re.compile(r"[0-9a-f]{32}")


SavepointOperation = TypedDict(
    "SavepointOperation", {"location": NotRequired[str], "failure-cause": NotRequired[route.FailureCause]}
)


class CheckpointOperation(TypedDict):
    checkpointId: int
    failureCause: route.FailureCause | None


class TriggerStatus(TypedDict):
    status: route.StatusId
    operation: SavepointOperation | None


class CheckpointTriggerStatus(TypedDict):
    status: route.StatusId
    operation: CheckpointOperation | None


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
    router = APIRouter(route_class=route.RestRoute)
    _add_views(router, view)
    _add_checkpoint_triggers(router, view)
    _add_savepoint_triggers(router, view)
    _add_disposals(router, view)
    return router


def _add_views(router: APIRouter, view: ClusterView) -> None:
    @router.get("/jobs/{job_id}/checkpoints")
    def checkpoints(job_id: str) -> CheckpointStatistics:
        return checkpoint_statistics(view.checkpoints(job_id))

    @router.get("/jobs/{job_id}/ledger")
    def ledger(job_id: str) -> Ledger:
        return ledger_body(view.checkpoints(job_id).ledger)

    @router.get("/jobs/{job_id}/checkpoints/config")
    def checkpoints_config(job_id: str) -> CheckpointConfig:
        return checkpoint_config(view.graph(job_id).config)

    @router.get("/jobs/{job_id}/checkpoints/details/{checkpoint_id}")
    def checkpoint_details(job_id: str, checkpoint_id: str) -> CheckpointBody:
        return checkpoint_body(_record(view, job_id, checkpoint_id), has_tasks=True)

    @router.get("/jobs/{job_id}/checkpoints/details/{checkpoint_id}/subtasks/{vertex_id}")
    def checkpoint_subtasks(job_id: str, checkpoint_id: str, vertex_id: str) -> SubtasksInCheckpoint:
        id = route.checked_id("vertexid", vertex_id)
        record = _record(view, job_id, checkpoint_id)
        for vertex in record.vertices:
            if vertex.vertex_id == id:
                return vertex_body(record, vertex)
        raise RestError(NOT_FOUND, f"There is no checkpoint statistics for task {id}.")


def _record(view: ClusterView, job_id: str, checkpoint_id: str) -> CheckpointRecord:
    number = route.checked_number("checkpointid", checkpoint_id)
    found = view.checkpoints(job_id)
    latest = (found.latest_completed, found.latest_savepoint, found.latest_failed)
    for record in (*found.history, *(record for record in latest if record is not None)):
        if record.id == number:
            return record
    raise RestError(NOT_FOUND, f"Could not find checkpointing statistics for checkpoint {number}.")


def _add_checkpoint_triggers(router: APIRouter, view: ClusterView) -> None:
    @router.post("/jobs/{job_id}/checkpoints", status_code=202, openapi_extra=route.reads(CheckpointRequest))
    async def take_checkpoint(job_id: str, request: Request) -> route.Trigger:
        id = route.checked_id("jobid", job_id)
        asked = await read_value(request, CheckpointRequest, _BODY_BYTES_MAX, empty=b"{}")
        if asked.checkpoint_type not in (None, "CONFIGURED"):
            raise RestError(501, "A checkpoint is of the type that the job's settings give: CONFIGURED.")
        trigger_id = _trigger_id(asked.trigger_id)

        def take() -> None:
            view.check_runs(id, "Checkpoint triggering")
            view.cluster.take_checkpoint(id, trigger_id)

        await run_in_threadpool(take)
        return {"request-id": trigger_id}

    @router.get("/jobs/{job_id}/checkpoints/{trigger_id}")
    def checkpoint_status(job_id: str, trigger_id: str) -> CheckpointTriggerStatus:
        status = view.cluster.savepoint_status(
            route.checked_id("jobid", job_id), route.checked_id("triggerid", trigger_id)
        )
        if not status.is_done:
            return {"status": IN_PROGRESS, "operation": None}
        cause = None if status.error is None else _failure_cause(status.error)
        operation: CheckpointOperation = {"checkpointId": status.checkpoint_id, "failureCause": cause}
        return {"status": COMPLETED, "operation": operation}


def _add_savepoint_triggers(router: APIRouter, view: ClusterView) -> None:
    @router.post("/jobs/{job_id}/savepoints", status_code=202, openapi_extra=route.reads(SavepointRequest))
    async def trigger_savepoint(job_id: str, request: Request) -> route.Trigger:
        id = route.checked_id("jobid", job_id)
        asked = await read_value(request, SavepointRequest, _BODY_BYTES_MAX, empty=b"{}")
        _check_format(asked.format_type)
        trigger_id = _trigger_id(asked.trigger_id)
        directory = asked.target_directory or ""

        def trigger() -> None:
            view.check_runs(id, "Savepoint triggering", ends_it=bool(asked.cancel_job))
            request_of = StopWithSavepoint if asked.cancel_job else TriggerSavepoint
            view.cluster.take_savepoint(request_of(id, trigger_id, directory))

        await run_in_threadpool(trigger)
        return {"request-id": trigger_id}

    @router.post("/jobs/{job_id}/stop", status_code=202, openapi_extra=route.reads(StopRequest))
    async def stop(job_id: str, request: Request) -> route.Trigger:
        id = route.checked_id("jobid", job_id)
        asked = await read_value(request, StopRequest, _BODY_BYTES_MAX, empty=b"{}")
        _check_format(asked.format_type)
        trigger_id = _trigger_id(asked.trigger_id)

        def stop_job() -> None:
            view.check_runs(id, "Stopping with a savepoint", ends_it=True)
            directory = asked.target_directory or ""
            view.cluster.take_savepoint(StopWithSavepoint(id, trigger_id, directory, bool(asked.drain)))

        await run_in_threadpool(stop_job)
        return {"request-id": trigger_id}

    @router.get("/jobs/{job_id}/savepoints/{trigger_id}")
    def savepoint_status(job_id: str, trigger_id: str) -> TriggerStatus:
        status = view.cluster.savepoint_status(
            route.checked_id("jobid", job_id), route.checked_id("triggerid", trigger_id)
        )
        if not status.is_done:
            return {"status": IN_PROGRESS, "operation": None}
        if status.error is not None:
            return {"status": COMPLETED, "operation": {"failure-cause": _failure_cause(status.error)}}
        return {"status": COMPLETED, "operation": {"location": status.path}}


def _add_disposals(router: APIRouter, view: ClusterView) -> None:
    disposals = Disposals()

    @router.post("/savepoint-disposal", openapi_extra=route.reads(DisposalRequest))
    async def dispose(request: Request) -> route.Trigger:
        asked = await read_value(request, DisposalRequest, _BODY_BYTES_MAX, empty=b"{}")

        def dispose_savepoint() -> str:
            try:
                view.cluster.dispose_savepoint(asked.savepoint_path)
            except SqlStreamError as error:
                return disposals.add(ErrorInfo.of(error))
            return disposals.add(None)

        return {"request-id": await run_in_threadpool(dispose_savepoint)}

    @router.get("/savepoint-disposal/{trigger_id}")
    def disposal_status(trigger_id: str) -> TriggerStatus:
        error = disposals.error(route.checked_id("triggerid", trigger_id))
        operation: SavepointOperation = {} if error is None else {"failure-cause": _failure_cause(error)}
        return {"status": COMPLETED, "operation": operation}


IN_PROGRESS: route.StatusId = {"id": "IN_PROGRESS"}
COMPLETED: route.StatusId = {"id": "COMPLETED"}


def _failure_cause(error: ErrorInfo) -> route.FailureCause:
    return {"class": error.code, "stack-trace": render_error(error)}


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

"""TaskManagers: what they have and run, their figures and logs."""

from __future__ import annotations

from typing import TypedDict

from fastapi import APIRouter, Response

from sqlstream.client.http_api.answers import text_answer
from sqlstream.client.http_api.errors import RestError
from sqlstream.client.rest import messages
from sqlstream.client.rest.cluster import Logs, ThreadDump, thread_infos
from sqlstream.client.rest.cluster_view import Assignment, ClusterView, ProcessFigures, resource_id, rest_id
from sqlstream.client.rest.metrics import (
    AggregatedMetric,
    Metric,
    aggregate_metrics,
    list_metrics,
    parse_names,
)
from sqlstream.client.rest.route import RestRoute
from sqlstream.messages.rpc import Metrics, TaskManagerOverview
from sqlstream.messages.stacks import RequestStacks

_MIB = 2**20


class TaskManagers(TypedDict):
    taskmanagers: list[messages.TaskManagerBody]


def task_manager_summary(
    found: TaskManagerOverview, assigned: list[Assignment], network_bytes: int | None
) -> messages.TaskManagerBody:
    return messages.TaskManagerBody(
        id=rest_id(found.task_manager_id),
        path=found.address,
        data_port=-1,
        jmx_port=-1,
        time_since_last_heartbeat=found.last_heartbeat_ms,
        slots_number=found.slots,
        free_slots=found.free_slots,
        assigned_tasks=sum(a.tasks for a in assigned),
        total_resource=_resources(found, found.slots, network_bytes),
        free_resource=_resources(found, found.free_slots, network_bytes),
        hardware=messages.Hardware(found.cores, found.memory_bytes),
        memory_configuration=messages.MemoryConfiguration(network_bytes),
        blocked=found.is_blocked,
    )


def task_manager_details(
    found: TaskManagerOverview,
    assigned: list[Assignment],
    network_bytes: int | None,
    process: ProcessFigures | None,
) -> messages.TaskManagerDetailsBody:
    summary = task_manager_summary(found, assigned, network_bytes)
    used_bytes = process.rss_bytes if process is not None else 0
    return messages.TaskManagerDetailsBody(
        **{name: getattr(summary, name) for name in summary.__struct_fields__},
        allocated_slots=[
            messages.AllocatedSlot(a.job_id, _resources(found, 1, network_bytes), a.tasks // max(1, a.slots))
            for a in assigned
            for _ in range(a.slots)
        ],
        metrics=messages.TaskManagerMemory(used_bytes, used_bytes),
    )


def _resources(found: TaskManagerOverview, slots: int, network_bytes: int | None) -> messages.ResourceProfile:
    """The share of `slots` slots in the process, as Flink divides it: one core per slot."""
    share = slots / max(1, found.slots)
    return messages.ResourceProfile(float(slots), int(share * (network_bytes or 0) / _MIB))


LOG_NAME = "taskmanager.log"


def task_manager_routes(view: ClusterView) -> APIRouter:
    router = APIRouter(route_class=RestRoute, prefix="/taskmanagers")

    @router.get("")
    def task_managers() -> TaskManagers:
        assigned, network_bytes = view.assignments(), view.network_bytes()
        found = [
            task_manager_summary(t, assigned.get(t.task_manager_id, []), network_bytes)
            for t in view.cluster.task_managers()
        ]
        return {"taskmanagers": found}

    @router.get("/metrics")
    def all_metrics(
        get: str | None = None, agg: str | None = None, taskmanagers: str | None = None
    ) -> list[AggregatedMetric]:
        chosen = parse_names(taskmanagers)
        found = [view.task_manager(id) for id in chosen] if chosen else view.cluster.task_managers()
        return aggregate_metrics([_metrics(view, t) for t in found], get, agg)

    @router.get("/{task_manager_id}")
    def task_manager(task_manager_id: str) -> messages.TaskManagerDetailsBody:
        found = view.task_manager(task_manager_id)
        assigned = view.assignments().get(found.task_manager_id, [])
        return task_manager_details(found, assigned, view.network_bytes(), view.process_of(found))

    @router.get("/{task_manager_id}/metrics")
    def metrics(task_manager_id: str, get: str | None = None) -> list[Metric]:
        return list_metrics(_metrics(view, view.task_manager(task_manager_id)), get)

    _add_logs(router, view)
    return router


def _add_logs(router: APIRouter, view: ClusterView) -> None:
    """A TaskManager writes into the JobManager's log: its records are shown as a file of its own."""

    def log_of(task_manager_id: str) -> str:
        return view.info.task_manager_log(resource_id(view.task_manager(task_manager_id).task_manager_id))

    @router.get("/{task_manager_id}/logs")
    def logs(task_manager_id: str) -> Logs:
        size = len(log_of(task_manager_id).encode())
        return {"logs": [{"name": LOG_NAME, "size": size, "mtime": view.now_ms()}]}

    @router.get("/{task_manager_id}/log")
    def log(task_manager_id: str) -> Response:
        return text_answer(log_of(task_manager_id))

    @router.get("/{task_manager_id}/logs/{name}")
    def log_by_name(task_manager_id: str, name: str) -> Response:
        found = log_of(task_manager_id)
        if name != LOG_NAME:
            raise RestError(404, f"The file {name[:100]} does not exist.")
        return text_answer(found)

    @router.get("/{task_manager_id}/stdout")
    def stdout(task_manager_id: str) -> Response:
        view.task_manager(task_manager_id)
        raise RestError(
            404,
            "A TaskManager has no file for its standard output: see /jobmanager/stdout for rows of print tables.",
        )

    @router.get("/{task_manager_id}/thread-dump")
    def thread_dump(task_manager_id: str) -> ThreadDump:
        found = view.task_manager(task_manager_id)
        return thread_infos(view.cluster.stacks(found.address, RequestStacks()).threads)


def _metrics(view: ClusterView, found: TaskManagerOverview) -> Metrics:
    process = view.process_of(found)
    return process.as_metrics() if process is not None else {}

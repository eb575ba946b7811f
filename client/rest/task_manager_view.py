"""TaskManagers as the REST shows them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from sqlstream.client.rest.messages import (
    AllocatedSlot,
    Hardware,
    MemoryConfiguration,
    ResourceProfile,
    TaskManagerBody,
    TaskManagerDetailsBody,
    TaskManagerMemory,
)
from sqlstream.client.rest.process_figures import ProcessFigures
from sqlstream.messages.rpc import JobDetails, TaskManagerOverview

_MIB = 2**20


def rest_id(task_manager_id: str) -> str:
    """A TaskManager's id as it stands in a URL, where `#` would begin a fragment.

    >>> rest_id("tm-3#1")
    'tm-3-1'
    """
    return task_manager_id.replace("#", "-")


def resource_id(task_manager_id: str) -> str:
    """The process that a registration is of, by which its log records are named.

    >>> resource_id("tm-3#1")
    'tm-3'
    """
    return task_manager_id.partition("#")[0]


@dataclasses.dataclass(frozen=True)
class Assignment:
    """The tasks that one job runs on one TaskManager, and the slots that they are in."""

    job_id: str
    slots: int
    tasks: int


def assignments(jobs: Iterable[JobDetails]) -> dict[str, list[Assignment]]:
    """The live tasks of all jobs by TaskManager. One slot runs one subtask of every vertex."""
    found: dict[str, list[Assignment]] = {}
    for job in jobs:
        subtasks: dict[str, list[int]] = {}
        for subtask in (s for vertex in job.vertices for s in vertex.subtasks if not s.state.is_terminal):
            if subtask.task_manager_id:
                subtasks.setdefault(subtask.task_manager_id, []).append(subtask.subtask)
        for task_manager_id, indexes in subtasks.items():
            assignment = Assignment(job.job_id, len(set(indexes)), len(indexes))
            found.setdefault(task_manager_id, []).append(assignment)
    return found


def task_manager_summary(
    found: TaskManagerOverview, assigned: list[Assignment], network_bytes: int | None
) -> TaskManagerBody:
    return TaskManagerBody(
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
        hardware=Hardware(found.cores, found.memory_bytes),
        memory_configuration=MemoryConfiguration(network_bytes),
    )


def task_manager_details(
    found: TaskManagerOverview,
    assigned: list[Assignment],
    network_bytes: int | None,
    process: ProcessFigures | None,
) -> TaskManagerDetailsBody:
    summary = task_manager_summary(found, assigned, network_bytes)
    used_bytes = process.rss_bytes if process is not None else 0
    return TaskManagerDetailsBody(
        **{name: getattr(summary, name) for name in summary.__struct_fields__},
        allocated_slots=[
            AllocatedSlot(a.job_id, _resources(found, 1, network_bytes), a.tasks // max(1, a.slots))
            for a in assigned
            for _ in range(a.slots)
        ],
        metrics=TaskManagerMemory(used_bytes, used_bytes),
    )


def _resources(found: TaskManagerOverview, slots: int, network_bytes: int | None) -> ResourceProfile:
    """The share of `slots` slots in the process, as Flink divides it: one core per slot."""
    share = slots / max(1, found.slots)
    return ResourceProfile(float(slots), int(share * (network_bytes or 0) / _MIB))

"""The bodies of the JobManager's REST, with Flink's keys (see rest_api_v1.snapshot of Flink)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct


def keys(*camel_case: str) -> Callable[[str], str]:
    """Flink mixes two spellings: fields named in `camel_case` are camelCase, all others are written with hyphens."""

    def key(field: str) -> str:
        first, *rest = field.split("_")
        return first + "".join(map(str.title, rest)) if field in camel_case else field.replace("_", "-")

    return key


_SUBTASK_KEYS = {"start_time_underscored": "start_time"}


class ClusterOverview(Struct, rename="kebab"):
    taskmanagers: int
    slots_total: int
    slots_available: int
    taskmanagers_blocked: int
    slots_free_and_blocked: int
    jobs_running: int
    jobs_finished: int
    jobs_cancelled: int
    jobs_failed: int
    flink_version: str
    flink_commit: str


class DashboardConfig(Struct, rename="kebab"):
    refresh_interval: int
    timezone_name: str
    timezone_offset: int
    flink_version: str
    flink_revision: str
    features: dict[str, bool]


class JobSummary(Struct, rename=keys("job_type", "scheduler_type")):
    jid: str
    name: str
    job_type: str
    scheduler_type: str
    start_time: int
    end_time: int
    duration: int
    state: str
    last_modification: int
    tasks: dict[str, int]
    pending_operators: int = 0


class IOMetrics(Struct, rename="kebab"):
    """Times are milliseconds. `…_complete` is false while a subtask has not reported."""

    read_bytes: int
    read_bytes_complete: bool
    write_bytes: int
    write_bytes_complete: bool
    read_records: int
    read_records_complete: bool
    write_records: int
    write_records_complete: bool
    accumulated_backpressured_time: int
    accumulated_idle_time: int
    accumulated_busy_time: float


class JobVertexSummary(Struct, rename=keys("slot_sharing_group_id", "max_parallelism")):
    id: str
    slot_sharing_group_id: str
    name: str
    max_parallelism: int
    parallelism: int
    status: str
    start_time: int
    end_time: int
    duration: int
    tasks: dict[str, int]
    metrics: IOMetrics


class PlanInput(Struct, omit_defaults=True):
    num: int
    id: str
    ship_strategy: str
    exchange: str
    local_strategy: str | None = None
    caching: str | None = None


class PlanNode(Struct):
    id: str
    parallelism: int
    operator: str
    operator_strategy: str
    description: str
    inputs: list[PlanInput]
    optimizer_properties: dict[str, str]


class Plan(Struct):
    jid: str
    name: str
    type: str
    nodes: list[PlanNode]


class JobDetailsBody(Struct, rename=keys("is_stoppable", "scheduler_type", "max_parallelism")):
    jid: str
    application_id: str
    name: str
    is_stoppable: bool
    state: str
    job_type: str
    scheduler_type: str
    start_time: int
    end_time: int
    duration: int
    max_parallelism: int
    now: int
    timestamps: dict[str, int]
    vertices: list[JobVertexSummary]
    status_counts: dict[str, int]
    plan: Plan
    stream_graph: None
    pending_operators: int = 0


class SubtaskBody(Struct, rename=lambda field: _SUBTASK_KEYS.get(field, field.replace("_", "-"))):
    """One subtask's current attempt. Flink sends its start under two keys."""

    subtask: int
    status: str
    attempt: int
    endpoint: str
    start_time: int
    end_time: int
    duration: int
    metrics: IOMetrics
    taskmanager_id: str
    status_duration: dict[str, int]
    start_time_underscored: int
    other_concurrent_attempts: tuple[()] = ()


class Aggregated(Struct, rename="kebab"):
    """Statistics over subtasks: figure to (statistic to value)."""

    metrics: dict[str, dict[str, int]]
    status_duration: dict[str, dict[str, int]]


class VertexTaskManager(Struct, rename="kebab"):
    endpoint: str
    status: str
    start_time: int
    end_time: int
    duration: int
    metrics: IOMetrics
    status_counts: dict[str, int]
    taskmanager_id: str
    aggregated: Aggregated


class ExceptionInfo(Struct, rename="camel"):
    exception_name: str
    stacktrace: str
    timestamp: int
    failure_labels: dict[str, str]
    task_name: str | None
    endpoint: str | None
    task_manager_id: str | None


class RootException(ExceptionInfo, rename="camel"):
    concurrent_exceptions: list[ExceptionInfo]


class ResourceProfile(Struct, rename="camel"):
    """Memory in MiB."""

    cpu_cores: float
    network_memory: int
    task_heap_memory: int = 0
    task_off_heap_memory: int = 0
    managed_memory: int = 0
    extended_resources: dict[str, float] = {}


class Hardware(Struct, rename="camel"):
    cpu_cores: int
    physical_memory: int
    free_memory: int = 0
    managed_memory: int = 0


class MemoryConfiguration(Struct, rename="camel"):
    """In bytes. A Python process has one limit of its own, that of the network; it divides nothing else up."""

    network_memory: int | None
    framework_heap: int | None = None
    task_heap: int | None = None
    framework_off_heap: int | None = None
    task_off_heap: int | None = None
    managed_memory: int | None = None
    jvm_metaspace: int | None = None
    jvm_overhead: int | None = None
    total_flink_memory: int | None = None
    total_process_memory: int | None = None


class TaskManagerBody(Struct, rename="camel"):
    id: str
    path: str
    data_port: int
    jmx_port: int
    time_since_last_heartbeat: int
    slots_number: int
    free_slots: int
    assigned_tasks: int
    total_resource: ResourceProfile
    free_resource: ResourceProfile
    hardware: Hardware
    memory_configuration: MemoryConfiguration
    blocked: bool = False


class AllocatedSlot(Struct, rename="camel"):
    job_id: str
    resource: ResourceProfile
    assigned_tasks: int


class TaskManagerMemory(Struct, rename="camel"):
    """Flink's memory metrics in bytes. All of a Python process is outside of a Java heap."""

    non_heap_used: int
    non_heap_committed: int
    heap_used: int = 0
    heap_committed: int = 0
    heap_max: int = 0
    non_heap_max: int = -1
    direct_count: int = 0
    direct_used: int = 0
    direct_max: int = 0
    mapped_count: int = 0
    mapped_used: int = 0
    mapped_max: int = 0
    netty_shuffle_memory_segments_available: int = 0
    netty_shuffle_memory_segments_used: int = 0
    netty_shuffle_memory_segments_total: int = 0
    netty_shuffle_memory_available: int = 0
    netty_shuffle_memory_used: int = 0
    netty_shuffle_memory_total: int = 0
    garbage_collectors: list[dict[str, Any]] = []


class TaskManagerDetailsBody(TaskManagerBody, rename="camel", kw_only=True):
    allocated_slots: list[AllocatedSlot]
    metrics: TaskManagerMemory

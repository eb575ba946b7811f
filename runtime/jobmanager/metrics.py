"""Figures of subtasks combined: per operator, per vertex, per job."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.manifest import CheckpointManifest
from sqlstream.messages.rpc import COUNTER, Metrics, TaskMetrics
from sqlstream.runtime.jobmanager.execution_graph import ExecutionVertex
from sqlstream.specs import BackfillSpec, SinkSpec, SourceSpec, ValuesSpec

_LATENCY = re.compile(r"[lL]atency_[a-z0-9]+$")
"""A statistic of latencies, of which the worst subtask counts."""


def combine(parts: Iterable[Metrics]) -> Metrics:
    """Counters are added; `…TimeMsPerSecond` is averaged; of watermarks the smallest counts.

    >>> combine([{"numRecordsIn": 2, "busyTimeMsPerSecond": 100, "currentInputWatermark": 5},
    ...          {"numRecordsIn": 3, "busyTimeMsPerSecond": 300, "currentInputWatermark": 4}])
    {'numRecordsIn': 5, 'busyTimeMsPerSecond': 200.0, 'currentInputWatermark': 4}
    """
    columns: dict[str, list[int | float]] = {}
    for part in parts:
        for name, value in part.items():
            columns.setdefault(name, []).append(value)
    return {name: _combine_one(name, values) for name, values in columns.items()}


def _combine_one(name: str, values: list[int | float]) -> int | float:
    if _LATENCY.search(name):
        # Neither the least nor the count of several can be had by adding.
        return min(values) if name.endswith("_min") else max(values)
    if name.endswith("TimeMsPerSecond"):
        return sum(values) / len(values)
    if name.endswith(("BatchRows", "BudgetBytes")):
        return max(values)
    return min(values) if name.endswith("Watermark") else sum(values)


def combine_operators(tasks: Iterable[TaskMetrics]) -> dict[int, Metrics]:
    """The figures by operator id, combined over its subtasks."""
    return combine_all(task.operators for task in tasks)


def combine_all(tasks: Iterable[dict[int, Metrics]]) -> dict[int, Metrics]:
    """The figures by operator id, combined over what each of `tasks` has of it."""
    parts: dict[int, list[Metrics]] = {}
    for operators in tasks:
        for operator_id, metrics in operators.items():
            parts.setdefault(operator_id, []).append(metrics)
    return {operator_id: combine(p) for operator_id, p in sorted(parts.items())}


def add_operators(before: dict[int, Metrics], present: dict[int, Metrics]) -> dict[int, Metrics]:
    """The figures by operator id, those of earlier tasks and those of the present ones.

    >>> add_operators({1: {"numRecordsIn": 2}}, {1: {"numRecordsIn": 3, "stateBytes": 8}, 2: {"numRecordsIn": 1}})
    {1: {'numRecordsIn': 5, 'stateBytes': 8}, 2: {'numRecordsIn': 1}}
    """
    ids = sorted({*before, *present})
    return {id: combine([figures[id] for figures in (before, present) if id in figures]) for id in ids}


def counters_of(operators: dict[int, Metrics]) -> dict[int, Metrics]:
    """What only grows, by operator id: neither rates nor what is of the present alone.

    >>> counters_of({1: {"numRecordsIn": 3, "numRecordsInPerSecond": 1.5, "stateBytes": 8}})
    {1: {'numRecordsIn': 3}}
    """
    return {
        id: {n: v for n, v in figures.items() if n.startswith(COUNTER) and not n.endswith("PerSecond")}
        for id, figures in operators.items()
    }


_EVERYWHERE = (
    *("numRecordsRejected", "numLateRecordsDropped", "numNullRecordsDropped", "numStateEntriesExpired"),
    *("numInvalidOperations", "numEventsPassedOver", "numTruncationsPassedOver", "numUnknownValues"),
    *("numArithmeticOverflows", "stateBytes"),
)


_WHERE_THEY_ARE = ("batchTasksDone", "batchTasksTotal", "batchEngineStarting")


def job_totals(job_graph: JobGraph, operators: dict[int, Metrics]) -> Metrics:
    """The figures of the progress line: numRecordsRead and numBytesRead of the sources, numRecordsWritten and
    numBytesWritten of the sinks, rows of any operator that were rejected, late, dropped for a NULL or expired, the size
    of state, the latency from end to end and the sources' watermark where there are any. Of a batch engine that says so: its
    tasks, those done, and whether it is starting. Of UPDATE and DELETE: numRowsChanged, the rows that they change."""
    specs = {o.id: o.spec for v in job_graph.vertices for o in v.operators}
    sources = [
        m for id, m in operators.items() if isinstance(specs.get(id), SourceSpec | ValuesSpec | BackfillSpec)
    ]
    sinks = [m for id, m in operators.items() if isinstance(specs.get(id), SinkSpec)]
    total: Metrics = {
        "numRecordsRead": sum(m.get("numRecordsOut", 0) for m in sources),
        "numBytesRead": sum(m.get("numBytesIn", 0) for m in sources),
        "numRecordsWritten": sum(m.get("numRecordsIn", 0) - m.get("numNullRecordsDropped", 0) for m in sinks),
        "numBytesWritten": sum(m.get("numBytesOut", 0) for m in sinks),
    }
    for name in _EVERYWHERE:
        total[name] = sum(m.get(name, 0) for m in operators.values())
    for name in _WHERE_THEY_ARE:
        if found := sum(m.get(name, 0) for m in operators.values()):
            total[name] = found
    if any("numRowsChanged" in m for m in sinks):
        total["numRowsChanged"] = sum(m.get("numRowsChanged", 0) for m in sinks)
    total |= combine(_end_to_end(m) for m in sinks)
    watermarks = [m["currentOutputWatermark"] for m in operators.values() if "currentOutputWatermark" in m]
    if watermarks:
        total["currentOutputWatermark"] = min(watermarks)
    return total


def _end_to_end(figures: Metrics) -> Metrics:
    return {name: value for name, value in figures.items() if name.startswith("endToEndLatency")}


# What a job had counted at the checkpoint that a subtask goes on from.


def counted_before(manifest: CheckpointManifest, subtask: ExecutionVertex) -> dict[int, Metrics]:
    """The counters by operator, as far as they go on with this subtask. Where its vertex had another parallelism, or other
    operators, they all go on with its first subtask."""
    vertex, ids = subtask.vertex, {o.id for o in subtask.vertex.operators}
    for saved in manifest.vertices:
        has_same_subtasks = saved.parallelism == vertex.parallelism
        if saved.vertex_id == vertex.id and has_same_subtasks and {o.id for o in saved.operators} == ids:
            return counters_of(saved.subtasks[subtask.subtask].counted)
    if subtask.subtask:
        return {}
    everything = counters_of(
        combine_all(state.counted for saved in manifest.vertices for state in saved.subtasks)
    )
    return {id: counters for id, counters in everything.items() if id in ids}

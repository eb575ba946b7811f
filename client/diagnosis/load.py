"""Which vertex holds the others back, and whether its work is spread evenly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlstream.client.diagnosis.finding import (
    Finding,
    FindingKind,
    JobSnapshot,
    Severity,
    figure,
    figures_of,
    short,
    subtask_name,
)
from sqlstream.client.following.progress import size_text
from sqlstream.graph.job_graph import ChainedOperator
from sqlstream.graph.key_groups import key_groups_of
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.messages.latency import LatencyMode, LatencyStatus
from sqlstream.messages.rpc import VertexDetails
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.specs.sink import COLLECT

BUSY, BACKPRESSURED = "busyTimeMsPerSecond", "backPressuredTimeMsPerSecond"

LOW_BACKPRESSURE_MS, HIGH_BACKPRESSURE_MS = 100, 500
"""Milliseconds per second: the levels of Flink's page on backpressure."""

BUSY_MS = 800
"""From so much of a second on a subtask counts as busy."""

SKEW_FACTOR = 1.5
"""From so many times the mean on the load of a subtask counts as too much."""

SKEWED_ROWS_MIN = 1000
"""Fewer rows say nothing of how they are spread."""


def bottlenecks(snapshot: JobSnapshot) -> Iterator[Finding]:
    """The vertices to which backpressure leads, each with those that it holds back; then those that are busy without that, and a
    client that does not fetch its rows."""
    held_by = _held_by(snapshot)
    for vertex in snapshot.details.vertices:
        busiest_ms = max(figures_of(vertex.subtasks, BUSY), default=0)
        held = held_by.get(vertex.id, [])
        if held:
            yield _bottleneck(snapshot, vertex, held)
        elif busiest_ms >= BUSY_MS:
            yield _busy(snapshot, vertex, Severity.LOW)
        if _is_held_by_client(snapshot, vertex):
            yield Finding(
                FindingKind.CLIENT,
                Severity.LOW,
                "the client does not fetch the rows of the query as fast as they come",
                {"waits for the client": _share(max(figures_of(vertex.subtasks, BACKPRESSURED)))},
                ("fetch the rows, or write them to a table: INSERT INTO … SELECT …",),
                vertex.id,
            )


def _held_by(snapshot: JobSnapshot) -> dict[str, list[VertexDetails]]:
    """The vertices that are backpressured, by the one that does not take their rows."""
    vertices = {vertex.id: vertex for vertex in snapshot.details.vertices}
    held_by: dict[str, list[VertexDetails]] = {}
    for vertex in vertices.values():
        if not _is_backpressured(vertex):
            continue
        causes, seen, ahead = [], {vertex.id}, [e.target for e in snapshot.graph.outputs_of(vertex.id)]
        while ahead:
            target = vertices[ahead.pop()]
            if target.id in seen:
                continue
            seen.add(target.id)
            if _is_backpressured(target):
                ahead += [edge.target for edge in snapshot.graph.outputs_of(target.id)]
            else:
                causes.append(target)
        if causes:
            cause = max(causes, key=lambda v: max(figures_of(v.subtasks, BUSY), default=0))
            held_by.setdefault(cause.id, []).append(vertex)
    return held_by


def _is_backpressured(vertex: VertexDetails) -> bool:
    return max(figures_of(vertex.subtasks, BACKPRESSURED), default=0) >= LOW_BACKPRESSURE_MS


def _is_held_by_client(snapshot: JobSnapshot, vertex: VertexDetails) -> bool:
    operators = snapshot.graph.vertex(vertex.id).operators
    sends = any(isinstance(o.spec, SinkSpec) and o.spec.connector == COLLECT for o in operators)
    return sends and _is_backpressured(vertex)


def _bottleneck(snapshot: JobSnapshot, vertex: VertexDetails, held: Sequence[VertexDetails]) -> Finding:
    worst_ms = max(max(figures_of(v.subtasks, BACKPRESSURED)) for v in held)
    severity = Severity.HIGH if worst_ms >= HIGH_BACKPRESSURE_MS else Severity.LOW
    found = _busy(snapshot, vertex, severity)
    names = ", ".join(f'"{short(v.name)}"' for v in held[:3]) + (", …" if len(held) > 3 else "")
    evidence: dict[str, int | float | str] = {
        f'"{short(v.name)}" waits': _share(max(figures_of(v.subtasks, BACKPRESSURED))) for v in held
    }
    return Finding(
        FindingKind.BOTTLENECK,
        severity,
        f'"{short(vertex.name)}" does not keep up, and holds back {names}',
        found.evidence | evidence,
        found.advice,
        vertex.id,
    )


def _busy(snapshot: JobSnapshot, vertex: VertexDetails, severity: Severity) -> Finding:
    busiest = max(vertex.subtasks, key=lambda subtask: figure(subtask, BUSY))
    evidence: dict[str, int | float | str] = {
        "busy": f"{_share(figure(busiest, BUSY))} of the time, {subtask_name(vertex, busiest.subtask)}",
        "rows in": _rate(vertex),
    }
    operators = snapshot.graph.vertex(vertex.id).operators
    costliest = _costliest(snapshot, operators)
    if costliest:
        evidence["costliest operator"] = costliest
    elif len(operators) > 1:
        evidence["operators"] = ", ".join(short(o.name) for o in operators)
    is_source = isinstance(operators[0].spec, SourceSpec)
    said = f'"{short(vertex.name)}" is busy: {"it reads as fast as it can" if is_source else "it works at its limit"}'
    return Finding(
        FindingKind.BOTTLENECK, severity, said, evidence, _advice(snapshot, vertex, operators), vertex.id
    )


def _advice(
    snapshot: JobSnapshot, vertex: VertexDetails, operators: Sequence[ChainedOperator]
) -> tuple[str, ...]:
    job_id = snapshot.details.job_id
    advice = [f"sqlstream rescale {job_id} {2 * vertex.parallelism}"]
    if _load_skew(vertex) is not None:
        advice = ["spread its rows first: see the finding on skew"]
    written = [o.spec for o in operators if isinstance(o.spec, SinkSpec) and o.spec.connector != COLLECT]
    if written:
        advice.append(f'look at what the sink "{written[0].table}" writes to: its waits count as busy')
    if len(operators) > 1 and not _costliest(snapshot, operators):
        advice.append(
            "SET 'sqlstream.metrics.operator-cpu' = 'true' before the job is submitted: which operator"
        )
    return tuple(advice)


def _costliest(snapshot: JobSnapshot, operators: Sequence[ChainedOperator]) -> str:
    """The operator with most processor time; empty where that is not measured."""
    spent = {o.name: snapshot.metrics.operators.get(o.id, {}).get("cpuTimeNs", 0) for o in operators}
    total = sum(spent.values())
    if not total:
        return ""
    name = max(spent, key=lambda each: spent[each])
    return f"{short(name)}, {spent[name] / total:.0%} of the processor time"


def missed_latency(snapshot: JobSnapshot) -> Iterator[Finding]:
    """A job that does not keep its `latency.target`."""
    latency = snapshot.details.latency
    if latency is None or latency.p99_ms is None:
        return
    is_given_up = latency.mode is LatencyMode.THROUGHPUT
    if latency.is_reached and not is_given_up:
        return
    evidence: dict[str, int | float | str] = {
        "latency.target": f"{latency.target_ms} ms",
        "99 % within": f"{latency.p99_ms} ms",
        "rows of a batch": f"{latency.batch_rows}{'' if latency.is_tuned else ', as set'}",
        "seen": latency.reason,
    }
    chosen = snapshot.graph.chosen
    evidence |= {key: f"{snapshot.graph.config[key]}: {why}" for key, why in chosen.items()}
    advice = [
        f"sqlstream rescale {snapshot.details.job_id} N, if a vertex is busy; or a longer 'latency.target'"
    ]
    if not latency.is_tuned:
        advice.append("leave out 'execution.batch-rows': the size of batches then follows what is measured")
    said = f"99 % of rows take {latency.p99_ms} ms, longer than the latency.target of {latency.target_ms} ms"
    if is_given_up:
        said = f"the latency.target of {latency.target_ms} ms cannot be kept at this rate"
    yield Finding(FindingKind.LATENCY, Severity.LOW, said, evidence, tuple(advice))


def latency_text(latency: LatencyStatus) -> str:
    """What a job with a `latency.target` reaches, in a line."""
    reached = "not measured yet" if latency.p99_ms is None else f"99 % within {latency.p99_ms} ms"
    how = "follows what is measured" if latency.is_tuned else "is set"
    if latency.mode is LatencyMode.THROUGHPUT:
        how = "gets most through, as the target cannot be kept at this rate"
    return f"latency: {reached}, target {latency.target_ms} ms; a batch has up to {latency.batch_rows} rows, which {how}"


def skew(snapshot: JobSnapshot) -> Iterator[Finding]:
    """Vertices of which one subtask has much more rows than the others."""
    for vertex in snapshot.details.vertices:
        found = _load_skew(vertex)
        if found is not None:
            yield _skew(snapshot, vertex, *found)


def _load_skew(vertex: VertexDetails) -> tuple[int, list[float]] | None:
    """The subtask with most rows and the rows of each, where they are spread unevenly."""
    if vertex.parallelism < 2 or any(s.metrics is None for s in vertex.subtasks):
        return None
    for direction in ("In", "Out"):
        rates = figures_of(vertex.subtasks, f"numRecords{direction}PerSecond")
        totals = figures_of(vertex.subtasks, f"numRecords{direction}")
        if sum(totals) >= SKEWED_ROWS_MIN:
            loads = rates if sum(rates) > 0 else totals
            most = max(loads)
            is_uneven = most >= SKEW_FACTOR * sum(loads) / len(loads)
            return (loads.index(most), loads) if is_uneven else None
    return None


def _skew(snapshot: JobSnapshot, vertex: VertexDetails, index: int, loads: list[float]) -> Finding:
    inputs = snapshot.graph.inputs_of(vertex.id)
    is_busy = figure(vertex.subtasks[index], BUSY) >= HIGH_BACKPRESSURE_MS
    share = loads[index] / sum(loads)
    evidence: dict[str, int | float | str] = {
        "rows": f"{share:.0%} in {subtask_name(vertex, index)}, {1 / len(loads):.0%} would be even",
        "busy": ", ".join(_share(ms) for ms in figures_of(vertex.subtasks, BUSY)[:16]),
    }
    state = figures_of(vertex.subtasks, "stateBytes")
    if sum(state):
        evidence["state"] = ", ".join(size_text(size) for size in state[:16])
    if not inputs:
        without = sum(1 for load in loads if not load)
        if without:
            evidence["subtasks without rows"] = without
        advice = (
            "give the source as many partitions or files as it has subtasks, or read with fewer of them",
            f"sqlstream rescale {snapshot.details.job_id} {max(1, len(loads) - without)}",
        )
        said = f'the source "{short(vertex.name)}" reads unevenly'
    else:
        if any(edge.exchange.kind is ExchangeKind.HASH for edge in inputs):
            planned = snapshot.graph.vertex(vertex.id)
            groups = key_groups_of(index, vertex.parallelism, planned.max_parallelism)
            evidence["key groups"] = f"{groups.start} to {groups.stop - 1} of {planned.max_parallelism}"
        advice = (
            "SET 'table.optimizer.agg-phase-strategy' = 'TWO_PHASE': rows are summed up before they meet by keys",
            "add a column to the keys that splits the frequent ones, or filter out a default value such as '' or 0",
        )
        said = f'the keys of "{short(vertex.name)}" are spread unevenly'
    severity = Severity.HIGH if is_busy else Severity.LOW
    return Finding(FindingKind.SKEW, severity, said, evidence, advice, vertex.id)


def _share(milliseconds: float) -> str:
    return f"{milliseconds / 10:.0f} %"


def _rate(vertex: VertexDetails) -> str:
    """Rows per second that the vertex takes, or of a source those that it hands on."""
    rate = sum(figures_of(vertex.subtasks, "numRecordsInPerSecond")) or sum(
        figures_of(vertex.subtasks, "numRecordsOutPerSecond")
    )
    return f"{rate:,.0f} per second"

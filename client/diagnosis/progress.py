"""What holds event time back, and how far the sources are behind what they read."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import NamedTuple

from sqlstream.client.diagnosis.finding import (
    Finding,
    FindingKind,
    JobSnapshot,
    Severity,
    operator_figure,
    operator_figures,
    seconds_text,
    short,
    subtask_name,
)
from sqlstream.elements import WATERMARK_MAX
from sqlstream.graph.job_graph import ChainedOperator
from sqlstream.messages.rpc import SubtaskDetails, VertexDetails
from sqlstream.specs import CalcSpec, SinkSpec, SourceSpec, ValuesSpec
from sqlstream.specs.watermark import WatermarkAssignerSpec

SPREAD_MS = 60_000
"""From so much on the watermark of one reader is far behind that of another."""

LAG_MS = 60_000
"""From so much on a source is behind; below it may be the delay of the watermark alone."""

LAG_IS_CLOCK_MS = 30 * 86_400_000
"""Beyond it the event time is that of old data, which says nothing of how far the job is behind."""

CATCH_UP_S = 10
"""From so many seconds of reading on what is left to read counts."""

PENDING_MIN = 1000

_SPLIT_WATERMARK = re.compile(r"split\.(.+)\.watermark\.currentWatermark")
_SPLIT_PENDING = re.compile(r"split\.(.+)\.pendingRecords")


class _Maker(NamedTuple):
    """A subtask that makes watermarks: its last one, None before the first, and the rows that it has read."""

    vertex: VertexDetails
    operator: ChainedOperator
    subtask: SubtaskDetails
    watermark_ms: int | None
    rows: int
    rate: float


def watermark_holder(snapshot: JobSnapshot) -> Iterator[Finding]:
    """The reader that holds event time back, where another one is far ahead or has rows."""
    if not _waits_for_time(snapshot):
        return
    makers = _makers(snapshot)
    if not makers or not any(maker.rows for maker in makers):
        return
    holder = min(makers, key=lambda m: (m.watermark_ms is not None, m.watermark_ms or 0))
    known = [m.watermark_ms for m in makers if m.watermark_ms is not None]
    furthest_ms = max(known, default=None)
    if holder.watermark_ms is None:
        yield _without_watermark(holder, furthest_ms)
    elif furthest_ms is not None and furthest_ms - holder.watermark_ms >= SPREAD_MS:
        yield _behind(holder, holder.watermark_ms, furthest_ms)


def _waits_for_time(snapshot: JobSnapshot) -> bool:
    """Whether the job has more than what hands rows on as they come."""
    plain = (SourceSpec, ValuesSpec, WatermarkAssignerSpec, CalcSpec, SinkSpec)
    return any(not isinstance(o.spec, plain) for v in snapshot.graph.vertices for o in v.operators)


def _makers(snapshot: JobSnapshot) -> list[_Maker]:
    """The readers whose watermark somebody waits for, unless they have ended."""
    found = []
    for vertex, head in snapshot.sources():
        operators = snapshot.graph.vertex(vertex.id).operators
        assigner = next((o for o in operators if isinstance(o.spec, WatermarkAssignerSpec)), None)
        if assigner is None:
            continue
        for subtask in vertex.subtasks:
            if subtask.metrics is None or operator_figure(subtask, assigner.id, "isIdle"):
                continue
            made = operator_figure(subtask, assigner.id, "currentOutputWatermark")
            if made is not None and made >= WATERMARK_MAX:
                continue
            rows = operator_figure(subtask, head.id, "numRecordsIn") or 0
            rate = operator_figure(subtask, head.id, "numRecordsInPerSecond") or 0.0
            found.append(
                _Maker(vertex, head, subtask, int(made) if made is not None else None, int(rows), rate)
            )
    return found


def _without_watermark(holder: _Maker, furthest_ms: int | None) -> Finding:
    evidence: dict[str, int | float | str] = {"rows read": holder.rows}
    splits = _silent_splits(holder)
    if splits:
        evidence["partitions without a watermark"] = ", ".join(splits[:8])
    if furthest_ms is not None:
        evidence["furthest watermark"] = _moment(furthest_ms)
    advice = [
        "SET 'table.exec.source.idle-timeout' = '30 s', or the table's option 'scan.watermark.idle-timeout'"
    ]
    if holder.rows and not splits:
        advice = ["look whether the column of the event time is NULL in all rows"]
    what = "partition without rows" if splits else "subtask without a watermark"
    said = f"{_place(holder)} holds event time back: a {what}, that nothing counts as idle"
    return Finding(FindingKind.WATERMARK, Severity.HIGH, said, evidence, tuple(advice), holder.vertex.id)


def _silent_splits(holder: _Maker) -> list[str]:
    """Splits whose pending rows are known, and that have neither a watermark nor are idle."""
    figures = operator_figures(holder.subtask, holder.operator.id)
    named = [m[1] for name in figures if (m := _SPLIT_PENDING.fullmatch(name))]
    return [
        name
        for name in named
        if f"split.{name}.watermark.currentWatermark" not in figures and f"split.{name}.isIdle" not in figures
    ]


def _behind(holder: _Maker, watermark_ms: int, furthest_ms: int) -> Finding:
    evidence: dict[str, int | float | str] = {
        "its watermark": _moment(watermark_ms),
        "furthest watermark": _moment(furthest_ms),
        "behind by": seconds_text(furthest_ms - watermark_ms),
        "its rows": f"{holder.rate:,.0f} per second",
    }
    figures = operator_figures(holder.subtask, holder.operator.id)
    splits = {m[1]: ms for name, ms in figures.items() if (m := _SPLIT_WATERMARK.fullmatch(name))}
    if splits:
        evidence["furthest behind"] = min(splits, key=lambda name: splits[name])
    if holder.rate:
        advice = (
            "the table's options 'scan.watermark.alignment.group' and 'scan.watermark.alignment.max-drift'"
            " keep the others from running ahead",
        )
    else:
        advice = (
            "SET 'table.exec.source.idle-timeout' = '30 s', or the table's option 'scan.watermark.idle-timeout'",
        )
    said = f"{_place(holder)} holds event time back"
    return Finding(FindingKind.WATERMARK, Severity.HIGH, said, evidence, advice, holder.vertex.id)


def _place(holder: _Maker) -> str:
    spec = holder.operator.spec
    table = f'table "{spec.table}"' if isinstance(spec, SourceSpec) else f'"{short(holder.operator.name)}"'
    return f"{table}, {subtask_name(holder.vertex, holder.subtask.subtask)},"


def _moment(milliseconds: int) -> str:
    """An event time in UTC."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(milliseconds / 1000))
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)


def source_lag(snapshot: JobSnapshot) -> Iterator[Finding]:
    """Sources that have much left to read, or whose event time is far behind the clock."""
    for vertex, head in snapshot.sources():
        pending = _sum(vertex, head, "pendingRecords")
        rate = _sum(vertex, head, "numRecordsInPerSecond")
        lags = [operator_figure(s, head.id, "watermarkLag") for s in vertex.subtasks]
        lag_ms = max((lag for lag in lags if lag is not None), default=0)
        catch_up_s = pending / rate if rate else float("inf")
        is_late = LAG_MS <= lag_ms < LAG_IS_CLOCK_MS
        has_much = pending >= PENDING_MIN and catch_up_s >= CATCH_UP_S
        if not is_late and not has_much:
            continue
        evidence: dict[str, int | float | str] = {"rows read": f"{rate:,.0f} per second"}
        if has_much:
            evidence["rows left to read"] = int(pending)
            if rate:
                evidence["time to read them"] = seconds_text(1000 * catch_up_s)
            evidence |= _worst_split(vertex, head)
        if is_late:
            evidence["watermark behind the clock"] = seconds_text(lag_ms)
        severity = Severity.HIGH if has_much else Severity.LOW
        advice = (
            f"look at what is busy, then: sqlstream rescale {snapshot.details.job_id} {2 * vertex.parallelism}",
        )
        said = f'the source "{short(vertex.name)}" is behind what it reads'
        yield Finding(FindingKind.SOURCE_LAG, severity, said, evidence, advice, vertex.id)


def _sum(vertex: VertexDetails, operator: ChainedOperator, name: str) -> float:
    return sum(operator_figure(subtask, operator.id, name) or 0 for subtask in vertex.subtasks)


def _worst_split(vertex: VertexDetails, head: ChainedOperator) -> dict[str, int | float | str]:
    left = {
        m[1]: value
        for s in vertex.subtasks
        for name, value in operator_figures(s, head.id).items()
        if (m := _SPLIT_PENDING.fullmatch(name))
    }
    if len(left) < 2:
        return {}
    worst = max(left, key=lambda name: left[name])
    return {"most left in": f"{worst}, {left[worst]:,.0f}"}

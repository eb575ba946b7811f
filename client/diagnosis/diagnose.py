"""DIAGNOSE JOB: all findings of a job, as data and as a page of text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from sqlstream.client.diagnosis.durability import (
    checkpoint_troubles,
    failures,
    rows_lost,
    state_growth,
    waits_for_slots,
)
from sqlstream.client.diagnosis.finding import Finding, JobSnapshot, figures_of, ordered, short
from sqlstream.client.diagnosis.load import BUSY, bottlenecks, latency_text, missed_latency, skew
from sqlstream.client.diagnosis.progress import source_lag, watermark_holder
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobDetails, SubtaskDetails
from sqlstream.runtime.host.clock import now_ms, steady_s
from sqlstream.terminal_text import shown_lines

if TYPE_CHECKING:
    from sqlstream.client.clusters.cluster_client import ClusterClient

RULES: tuple[Callable[[JobSnapshot], Iterator[Finding]], ...] = (
    failures,
    waits_for_slots,
    bottlenecks,
    missed_latency,
    skew,
    watermark_holder,
    source_lag,
    checkpoint_troubles,
    state_growth,
    rows_lost,
)

WINDOW_S = 1.0
"""Over how long the time of tasks is measured at least."""

REPORT_WAIT_S = 3.0
"""How long a diagnosis waits at most for the reports of TaskManagers."""

POLL_S = 0.1

_TIMES = ("Busy", "Idle", "BackPressured")


class Diagnosis(msgspec.Struct, frozen=True, rename={"job_id": "jid"}):
    """What holds a job back, or is worth knowing of it: `findings` with the severe ones first."""

    job_id: str
    name: str
    status: JobStatus
    findings: tuple[Finding, ...]
    text: str


def diagnose_job(cluster: ClusterClient, job_id: str) -> Diagnosis:
    """Look at a job for a second or so. UserError SS6009 when it is not known."""
    first, graph = cluster.described(job_id)
    cluster.metrics(job_id)
    details = first
    if not first.status.is_terminal:
        details, graph = _measured(cluster, job_id, first)
    free_slots = sum(manager.free_slots for manager in cluster.task_managers())
    snapshot = JobSnapshot(
        details,
        graph,
        cluster.checkpoints(job_id),
        cluster.metrics(job_id),
        now_ms(),
        free_slots,
    )
    return diagnose(snapshot)


def _measured(cluster: ClusterClient, job_id: str, first: JobDetails) -> tuple[JobDetails, JobGraph]:
    """The job and its graph once its tasks have reported again, with what their time went into meanwhile."""
    begun_s = steady_s()
    while True:
        time.sleep(POLL_S)
        cluster.metrics(job_id)
        details, graph = cluster.described(job_id)
        passed_s = steady_s() - begun_s
        if passed_s >= REPORT_WAIT_S or (passed_s >= WINDOW_S and _have_reported(first, details)):
            return between(first, details), graph


def _have_reported(first: JobDetails, later: JobDetails) -> bool:
    before = {s.execution_id: s.metrics for v in first.vertices for s in v.subtasks}
    return all(
        s.state.is_terminal or (s.metrics is not None and s.metrics != before.get(s.execution_id))
        for v in later.vertices
        for s in v.subtasks
    )


def between(first: JobDetails, later: JobDetails) -> JobDetails:
    """The later figures, with shares of the time from the first to the later ones in place of those of the last report."""
    before = {s.execution_id: s for v in first.vertices for s in v.subtasks}
    vertices = tuple(
        replace(v, subtasks=tuple(_subtask_between(before.get(s.execution_id), s) for s in v.subtasks))
        for v in later.vertices
    )
    return replace(later, vertices=vertices)


def _subtask_between(first: SubtaskDetails | None, later: SubtaskDetails) -> SubtaskDetails:
    if first is None or first.metrics is None or later.metrics is None:
        return later
    names = {f"accumulate{kind}TimeMs": f"{kind[0].lower()}{kind[1:]}TimeMsPerSecond" for kind in _TIMES}
    spent = {
        ratio: later.metrics.task.get(name, 0) - first.metrics.task.get(name, 0)
        for name, ratio in names.items()
    }
    passed_ms = sum(spent.values())
    if passed_ms <= 0:
        return later
    ratios = {ratio: round(1000 * ms / passed_ms) for ratio, ms in spent.items()}
    return replace(later, metrics=replace(later.metrics, task=later.metrics.task | ratios))


def diagnose(snapshot: JobSnapshot) -> Diagnosis:
    """What the snapshot shows. A pure function."""
    findings = ordered([finding for rule in RULES for finding in rule(snapshot)])
    details = snapshot.details
    text = diagnosis_text(snapshot, findings)
    return Diagnosis(details.job_id, details.name, details.status, findings, text)


def diagnosis_text(snapshot: JobSnapshot, findings: tuple[Finding, ...]) -> str:
    """One page."""
    details = snapshot.details
    count = "nothing holds it back" if not findings else f"{len(findings)} finding{'s' * (len(findings) > 1)}"
    lines = [f'job {details.job_id} "{details.name}" is {details.status.value}: {count}']
    if not findings:
        lines += _at_rest(snapshot)
    if details.latency is not None:
        lines.append(f"  {latency_text(details.latency)}")
    for number, finding in enumerate(findings, 1):
        lines += ["", f"{number}. {finding.kind.value} ({finding.severity.value}): {finding.said}"]
        width = max(map(len, finding.evidence), default=0)
        lines += [f"     {name:<{width}}  {value}" for name, value in finding.evidence.items()]
        lines += [f"   do: {advice}" for advice in finding.advice]
    return shown_lines("\n".join(lines))


def _at_rest(snapshot: JobSnapshot) -> list[str]:
    busiest = max(
        ((max(figures_of(v.subtasks, BUSY), default=0), v.name) for v in snapshot.details.vertices),
        default=(0, ""),
    )
    if snapshot.details.status is not JobStatus.RUNNING or not busiest[1]:
        return []
    return [f'  the busiest vertex is "{short(busiest[1])}", for {busiest[0] / 10:.0f} % of the time']

"""EXPLAIN UPGRADE: what a changed statement would go on with, of the state of a job that runs or of a savepoint, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sqlstream.client.diagnosis.upgrade import (
    CHANGED,
    DROPPED,
    EMPTY,
    EVOLVED,
    GOES_ON,
    KEPT,
    NEW,
    SAME,
    Finding,
    Upgrade,
    upgrade_of,
)
from sqlstream.client.following.progress import size_text
from sqlstream.effects import Effects
from sqlstream.errors import ErrorsAt, Span, UserError
from sqlstream.runtime.checkpoint.checkpoint_directory import StoredCheckpoint, load_checkpoint
from sqlstream.runtime.checkpoint.checkpoint_store import checkpoint_files
from sqlstream.runtime.checkpoint.places import absolute_place, check_place
from sqlstream.runtime.jobmanager.checkpoints.build_manifest import foreseen_manifest
from sqlstream.terminal_text import shown_lines

if TYPE_CHECKING:
    from sqlstream.client.clusters.cluster_client import ClusterClient
    from sqlstream.client.sessions.planning import PlanningSession
    from sqlstream.graph.job_graph import JobGraph
    from sqlstream.planner.dialect.statements import ExplainUpgrade, WritingStatement


def explain_upgrade(statement: ExplainUpgrade, session: PlanningSession) -> str:
    """The answer of the statement. UserError SS3541 for one in batch, SS3540 for a job without state, and that of a savepoint
    which cannot be read."""
    if statement.is_savepoint:
        span = statement.place_span
        session.permit.require(Effects(files=frozenset({statement.place})), span)
        graph = planned_job(statement.target, session)
        with ErrorsAt(span):
            return upgrade_text(_upgrade_from(statement.place, graph, session))
    return upgrade_text(_upgrade_of_job(statement, session))


def upgrade_from_savepoint(path: str, statement: WritingStatement, session: PlanningSession) -> Upgrade:
    """What the statement would go on with of a savepoint or checkpoint."""
    return _upgrade_from(path, planned_job(statement, session), session)


def _upgrade_from(path: str, graph: JobGraph, session: PlanningSession) -> Upgrade:
    """UserError when there is no savepoint at the path, or one that the server does not let its users name."""
    place = absolute_place(path, "the savepoint")
    check_place(place, session.files())
    saved = load_checkpoint(checkpoint_files(place, session.config), place)
    sizes: Counter[int] = Counter()
    for operator in (o for v in saved.manifest.vertices for s in v.subtasks for o in s.operators):
        sizes[operator.operator_id] += sum(part.length for t in operator.tables for part in t.segments)
    return upgrade_of(saved, graph, f'savepoint "{saved.path}" of job "{saved.manifest.job_name}"', sizes)


def planned_job(statement: WritingStatement, session: PlanningSession, job_id: str = "") -> JobGraph:
    """What the statement would run. UserError SS3541 for one in batch."""
    from sqlstream.planner.compile import CompiledPlan

    plan = session.compile(statement, job_id=job_id)
    if isinstance(plan, CompiledPlan):
        return plan.job_graph
    raise UserError("SS3541", "a batch statement goes on from no state", span=statement.span)


def running_job(job_id: str, span: Span, cluster: ClusterClient, instead: str = "") -> JobGraph:
    """The graph of a job with a state to go on with. UserError SS3540 for one that has none; `instead` is what else can be
    named."""
    from sqlstream.client.statements.jobs import known_job

    status = known_job(job_id, span, cluster).status
    graph = cluster.job_graph(job_id)
    if status.is_terminal or graph.is_batch:
        is_what = "runs in batch" if graph.is_batch else f"is {status.value}"
        raise UserError(
            "SS3540",
            f'job "{job_id}" {is_what}, and has no state to go on with',
            span=span,
            hint=f"name one that runs (SHOW JOBS){instead}",
        )
    return graph


def _upgrade_of_job(statement: ExplainUpgrade, session: PlanningSession) -> Upgrade:
    cluster, job_id = session.cluster, statement.place
    before = running_job(job_id, statement.place_span, cluster, ", or what it has left: FOR SAVEPOINT 'path'")
    graph = planned_job(statement.target, session)
    # Asked first: then TaskManagers report fresh sizes.
    cluster.metrics(job_id)
    growth = cluster.details(job_id).state_growth
    sizes = {o.operator: o.present.nbytes for o in growth.operators} if growth is not None else {}
    found = upgrade_of(
        StoredCheckpoint(job_id, "", foreseen_manifest(before)), graph, f'job {job_id} "{before.name}"', sizes
    )
    notes = found.notes
    if before.python is not None and graph.python != before.python:
        notes += ("the code of functions is another: rows of before were computed with the code of then",)
    steps = (
        f"STOP JOB '{job_id}' WITH SAVEPOINT",
        "SET 'execution.state-recovery.path' = the path that it prints",
        "run the statement",
    )
    return replace(found, notes=notes, steps=steps)


# The answer as a text.


def upgrade_text(found: Upgrade) -> str:
    blocks = ["\n".join(_block(f)) for kind in ("source", "state", "table") for f in found.of(kind)]
    tail = [f"refused: {text}" for text in found.refusals] + [f"note: {text}" for text in found.notes]
    tail += [f"hint: {text}" for text in found.advice]
    tail += [f"to upgrade: {'; '.join(found.steps)}"] * bool(found.steps)
    parts = [f"{found.place}: {_verdict(found)}", *blocks, *(["\n".join(tail)] if tail else [])]
    return shown_lines("\n\n".join(parts)) + "\n"


def _verdict(found: Upgrade) -> str:
    counts = Counter(f.verdict for f in found.of("state"))
    parts = [f"{counts[v]} {v}" for v in (KEPT, EVOLVED, EMPTY, DROPPED) if counts[v]]
    if any(f.verdict != GOES_ON for f in found.of("source")):
        parts.append("not all sources go on")
    would = f"the statement would {'be refused' if found.is_refused else 'start'}"
    return f"{would}; state: {', '.join(parts) or 'none'}" if found.findings else would


def _block(finding: Finding) -> Iterator[str]:
    title = f"table {finding.title}" if finding.kind == "table" else finding.title
    yield f"{finding.operator}: {title}"
    size = f", {size_text(finding.nbytes)}" if finding.nbytes >= 0 and finding.verdict != EMPTY else ""
    words = {SAME: "mean what they meant", CHANGED: "mean something else", NEW: "are new"}
    label = {"state": "state", "source": "position", "table": "rows"}[finding.kind]
    yield f"  {label:<10}  {words.get(finding.verdict, finding.verdict)}{size}"
    if finding.before and finding.before != finding.title and finding.kind != "table":
        yield f"  {'before':<10}  {finding.before}"
    for reason in finding.reasons:
        yield f"  {'because':<10}  {reason}"
    if finding.effect:
        yield f"  {'so':<10}  {finding.effect}"

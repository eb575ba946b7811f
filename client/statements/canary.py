"""CANARY: a changed statement beside that of a job, from one savepoint and over the same rows; then it takes over, or not."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sqlstream import config as options_of
from sqlstream.cancellation import check_not_given_up
from sqlstream.catalog import SessionCatalog
from sqlstream.client.diagnosis.finding import seconds_text
from sqlstream.client.diagnosis.upgrade import Upgrade, upgrade_of
from sqlstream.client.following.followed_job import ended_error
from sqlstream.client.sessions.effects import job_effects
from sqlstream.client.statements.jobs import SAVEPOINT_DIRECTORY, awaited_savepoint, stop_with_savepoint
from sqlstream.client.statements.short_job import GIVEN_UP_CHECK_S, JobEnd
from sqlstream.client.statements.upgrade import planned_job, running_job
from sqlstream.client.verification.canary import Differences, comparing_query, differences_text
from sqlstream.config_option import parse_duration_ms
from sqlstream.effects import Effects
from sqlstream.errors import ErrorsAt, SqlStreamError, UserError
from sqlstream.graph.job_graph import JobGraph, read_tables, written_tables
from sqlstream.messages.client_rpc import StopWithSavepoint, TriggerSavepoint
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.planner.canary import OF_KEYS, OF_ROWS, canary_job, doubled
from sqlstream.runtime.checkpoint.checkpoint_directory import (
    CheckpointDirectory,
    StoredCheckpoint,
    load_checkpoint,
)
from sqlstream.runtime.checkpoint.checkpoint_store import checkpoint_files
from sqlstream.runtime.checkpoint.places import with_absolute_places
from sqlstream.specs import SinkSpec

if TYPE_CHECKING:
    from sqlstream.client.clusters.cluster_client import ClusterClient
    from sqlstream.client.sessions.outcomes import Job, Text
    from sqlstream.client.sessions.planning import PlanningSession
    from sqlstream.planner.dialect.statements import Canary, Option
    from sqlstream.runtime.net.results import JobResults

RECOVERY, IGNORES = "execution.state-recovery.path", "execution.state-recovery.ignore-unclaimed-state"
DURATION_MS_MAX = 7 * 86_400_000
SHOWN_MAX = 1000
NEVER, IF_EQUAL, ALWAYS = "never", "if-equal", "always"
LOOK_S = 0.5


@dataclasses.dataclass(frozen=True)
class CanaryOptions:
    """`promote`: when the changed statement takes over. `differences_max` is how many keys may differ where it does if equal."""

    duration_ms: int = 60_000
    promote: str = NEVER
    differences_max: int = 0
    shown: int = 10


def execute_canary(statement: Canary, session: PlanningSession) -> Text:
    """The answer as text; a failure when there are more differences than may be.

    UserError SS3540 for a job without state, SS5450 for statements that write other tables, SS5451 and SS5452 for tables that
    both cannot read at once, SS5453 for a statement that the state refuses, SS5454 for a wrong option; the error of the canary's
    job, while the job itself runs on."""
    from sqlstream.client.sessions.outcomes import Text

    chosen = canary_options(statement.options)
    new = planned_job(statement.target, session, secrets.token_hex(16))
    session.permit.require(job_effects(new), statement.target.span)
    session.permit.require(Effects(jobs=frozenset({statement.job_id})), statement.id_span)
    old = running_job(statement.job_id, statement.id_span, session.cluster)
    sink = _common_sink(old, new, statement)
    directory = with_absolute_places(session.config).get(SAVEPOINT_DIRECTORY, "")
    with _saved(statement.job_id, directory, session) as saved:
        found = upgrade_of(saved, new, "", {})
        if found.is_refused:
            hint = "; ".join(found.advice)
            raise UserError("SS5453", "; ".join(found.refusals), span=statement.target.span, hint=hint)
        with ErrorsAt(statement.target.span):
            graph = _canary_graph(old, new, sink, saved, session)
        time_zone = str(options_of.get(session.config, "table.local-time-zone"))
        differences = Differences(sink, time_zone)
        read, is_stopped = _run(session, graph, differences, chosen.duration_ms, directory)
    is_equal = differences.count <= chosen.differences_max
    lasted = f"after {seconds_text(chosen.duration_ms)} on the same" if is_stopped else "after all"
    what = f"{lasted} {read:,} rows"
    lines = differences_text(differences, chosen.shown, what)
    if differences.count:
        lines += ["", *_reasons(found)]
    is_promoted = chosen.promote == ALWAYS or (chosen.promote == IF_EQUAL and is_equal)
    if is_promoted:
        path = _path_of_stopped(statement.job_id, session.cluster, directory)
        is_promoted = bool(path)
        lines.append(
            _promoted(statement, session, path)
            if path
            else f"not promoted: job {statement.job_id} has ended meanwhile"
        )
    elif chosen.promote != NEVER:
        lines.append(f"not promoted: job {statement.job_id} runs on as it is")
    return Text("\n".join(lines), is_failure=not is_equal and not is_promoted)


def canary_options(given: tuple[Option, ...]) -> CanaryOptions:
    """UserError SS5454 for another key, and for a value that is none."""
    found: dict[str, int | str] = {}
    for option in given:
        try:
            match option.key:
                case "duration":
                    found["duration_ms"] = _within(parse_duration_ms(option.value), 1, DURATION_MS_MAX)
                case "promote":
                    found["promote"] = (NEVER, IF_EQUAL, ALWAYS)[
                        (NEVER, IF_EQUAL, ALWAYS).index(option.value)
                    ]
                case "max-differences":
                    found["differences_max"] = _within(int(option.value), 0, 10**12)
                case "shown":
                    found["shown"] = _within(int(option.value), 0, SHOWN_MAX)
                case _:
                    raise UserError("SS5454", f'a canary has no option "{option.key}"', span=option.key_span)
        except ValueError as error:
            raise UserError(
                "SS5454", f'"{option.value}" is no value of option "{option.key}"', span=option.value_span
            ) from error
    return CanaryOptions(**found)  # type: ignore[arg-type]


def _within(value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise ValueError
    return value


def _common_sink(old: JobGraph, new: JobGraph, statement: Canary) -> SinkSpec:
    """The table that both write. Refuses what cannot be compared."""
    from sqlstream.runtime.connectors import connector

    olds, news = ([spec for _, spec in written_tables(g)] for g in (old, new))
    if len(olds) != 1 or len(news) != 1:
        raise UserError("SS5450", "a canary compares jobs of one INSERT", span=statement.id_span)
    ((before,), (after,)) = olds, news
    if (before.table, before.connector, before.schema, before.primary_key) != (
        after.table,
        after.connector,
        after.schema,
        after.primary_key,
    ):
        raise UserError(
            "SS5450",
            f'the job writes table "{before.table}", and the statement "{after.table}" or with other columns',
            span=statement.target.span,
        )
    for _, spec in read_tables(old):
        if connector(spec.connector).descriptor.reading.reads_once:
            raise UserError(
                "SS5452", f'rows of table "{spec.table}" can be read once alone', span=statement.id_span
            )
    return after


@contextlib.contextmanager
def _saved(job_id: str, directory: str, session: PlanningSession) -> Iterator[StoredCheckpoint]:
    """A savepoint of the job, which runs on; it is removed behind."""
    cluster, trigger_id = session.cluster, secrets.token_hex(16)
    cluster.take_savepoint(TriggerSavepoint(job_id, trigger_id, directory, is_temporary=True))
    path = ""
    try:
        path = awaited_savepoint(cluster, job_id, trigger_id)
        yield load_checkpoint(checkpoint_files(path, session.config), path)
    finally:
        _dispose(session, job_id, trigger_id, path)


def _dispose(session: PlanningSession, job_id: str, trigger_id: str, path: str) -> None:
    """Who gives up while it is taken waits for it, as it would stay."""
    cluster = session.cluster
    with contextlib.suppress(SqlStreamError):
        found = path or awaited_savepoint(cluster, job_id, trigger_id, gives_up=False)
        cluster.dispose_savepoint(found, session.config)


def _canary_graph(
    old: JobGraph, new: JobGraph, sink: SinkSpec, saved: StoredCheckpoint, session: PlanningSession
) -> JobGraph:
    """The job of both statements. What it goes on with is written into the savepoint, of which nobody else knows."""
    comparison = _comparison(sink, session)
    codes = OF_KEYS if sink.primary_key else OF_ROWS
    graph = canary_job(old, new, comparison, codes, session.bind_context().connectors)
    files = checkpoint_files(saved.path, session.config)
    CheckpointDirectory(files, saved.path).store(doubled(saved.manifest))
    config = {key: value for key, value in new.config.items() if key != "execution.checkpointing.interval"}
    config |= {RECOVERY: saved.path, IGNORES: "true", "restart-strategy.type": "none"}
    return replace(graph, job_id=secrets.token_hex(16), name=f"canary of {old.name}"[:100], config=config)


def _comparison(sink: SinkSpec, session: PlanningSession) -> JobGraph:
    """The job of the query that compares, over tables that stand for what both statements write."""
    from sqlstream.planner.bind.sink import bind_sinks
    from sqlstream.planner.compile import compile_statements
    from sqlstream.planner.dialect.parser import parse_statement
    from sqlstream.planner.statements.execute import execute_ddl

    catalog = SessionCatalog()
    context = dataclasses.replace(
        session.bind_context(),
        catalog=catalog,
        config={"parallelism.default": "1"},
        current_catalog=catalog.current_catalog,
        current_database=catalog.current_database,
    )
    columns = ", ".join(f"c{place} {type_}" for place, type_ in enumerate(sink.schema.types))
    for table in ("old_rows", "new_rows"):
        made = parse_statement(
            f"CREATE TABLE {table} (op STRING, {columns}, t AS PROCTIME()) WITH ('connector' = 'datagen')"
        )
        for change in execute_ddl(made, context).changes:
            catalog.apply(change)  # type: ignore[arg-type]
    query = parse_statement(comparing_query(sink))
    context = dataclasses.replace(context, text=query.text, text_start=0)
    try:
        return compile_statements(bind_sinks(query, context), context, secrets.token_hex(16)).job_graph
    except UserError as error:
        # Its place is one in a text that nobody has written.
        error.span = None
        raise


# The job runs for a time, and then ends at one place of all tables.


def _run(
    session: PlanningSession, graph: JobGraph, differences: Differences, duration_ms: int, directory: str
) -> tuple[int, bool]:
    """How many rows were read, and whether that ended with the duration, not with the tables. JobError when the job fails or the
    statement is given up; the job is cancelled then."""
    job, cluster, stop = session.submit_graph(graph), session.cluster, _Stop(secrets.token_hex(16))
    end = JobEnd()
    job.when_ended(end.tell)
    try:
        _follow(job, cluster, differences, duration_ms, directory, stop)
        end.awaited()
        status, error = job.wait()
    except BaseException:
        job.cancel()
        raise
    finally:
        job.results().close()
        if stop.is_asked:
            _dispose(session, job.id, stop.trigger_id, stop.path)
    if status is not JobStatus.FINISHED:
        from sqlstream.messages.rpc import JobStatusReply

        raise ended_error(JobStatusReply(job.id, status, error))
    return int(job.metrics().total.get("numRecordsRead", 0)), bool(stop.path)


@dataclasses.dataclass
class _Stop:
    """The savepoint with which the job is stopped, once it `is_asked` for and once it is complete."""

    trigger_id: str
    is_asked: bool = False
    path: str = ""


def _follow(
    job: Job,
    cluster: ClusterClient,
    differences: Differences,
    duration_ms: int,
    directory: str,
    stop: _Stop,
) -> None:
    """Take the rows of the comparison until the job has ended, which is stopped behind the duration."""
    rows: JobResults = job.results()
    deadline_s, look_s = 0.0, 0.0
    while not rows.is_ended:
        check_not_given_up()
        batch = rows.poll()
        if batch is not None:
            differences.add(batch)
        now_s = time.monotonic()
        if now_s >= look_s:
            look_s = now_s + LOOK_S
            if not deadline_s and _runs(job.id, cluster):
                deadline_s = now_s + duration_ms / 1000
            elif stop.is_asked and not stop.path:
                with _unless_ended(job.id, cluster):
                    stop.path = _savepoint_of(job.id, stop.trigger_id, cluster)
        if deadline_s and now_s >= deadline_s and not stop.is_asked:
            stop.is_asked = True
            with _unless_ended(job.id, cluster):
                request = StopWithSavepoint(job.id, stop.trigger_id, directory, is_temporary=True)
                cluster.take_savepoint(request)
        if batch is None and not rows.is_ended:
            is_ready = threading.Event()
            rows.when_ready(is_ready.set)
            is_ready.wait(GIVEN_UP_CHECK_S)
    if stop.is_asked and not stop.path:
        with _unless_ended(job.id, cluster):
            stop.path = _savepoint_of(job.id, stop.trigger_id, cluster)


def _savepoint_of(job_id: str, trigger_id: str, cluster: ClusterClient) -> str:
    """Empty while it is not complete."""
    status = cluster.savepoint_status(job_id, trigger_id)
    if status.error is not None:
        raise status.error.to_error()
    return status.path


@contextlib.contextmanager
def _unless_ended(job_id: str, cluster: ClusterClient) -> Iterator[None]:
    """Drops the error of a savepoint for a job that has ended by itself: its tables have, and all rows are compared."""
    try:
        yield
    except SqlStreamError:
        if not _has_ended(job_id, cluster):
            raise


def _has_ended(job_id: str, cluster: ClusterClient) -> bool:
    return cluster.status(job_id).status.is_terminal


def _runs(job_id: str, cluster: ClusterClient) -> bool:
    states = [s.state for v in cluster.details(job_id).vertices for s in v.subtasks]
    return bool(states) and all(s in (ExecutionState.RUNNING, ExecutionState.FINISHED) for s in states)


def _reasons(found: Upgrade) -> Iterator[str]:
    """What EXPLAIN UPGRADE says of why rows differ."""
    for finding in found.findings:
        if finding.kind in ("state", "table"):
            yield from (f"because of {finding.title}: {reason}" for reason in finding.reasons)


# It takes over: the job ends with a savepoint, from which the changed statement goes on.


def _path_of_stopped(job_id: str, cluster: ClusterClient, directory: str) -> str:
    """The savepoint with which the job ends; empty for one that has ended by itself before."""
    if _has_ended(job_id, cluster):
        return ""
    try:
        return stop_with_savepoint(cluster, job_id, directory, False)
    except SqlStreamError:
        # Also between the two questions.
        if not _has_ended(job_id, cluster) or cluster.status(job_id).error is not None:
            raise
        return ""


def _promoted(statement: Canary, session: PlanningSession, path: str) -> str:
    """Nothing is lost or written twice: the savepoint is the last that the job commits, and the first that the other goes on
    from."""
    from sqlstream.planner.compile import CompiledPlan

    before = dict(session.config)
    try:
        session.config[RECOVERY] = path
        plan = session.compile(statement.target, job_id=session.new_job_id())
        assert isinstance(plan, CompiledPlan)
        job = session.submit(plan)
        session.remember(job.id, plan.relational, len(statement.target.text))
    except SqlStreamError as error:
        error.detail = f'job "{statement.job_id}" has ended with the savepoint {path}, from which either statement can go on'
        raise
    finally:
        session.config = before
    told = f"promoted: job {statement.job_id} has ended with the savepoint {path}, and job {job.id} goes on from it"
    return f"{told}\n{job.note}" if job.note else told

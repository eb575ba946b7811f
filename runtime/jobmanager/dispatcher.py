"""Accepts jobs, keeps a JobMaster for each live job and a record of each ended one (Flink: Dispatcher)."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from msgspec import structs

from sqlstream import config
from sqlstream.errors import JobError, UserError
from sqlstream.graph.job_graph import ChainedOperator, JobGraph
from sqlstream.graph.parallelism import rescaled_job_graph
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.messages.checkpoint_statistics import CheckpointKind, CheckpointStatistics
from sqlstream.messages.client_rpc import SavepointStatusReply
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rescale import RescaleStatus
from sqlstream.messages.rpc import JobDetails, JobMetrics, JobOverviewEntry, JobStatusReply
from sqlstream.runtime.jobmanager.adaptive_scheduling import (
    adaptive_settings,
    desired_graph,
    graph_to_begin_with,
)
from sqlstream.runtime.jobmanager.autoscaling import autoscaler_settings
from sqlstream.runtime.jobmanager.checkpoints.checkpoint_settings import checkpoint_settings
from sqlstream.runtime.jobmanager.checkpoints.job_checkpoints import awaited_executions, obstacle
from sqlstream.runtime.jobmanager.checkpoints.restored_state import restored_checkpoints
from sqlstream.runtime.jobmanager.events import EndedJob, JobFinished, LoadedCheckpoint, RemoveJob, StoreJob
from sqlstream.runtime.jobmanager.job_details import describe_job, measure_job, summarise_job
from sqlstream.runtime.jobmanager.job_master import JobMaster
from sqlstream.runtime.jobmanager.job_master_config import JobMasterConfig
from sqlstream.runtime.jobmanager.job_phase import ACTIVE, JobPhase
from sqlstream.runtime.jobmanager.resources.slot_pool import slots_needed
from sqlstream.runtime.jobmanager.restart_strategy import restart_strategy_of

PLANNING_JOBS_MAX = 8
"""How many ended jobs of statements' planning are remembered: enough for those whose clients are about to ask for the end."""


class Dispatcher:
    """Stores a job before it runs, and runs it once, however often it is submitted.

    State: the live JobMasters, and the newest `archive_max` ended jobs, at most half of them queries and
    PLANNING_JOBS_MAX jobs of statements that were planned; older ones are forgotten, and those that ended `archive_ms` ago.
    """

    def __init__(
        self,
        job_master_config: JobMasterConfig,
        archive_max: int = 50,
        slots_max: int | None = None,
        heartbeat_timeout_ms: int = 50_000,
        archive_ms: int | None = None,
    ) -> None:
        self.masters: dict[str, JobMaster] = {}
        self.archive: OrderedDict[str, EndedJob] = OrderedDict()
        self._job_master_config = job_master_config
        self._archive_max = archive_max
        self._archive_ms = archive_ms
        self._slots_max = slots_max
        self._heartbeat_timeout_ms = heartbeat_timeout_ms

    # --- submission

    def check_submission(self, job_graph: JobGraph, restored: tuple[LoadedCheckpoint, ...] = ()) -> None:
        """UserError when the job is refused: options out of bounds, a graph that cannot run, an id used before, state that no
        operator takes."""
        self._config_of(job_graph)
        check_job_graph(job_graph)
        settings = checkpoint_settings(job_graph, self._job_master_config.checkpoint_directory)
        adaptive = adaptive_settings(job_graph)
        begun = graph_to_begin_with(desired_graph(job_graph, adaptive), adaptive, restored)
        restored_checkpoints(restored, begun, settings.directory)
        self._check_slots(job_graph)
        known = self._known_graph(job_graph.job_id)
        # A job may have been rescaled since it was submitted.
        if known is not None and not is_one_job(known, job_graph):
            raise UserError(
                "SS6008",
                f'job id "{job_graph.job_id}" belongs to another job',
                hint="submit the job under an id of its own",
            )

    def _check_slots(self, job_graph: JobGraph) -> None:
        adaptive = adaptive_settings(job_graph)
        if adaptive is not None and adaptive.is_reactive and self._slots_max is not None:
            raise UserError(
                "SS6100",
                f'job "{job_graph.name}" wants all slots that there are, and this cluster starts TaskManagers for its jobs',
                hint="SET 'jobmanager.scheduler' = 'Adaptive' instead, or use a cluster of execution.target = standalone",
            )
        needed = slots_needed(job_graph if adaptive is None else rescaled_job_graph(job_graph, 1))
        if self._slots_max is not None and needed > self._slots_max:
            raise JobError(
                "SS6003",
                f'job "{job_graph.name}" needs {needed} slots, the cluster has at most {self._slots_max}',
                hint="lower parallelism.default, or raise slotmanager.number-of-slots.max where the cluster starts",
            )

    def on_submit(
        self,
        job_graph: JobGraph,
        now_ms: int,
        restored: tuple[LoadedCheckpoint, ...] = (),
        is_recovered: bool = False,
    ) -> list[StoreJob]:
        """Start a job that `check_submission` has passed; a repeated submission does nothing."""
        if self._known_graph(job_graph.job_id) is not None:
            return []
        job_config = replace(self._config_of(job_graph), is_recovered=is_recovered)
        master = JobMaster(job_graph, job_config, now_ms, restored)
        self.masters[job_graph.job_id] = master
        return [StoreJob(job_graph)]

    def on_finished(self, finished: JobFinished, now_ms: int) -> list[RemoveJob]:
        """Record the end of a job. A suspended one stays in the JobStore: another JobManager takes it up again."""
        master = self.masters.pop(finished.job_id)
        ended = _broken_job(master, finished, now_ms) if finished.is_broken else _ended_job(master)
        self.add_ended(ended)
        return [RemoveJob(master.job_id, ended)] if finished.status.is_globally_terminal else []

    def add_ended(self, ended: EndedJob) -> None:
        """Remember a job that has ended, here or under an earlier JobManager.

        Queries have half of the places, so that however many come, the ends of other jobs stay to be read. Of the jobs that
        statements start while they are planned, there are but a few."""
        self.archive[ended.details.job_id] = ended
        planning = [job_id for job_id, old in self.archive.items() if old.job_graph.is_for_planning]
        for job_id in planning[:-PLANNING_JOBS_MAX]:
            del self.archive[job_id]
        while len(self.archive) > self._archive_max:
            queries = [job_id for job_id, old in self.archive.items() if old.job_graph.is_query]
            others = (job_id for job_id in self.archive if job_id not in queries)
            oldest = queries[0] if len(queries) > self._archive_max // 2 else next(others)
            del self.archive[oldest]

    def forget_expired(self, now_ms: int) -> None:
        """Those that wait for another JobManager have not ended."""
        if self._archive_ms is None:
            return
        for job_id, ended in list(self.archive.items()):
            if not ended.details.status.is_globally_terminal:
                continue
            if now_ms - ended.details.end_ms < self._archive_ms:
                # They are in the order of their ends.
                return
            del self.archive[job_id]

    # --- queries

    def status(self, job_id: str) -> JobStatusReply:
        details = self.details(job_id)
        return JobStatusReply(job_id, details.status, details.error)

    def details(self, job_id: str) -> JobDetails:
        """UserError when there is no such job, or its record is already forgotten."""
        master = self.masters.get(job_id)
        return describe_job(master) if master is not None else self._archived(job_id).details

    def metrics(self, job_id: str) -> JobMetrics:
        master = self.masters.get(job_id)
        return measure_job(master) if master is not None else self._archived(job_id).metrics

    def checkpoints(self, job_id: str) -> CheckpointStatistics:
        master = self.masters.get(job_id)
        if master is not None:
            return master.checkpoints.statistics()
        return self._archived(job_id).checkpoints or CheckpointStatistics(job_id)

    def savepoint_status(self, job_id: str, trigger_id: str) -> SavepointStatusReply:
        """UserError when nobody has asked for one under this id, or it is forgotten."""
        master = self.masters.get(job_id)
        all_known = master.checkpoints.requests.known() if master else self._archived(job_id).savepoints
        return _triggered(all_known, trigger_id, "SS6207", f'no savepoint of job "{job_id}"')

    def check_savepoint(self, job_id: str, kind: CheckpointKind) -> None:
        """UserError when the job takes no checkpoints or savepoints. It has to have a place for the checkpoint that follows a
        savepoint, to commit its rows."""
        master = self.masters.get(job_id)
        if master is None:
            status = self._archived(job_id).details.status.value
            raise UserError(
                "SS6208", f'job "{job_id}" is {status}', hint="savepoints are taken of jobs that run"
            )
        settings = master.checkpoints.settings
        if not settings.is_possible:
            raise UserError(
                "SS6208",
                f'job "{job_id}" runs on a batch engine, whose state cannot be saved'
                if not master.job_graph.replaces_rows
                else f'job "{job_id}" replaces rows of its table, with one commit at its end',
                hint="wait for its end, or cancel it",
            )
        if kind is not CheckpointKind.SYNC_SAVEPOINT and not settings.directory:
            raise UserError(
                "SS6208",
                f'job "{job_id}" has no directory for checkpoints',
                hint="SET 'execution.checkpointing.dir' before the job is started, or stop it with a savepoint",
            )

    def check_rescale(self, job_graph: JobGraph, trigger_id: str) -> None:
        """UserError when the job cannot get this graph: SS6233 when the cluster never has the slots for it."""
        job_id = job_graph.job_id
        master = self.masters.get(job_id)
        if master is None:
            raise not_rescaled(job_id, f"is {self._archived(job_id).details.status.value}")
        if master.rescaling.knows(trigger_id):
            return
        check_job_graph(job_graph)
        check_can_be_rescaled(master, job_graph)
        needed = slots_needed(job_graph)
        if self._slots_max is not None and needed > self._slots_max:
            raise UserError(
                "SS6233",
                f'job "{job_id}" would need {needed} slots, the cluster has at most {self._slots_max}',
                hint="give a lower parallelism, or raise slotmanager.number-of-slots.max where the cluster starts",
            )

    def rescale_status(self, job_id: str, trigger_id: str) -> RescaleStatus:
        """UserError SS6236 when nobody has asked for one under this id, or it is forgotten."""
        master = self.masters.get(job_id)
        all_known = master.rescaling.known() if master else self._archived(job_id).rescales
        return _triggered(all_known, trigger_id, "SS6236", f'no rescale of job "{job_id}"')

    def job_graph(self, job_id: str) -> JobGraph:
        master = self.masters.get(job_id)
        return master.job_graph if master is not None else self._archived(job_id).job_graph

    def overview(self) -> tuple[JobOverviewEntry, ...]:
        """Live jobs first, then ended ones, oldest first."""
        live = [describe_job(m) for m in self.masters.values()]
        return tuple(summarise_job(d) for d in (*live, *(a.details for a in self.archive.values())))

    def _archived(self, job_id: str) -> EndedJob:
        found = self.archive.get(job_id)
        if found is None:
            raise UserError(
                "SS6009", f'job "{job_id}" is not known', hint="list the jobs that are: SHOW JOBS"
            )
        return found

    def knows(self, job_id: str) -> bool:
        return self._known_graph(job_id) is not None

    def _known_graph(self, job_id: str) -> JobGraph | None:
        if job_id in self.masters:
            return self.masters[job_id].job_graph
        return self.archive[job_id].job_graph if job_id in self.archive else None

    def _config_of(self, job_graph: JobGraph) -> JobMasterConfig:
        config.get(job_graph.config, "execution.runtime-mode")
        restart_strategy_of(job_graph.config, job_graph.job_id)
        cancellation_ms: int = config.get(job_graph.config, "task.cancellation.timeout")
        adaptive = adaptive_settings(job_graph)
        autoscaler_settings(job_graph)
        return replace(
            self._job_master_config,
            slot_request_timeout_ms=config.get(job_graph.config, "slot.request.timeout")
            if adaptive is None
            else adaptive.wait_ms,
            slots_max=self._slots_max,
            # The TaskManager ends itself at its own timeout; the job gives it up only when that did not help.
            cancellation_timeout_ms=cancellation_ms + self._heartbeat_timeout_ms,
        )


def _ended_job(master: JobMaster) -> EndedJob:
    return EndedJob(
        master.job_graph,
        describe_job(master),
        measure_job(master),
        master.checkpoints.statistics(),
        master.checkpoints.requests.known(),
        master.output_kept_for(),
        master.rescaling.known(),
    )


def _broken_job(master: JobMaster, finished: JobFinished, now_ms: int) -> EndedJob:
    """What is known of a job without asking what its tasks, checkpoints and sinks have come to. It leaves its checkpoints with
    what they have to commit."""
    job, since_ms = master.job_graph, master.timestamps_ms
    details = JobDetails(
        job_id=job.job_id,
        name=job.name,
        status=finished.status,
        start_ms=since_ms[JobStatus.INITIALIZING.value],
        end_ms=now_ms,
        timestamps_ms={**since_ms, finished.status.value: now_ms},
        vertices=(),
        error=finished.error,
        is_batch=job.is_batch,
    )
    directory = master.checkpoints.settings.directory
    kept_for = (directory,) if directory else ()
    return EndedJob(job, details, JobMetrics(job.job_id, finished.status, {}, {}), output_kept_for=kept_for)


def check_job_graph(job_graph: JobGraph) -> None:
    """JobError SS6010 for a graph that no scheduler could run."""
    parallelism = {v.id: v.parallelism for v in job_graph.vertices}
    operators = [(v.id, o.id) for v in job_graph.vertices for o in v.operators]
    ids, places = {id for _, id in operators}, set(operators)
    inputs = Counter(e.target for e in job_graph.edges)
    problem = ""
    if not parallelism:
        problem = "it has no vertices"
    elif len(parallelism) != len(job_graph.vertices):
        problem = "two of its vertices have one id"
    elif any(not v.operators for v in job_graph.vertices):
        problem = "a vertex has no operators"
    elif len(ids) < len(operators):
        problem = "two of its operators have one id"
    elif any(p < 1 for p in parallelism.values()):
        problem = "a vertex has no subtasks"
    elif any(v.parallelism > v.max_parallelism for v in job_graph.vertices):
        problem = "a vertex has more subtasks than key groups"
    elif len({e.id for e in job_graph.edges}) != len(job_graph.edges):
        problem = "two of its edges have one id"
    elif any(e.source not in parallelism or e.target not in parallelism for e in job_graph.edges):
        problem = "an edge leads to a vertex that is not there"
    elif any((e.source, e.source_operator) not in places for e in job_graph.edges):
        problem = "an edge begins at an operator that its vertex does not have"
    elif any(not 0 <= e.ordinal < inputs[e.target] for e in job_graph.edges):
        problem = "an edge leads to an input that its vertex does not have"
    elif any(
        e.exchange.kind is ExchangeKind.FORWARD and parallelism[e.source] != parallelism[e.target]
        for e in job_graph.edges
    ):
        problem = "a FORWARD edge joins vertices of different parallelism"
    if problem:
        raise JobError("SS6010", f'job "{job_graph.name}" cannot run: {problem}')


# Whether a job can be taken to another parallelism at all, and whether it is one that was.


_OF_PARALLELISM = ("parallelism.default", "table.exec.resource.default-parallelism")
"""The settings that a rescale changes."""


def is_one_job(one: JobGraph, other: JobGraph) -> bool:
    """Whether the graphs are equal, or would be at one parallelism."""
    if one == other:
        return True
    if one.scaling is None or other.scaling is None:
        return False
    return (
        (one.job_id, one.owner, one.name) == (other.job_id, other.owner, other.name)
        and one.scaling.nodes == other.scaling.nodes
        and _unchained(one) == _unchained(other)
        and _settings(one) == _settings(other)
    )


def _unchained(job: JobGraph) -> dict[int, tuple[ChainedOperator, int]]:
    """Which operators are in one vertex depends on the parallelism."""
    return {o.id: (structs.replace(o, input=0), v.max_parallelism) for v in job.vertices for o in v.operators}


def _settings(job: JobGraph) -> dict[str, str]:
    return {key: value for key, value in job.config.items() if key not in _OF_PARALLELISM}


def check_can_be_rescaled(master: JobMaster, job_graph: JobGraph) -> None:
    """UserError SS6232 when the job, as it is now, cannot go on with this graph."""
    present = master.job_graph
    if _operators(job_graph) != _operators(present):
        raise UserError(
            "SS6008",
            f'job "{master.job_id}" has other operators',
            hint="rescale the job that has this id now",
        )
    if present.is_query:
        raise not_rescaled(
            master.job_id,
            "sends its rows to a client, and cannot go on from a checkpoint",
            "only jobs of INSERT are rescaled",
        )
    if present.is_batch:
        raise not_rescaled(
            master.job_id, "is one of a batch engine", "only streaming jobs are rescaled: see runtime-mode"
        )
    adaptive = adaptive_settings(present)
    if adaptive is not None and adaptive.is_reactive:
        raise not_rescaled(
            master.job_id,
            "takes all slots that there are",
            "SET 'jobmanager.scheduler' = 'Adaptive' instead of 'scheduler-mode' = 'REACTIVE' before the job is started",
        )
    if master.rescaling.is_under_way:
        raise not_rescaled(master.job_id, "is being rescaled", "rescale it again once its tasks run")
    if master.phase is not JobPhase.RUNNING:
        raise _not_running(master)
    if not master.checkpoints.settings.directory:
        raise not_rescaled(
            master.job_id,
            "has no directory for the checkpoint from which it would go on",
            "SET 'execution.checkpointing.dir' before the job is started",
        )
    if awaited_executions(master.graph) is None:
        cause, hint = obstacle(master.graph)
        raise not_rescaled(
            master.job_id, f"has finished in part, so that it can take no checkpoint: {cause}", hint
        )


def _not_running(master: JobMaster) -> UserError:
    if master.phase not in ACTIVE | {JobPhase.STORING, JobPhase.CREATED}:
        status = master.status
        return not_rescaled(
            master.job_id, "is ending" if status is JobStatus.RUNNING else f"is {status.value}"
        )
    is_restarting = master.phase is JobPhase.RESTARTING
    return not_rescaled(
        master.job_id,
        "is RESTARTING" if is_restarting else "is starting",
        f"rescale it again once all of its tasks run: sqlstream job {master.job_id}",
    )


def _operators(job: JobGraph) -> dict[int, tuple[str, int]]:
    return {o.id: (o.uid, v.max_parallelism) for v in job.vertices for o in v.operators}


def not_rescaled(
    job_id: str, why: str, hint: str = "jobs that run are rescaled: sqlstream jobs"
) -> UserError:
    return UserError("SS6232", f'job "{job_id}" {why}', hint=hint)


Triggered = TypeVar("Triggered", SavepointStatusReply, RescaleStatus)


def _triggered(known: Iterable[Triggered], trigger_id: str, code: str, none: str) -> Triggered:
    """The one that was asked for under this id. UserError with `code` for another id; `none` says of what there is none."""
    found = next((status for status in known if status.trigger_id == trigger_id), None)
    if found is None:
        hint = "trigger one, and ask for it by the id that you gave it"
        raise UserError(code, f'{none} was asked for as "{trigger_id}"', hint=hint)
    return found

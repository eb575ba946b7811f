"""Jobs with checkpoints and keyed state on a simulated cluster whose processes die, and what has to hold then."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from msgspec.structs import replace
from simulated_cluster import DISK_FULL, JOB_MANAGER, RUSH_JOBS, Process
from simulated_event_time import is_timed, timed_job
from simulated_jobs import adaptive_job, random_job
from simulated_story import told
from simulated_tasks import ASSIGNED, Row, SimulatedTask
from simulation.consistent_cuts import check_restored, check_state
from simulation.event_time_watch import EventTimeWatch
from simulation.mortal_cluster import MortalCluster
from simulation.simulated_server import CHECKPOINTS, SAVEPOINTS

from sqlstream.errors import ErrorInfo, FailureReason, SqlStreamError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.parallelism import rescaled_job_graph
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.rpc import DeployTask, TaskDeploymentDescriptor
from sqlstream.runtime.jobmanager.events import (
    AbortSinks,
    CheckpointStored,
    CheckpointStoreFailed,
    CommitSinks,
    DiscardCheckpoint,
    JobFinished,
    JobManagerEvent,
    JobManagerInstruction,
    JobStored,
    JobStoreFailed,
    RemoveAborted,
    RemoveCheckpoints,
    RemoveJob,
    RescaleRequested,
    SavepointRequested,
    Send,
    SinksAborted,
    SinksCommitFailed,
    SinksCommitted,
    StoreCheckpoint,
    StoreJob,
)
from sqlstream.runtime.jobmanager.job_master_config import JobMasterConfig
from sqlstream.runtime.taskmanager.events import TaskStateChanged

RESTARTS_MAX = 40
ADAPTIVE_JOBS = 0.7
"""The share of other jobs whose parallelism follows the slots that there are, of those that may be wider."""
TIMED_JOBS = 0.4
"""The share of jobs with event time."""
FAULTS = (
    "cannot be stored",
    "cannot be committed",
    "FAILED: cannot be closed",
    "FAILED: no such row",
    "dies with",
    "stands still",
    "hears nothing",
    "the JobManager dies",
    "the power fails",
    "runs again, from /chk",
    "as the JobManager finds",
    "disk of checkpoints is full",
    "disk of checkpoints is slow",
    "goes on from checkpoint",
    "goes on from its beginning",
    "as finished",
    "stops with a savepoint",
    "goes on from /sp",
    "rescale job",
    "is rescaled to",
    "the job starts with the parallelism",
    "the job goes on with the parallelism",
    "which is aborted",
    "which is subsumed",
)
"""What the story tells of each thing that has to happen."""


class Restarts:
    """Restarts what a failure has hit, many times; a cluster without slots is waited for twice."""

    def __init__(self) -> None:
        self.failures: Counter[bool] = Counter()

    def restart_after_ms(self, failure: ErrorInfo, now_ms: int) -> int | None:
        has_no_slots = failure.reason is FailureReason.NO_RESOURCES
        self.failures[has_no_slots] += 1
        return 300 if self.failures[has_no_slots] < (3 if has_no_slots else RESTARTS_MAX) else None


class ReliableCluster(MortalCluster):
    """All jobs take checkpoints; most count rows by key.

    What has to hold: a completed checkpoint has the state behind the rows that its sources have read, a task that goes on from
    it has loaded that state, and what is visible behind each commit are the results of those rows."""

    def __init__(self, seed: int) -> None:
        # What happens to other jobs does not depend on those that are adaptive.
        self._adaptive_fate = random.Random(f"adaptive {seed}")
        super().__init__(seed)
        self.event_time = EventTimeWatch()

    # --- what there is to run

    def job_master_config(self) -> JobMasterConfig:
        return JobMasterConfig(
            result_address=JOB_MANAGER,
            restart_strategy=Restarts,
            enumerates=lambda connector: connector == ASSIGNED,
            checkpoint_directory=CHECKPOINTS,
        )

    def some_jobs(self) -> list[JobGraph]:
        rng = self.rng
        jobs = [
            timed_job(rng, n) if rng.random() < TIMED_JOBS else random_job(rng, n, counts=rng.random() < 0.7)
            for n in range(rng.randint(1, RUSH_JOBS))
        ]
        return [self._adaptive(job) for job in jobs]

    def _adaptive(self, job: JobGraph) -> JobGraph:
        fate = self._adaptive_fate
        is_adaptive = fate.random() < ADAPTIVE_JOBS and not is_timed(job) and _may_be_wider(job)
        return adaptive_job(fate, job) if is_adaptive else job

    def settings(self, job: JobGraph) -> JobGraph:
        rng = self.rng
        prefix = "execution.checkpointing."
        is_unaligned, is_short = rng.random() < (0.6 if is_timed(job) else 0.25), rng.random() < 0.5
        # Where each row goes to all subtasks, aligned barriers wait behind many: such a job may never have a checkpoint in less.
        is_short = is_short and not self.is_calm and _may_be_wider(job)
        # What event time has come to is saved often while it passes.
        intervals_ms = [100, 100, 400] if is_timed(job) else [100, 500, 2000]
        config = {
            "interval": f"{rng.choice(intervals_ms)} ms",
            "min-pause": f"{rng.choice([0, 0, 300])} ms",
            "timeout": f"{1500 if is_short else 6000} ms",
            "tolerable-failed-checkpoints": str(rng.choice([0, 1, 5])),
            "num-retained": str(rng.randint(1, 3)),
            "unaligned.enabled": str(is_unaligned).lower(),
            "aligned-checkpoint-timeout": f"{rng.choice([0, 0, 200])} ms",
            "max-concurrent-checkpoints": str(1 if is_unaligned else rng.choice([1, 1, 2, 4])),
        }
        return replace(job, config=job.config | {prefix + name: value for name, value in config.items()})

    def _plan(self) -> None:
        super()._plan()
        if self.is_calm:
            return
        rng = self.rng
        for job in self.jobs:
            if rng.random() < 0.15:
                self.at(rng.randint(2000, 20_000), lambda job=job: self.stop_with_savepoint(job.job_id))
            for n in range(rng.choice([0, 1, 3, 4] if is_timed(job) else [0, 0, 1, 2])):
                self.at(rng.randint(2000, 20_000), lambda job=job, n=n: self.rescale(job.job_id, n))
        for _ in range(rng.choice([0, 0, 1, 1, 2])):
            self.at(rng.randint(500, 20_000), self.doom_job_manager)
        for _ in range(rng.randint(0, 2)):
            full_ms = rng.randint(1000, 15_000)
            self.at(full_ms, lambda: self.fill_disk(True))
            self.at(full_ms + rng.randint(200, 4000), lambda: self.fill_disk(False))
        if rng.random() < 0.3:
            slow_ms = rng.randint(1000, 15_000)
            self.at(slow_ms, lambda: self.slow_disk(True))
            self.at(slow_ms + rng.randint(1000, 6000), lambda: self.slow_disk(False))

    def stop_with_savepoint(self, job_id: str) -> None:
        if self.is_up and job_id in self.job_manager.dispatcher.masters:
            self.say(f"{job_id} stops with a savepoint")
            kind, is_drain = CheckpointKind.SYNC_SAVEPOINT, self.rng.random() < 0.5
            # What goes on behind a drain has no event time left.
            is_drain = is_drain and not is_timed(self.output.jobs[job_id])
            directory = f"{SAVEPOINTS}/{job_id}"
            self.tell_job_manager(SavepointRequested(job_id, "t1", kind, directory, is_drain))

    def rescale(self, job_id: str, number: int) -> None:
        """Somebody asks for another parallelism, also when the job cannot be had with it."""
        master = self.job_manager.dispatcher.masters.get(job_id)
        if not self.is_up or master is None or not _may_be_wider(master.job_graph):
            return
        rescaled = self._at_another_parallelism(master.job_graph)
        widths = [v.parallelism for v in rescaled.vertices]
        trigger_id = f"r{self.life}-{number}"
        try:
            self.job_manager.dispatcher.check_rescale(rescaled, trigger_id)
        except SqlStreamError as error:
            self.say(f"{job_id} is not rescaled to {widths}: {error.message}")
            return
        self.say(f"rescale {job_id} to {widths}")
        self.tell_job_manager(RescaleRequested(job_id, trigger_id, rescaled))

    def _at_another_parallelism(self, job: JobGraph) -> JobGraph:
        widest = min(3, self.bounds.slots_max) if self.bounds is not None else 3
        if job.scaling is not None:
            return rescaled_job_graph(job, self.rng.randint(1, widest))
        widths = (self.rng.randint(1, widest) for _ in job.vertices)
        vertices = zip(job.vertices, widths, strict=True)
        return replace(job, vertices=tuple(replace(v, parallelism=n) for v, n in vertices))

    # --- what the JobManager instructs

    def carry_out(self, instruction: JobManagerInstruction) -> None:
        if isinstance(instruction, Send):
            if isinstance(instruction.message, DeployTask):
                self.check_restore(instruction.message.descriptor)
            super().carry_out(instruction)
            return
        if isinstance(instruction, JobFinished) and not self.is_calm and self.rng.random() < 0.1:
            # Between the end of a job and the note of it.
            self.dying[JOB_MANAGER] = self.rng.randint(0, 4)
        calls = self._call_of(instruction)
        if calls is None:
            super().carry_out(instruction)
            return
        self.say(f"JobManager: {told(instruction)}")
        is_of_store = isinstance(instruction, StoreJob | RemoveJob)
        is_slow = isinstance(instruction, StoreCheckpoint)
        self.beside(calls, self._disk_delay_ms() if is_slow else 0, is_of_store)

    def _call_of(self, instruction: JobManagerInstruction) -> Callable[[], JobManagerEvent | None] | None:
        """What a thread does for it."""
        match instruction:
            case StoreJob(job):
                return lambda: self.store_job(job)
            case RemoveJob():
                return lambda: self.remove_job(instruction)
            case CommitSinks(job_id, checkpoint_id):
                self.output.on_instructed(job_id, checkpoint_id)
                return lambda: self.commit(instruction)
            case AbortSinks(job_id):
                assert job_id not in self.aborts, f"{job_id} is aborted twice"
                self.aborts.add(job_id)
                return lambda: self.abort(instruction)
            case StoreCheckpoint():
                return lambda: self.store_checkpoint(instruction)
            case DiscardCheckpoint() | RemoveAborted() | RemoveCheckpoints():
                return lambda: self.remove_checkpoint(instruction)
        return None

    def store_job(self, job: JobGraph) -> JobManagerEvent:
        if not self.is_calm and self.rng.random() < 0.05:
            self.say(f"{job.job_id} cannot be stored")
            return JobStoreFailed(job.job_id, DISK_FULL)
        self.server.put(job)
        return JobStored(job.job_id)

    def remove_job(self, instruction: RemoveJob) -> None:
        job_id = instruction.job_id
        self.server.remove(instruction)
        assert not self.server.keeps(job_id)
        self._go_on_from_savepoint(instruction)
        for removal in instruction.removals:
            self.carry_out(removal)

    def _go_on_from_savepoint(self, instruction: RemoveJob) -> None:
        """A job that has stopped with a savepoint goes on as another one, at another parallelism if its rows stay alike."""
        job, ended = instruction.ended.job_graph, instruction.ended
        stops = self.output.savepoint_at_end(job.job_id)
        path = next((r.path for r in ended.savepoints if r.path.startswith(SAVEPOINTS)), "")
        if ended.details.status is not JobStatus.FINISHED or not stops or not path:
            return
        recovery = {
            "execution.state-recovery.path": path,
            "execution.state-recovery.claim-mode": self.rng.choice(["NO_CLAIM", "CLAIM"]),
        }
        follower = replace(job, job_id=f"{job.job_id}b", config=job.config | recovery)
        if _may_be_wider(job):
            follower = self._at_another_parallelism(follower)
        self.output.follows(follower.job_id, job.job_id)
        self.jobs.append(follower)
        self.after(self.rng.randint(100, 3000), lambda: self.submit(follower))

    def commit(self, instruction: CommitSinks) -> JobManagerEvent:
        job_id, checkpoint_id = instruction.job_id, instruction.checkpoint_id
        try:
            self.server.committer.commit(job_id, checkpoint_id, instruction.commits, instruction.is_last)
        except SqlStreamError as error:
            return SinksCommitFailed(job_id, checkpoint_id, ErrorInfo.of(error))
        return SinksCommitted(job_id, checkpoint_id)

    def abort(self, instruction: AbortSinks) -> JobManagerEvent:
        self.server.mark_ending(instruction)
        self.server.committer.abort(instruction.job_id, instruction.commits)
        return SinksAborted(instruction.job_id)

    def store_checkpoint(self, instruction: StoreCheckpoint) -> JobManagerEvent:
        job_id, manifest = instruction.job_id, instruction.manifest
        if not self.may_lie:
            job = self.output.jobs[job_id]
            check_state(job, manifest, self.reading, instruction.directory)
            if is_timed(job):
                self.event_time.add_manifest(job, manifest, self.reading, instruction.directory)
        else:
            self.event_time.forget(manifest)
        self.output.add_manifest(manifest)
        try:
            path = self.server.checkpoints.store(instruction.directory, manifest)
        except SqlStreamError as error:
            self.say(f"checkpoint {manifest.checkpoint_id} of {job_id} cannot be stored: {error.message}")
            return CheckpointStoreFailed(job_id, manifest.checkpoint_id, ErrorInfo.of(error))
        self.say(f"checkpoint {manifest.checkpoint_id} of {job_id} is complete")
        return CheckpointStored(job_id, manifest.checkpoint_id, path)

    def remove_checkpoint(self, removal: DiscardCheckpoint | RemoveAborted | RemoveCheckpoints) -> None:
        store = self.server.checkpoints
        match removal:
            case DiscardCheckpoint(_, directory, manifest, still_needed, config):
                store.discard(directory, manifest, still_needed, config)
            case RemoveAborted(_, directory, checkpoint_id, config):
                store.remove_aborted(directory, checkpoint_id, config)
            case RemoveCheckpoints(_, directory, config):
                store.remove_all(directory, config)

    # --- what has to hold

    @property
    def may_lie(self) -> bool:
        """Whether the disk may not have what it has reported to have."""
        return self.lies and self.has_lost_power

    def report(self, process: Process, change: TaskStateChanged) -> None:
        if not process.is_alive:
            return
        if change.state is ExecutionState.RUNNING:
            self.check_loaded(process.running[change.execution_id])
        is_damaged = change.error is not None and change.error.reason is FailureReason.CHECKPOINT_CORRUPT
        # What a JobManager has started that is gone may look for files that another one has removed.
        if is_damaged and process.life == self.life:
            assert self.may_lie, f"{change.execution_id}: {change.error}"
        super().report(process, change)

    def check_loaded(self, task: SimulatedTask) -> None:
        restore, job_id = task.descriptor.restore, task.descriptor.job_id
        if restore is not None and not restore.is_finished:
            job, manifest = self.output.jobs[job_id], self.output.manifest(job_id, restore.checkpoint_id)
            check_restored(job, manifest, task.chain)
            if is_timed(job):
                self.event_time.on_running(task, manifest)

    def step_task(self, process: Process, task: SimulatedTask) -> None:
        super().step_task(process, task)
        job = self.output.jobs[task.descriptor.job_id]
        if is_timed(job):
            self.event_time.look(job, task)

    def check_restore(self, descriptor: TaskDeploymentDescriptor) -> None:
        """A task goes on from a checkpoint that is there, and what sinks have begun to commit is not behind it."""
        job_id, restore = descriptor.job_id, descriptor.restore
        begun = self.output.newest_begun(job_id)
        if restore is None:
            assert not begun, f"{descriptor.execution_id} begins behind a commit of {begun}"
            if descriptor.attempt:
                self.say(f"{descriptor.execution_id} goes on from its beginning")
            return
        assert restore.checkpoint_id >= begun, f"{descriptor.execution_id} goes back behind a commit"
        self.say(
            f"{descriptor.execution_id} goes on from checkpoint {restore.checkpoint_id}"
            f"{' as finished' if restore.is_finished else ''}"
        )

    def whole_output(self, job: JobGraph) -> dict[Row, int]:
        return self.output.whole(job)

    def check_commits(self, job: JobGraph, end: JobFinished, commits: int, rows: dict[Row, int]) -> None:
        assert end.status is not JobStatus.SUSPENDED
        self.output.check(job.job_id)

    def _check_cause(self, job_id: str, end: JobFinished) -> None:
        assert end.error is not None
        if end.error.code in ("SS6210", "SS6211"):
            assert self.may_lie, f"{job_id}: {end.error.message}"
            return
        if self.is_rush and end.error.reason is FailureReason.NO_RESOURCES:
            # The job before it has started again many times.
            return
        super()._check_cause(job_id, end)

    def is_quiet(self) -> bool:
        return not self.store_calls and super().is_quiet()


def _may_be_wider(job: JobGraph) -> bool:
    """Whether its rows are the same at another parallelism."""
    return all(edge.exchange.kind is not ExchangeKind.BROADCAST for edge in job.edges)

"""Jobs with checkpoints and keyed state on a cluster whose processes die between any two instructions, the JobManager too."""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Any

from msgspec.structs import replace
from simulated_cluster import DISK_FULL, JOB_MANAGER, RUSH_JOBS, Cluster, Process
from simulated_jobs import random_job
from simulated_story import told
from simulated_tasks import ASSIGNED, Row, SimulatedTask
from simulation.committed_output import CommittedOutput
from simulation.consistent_cuts import check_restored, check_state
from simulation.simulated_committer import SimulatedCommitter
from simulation.simulated_disk import Died, DurableFiles
from simulation.simulated_disk import Disk as CheckpointDisk
from simulation.simulated_server import CHECKPOINTS, SAVEPOINTS, SimulatedServer, Surroundings

from runtime.jobmanager.events import (
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
    LoadedCheckpoint,
    RemoveAborted,
    RemoveCheckpoints,
    RemoveJob,
    SavepointRequested,
    Send,
    SinksAborted,
    SinksCommitFailed,
    SinksCommitted,
    StoreCheckpoint,
    StoreJob,
    SubmitRequested,
)
from runtime.jobmanager.job_manager import JobManager
from runtime.jobmanager.job_master_config import JobMasterConfig
from runtime.taskmanager.events import TaskStateChanged
from sqlstream.errors import ErrorInfo, FailureReason, SqlStreamError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.rpc import DeployTask, TaskDeploymentDescriptor
from sqlstream.spi.committable import LAST_CHECKPOINT_ID
from sqlstream.spi.files import Files

RESTARTS_MAX = 40
LIES = 0.3
"""The share of syncs of state that a lying disk does not carry out."""
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
    "which is aborted",
    "which is subsumed",
)
"""What the story tells of each thing that has to happen."""
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None


class Restarts:
    """Restarts what a failure has hit, many times; a cluster without slots is waited for twice."""

    def __init__(self) -> None:
        self.failures: Counter[bool] = Counter()

    def restart_after_ms(self, failure: ErrorInfo, now_ms: int) -> int | None:
        has_no_slots = failure.reason is FailureReason.NO_RESOURCES
        self.failures[has_no_slots] += 1
        return 300 if self.failures[has_no_slots] < (3 if has_no_slots else RESTARTS_MAX) else None


class ReliableCluster(Cluster):
    """All jobs take checkpoints; most count rows by key. A process that is `dying` ends after so many further steps: an
    instruction, or a call of the disk. Use it as a context: its jobs are kept in a directory of the host.

    What has to hold: a completed checkpoint has the state behind the rows that its sources have read, a task that goes on from
    it has loaded that state, and what is visible behind each commit are the results of those rows."""

    def __init__(self, seed: int) -> None:
        fate = random.Random(seed + 5)
        self.lies = seed % 4 == 1
        self.state_disk = CheckpointDisk(fate, LIES if self.lies else 0)
        self.is_disk_slow = False
        self.dying: dict[str, int] = {}
        self.has_lost_power = False
        self.cuts_power = False
        self.store_busy_until_ms = 0
        self.store_calls = 0
        self._directory = tempfile.TemporaryDirectory(prefix="sqlstream-simulation-", dir=MEMORY)
        super().__init__(seed)
        self.output = CommittedOutput(self.disk)
        self.server = self._make_server()
        Surroundings.clock = lambda: self.now_ms
        Surroundings.files = lambda: self.server.files
        # What nobody can kill.
        self.reading = DurableFiles({"/": self.state_disk}, lambda: None)

    def __enter__(self) -> ReliableCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._directory.cleanup()

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
        return [random_job(rng, n, counts=rng.random() < 0.7) for n in range(rng.randint(1, RUSH_JOBS))]

    def settings(self, job: JobGraph) -> JobGraph:
        rng = self.rng
        prefix = "execution.checkpointing."
        is_broadcast = any(e.exchange.kind is ExchangeKind.BROADCAST for e in job.edges)
        config = {
            "interval": f"{rng.choice([100, 500, 2000])} ms",
            "min-pause": f"{rng.choice([0, 0, 300])} ms",
            "timeout": f"{rng.choice([1500, 6000])} ms",
            "tolerable-failed-checkpoints": str(rng.choice([0, 1, 5])),
            "num-retained": str(rng.randint(1, 3)),
            "max-concurrent-checkpoints": str(rng.choice([1, 1, 2, 4])),
            "unaligned.enabled": str(not is_broadcast and rng.random() < 0.25).lower(),
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
            directory = f"{SAVEPOINTS}/{job_id}"
            self.tell_job_manager(SavepointRequested(job_id, "t1", kind, directory, is_drain))

    def fill_disk(self, is_full: bool) -> None:
        self.say(f"the disk of checkpoints {'is full' if is_full else 'has room'}")
        self.state_disk.is_full = is_full

    def slow_disk(self, is_slow: bool) -> None:
        self.say(f"the disk of checkpoints is {'slow' if is_slow else 'fast'}")
        self.is_disk_slow = is_slow

    def end_faults(self) -> None:
        super().end_faults()
        self.fill_disk(False)
        self.slow_disk(False)

    def submit(self, job: JobGraph) -> None:
        """Who submits a job tries it again while nobody answers."""
        if not self.is_up:
            self.after(500, lambda: self.submit(job))
            return
        self.output.jobs[job.job_id] = job
        restored = self.server.restored(job, is_recovered=False)
        if not restored:
            super().submit(job)
            return
        self.say(f"submit {job.job_id}, which goes on from {restored[0].path}")
        self.job_manager.dispatcher.check_submission(job, restored)
        self.tell_job_manager(SubmitRequested(job, restored))

    # --- how processes die

    def doom_job_manager(self) -> None:
        self.cuts_power = self.rng.random() < 0.3
        self.dying[JOB_MANAGER] = self.rng.randint(0, 40)

    def kill_one(self, number: int) -> None:
        process = self.any_process()
        if process is None or self.rng.random() < 0.4:
            super().kill_one(number)
            return
        self.dying[process.address] = self.rng.randint(0, 12)
        if self.bounds is None:
            self.after(self.rng.randint(100, 5000), lambda: self.start_one(10 + number))

    def goes_on(self, process: Process) -> bool:
        if process.is_alive and self._is_last_step(process.address):
            self.kill(process)
        return process.is_alive

    def job_manager_goes_on(self) -> bool:
        if self._is_last_step(JOB_MANAGER):
            self.crash()
        return self.is_up

    def _is_last_step(self, address: str) -> bool:
        if address not in self.dying:
            return False
        self.dying[address] -= 1
        if self.dying[address] >= 0:
            return False
        del self.dying[address]
        return True

    def crash(self) -> None:
        """The JobManager is gone at once, its TaskManagers are soon."""
        power = self.cuts_power
        self.say("the power fails: all processes die" if power else "the JobManager dies")
        self.is_up = False
        self.life += 1
        self.has_changed = self.has_lost_tasks = True
        self.dying.pop(JOB_MANAGER, None)
        self.provider.is_gone = True
        for process in [p for p in self.processes.values() if p.is_alive]:
            if power:
                self.kill(process)
            else:
                self.after(self.rng.randint(0, 2500), lambda p=process: p.is_alive and self.kill(p))
        if power:
            self.has_lost_power = True
            self.state_disk.cut_power()
        self.aborts.clear()
        self.output.on_crash()
        self.stopped_enumerators.clear()
        self.disk.reported.clear()
        self.channels = {}
        self.store_calls = 0
        for job_id in [job_id for job_id in self.finished if self.server.keeps(job_id)]:
            self.say(f"nobody knows that {job_id} had ended")
            del self.finished[job_id]
        self.after(self.rng.randint(100, 4000), self.start_again)

    def start_again(self) -> None:
        """As a server does: what can be ended is, the other jobs run again."""
        self.say("the JobManager starts again")
        self.cuts_power = False
        if self.rng.random() < 0.2:
            self.doom_job_manager()
        self.server = self._make_server()
        try:
            self.server.recover(self._begin_life, self._submit_again)
        except Died:
            return
        if not self.is_up:
            return
        for ended in self.server.ended():
            details = ended.details
            if details.job_id not in self.finished:
                self.say(f"{details.job_id} is {details.status.value}, as the JobManager finds")
                end = JobFinished(details.job_id, details.status, details.error)
                self.finished[details.job_id] = end
        for job_id, job in list(self.output.jobs.items()):
            if self.is_up and not (
                self.is_known(job_id) or job_id in self.finished or job_id in self.refused
            ):
                self.submit(job)

    def _make_server(self) -> SimulatedServer:
        life = self.life

        def step() -> None:
            if self.life != life or not self._lives_on():
                raise Died

        files = DurableFiles({"/": self.state_disk}, step)
        committer = SimulatedCommitter(self.disk, self.output, self.rng, step, self.say)
        return SimulatedServer(self._directory.name, files, committer, lambda: self.now_ms)

    def _lives_on(self) -> bool:
        """As `job_manager_goes_on`, also while it starts."""
        if self._is_last_step(JOB_MANAGER):
            self.crash()
            return False
        return True

    def _begin_life(self) -> None:
        self.job_manager: JobManager = self.make_job_manager()
        before, self.provider = self.provider, self.make_provider()
        self.provider.is_faulty, self.provider.is_deadly = before.is_faulty, before.is_deadly
        self.provider.lost = before.lost
        self.is_up = True
        if self.bounds is None:
            for n in range(self.rng.randint(2, 4)):
                self.after(self.rng.randint(0, 500), lambda n=n: self.start_one(100 * self.life + n))
        self.tick_job_manager(self.life)

    def _submit_again(self, job: JobGraph, restored: tuple[LoadedCheckpoint, ...]) -> None:
        if not self.is_up:
            return
        self.say(f"{job.job_id} runs again, from {restored[0].path if restored else 'its beginning'}")
        self.job_manager.dispatcher.check_submission(job, restored)
        self.tell_job_manager(SubmitRequested(job, restored))

    def deliver(self, address: str, message: Any) -> None:
        """A JobManager does not take messages of TaskManagers that another one has started."""
        if address == JOB_MANAGER:
            resource_id, _, _ = message.task_manager_id.rpartition("#")
            process = self.processes.get(f"{resource_id}:1")
            if not self.is_up or (process is not None and process.life != self.life):
                return
        super().deliver(address, message)

    # --- what threads do

    def beside(
        self, call: Callable[[], JobManagerEvent | None], delay_ms: int = 0, is_of_store: bool = False
    ) -> None:
        """A thread of the JobManager's makes a call, and reports what comes of it, now and then twice."""
        life, failures = self.life, (JobStoreFailed, SinksCommitFailed, CheckpointStoreFailed)

        def act() -> None:
            if self.life != life:
                return
            self.store_calls -= is_of_store
            try:
                event = call()
            except Died:
                return
            if isinstance(event, failures):
                # Said once: what has failed may be under way again.
                self.tell_once(event)
            elif event is not None:
                self.later(event)

        due_ms = self.now_ms + (delay_ms or self.rng.randint(1, 200))
        if is_of_store:
            # One thread, in order.
            due_ms = self.store_busy_until_ms = max(due_ms, self.store_busy_until_ms)
            self.store_calls += 1
        self.at(due_ms, act)

    def write(self, process: Process, call: Callable[[], None]) -> None:
        def act() -> None:
            if process.is_stopped:
                process.waiting.append(act)
            elif process.is_alive:
                try:
                    call()
                except Died:
                    return

        self.after(self._disk_delay_ms(), act)

    def _disk_delay_ms(self) -> int:
        return self.rng.randint(500, 7000) if self.is_disk_slow else self.rng.randint(1, 400)

    def state_files(self, process: Process, directory: str) -> Files:
        def step() -> None:
            if not self.goes_on(process):
                raise Died

        return DurableFiles({"/": self.state_disk}, step)

    # --- what the JobManager instructs

    def carry_out(self, instruction: JobManagerInstruction) -> None:
        if isinstance(instruction, Send):
            if isinstance(instruction.message, DeployTask):
                self.check_restore(instruction.message.descriptor)
            super().carry_out(instruction)
            return
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
        stops = self.output.newest(job.job_id) not in (0, LAST_CHECKPOINT_ID)
        path = next((reply.path for reply in ended.savepoints if reply.path), "")
        if ended.details.status is not JobStatus.FINISHED or not stops or not path:
            return
        follower = replace(
            job, job_id=f"{job.job_id}b", config=job.config | {"execution.state-recovery.path": path}
        )
        if all(edge.exchange.kind is not ExchangeKind.BROADCAST for edge in job.edges):
            widths = (self.rng.randint(1, 3) for _ in job.vertices)
            vertices = zip(job.vertices, widths, strict=True)
            follower = replace(follower, vertices=tuple(replace(v, parallelism=n) for v, n in vertices))
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
        self.server.committer.abort(instruction.job_id, instruction.commits)
        return SinksAborted(instruction.job_id)

    def store_checkpoint(self, instruction: StoreCheckpoint) -> JobManagerEvent:
        job_id, manifest = instruction.job_id, instruction.manifest
        if not self.may_lie:
            check_state(self.output.jobs[job_id], manifest, self.reading, instruction.directory)
        self.output.manifests[job_id, manifest.checkpoint_id] = manifest
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
        if change.error is not None and change.error.reason is FailureReason.CHECKPOINT_CORRUPT:
            assert self.may_lie, f"{change.execution_id}: {change.error.message}"
        super().report(process, change)

    def check_loaded(self, task: SimulatedTask) -> None:
        restore, job_id = task.descriptor.restore, task.descriptor.job_id
        if restore is not None and not restore.is_finished:
            manifest = self.output.manifest(job_id, restore.checkpoint_id)
            check_restored(self.output.jobs[job_id], manifest, task.chain)

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

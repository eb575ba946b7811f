"""A simulated cluster whose processes die between any two instructions or calls of the disk, the JobManager too, and recover."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable
from types import TracebackType
from typing import Any

from simulated_cluster import JOB_MANAGER, Cluster, Process
from simulation.committed_output import CommittedOutput
from simulation.simulated_committer import SimulatedCommitter
from simulation.simulated_disk import Died, DurableFiles
from simulation.simulated_disk import Disk as CheckpointDisk
from simulation.simulated_server import SimulatedServer, Surroundings

from sqlstream.graph.job_graph import JobGraph
from sqlstream.runtime.jobmanager.events import (
    CheckpointStoreFailed,
    JobFinished,
    JobManagerEvent,
    JobStoreFailed,
    LoadedCheckpoint,
    SinksCommitFailed,
    SubmitRequested,
)
from sqlstream.runtime.jobmanager.job_manager import JobManager
from sqlstream.spi.files import Files

LIES = 0.3
"""The share of syncs of state that a lying disk does not carry out."""
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None


class MortalCluster(Cluster):
    """A process that is `dying` ends after so many further steps: an instruction, or a call of the disk. The next JobManager
    recovers as a server does. Use it as a context: its jobs are kept in a directory of the host.

    State: that of a cluster, the disk of checkpoints, what sinks have committed, and which calls of threads are under way."""

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

    def __enter__(self) -> MortalCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._directory.cleanup()

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
            life = self.life
            for n in range(self.rng.randint(2, 4)):
                # One that has not started when its JobManager dies never does: the next life gives its name to another.
                self.after(
                    self.rng.randint(0, 500), lambda n=n: self.life == life and self.start_one(100 * life + n)
                )
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

"""A whole cluster of the real control plane and real tasks, under a seeded clock, network and fate."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from simulated_jobs import random_job, whole_cluster_job
from simulated_network import NetworkFaults, SimulatedNetwork
from simulated_provider import FULL, KILLED, SimulatedProvider
from simulated_story import told
from simulated_tasks import (
    ASSIGNED,
    SOURCE_MAX_MS,
    Disk,
    Row,
    SimulatedChannel,
    SimulatedExchange,
    SimulatedTask,
    all_rows,
)

from sqlstream.errors import ErrorInfo, FailureReason, JobError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.parallelism import rescaled_job_graph
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.rpc import (
    AcknowledgeCheckpoint,
    RequestSlot,
    TaskDeploymentDescriptor,
    TaskMetrics,
    TaskStateUpdate,
)
from sqlstream.runtime.jobmanager.adaptive_scheduling import adaptive_settings
from sqlstream.runtime.jobmanager.events import (
    AbortSinks,
    CancelRequested,
    CommitSinks,
    DiscoveryFailed,
    JobFinished,
    JobManagerEvent,
    JobManagerInstruction,
    JobStored,
    JobStoreFailed,
    MessageReceived,
    MetricsRequested,
    Noted,
    ReleaseTaskManager,
    RemoveJob,
    RequestTaskManagers,
    Send,
    SinkCommit,
    SinksAborted,
    SinksCommitFailed,
    SinksCommitted,
    SplitsDiscovered,
    StartEnumerator,
    StopEnumerators,
    StoreJob,
    SubmitRequested,
    TaskManagerExited,
    Tick,
)
from sqlstream.runtime.jobmanager.job_manager import JobManager, JobManagerConfig
from sqlstream.runtime.jobmanager.job_master_config import JobMasterConfig
from sqlstream.runtime.jobmanager.resources.provisioning import (
    REPLACEMENTS_MAX,
    ProvisioningConfig,
    SlotState,
)
from sqlstream.runtime.jobmanager.resources.resource_manager import ResourceManagerConfig
from sqlstream.runtime.jobmanager.resources.slot_pool import slots_needed
from sqlstream.runtime.jobmanager.restart_strategy import NoRestart
from sqlstream.runtime.taskmanager import events as task_executor_events
from sqlstream.runtime.taskmanager.events import (
    AbandonTask,
    AlignSource,
    CollectMetrics,
    GiveSplits,
    LimitTask,
    SendToJobManager,
    StartTask,
    StopTask,
    TaskStateChanged,
    TellOfCheckpoint,
    Terminate,
)
from sqlstream.runtime.taskmanager.registration import TaskExecutorConfig
from sqlstream.runtime.taskmanager.task_executor import TaskExecutor
from sqlstream.spi.connector import Discovery, SourceSplit
from sqlstream.spi.files import Files

JOB_MANAGER = "jobmanager:6123"
TICK_MS = 200
FAULTS_END_MS = 25_000
UNREADABLE = ErrorInfo(code="SS5002", message="no such table", reason=FailureReason.OPERATOR_FAILED)
RUSH_JOBS = 3
GIVE_UP_MS = FAULTS_END_MS + RUSH_JOBS * SOURCE_MAX_MS + 35_000
"""Jobs that wait for each other's slots read one after the other; the rest is for their recoveries and ends."""
FAULTS = (
    "FAILED: cannot be opened",
    "FAILED: no such row",
    "FAILED: cannot be closed",
    "does not react",
    "dies with",
    "stands still",
    "ms off",
    "loses its connection",
    "hears nothing",
    "waits for the slots of another job",
    "is refused",
    "never starts",
    "starts slowly",
    "starts too slowly",
    "starts after its release",
    "dies early",
    "finds no room",
    "cannot be stored",
    "cannot be committed",
    "cannot be looked at",
)
"""What the story tells of each fault."""
DISK_FULL = ErrorInfo(code="SS5001", message="disk full", reason=FailureReason.EXTERNAL)


@dataclass
class Process:
    """A TaskManager process: the real TaskExecutor, and real tasks. `waiting` is what happens to it while it is stopped
    (SIGSTOP, a swapping machine): all of it comes at once when it goes on. `life`: how many JobManagers there were before the
    one for which it was started."""

    executor: TaskExecutor
    address: str
    exchange: SimulatedExchange
    life: int = 0
    is_alive: bool = True
    is_stopped: bool = False
    waiting: list[Callable[[], None]] = field(default_factory=list)
    running: dict[str, SimulatedTask] = field(default_factory=dict)


class Restarts:
    """Each failure but the third restarts what it has hit."""

    def __init__(self) -> None:
        self.failures = 0

    def restart_after_ms(self, failure: ErrorInfo, now_ms: int) -> int | None:
        self.failures += 1
        return 700 if self.failures < 3 else None


def random_bounds(rng: random.Random) -> ProvisioningConfig:
    slots = rng.randint(1, 3)
    return ProvisioningConfig(
        "child",
        slots,
        slots_max=slots * rng.randint(2, 4),
        task_managers_min=rng.randint(0, 2),
        idle_timeout_ms=rng.randint(500, 6000),
        registration_timeout_ms=10_000,
    )


class Cluster:
    """One JobManager, some TaskManagers, a fate. `step` lets the next thing happen, then checks."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        rng = self.rng
        is_calm = seed % 10 == 0
        self.has_restarts = seed % 3 == 0
        self.network = SimulatedNetwork(
            random.Random(seed + 1),
            NetworkFaults()
            if is_calm
            else NetworkFaults(rng.uniform(0, 0.3), rng.uniform(0, 0.3), rng.uniform(0, 0.1)),
        )
        self.bounds = None if seed % 4 == 3 else random_bounds(rng)
        # The JobManagers before this one, and whether this one is there.
        self.life = 0
        self.is_up = True
        self.job_manager = self.make_job_manager()
        self.is_calm = is_calm
        self.provider_fate = random.Random(seed + 3)
        self.provider = self.make_provider()
        self.provider.is_faulty = not is_calm
        self.provider.is_deadly = seed % 20 == 5
        self.leases: dict[str, RequestSlot] = {}
        self.now_ms = 0
        # Steady clocks begin anywhere: no machine may compare its time with another's.
        self.clocks = random.Random(seed + 2)
        self.origins_ms: dict[str, int] = {}
        self.clock_steps_ms: dict[str, int] = {}
        self.story: list[str] = []
        # Whether a machine has handled an event since the last check.
        self.has_changed = False
        self.competition = "", 0
        self.agenda: list[tuple[int, int, Callable[[], None]]] = []
        self.planned = 0
        self.processes: dict[str, Process] = {}
        self.channels: dict[tuple[str, str, int], SimulatedChannel] = {}
        self.disk = Disk(random.Random(seed + 4), lambda: self.now_ms)
        self.disk.is_calm = is_calm
        self.started: set[tuple[int, str]] = set()
        self.broken_jobs: set[str] = set()
        self.cancelled_jobs: set[str] = set()
        self.refused: set[str] = set()
        self.lost_processes = 0
        self.has_lost_tasks = False
        self.commits: dict[str, int] = {}
        self.undiscovered: dict[tuple[str, str, int, int], list[int]] = {}
        self.stopped_enumerators: set[str] = set()
        self.failed_commits: Counter[str] = Counter()
        self.half_committed: set[str] = set()
        self.aborts: set[str] = set()
        self.finished: dict[str, JobFinished] = {}
        # Several jobs come at once, and each needs the whole cluster.
        self.is_rush = self.bounds is not None and self.bounds.slots_max <= 6 and rng.random() < 0.4
        self.jobs = (
            [whole_cluster_job(rng, n, self.bounds.slots_max) for n in range(RUSH_JOBS)]
            if self.is_rush and self.bounds is not None
            else self.some_jobs()
        )
        self.jobs = [self.settings(job) for job in self.jobs]
        self._plan()

    def make_job_manager(self) -> JobManager:
        bounds = self.bounds
        if bounds is not None and self.life:
            bounds = replace(bounds, resource_id_prefix=f"{bounds.resource_id_prefix}{self.life}")
        resources = ResourceManagerConfig(
            heartbeat_interval_ms=1000,
            heartbeat_timeout_ms=4000,
            resource_manager_id=f"rm{self.life}",
            provisioning=bounds,
        )
        slots_max = bounds.slots_max if bounds is not None else None
        return JobManager(JobManagerConfig(resources, self.job_master_config(), slots_max=slots_max))

    def make_provider(self) -> SimulatedProvider:
        life = self.life
        return SimulatedProvider(
            self.provider_fate,
            self.after,
            lambda resource_id: self.start_process(resource_id, self.bounds.slots_per_task_manager),
            self.kill_named,
            lambda resource_id, error: self.tell_life(life, TaskManagerExited(resource_id, error)),
            self.say,
        )

    def some_jobs(self) -> list[JobGraph]:
        return [random_job(self.rng, n) for n in range(self.rng.randint(1, 6))]

    def job_master_config(self) -> JobMasterConfig:
        return JobMasterConfig(
            result_address=JOB_MANAGER,
            restart_strategy=Restarts if self.has_restarts else NoRestart,
            enumerates=lambda connector: connector == ASSIGNED,
        )

    def settings(self, job: JobGraph) -> JobGraph:
        """The job with the settings that it is submitted with."""
        return job

    def _plan(self) -> None:
        if self.bounds is None:
            for n in range(self.rng.randint(2, 4)):
                self.at(self.rng.randint(0, 500), lambda n=n: self.start_one(n))
        rush_ms = self.rng.randint(0, 3000)
        for job in self.jobs:
            submitted_ms = rush_ms if self.is_rush else self.rng.randint(0, 8000)
            self.at(submitted_ms, lambda job=job: self.submit(job))
            if not self.is_calm and self.rng.random() < 0.3:
                self.at(submitted_ms + self.rng.randint(0, 9000), lambda job=job: self.cancel(job.job_id))
        if not self.is_calm:
            self.at(FAULTS_END_MS, self.end_faults)
            if self.rng.random() < 0.3:
                self.at(self.rng.randint(0, 15_000), self.cancel_storm)
            for _ in range(self.rng.randint(0, 2)):
                self.at(self.rng.randint(1000, 15_000), self.stop_one)
            if self.rng.random() < 0.3:
                self.at(self.rng.randint(1000, 15_000), self.disconnect_one)
            for n in range(self.rng.randint(0, 2)):
                self.at(self.rng.randint(1000, 15_000), lambda n=n: self.kill_one(n))
            if self.rng.random() < 0.4:
                self.at(self.rng.randint(1000, 12_000), self.isolate_one)
            for _ in range(self.rng.randint(0, 2)):
                self.at(self.rng.randint(1000, 15_000), self.step_clock)
            if self.rng.random() < 0.2:
                full_ms = self.rng.randint(0, 10_000)
                self.at(full_ms, lambda: self.fill_provider(True))
                self.at(full_ms + self.rng.randint(500, 8000), lambda: self.fill_provider(False))
        self.at(0, self.tick_job_manager)

    # --- the clock

    def clock_ms(self, address: str) -> int:
        """What the steady clock of a process shows."""
        if address not in self.origins_ms:
            self.origins_ms[address] = self.clocks.choice([0, 10**9, 10**12])
        return self.now_ms + self.origins_ms[address]

    def at(self, ms: int, action: Callable[[], None]) -> None:
        self.planned += 1
        heapq.heappush(self.agenda, (ms, self.planned, action))

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.at(self.now_ms + delay_ms, action)

    def say(self, text: str) -> None:
        self.story.append(f"{self.now_ms / 1000:8.3f} s  {text}")

    def step(self) -> None:
        message_ms = self.network.next_ms()
        if message_ms is not None and message_ms <= self.agenda[0][0]:
            self.now_ms = self.network.now_ms = max(self.now_ms, message_ms)
            delivered = self.network.deliver()
            if delivered is not None:
                self.deliver(*delivered)
        else:
            ms, _, action = heapq.heappop(self.agenda)
            self.now_ms = self.network.now_ms = ms
            action()
        if self.has_changed:
            self.has_changed = False
            self.check()

    # --- the JobManager's shell

    def tick_job_manager(self, life: int = 0) -> None:
        if not self.is_up or self.life != life:
            return
        self.tell_job_manager(Tick())
        if not self.is_up:
            return
        self._note_competition()
        if self.rng.random() < 0.1:
            self.tell_job_manager(MetricsRequested(self.rng.choice(self.jobs).job_id))
        self.after(max(TICK_MS, self.job_manager.tick_after_ms()), lambda: self.tick_job_manager(life))

    def tell_job_manager(self, event: JobManagerEvent) -> None:
        """One that is not there hears nothing."""
        if not self.is_up:
            return
        self.has_changed = True
        for instruction in self.job_manager.handle(event, self.clock_ms(f"{JOB_MANAGER}.{self.life}")):
            if isinstance(instruction, Noted):
                # To die before a line of the log or behind it is the same.
                self.say(f"JobManager: {told(instruction)}")
                continue
            if not self.job_manager_goes_on():
                return
            self.carry_out(instruction)

    def tell_life(self, life: int, event: JobManagerEvent) -> None:
        """A thread or a child of one JobManager does not know another."""
        if self.life == life:
            self.tell_job_manager(event)

    def job_manager_goes_on(self) -> bool:
        """Whether it lives on to the next instruction."""
        return True

    def carry_out(self, instruction: JobManagerInstruction) -> None:
        if isinstance(instruction, Send):
            self._check_lease(instruction.message)
            self.network.send(instruction.address, instruction.message)
            return
        self.say(f"JobManager: {told(instruction)}")
        match instruction:
            case StoreJob(job):
                fails = not self.is_calm and self.rng.random() < 0.05
                if fails:
                    self.say(f"{job.job_id} cannot be stored")
                done = JobStoreFailed(job.job_id, DISK_FULL) if fails else JobStored(job.job_id)
                self.later(done)
            case CommitSinks(job_id, checkpoint_id, commits):
                self.commits[job_id] = self.commits.get(job_id, 0) + 1
                fails = not self.is_calm and self.rng.random() < 0.1
                if fails:
                    self.say(f"{job_id} cannot be committed")
                    self.failed_commits[job_id] += 1
                self.disk.commit(files_of(commits), fails)
                (self.half_committed.add if fails else self.half_committed.discard)(job_id)
                if fails:
                    # Said once: a commit that has failed may be under way again.
                    self.tell_once(SinksCommitFailed(job_id, checkpoint_id, DISK_FULL))
                else:
                    self.later(SinksCommitted(job_id, checkpoint_id))
            case AbortSinks(job_id, commits):
                assert commits
                assert job_id not in self.aborts, f"{job_id} is aborted twice"
                self.aborts.add(job_id)
                self.disk.abort(job_id, files_of(commits))
                self.later(SinksAborted(job_id))
            case JobFinished(job_id, _, _):
                assert job_id not in self.finished, f"{job_id} ended twice"
                self.finished[job_id] = instruction
            case ReleaseTaskManager(resource_id):
                self.provider.release(resource_id)
            case RequestTaskManagers(resource_ids):
                for resource_id in resource_ids:
                    self.provider.request(resource_id)
            case StartEnumerator():
                self.start_enumerator(instruction)
            case StopEnumerators(job_id):
                self.stopped_enumerators.add(job_id)
            case RemoveJob():
                for removal in instruction.removals:
                    self.carry_out(removal)

    def start_enumerator(self, source: StartEnumerator) -> None:
        """Looks several times, in vain now and then, and goes on where it was when it is started again in one run; another run
        goes on from the state that it is given."""
        key = (source.job_id, source.vertex_id)
        life = self.life
        begun = source.state["left"] if source.state else range(int(source.spec.options["parts"]))
        left = self.undiscovered.setdefault((*key, life, source.run), list(begun))
        is_on_demand = self.rng.random() < 0.5

        def look() -> None:
            if self.life != life or source.job_id in self.stopped_enumerators:
                return
            if not self.is_calm and self.rng.random() < 0.03:
                self.say(f"the table of {source.job_id} cannot be looked at")
                self.broken_jobs.add(source.job_id)
                self.tell_job_manager(DiscoveryFailed(*key, UNREADABLE, source.run))
                return
            found = [left.pop(0) for _ in range(self.rng.randint(0, len(left)))]
            splits = tuple(SourceSplit({"part": part}, self.rng.randint(0, 9)) for part in found)
            discovery = Discovery(splits, is_last=not left, is_on_demand=is_on_demand)
            self.tell_job_manager(SplitsDiscovered(*key, discovery, {"left": list(left)}, run=source.run))
            if left:
                self.after(self.rng.randint(1, 3000), look)

        self.after(self.rng.randint(1, 500), look)

    def later(self, event: JobManagerEvent) -> None:
        """What a thread of the JobManager's has to say, now and then twice."""
        for _ in range(1 if self.is_calm or self.rng.random() < 0.8 else 2):
            self.tell_once(event)

    def tell_once(self, event: JobManagerEvent) -> None:
        life = self.life
        self.after(self.rng.randint(1, 500), lambda: self.tell_life(life, event))

    def submit(self, job: JobGraph) -> None:
        self.say(f"submit {job.job_id} of {[v.parallelism for v in job.vertices]}")
        least = job if adaptive_settings(job) is None else rescaled_job_graph(job, 1)
        if self.bounds is not None and slots_needed(least) > self.bounds.slots_max:
            with pytest.raises(JobError, match="slots, the cluster has at most"):
                self.job_manager.dispatcher.check_submission(job)
            self.refused.add(job.job_id)
            return
        self.job_manager.dispatcher.check_submission(job)
        self.tell_job_manager(SubmitRequested(job))
        if self.rng.random() < 0.3:
            self.later(SubmitRequested(job))

    def cancel(self, job_id: str) -> None:
        self.say(f"cancel {job_id}")
        self.cancelled_jobs.add(job_id)
        self.tell_job_manager(CancelRequested(job_id))

    def cancel_storm(self) -> None:
        """Somebody presses the key again and again, for all jobs there are."""
        for _ in range(self.rng.randint(3, 10)):
            for job in self.jobs:
                if self.is_known(job.job_id):
                    self.after(self.rng.randint(0, 300), lambda job=job: self.cancel(job.job_id))

    def is_known(self, job_id: str) -> bool:
        dispatcher = self.job_manager.dispatcher
        return job_id in dispatcher.masters or job_id in dispatcher.archive

    # --- TaskManagers

    def start_one(self, number: int) -> None:
        self.start_process(f"tm{number}", self.rng.randint(1, 3))

    def start_process(self, resource_id: str, slots: int) -> None:
        address = f"{resource_id}:1"
        config = TaskExecutorConfig(resource_id, address, slots, cancellation_timeout_ms=8000)
        exchange = SimulatedExchange(self.channels, self.after, self.disk.fate, self.is_reachable)
        process = self.processes[address] = Process(TaskExecutor(config), address, exchange, self.life)
        self.say(f"{resource_id} starts with {slots} slots")
        self.tick_process(process)

    def tick_process(self, process: Process) -> None:
        if not process.is_alive:
            return
        if not process.is_stopped:
            self.tell_process(process, task_executor_events.Tick())
        self.after(max(TICK_MS, process.executor.tick_after_ms()), lambda: self.tick_process(process))

    def tell_process(self, process: Process, event: task_executor_events.TaskExecutorEvent) -> None:
        if not process.is_alive:
            return
        if process.is_stopped:
            process.waiting.append(lambda: self.tell_process(process, event))
            return
        self.has_changed = True
        for instruction in process.executor.handle(event, self.clock_ms(process.address)):
            if not self.goes_on(process):
                return
            match instruction:
                case SendToJobManager(message):
                    self.network.send(JOB_MANAGER, message)
                case StartTask(descriptor):
                    self.start_task(process, descriptor)
                case StopTask(execution_id):
                    self.stop_task(process, execution_id)
                case CollectMetrics():
                    metrics = tuple(TaskMetrics(e, {"numRecordsIn": self.now_ms}) for e in process.running)
                    self.tell_process(process, task_executor_events.MetricsCollected(metrics))
                case TellOfCheckpoint(message):
                    if message.execution_id in process.running:
                        process.running[message.execution_id].tell_of_checkpoint(message)
                case GiveSplits(execution_id, number, assigned):
                    if execution_id in process.running:
                        process.running[execution_id].give_splits(number, assigned)
                case AlignSource(execution_id, watermark_ms):
                    if execution_id in process.running:
                        process.running[execution_id].align(watermark_ms)
                case LimitTask():
                    # Its tasks have no rows to put in batches.
                    pass
                case AbandonTask(error):
                    self.say(error.message)
                case Terminate():
                    self.kill(process)

    def goes_on(self, process: Process) -> bool:
        """Whether it lives on to the next instruction."""
        return process.is_alive

    def kill_one(self, number: int) -> None:
        process = self.any_process()
        if process is None:
            return
        self.kill(process)
        if self.bounds is None:
            self.after(self.rng.randint(100, 5000), lambda: self.start_one(10 + number))

    def kill_named(self, resource_id: str) -> None:
        process = self.processes.get(f"{resource_id}:1")
        if process is not None and process.is_alive:
            self.kill(process)

    def kill(self, process: Process) -> None:
        self.say(f"{process.address} dies with {sorted(process.running)}")
        self.has_changed = True
        self.lost_processes += 1
        self.has_lost_tasks = self.has_lost_tasks or bool(process.executor.tasks)
        process.is_alive = False
        process.running.clear()
        process.exchange.end()
        for other in self.processes.values():
            if other.is_alive:
                other.exchange.peer_has_ended(process.address)
        resource_id = process.executor.config.resource_id
        if self.bounds is not None:
            self.provider.died(resource_id)
        elif self.rng.random() < 0.5:
            self.after(
                self.rng.randint(1, 300),
                lambda: self.tell_life(process.life, TaskManagerExited(resource_id, KILLED)),
            )

    def any_process(self) -> Process | None:
        alive = [p for p in self.processes.values() if p.is_alive]
        return self.rng.choice(alive) if alive else None

    def stop_one(self) -> None:
        """A process stands still, for less or longer than heartbeats may."""
        process = self.any_process()
        if process is None or process.is_stopped:
            return
        self.say(f"{process.address} stands still")
        process.is_stopped = True
        self.after(self.rng.randint(100, 9000), lambda: self.go_on(process))

    def step_clock(self) -> None:
        """Somebody sets the wall clock of a process, which its tasks read."""
        process = self.any_process()
        if process is not None:
            self.clock_steps_ms[process.address] = self.rng.randint(-10_000, 10_000)
            self.say(f"the clock of {process.address} is {self.clock_steps_ms[process.address]} ms off")

    def go_on(self, process: Process) -> None:
        self.say(f"{process.address} goes on")
        process.is_stopped = False
        waiting, process.waiting = process.waiting, []
        for happen in waiting:
            happen()

    def disconnect_one(self) -> None:
        process = self.any_process()
        if process is None:
            return
        self.say(f"{process.address} loses its connection")
        self.tell_process(process, task_executor_events.Disconnected())

    def isolate_one(self) -> None:
        """The network to one TaskManager (one way) goes away for longer than heartbeats may."""
        process = self.any_process()
        if process is None:
            return
        address = process.address
        self.say(f"{address} hears nothing")
        self.network.cut_off(address)
        self.after(self.rng.randint(1000, 9000), lambda: self.network.reconnect(address))

    def fill_provider(self, is_full: bool) -> None:
        """The provider has no room for another process, or has it again."""
        self.say(f"the provider {'is full' if is_full else 'has room'}")
        self.provider.is_full = is_full

    def end_faults(self) -> None:
        self.say("the network heals")
        self.network.faults = NetworkFaults()
        self.provider.is_faulty = self.provider.is_deadly = self.provider.is_full = False
        if self.bounds is None and self.any_process() is None:
            self.start_one(20)

    def deliver(self, address: str, message: object) -> None:
        if address == JOB_MANAGER:
            if isinstance(message, TaskStateUpdate | AcknowledgeCheckpoint):
                files = [c.content["file"] for sink in message.committables for c in sink.committables]
                self.disk.reported.update((message.job_id, file) for file in files)
            self.tell_job_manager(MessageReceived(message))  # type: ignore[arg-type]
            return
        process = self.processes.get(address)
        if process is not None:
            self.tell_process(process, task_executor_events.MessageReceived(message))  # type: ignore[arg-type]

    # --- tasks

    def state_files(self, process: Process, directory: str) -> Files:
        raise AssertionError(f"no job here takes checkpoints, but one opens {directory}")

    def write(self, process: Process, call: Callable[[], None]) -> None:
        """A thread of the process makes this call."""
        raise AssertionError("no job here takes checkpoints")

    def is_reachable(self, address: str) -> bool:
        return address in self.processes and self.processes[address].is_alive

    def start_task(self, process: Process, descriptor: TaskDeploymentDescriptor) -> None:
        execution_id = descriptor.execution_id
        assert (process.life, execution_id) not in self.started, f"{execution_id} started twice"
        self.started.add((process.life, execution_id))
        self.say(f"{process.address} starts {execution_id}")
        task = process.running[execution_id] = SimulatedTask(
            descriptor,
            process.exchange,
            self.disk,
            lambda: self.clock_ms(process.address) + self.clock_steps_ms.get(process.address, 0),
            self.after,
            lambda change: self.report(process, change),
            request_splits=lambda request: self.tell_process(process, request),
            report_checkpoint=lambda report: self.tell_process(process, report),
            state_files=lambda directory, config: self.state_files(process, directory),
            write=lambda call: self.write(process, call),
        )
        self.after(self.rng.randint(1, 300), lambda: self.step_task(process, task))

    def step_task(self, process: Process, task: SimulatedTask) -> None:
        if not process.is_alive or task.has_ended:
            return
        if process.is_stopped:
            process.waiting.append(lambda: self.step_task(process, task))
            return
        task.step()
        self.after(self.rng.randint(1, 200), lambda: self.step_task(process, task))

    def stop_task(self, process: Process, execution_id: str) -> None:
        task = process.running.get(execution_id)
        if task is None:
            # It has ended, as its TaskManager is about to be told.
            return
        if not task.is_cancelled and self.rng.random() < 0.03:
            self.say(f"{execution_id} does not react")
            task.is_stuck = True
        task.cancel()

    def report(self, process: Process, change: TaskStateChanged) -> None:
        cause = f": {change.error.message}" if change.error else ""
        self.say(f"{process.address} {change.execution_id} {change.state.value}{cause}")
        if change.state.is_terminal:
            ended = process.running.pop(change.execution_id)
            if change.state is ExecutionState.FAILED:
                self.broken_jobs.add(ended.descriptor.job_id)
        self.tell_process(process, change)

    # --- what has to hold

    def check(self) -> None:
        """After every step."""
        if not self.is_up:
            return
        seen: set[tuple[str, str, int]] = set()
        registered = self.job_manager.resource_manager.task_managers
        for process in self.processes.values():
            # A TaskManager that was cut off may still run what another one has been given since, and what has ended.
            if not process.running or (tm := process.executor.task_manager_id) not in registered:
                continue
            for d in (task.descriptor for task in process.running.values()):
                if d.execution_id in process.executor.abandoned:
                    # It does nothing once it goes on but end.
                    continue
                key = (d.job_id, d.vertex.id, d.subtask)
                assert key not in seen, f"two attempts of {key} run"
                seen.add(key)
                assert d.job_id not in self.finished, f"{d.execution_id} outlives its job on {tm}"
        self._check_slots()
        if self.bounds is not None:
            assert len(self.provider.unended) <= self.bounds.task_managers_max, "too many TaskManagers"
            resources = {t.resource_id for t in registered.values()}
            assert not resources & self.provider.released, "a released TaskManager is in use"
        for master in self.job_manager.dispatcher.masters.values():
            for e in master.graph.executions():
                if e.task_manager_id and e.task_manager_id not in registered:
                    assert e.state.is_terminal, f"{e.execution_id} is {e.state.value} on a lost TaskManager"

    def _check_lease(self, message: object) -> None:
        """An allocation id names one slot and one job for ever. A job that needs the whole cluster waits for all who came
        before it."""
        if isinstance(message, RequestSlot):
            lease = self.leases.setdefault(message.allocation_id, message)
            assert lease == message, f"{message.allocation_id} is leased twice"
            if self.is_rush and self.is_calm:
                first = next(iter(self.job_manager.resource_manager.requirements))
                assert message.job_id == first, f"{message.job_id} overtakes {first}"

    def _check_slots(self) -> None:
        live = self.job_manager.dispatcher.masters
        for tm in self.job_manager.resource_manager.task_managers.values():
            for slot in tm.slots:
                if slot.state in (SlotState.REQUESTED, SlotState.ALLOCATED):
                    assert slot.job_id in live, f"{slot.allocation_id} outlives its job"

    def _note_competition(self) -> None:
        """Whether a job waits for slots that another job has, because the cluster may not grow."""
        manager = self.job_manager.resource_manager
        leased = Counter(s.job_id for t in manager.task_managers.values() for s in t.slots if s.is_leased)
        for job_id, requirement in manager.requirements.items():
            least = requirement.least or requirement.slots
            is_short = requirement.is_open and leased[job_id] < least
            others = leased.total() - leased[job_id]
            slots_max = self.bounds.slots_max if self.bounds else leased.total()
            if is_short and others > 0 and least + others > slots_max:
                if (job_id, others) != self.competition:
                    self.competition = job_id, others
                    self.say(f"{job_id} waits for the slots of another job")
                assert not self.is_calm or not leased[job_id], f"{job_id} holds slots while it waits"

    def run_to_rest(self) -> None:
        """Step until nothing happens any more, and check how all jobs have ended."""
        while not self.is_quiet():
            assert self.now_ms < GIVE_UP_MS, "the cluster does not come to rest"
            self.step()
        self.check_ends()

    def run_or_tell(self, seed: int) -> None:
        """Run to the rest; a failure of the test tells the story of the seed."""
        try:
            self.run_to_rest()
        except Exception as error:
            pytest.fail(f"seed {seed}: {error!r}\n" + "\n".join(self.told()))

    def told(self) -> list[str]:
        """The story, and how the machines of the JobManager tell theirs."""
        masters = self.job_manager.dispatcher.masters.values()
        lines = [*self.story[-300:], "--- as the JobManager's machines tell it"]
        lines += [line for m in masters for line in m.story.lines()]
        return [*lines, *self.job_manager.resource_manager.story.lines()]

    def is_quiet(self) -> bool:
        if not self.is_up or len(self.finished) + len(self.refused) < len(self.jobs):
            return False
        tms = self.job_manager.resource_manager.task_managers
        alive = [p for p in self.processes.values() if p.is_alive]
        if self.bounds is not None and not self._is_shrunk(self.bounds, len(tms)):
            return False
        are_free = all(s.state is SlotState.FREE for t in tms.values() for s in t.slots)
        are_connected = {p.executor.task_manager_id for p in alive} == set(tms)
        are_empty = all(not p.executor.slots.allocations() and not p.executor.tasks for p in alive)
        return are_free and are_connected and are_empty

    def _is_shrunk(self, bounds: ProvisioningConfig, task_managers: int) -> bool:
        """Whether idle TaskManagers were released, and the ones to keep are there unless they were given up."""
        provisioning = self.job_manager.resource_manager.provisioning
        assert provisioning is not None
        is_enough = task_managers >= bounds.task_managers_min or provisioning.is_given_up
        return is_enough and task_managers == len(self.provider.unended) <= bounds.task_managers_kept

    def check_ends(self) -> None:
        """When all is quiet: every job ended for a reason that the fate gave."""
        for job_id, end in self.finished.items():
            commits = self.commits.get(job_id, 0)
            assert job_id not in self.half_committed or job_id in self.aborts, f"half of {job_id} stays"
            rows = self.disk.changes(job_id)
            # A TaskManager that was cut off may have written after its job had ended.
            if not self.has_lost_tasks and all(
                p.executor.registration.incarnation == 0 for p in self.processes.values()
            ):
                assert not self.disk.staged.get(job_id), f"{job_id} has left {self.disk.staged[job_id]}"
            job = next(j for j in self.jobs if j.job_id == job_id)
            if end.status is JobStatus.FINISHED:
                assert rows == self.whole_output(job), f"{job_id} has written {rows}"
            elif end.status is JobStatus.CANCELED:
                assert job_id in self.cancelled_jobs
            else:
                self._check_cause(job_id, end)
            self.check_commits(job, end, commits, rows)

    def whole_output(self, job: JobGraph) -> dict[Row, int]:
        """What a job that is FINISHED has written."""
        return dict(Counter(all_rows(job)))

    def check_commits(self, job: JobGraph, end: JobFinished, commits: int, rows: dict[Row, int]) -> None:
        """All rows are there at the end, or none."""
        if end.status is JobStatus.FINISHED:
            repeats = self.failed_commits[job.job_id]
            assert commits == 1 + repeats, f"{job.job_id} was committed {commits} times"
            return
        assert not rows, f"{job.job_id} is {end.status.value} and has left {rows}"
        is_late = end.error is not None and end.error.reason is FailureReason.EXTERNAL
        assert commits == 0 or is_late, f"{job.job_id} was committed and is {end.status.value}"

    def _check_cause(self, job_id: str, end: JobFinished) -> None:
        assert end.error is not None
        reason = end.error.reason
        if self.is_calm:
            assert self.bounds is None, f"{job_id} fits, and failed on a calm day: {end.error}"
            assert reason is FailureReason.NO_RESOURCES, f"{job_id} failed on a calm day: {end.error}"
        if end.error.message == FULL.message:
            assert any("finds no room" in line for line in self.story), f"{job_id} failed, and there was room"
        if "no TaskManager is left" in end.error.message:
            assert self.provider.lost > REPLACEMENTS_MAX
        if reason is FailureReason.OPERATOR_FAILED:
            assert job_id in self.broken_jobs
        assert reason is not FailureReason.INTERNAL


def files_of(commits: tuple[SinkCommit, ...]) -> list[str]:
    return [c.content["file"] for commit in commits for c in commit.committables]

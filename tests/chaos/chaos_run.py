"""A server with the job of chaos_job.py, input that grows, and faults by seed; at the end each sink has every row once."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import psutil
from chaos.chaos_job import READERS, InputFiles, Rows, answers, found, script
from server_harness import RunningServer

CHECKPOINT_INTERVAL_MS = 500
FAULT_INTERVAL_S = 3.0
FILE_INTERVAL_S = 0.25
FILES_MAX = 2_400
ROWS_PER_FILE_MAX = 1_000
ROWS_MAX = 600_000
"""Of each table: a join keeps them all, and reads them again after each fault. Longer runs have files less often, and smaller."""

HEARTBEAT_TIMEOUT_MS = 2_000
STOP_S_MAX = 4.0
"""Half of the stops last longer than the heartbeat's timeout: the TaskManager is given up and comes back to life."""

FULL_DISK_S_MAX = 1.5
SETTLE_TIMEOUT_S = 90.0
SETTLE_SHARE = 0.1
"""Of the length of the run, when that is longer: reading all that was written takes long too."""

CLEAN_TIMEOUT_S = 10.0
TASK_MANAGERS = 3

SETTINGS = {
    "parallelism.default": str(READERS),
    "execution.checkpointing.interval": f"{CHECKPOINT_INTERVAL_MS} ms",
    "execution.checkpointing.timeout": "5 s",
    "execution.checkpointing.tolerable-failed-checkpoints": "1000000",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000000",
    "restart-strategy.fixed-delay.delay": "100 ms",
}


@dataclass
class Figures:
    """What a run has gone through. `lost` and `doubled` are by sink."""

    seconds: float = 0
    rows: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    checkpoints: int = 0
    failed_checkpoints: int = 0
    restarts: int = 0
    settled_s: float = 0
    lost: dict[str, int] = field(default_factory=dict)
    doubled: dict[str, int] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    """Files of state and hidden ones of tables that the job has not removed at its end."""

    def lines(self) -> list[str]:
        faults = ", ".join(f"{count} × {name}" for name, count in sorted(self.faults.items())) or "none"
        return [
            f"input:       {self.rows:,} rows in {self.seconds:.0f} s",
            f"faults:      {faults}",
            f"restarts:    {self.restarts}",
            f"checkpoints: {self.checkpoints} completed, {self.failed_checkpoints} failed",
            f"settled:     {self.settled_s:.1f} s after the last row",
            *(f"{sink + ':':<13}lost {self.lost[sink]}, doubled {self.doubled[sink]}" for sink in self.lost),
            *(f"left behind: {path}" for path in self.left),
        ]


class ChaosRun:
    """One run in a directory of its own. `kills_server`: the server is a victim too, and is started again by a supervisor, which
    is this process. `settings` are further ones of the job.

    State: the server, the processes that are stopped or whose disk is full, and when these go on."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        seconds: float,
        rows_per_file: int = 0,
        kills_server: bool = False,
        settings: Mapping[str, str] | None = None,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.directory = directory
        self._random = random.Random(seed)
        self._seconds = seconds
        self._file_interval_s = max(FILE_INTERVAL_S, seconds / FILES_MAX)
        files = max(1, int(seconds / self._file_interval_s))
        self._input = InputFiles(directory, seed, rows_per_file or min(ROWS_PER_FILE_MAX, ROWS_MAX // files))
        self._report = report
        checkpoints = {"execution.checkpointing.dir": str(directory / "checkpoints")}
        self._settings = SETTINGS | checkpoints | dict(settings or {})
        self.figures = Figures(seconds=seconds)
        self._undone_s: list[tuple[float, Callable[[], None]]] = []
        self._counted: dict[str, int] = {}
        self._faults: list[tuple[str, Callable[[], bool], int]] = [
            ("killed TaskManager", self._kill, 6),
            ("stopped TaskManager", self._stop, 2),
            ("full disk", self._fill_disk, 2),
        ]
        if kills_server:
            self._faults.append(("killed server", self._kill_server, 2))

    def run(self) -> Figures:
        with self._running_server() as self._server:
            self._job_id = self._submit()
            self._server.wait_for(self._job_id, "RUNNING")
            self._disturb()
            self._undo(always=True)
            self._input.end()
            self.figures.rows = self._input.rows
            self._settle()
            self._count()
            self._cancel()
            self._wait_until_clean()
        self._compare(answers(self.directory), found(self.directory))
        return self.figures

    # --- the job

    @contextlib.contextmanager
    def _running_server(self) -> Iterator[RunningServer]:
        words = ["--task-managers", str(TASK_MANAGERS)]
        for setting in (
            "heartbeat.interval=200 ms",
            f"heartbeat.timeout={HEARTBEAT_TIMEOUT_MS} ms",
            "taskmanager.numberOfTaskSlots=1",
        ):
            words += ["--set", setting]
        with RunningServer(self.directory / "data", *words) as server:
            yield server

    def _submit(self) -> str:
        session = self._server.open_session()
        for key, value in self._settings.items():
            self._server.execute(session, f"SET '{key}' = '{value}'")
        tables, statements = script(self.directory)
        for table in tables:
            self._server.execute(session, table)
        return self._server.insert(session, statements)

    def _settle(self) -> None:
        """Wait until readers of the sinks see what they must. Rows that are there twice stay, so this need not find them."""
        expected = answers(self.directory)
        started_s = time.monotonic()
        timeout_s = max(SETTLE_TIMEOUT_S, SETTLE_SHARE * self._seconds)
        while time.monotonic() - started_s < timeout_s:
            # The database is locked during a commit, and files may be moved meanwhile.
            with contextlib.suppress(duckdb.Error, OSError):
                if found(self.directory) == expected:
                    break
            status = self._server.statuses()[self._job_id]
            if status not in ("RUNNING", "RESTARTING", "CREATED", "INITIALIZING"):
                break
            time.sleep(0.5)
        self.figures.settled_s = time.monotonic() - started_s

    def _cancel(self) -> None:
        status = self._server.statuses()[self._job_id]
        if status == "FAILED":
            errors = self._server.get(f"/jobs/{self._job_id}/exceptions")
            raise AssertionError(f"the job has failed: {errors}\n{self._server.errors()[-6000:]}")
        answer = self._server.request("PATCH", f"/jobs/{self._job_id}?mode=cancel", rest=True)
        assert answer.status_code == 202, answer.text
        self._server.wait_for(self._job_id, "CANCELED")

    def _wait_until_clean(self) -> None:
        """The job removes its files when it has ended, beside other things."""
        deadline_s = time.monotonic() + CLEAN_TIMEOUT_S
        while (left := self._left()) and time.monotonic() < deadline_s:
            time.sleep(0.1)
        self.figures.left = left

    def _left(self) -> tuple[str, ...]:
        # Unlike glob, walk passes over directories that vanish meanwhile.
        walk = os.walk(self.directory / "checkpoints")
        state = [Path(directory, name) for directory, _, names in walk for name in names]
        hidden = [
            *self.directory.glob(".*"),
            *self.directory.glob("windows/.*"),
            *self.directory.glob("matched/.*"),
        ]
        # Notes of commits stay, for those who go on from a savepoint.
        left = [path for path in (*state, *hidden) if path.name != ".committed"]
        return tuple(sorted(str(path.relative_to(self.directory)) for path in left))

    def _count(self) -> None:
        """Add what this server counts to what its predecessors have."""
        counts = self._server.get(f"/jobs/{self._job_id}/checkpoints")["counts"]
        self.figures.checkpoints += counts["completed"]
        self.figures.failed_checkpoints += counts["failed"]
        restarts = self._server.get(f"/jobs/{self._job_id}/metrics?get=numRestarts")
        self.figures.restarts += sum(int(float(metric["value"])) for metric in restarts)

    def _compare(self, expected: dict[str, Rows], seen: dict[str, Rows]) -> None:
        for sink, rows in expected.items():
            self.figures.lost[sink] = (rows - seen[sink]).total()
            self.figures.doubled[sink] = (seen[sink] - rows).total()

    # --- faults

    def _disturb(self) -> None:
        end_s = time.monotonic() + self._seconds
        next_file_s = time.monotonic()
        next_fault_s = next_file_s + FAULT_INTERVAL_S
        while (now_s := time.monotonic()) < end_s:
            if now_s >= next_file_s:
                self._input.add()
                next_file_s += self._file_interval_s
            if now_s >= next_fault_s:
                self._one_fault()
                next_fault_s += FAULT_INTERVAL_S * self._random.uniform(0.7, 1.3)
            self._undo()
            time.sleep(0.02)

    def _one_fault(self) -> None:
        weights = [weight for _, _, weight in self._faults]
        ((name, strike, _),) = self._random.choices(self._faults, weights)
        if strike():
            self.figures.faults[name] = self.figures.faults.get(name, 0) + 1
            self._report(name)

    def _undo(self, always: bool = False) -> None:
        now_s = time.monotonic()
        due = [undo for at_s, undo in self._undone_s if always or at_s <= now_s]
        self._undone_s = [] if always else [(s, undo) for s, undo in self._undone_s if s > now_s]
        for undo in due:
            # The process may have been killed meanwhile.
            with contextlib.suppress(psutil.Error):
                undo()

    def _task_manager(self) -> psutil.Process | None:
        """A victim; it is drawn also when there is none, so that a seed draws the same faults at whatever speed."""
        draw = self._random.random()
        with contextlib.suppress(psutil.Error):
            alive = [p for p in self._server.children() if p.status() != psutil.STATUS_ZOMBIE]
            workers = sorted(
                (p for p in alive if "sqlstream.runtime.taskmanager" in " ".join(p.cmdline())), key=_age
            )
            if workers:
                return workers[int(draw * len(workers))]
        return None

    def _kill(self) -> bool:
        victim = self._task_manager()
        if victim is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()
        return victim is not None

    def _stop(self) -> bool:
        seconds = self._random.uniform(0, STOP_S_MAX)
        victim = self._task_manager()
        if victim is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.suspend()
            self._undone_s.append((time.monotonic() + seconds, victim.resume))
        return victim is not None

    def _fill_disk(self) -> bool:
        """No file may grow, neither of state nor of output, in one process: a TaskManager, or the server with the JobManager."""
        seconds = self._random.uniform(0.2, FULL_DISK_S_MAX)
        is_server = self._random.random() < 0.5
        victim = self._task_manager()
        if is_server:
            victim = psutil.Process(self._server.process.pid)
        if victim is None:
            return False
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.rlimit(psutil.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            self._undone_s.append(
                (time.monotonic() + seconds, lambda: victim.rlimit(psutil.RLIMIT_FSIZE, unlimited))
            )
        return True

    def _kill_server(self) -> bool:
        self._undo(always=True)
        with contextlib.suppress(AssertionError):
            self._count()
        children = self._server.children()
        self._server.signal(signal.SIGKILL)
        psutil.wait_procs(children, 15)
        self._server.start()
        return True


def _age(process: psutil.Process) -> tuple[float, int]:
    return process.create_time(), process.pid

"""The files of state that several subtasks of one TaskManager share, so that a store gets a few files for each checkpoint.

As in Flink (FileMergingSnapshotManager), but that a subtask reports its state when the file has it: a store such as S3 has a file
once it is closed.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlstream import config as options
from sqlstream.errors import ExternalError
from sqlstream.messages.checkpoint import StateSegment, TableState, checkpoint_of_path

if TYPE_CHECKING:
    from sqlstream.runtime.checkpoint.state_writer import StateFile, StateWriter, Table

logger = logging.getLogger(__name__)

LINGER_S = 1.0
"""How long a file waits for subtasks that have not written. The checkpoint is complete no later for that: these report last."""

REMEMBERED_MAX = 32
"""More than checkpoints of a job may be in progress at once."""

Submit = Callable[[Callable[[], None]], None]
"""Has another thread make a call."""

Done = Callable[[Exception | None], bool]
"""Takes what has become of a file, and returns whether somebody refers to it from here on. Raises nothing."""


@dataclass(frozen=True)
class MergingSettings:
    """A file takes no further subtask that would make it larger than `file_bytes_max`. While others write, a subtask has a file
    of its own, or waits, with `is_blocking`, if there is one for each `subtasks_max` subtasks already. State is written anew that
    lies in files of which more than `amplification_max` times what is needed is kept; below 1 it is not."""

    file_bytes_max: int
    is_blocking: bool
    subtasks_max: int
    amplification_max: float


def merging_settings(config: Mapping[str, str]) -> MergingSettings | None:
    """None where each subtask writes files of its own."""
    # Of this there is one choice.
    options.get(config, "execution.checkpointing.file-merging.across-checkpoint-boundary")
    if not options.get(config, "execution.checkpointing.file-merging.enabled"):
        return None
    return MergingSettings(
        options.get(config, "execution.checkpointing.file-merging.max-file-size"),
        options.get(config, "execution.checkpointing.file-merging.pool-blocking"),
        options.get(config, "execution.checkpointing.file-merging.max-subtasks-per-file"),
        options.get(config, "execution.checkpointing.file-merging.max-space-amplification"),
    )


@dataclass(eq=False)
class _Merged:
    """A file that is written, and the writes that have added to it."""

    file: StateFile
    name: str
    writer: StateWriter
    parts: list[MergedPart] = field(default_factory=list)


@dataclass(eq=False)
class _Checkpoint:
    """The files of one checkpoint in one directory: those that no thread writes to, and how many others there are. `arrived` are
    the attempts that have written all that they have to."""

    arrived: set[str] = field(default_factory=set)
    idle: list[_Merged] = field(default_factory=list)
    busy: int = 0
    timer: threading.Timer | None = None


@dataclass(eq=False)
class _Space:
    """The bytes of a file, and those that each attempt needs of it."""

    size: int
    needed: dict[str, int]

    @property
    def wasted(self) -> int:
        return self.size - sum(self.needed.values())


@dataclass(eq=False)
class _Job:
    """The attempts of a job that run here, its checkpoints by directory and id, and what is in its files, by path."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    members: set[str] = field(default_factory=set)
    checkpoints: dict[tuple[str, int], _Checkpoint] = field(default_factory=dict)
    space: dict[str, _Space] = field(default_factory=dict)

    def take_complete(self, checkpoint: _Checkpoint) -> list[_Merged]:
        """Its files, once all attempts that run here have written."""
        return self.take(checkpoint) if self.members <= checkpoint.arrived else []

    def take(self, checkpoint: _Checkpoint) -> list[_Merged]:
        taken, checkpoint.idle = checkpoint.idle, []
        timer, checkpoint.timer = checkpoint.timer, None
        if timer is not None:
            timer.cancel()
        return taken


class MergedFiles:
    """The shared files of all tasks of one TaskManager. Thread-safe.

    A file has state of one checkpoint of one job, and is closed when all attempts of the job here have written theirs, when it is
    full, or LINGER_S after the first has written. What fails on its way fails for all that have written to it. A file to which
    nobody refers, because the checkpoint was given up meanwhile, is removed; one that was reported goes as other files of
    checkpoints do, with the last checkpoint that refers to it.
    State: the jobs that have attempts here."""

    def __init__(self, linger_s: float = LINGER_S) -> None:
        self._linger_s = linger_s
        self._lock = threading.Lock()
        self._jobs: dict[str, _Job] = {}

    def join(
        self, job_id: str, execution_id: str, settings: MergingSettings, submit: Submit
    ) -> MergingAttempt:
        """An attempt of a job starts here, which writes to files until it leaves."""
        with self._lock:
            job = self._jobs.setdefault(job_id, _Job())
            with job.changed:
                job.members.add(execution_id)
        return MergingAttempt(
            job, execution_id, settings, submit, self._linger_s, lambda: self._left(job_id, job)
        )

    def _left(self, job_id: str, job: _Job) -> None:
        with self._lock, job.changed:
            if not job.members and self._jobs.get(job_id) is job:
                del self._jobs[job_id]


class MergingAttempt:
    """What one attempt of a subtask does with shared files, from its start to its end. State: that of its job."""

    def __init__(
        self,
        job: _Job,
        execution_id: str,
        settings: MergingSettings,
        submit: Submit,
        linger_s: float,
        on_left: Callable[[], None],
    ) -> None:
        self.execution_id = execution_id
        self.settings = settings
        self._job = job
        self._submit = submit
        self._linger_s = linger_s
        self._on_left = on_left

    def part(
        self, directory: str, checkpoint_id: int, on_added: Callable[[str], None] = lambda path: None
    ) -> MergedPart:
        """For the one write of a checkpoint. `on_added` is called with the path of the file that it adds to."""
        checkpoints = self._job.checkpoints
        with self._job.changed:
            for key in [k for k in checkpoints if k[1] <= checkpoint_id - REMEMBERED_MAX]:
                if not (checkpoints[key].idle or checkpoints[key].busy):
                    del checkpoints[key]
            checkpoint = checkpoints.setdefault((directory, checkpoint_id), _Checkpoint())
        return MergedPart(self, checkpoint, on_added)

    def leave(self) -> None:
        """The attempt has ended, and writes nothing more; returns at once."""
        job = self._job
        with job.changed:
            job.members.discard(self.execution_id)
            for path in list(job.space):
                self._need(path, 0)
            taken = [merged for c in job.checkpoints.values() for merged in job.take_complete(c)]
        self._on_left()
        if taken:
            self._submit(lambda: self._close(taken))

    # --- what of the files is needed

    def completed(self, checkpoint_id: int, needed: Iterable[StateSegment]) -> None:
        """A checkpoint is complete: of the files of it and of earlier ones the attempt needs these segments."""
        sizes: dict[str, int] = {}
        for segment in needed:
            sizes[segment.path] = sizes.get(segment.path, 0) + segment.length
        with self._job.changed:
            for path in list(self._job.space):
                if checkpoint_of_path(path) <= checkpoint_id:
                    self._need(path, sizes.get(path, 0))

    def aborted(self, checkpoint_id: int) -> None:
        with self._job.changed:
            for path in list(self._job.space):
                if checkpoint_of_path(path) == checkpoint_id:
                    self._need(path, 0)

    def _need(self, path: str, size: int) -> None:
        space = self._job.space[path]
        if size:
            space.needed[self.execution_id] = size
        else:
            space.needed.pop(self.execution_id, None)
            if not space.needed:
                del self._job.space[path]

    def wasteful(self, chains: Mapping[tuple[int, str], tuple[StateSegment, ...]]) -> frozenset[int]:
        """The operators whose state is to be written anew: of these `chains`, by operator and table, those in files that hold too
        much beside what is needed. One is left out whose state is larger than what this would set free."""
        if self.settings.amplification_max < 1:
            return frozenset()
        sizes: dict[int, int] = {}
        paths: dict[int, set[str]] = {}
        for (operator_id, _), chain in chains.items():
            sizes[operator_id] = sizes.get(operator_id, 0) + sum(s.length for s in chain)
            paths.setdefault(operator_id, set()).update(s.path for s in chain)
        with self._job.changed:
            wasted = {
                path: space.wasted
                for path, space in self._job.space.items()
                if space.size > self.settings.amplification_max * (space.size - space.wasted)
            }
        freed = {id: sum(wasted.get(path, 0) for path in named) for id, named in paths.items()}
        return frozenset(id for id, size in sizes.items() if 0 < size <= freed[id])

    # --- the files

    def take(self, checkpoint: _Checkpoint) -> _Merged | None:
        """A file that no thread writes to; None when one is to be opened. Waits where there may be no other."""
        with self._job.changed:
            while not checkpoint.idle and not self._may_open(checkpoint):
                self._job.changed.wait()
            checkpoint.busy += 1
            return checkpoint.idle.pop() if checkpoint.idle else None

    def _may_open(self, checkpoint: _Checkpoint) -> bool:
        files_max = -(-len(self._job.members) // self.settings.subtasks_max)
        return not self.settings.is_blocking or checkpoint.busy < max(1, files_max)

    def give_up(self, checkpoint: _Checkpoint, merged: _Merged | None, error: Exception) -> None:
        """The file was taken, or was to be opened, and cannot be completed."""
        with self._job.changed:
            checkpoint.busy -= 1
            self._job.changed.notify_all()
        if merged is not None:
            merged.file.break_off()
            self._settle(merged, error)

    def give_back(self, checkpoint: _Checkpoint, merged: _Merged | None) -> None:
        """The attempt has written all that it has to, to this file, if to any."""
        job = self._job
        with job.changed:
            checkpoint.arrived.add(self.execution_id)
            if merged is not None:
                checkpoint.busy -= 1
                checkpoint.idle.append(merged)
                job.changed.notify_all()
            taken = job.take_complete(checkpoint)
            if checkpoint.idle and checkpoint.timer is None:
                checkpoint.timer = threading.Timer(
                    self._linger_s, lambda: self._submit(lambda: self._lapse(checkpoint))
                )
                checkpoint.timer.name, checkpoint.timer.daemon = "merged-files", True
                checkpoint.timer.start()
        self._close(taken)

    def _lapse(self, checkpoint: _Checkpoint) -> None:
        with self._job.changed:
            taken = self._job.take(checkpoint)
        self._close(taken)

    def complete(self, merged: _Merged) -> None:
        self._close([merged])

    def _close(self, taken: Iterable[_Merged]) -> None:
        for merged in taken:
            error: Exception | None = None
            try:
                merged.file.complete()
            except Exception as failure:  # whatever it is: all that have written are told
                error = failure
            self._settle(merged, error)

    def _settle(self, merged: _Merged, error: Exception | None) -> None:
        """Tell all that have written what has become of the file."""
        if error is None:
            needed = {part.attempt.execution_id: part.size for part in merged.parts}
            with self._job.changed:
                self._job.space[merged.file.path] = _Space(merged.file.length, needed)
        kept = [part for part in merged.parts if part.done(error) and error is None]
        with self._job.changed:
            for part in merged.parts:
                if part not in kept and merged.file.path in self._job.space:
                    part.attempt._need(merged.file.path, 0)
        if not kept:
            # Of a store that fails this may fail too: the sweep of the job's files finds what is left.
            with contextlib.suppress(ExternalError):
                merged.writer.discard(merged.name)


class MergedPart:
    """What one write of one attempt adds to a shared file. One thread calls `add`, at most once, and then `arrived`.
    State: the file that it has added to."""

    def __init__(
        self, attempt: MergingAttempt, checkpoint: _Checkpoint, on_added: Callable[[str], None]
    ) -> None:
        self.attempt = attempt
        self.size = 0
        self.done: Done = lambda error: False
        self._checkpoint = checkpoint
        self._on_added = on_added
        self._merged: _Merged | None = None

    @property
    def file_bytes_max(self) -> int:
        return self.attempt.settings.file_bytes_max

    def add(
        self, writer: StateWriter, name: str, tables: list[Table], size: int
    ) -> list[tuple[int, TableState]]:
        """Write tables of about `size` bytes, to a file of this name if one has to be opened. ExternalError SS5001."""
        merged = self.attempt.take(self._checkpoint)
        try:
            if merged is not None and merged.file.length + size > self.file_bytes_max:
                full, merged = merged, None
                self.attempt.complete(full)
            if merged is None:
                merged = _Merged(writer.open(name), name, writer)
            before = merged.file.length
            saved = merged.file.add(tables)
        except BaseException as error:
            cause = error if isinstance(error, Exception) else ExternalError("SS5001", f"{error}")
            self.attempt.give_up(self._checkpoint, merged, cause)
            raise
        self.size = merged.file.length - before
        merged.parts.append(self)
        self._merged = merged
        self._on_added(merged.file.path)
        return saved

    def arrived(self, done: Done) -> None:
        """Nothing more is written. `done` is called once: at once, or when the file that was added to is closed."""
        merged, self._merged, self.done = self._merged, None, done
        if merged is None:
            done(None)
        self.attempt.give_back(self._checkpoint, merged)

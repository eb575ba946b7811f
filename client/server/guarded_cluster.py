"""The server's cluster: it refuses jobs that reach beyond what the server allows."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from sqlstream.client.server.leaders.shared_artifacts import SharedArtifacts
from sqlstream.errors import ErrorsAt, UserError
from sqlstream.graph.job_graph import ChainedOperator, JobGraph, read_tables, written_tables
from sqlstream.messages.client_rpc import SavepointRequest
from sqlstream.runtime.checkpoint.places import (
    absolute_place,
    check_place,
    check_places,
    with_absolute_places,
)
from sqlstream.runtime.cluster_surroundings import ClusterSurroundings
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.embedded import EmbeddedCluster
from sqlstream.runtime.host.rooted_files import RootedFiles, files_at
from sqlstream.runtime.jobmanager.events import LoadedCheckpoint
from sqlstream.runtime.jobmanager.resources.slot_pool import sharing_groups
from sqlstream.runtime.net.results import PrintLines
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.connector import NamesPaths

_JOB_ID = re.compile(r"[0-9a-f]{32}")

FORGET_AT_MIN = 1000
"""Of fewer jobs those that have ended may stay counted while there is room."""


@dataclasses.dataclass(frozen=True)
class JobLimits:
    """What jobs may take: the plan of one, the plans of one user's, the slots of one, and how many a user may have, 0 for any
    number."""

    plan_bytes_max: int
    user_plans_bytes_max: int
    job_slots_max: int = 0
    jobs_max_of: Callable[[str], int] = lambda user: 0


class GuardedCluster(EmbeddedCluster):
    """A cluster of child processes whose jobs are checked when they are submitted, in whatever way: their id, the places of
    their files, and the size of their plan. Before that its settings fill in what a job's leave open (`with_defaults`).
    TaskManagers check each file of a table again when they open it. The places of savepoints are checked when they are asked
    for."""

    def __init__(
        self,
        config: Mapping[str, str],
        task_managers: int | None,
        print_lines: PrintLines,
        surroundings: ClusterSurroundings,
        limits: JobLimits,
        shared_artifacts: SharedArtifacts | None = None,
    ) -> None:
        super().__init__(config, task_managers, False, print_lines, surroundings)
        self._places = surroundings.places
        self._limits = limits
        self._shared_artifacts = shared_artifacts
        self._user_plans = UserPlans(limits, self._live_jobs)
        self._defaults = with_absolute_places(config)

    def _live_jobs(self) -> set[str]:
        return {job.job_id for job in self.jobs() if not job.status.is_terminal}

    def submit(self, graph: JobGraph, is_recovered: bool = False) -> None:
        if not is_recovered:
            graph = replace(graph, config=with_defaults(graph.config, self._defaults))
        with self._user_plans.submitting(graph.job_id):
            super().submit(graph, is_recovered)

    def check_job(self, graph: JobGraph, size: int, is_recovered: bool) -> None:
        check_job_id(graph.job_id)
        check_plan_size(size, self._limits.plan_bytes_max)
        if not is_recovered:
            check_slots(graph, self._limits.job_slots_max)
        # A statement that is planned with a job of its own is none that the user has asked for.
        is_let_in = is_recovered or graph.is_for_planning
        self._user_plans.add(graph.owner, graph.job_id, size, is_let_in)
        if self._places is not None:
            files = RootedFiles(self._places)
            check_paths(graph, files)
            check_places(graph.config, files)

    def _with_artifacts(self, graph: JobGraph, restored: tuple[LoadedCheckpoint, ...]) -> JobGraph:
        """What the next server could not find here it finds in the store, before the job is taken."""
        shared = self._shared_artifacts
        if shared is not None:
            shared.fetch(graph.artifacts)
        graph = super()._with_artifacts(graph, restored)
        if shared is not None:
            shared.put(graph.artifacts)
        return graph

    def rescale(self, graph: JobGraph, trigger_id: str) -> None:
        check_slots(graph, self._limits.job_slots_max)
        super().rescale(graph, trigger_id)

    def take_savepoint(self, request: SavepointRequest) -> None:
        super().take_savepoint(replace(request, directory=self._checked_place(request.directory)))

    def dispose_savepoint(self, path: str, config: Mapping[str, str] | None = None) -> None:
        super().dispose_savepoint(self._checked_place(path), with_defaults(config or {}, self._defaults))

    def _checked_place(self, path: str) -> str:
        """UserError SS5030 for a place outside of the allowed directories. Empty stands for the job's settings, which were
        checked with the job."""
        if not path:
            return ""
        place = absolute_place(path, "the directory of the savepoint")
        check_place(place, files_at(self._places))
        return place


DEFAULTS = (
    "execution.checkpointing.dir",
    "execution.checkpointing.savepoint-dir",
    "execution.checkpointing.num-retained",
    "execution.files-are-shared",
    "state.backend.type",
    "s3.",
    "restart-strategy.",
)
"""What a JobManager has of its own settings for jobs that were planned elsewhere, as in Flink: keys, or beginnings of keys, of
which a job takes all or none."""


def with_defaults(config: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """A job's settings, and for those of DEFAULTS that it leaves open the cluster's.

    >>> with_defaults({"s3.endpoint": "http://a"}, {"s3.access-key": "k", "restart-strategy.type": "none", "rest.port": "1"})
    {'s3.endpoint': 'http://a', 'restart-strategy.type': 'none'}
    """
    found = dict(config)
    for group in DEFAULTS:
        if not any(value and key.startswith(group) for key, value in config.items()):
            found |= {key: value for key, value in defaults.items() if key.startswith(group)}
    return found


class UserPlans:
    """The jobs of one user that wait or run, and what their plans take; without tokens, those of one session. Thread-safe: two
    that are submitted at once do not take the same room.

    State: the sizes by job, and the jobs that are being submitted. Those that have ended are forgotten when a user has no room,
    and when there are twice as many as were left the last time."""

    def __init__(self, limits: JobLimits, live_jobs: Callable[[], set[str]]) -> None:
        self._limits = limits
        self._live_jobs = live_jobs
        self._lock = threading.Lock()
        self._of_owner: dict[str, dict[str, int]] = {}
        self.count = 0
        """How many jobs are known."""
        self._forget_at = FORGET_AT_MIN
        self._submitting: Counter[str] = Counter()

    @contextlib.contextmanager
    def submitting(self, job_id: str) -> Iterator[None]:
        """Within it the job counts as one that runs, although the cluster does not list it yet."""
        with self._lock:
            self._submitting[job_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._submitting[job_id] -= 1
                self._submitting += Counter()

    def add(self, owner: str, job_id: str, size: int, is_recovered: bool) -> None:
        """Count a job that is submitted now. UserError SS3021 when its plan has no room, and SS6123 when the user has as many
        jobs as may be, unless it `is_recovered`. A job without an owner, of the server's own user, needs none."""
        if not owner:
            return
        bytes_max, jobs_max = self._limits.user_plans_bytes_max, self._limits.jobs_max_of(owner)
        with self._lock:
            jobs, taken = self._others(owner, job_id)
            has_no_room = taken + size > bytes_max or 0 < jobs_max <= jobs
            if has_no_room or self.count >= self._forget_at:
                self._forget_ended()
                jobs, taken = self._others(owner, job_id)
            if not is_recovered and 0 < jobs_max <= jobs:
                raise UserError(
                    "SS6123", f"the user has {jobs} jobs that wait or run, and may have {jobs_max}"
                )
            if not is_recovered and taken + size > bytes_max:
                raise UserError(
                    "SS3021",
                    f"the plans of the user's jobs that wait or run take more than {bytes_max} bytes with this one",
                )
            own = self._of_owner.setdefault(owner, {})
            self.count += job_id not in own
            own[job_id] = size

    def _others(self, owner: str, job_id: str) -> tuple[int, int]:
        """How many other jobs an owner has, and the bytes of their plans."""
        sizes = [taken for known, taken in self._of_owner.get(owner, {}).items() if known != job_id]
        return len(sizes), sum(sizes)

    def _forget_ended(self) -> None:
        live = self._live_jobs() | self._submitting.keys()
        kept = {
            owner: left
            for owner, sizes in self._of_owner.items()
            if (left := {job_id: size for job_id, size in sizes.items() if job_id in live})
        }
        self._of_owner, self.count = kept, sum(map(len, kept.values()))
        self._forget_at = max(FORGET_AT_MIN, 2 * self.count)


def check_slots(graph: JobGraph, slots_max: int) -> None:
    """UserError SS6124 for a job that asks for more slots than one may have; `slots_max` 0: any number."""
    groups = sharing_groups(graph)
    slots = sum(groups.values())
    if 0 < slots_max < slots:
        raise UserError(
            "SS6124",
            f"the job needs {slots} slots, and one job may have {slots_max}",
            hint=f"SET 'parallelism.default' = '{max(1, slots_max // len(groups))}'",
        )


def check_job_id(job_id: str) -> None:
    """UserError SS6036 for what this project's sessions never make: files of the job are named after it."""
    if _JOB_ID.fullmatch(job_id) is None:
        raise UserError("SS6036", f'"{job_id}" is no job id')


def check_plan_size(size: int, bytes_max: int) -> None:
    """UserError SS3020 for a plan that would fill the memory of its TaskManagers."""
    if size > bytes_max:
        raise UserError(
            "SS3020", f"the plan has {size} bytes, more than the {bytes_max} that the server allows"
        )


def check_paths(graph: JobGraph, files: RootedFiles) -> None:
    """UserError SS5030, with the place in the statement, for a table outside of the allowed directories."""
    tables: list[tuple[ChainedOperator, SourceSpec | SinkSpec]] = [
        *read_tables(graph),
        *written_tables(graph),
    ]
    for operator, spec in tables:
        named = connector(spec.connector)
        if not isinstance(named, NamesPaths):
            if named.descriptor.place.options:
                raise UserError(
                    "SS5030",
                    f'connector "{spec.connector}" does not say which files its tables are, and this server allows some only',
                    span=operator.span,
                    hint="ask the authors of its package for the methods of `NamesPaths`",
                )
            continue
        for path in named.paths(spec.options):
            with ErrorsAt(operator.span):
                files.check(path)

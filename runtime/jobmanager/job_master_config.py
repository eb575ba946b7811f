"""How JobMasters work, whatever their jobs are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlstream.graph.job_graph import JobGraph
from sqlstream.options.checkpointing_options import takes_checkpoints
from sqlstream.runtime.jobmanager.restart_strategy import (
    NoRestart,
    RestartStrategy,
    UntilAllowed,
    restart_strategy_of,
)


@dataclass(frozen=True)
class JobMasterConfig:
    """`result_address` is where sinks send rows for the client. A task that does not end within
    `cancellation_timeout_ms` is given up; its TaskManager ends itself for the same reason. `restart_strategy` makes one for
    each job; without one, the job's settings name it. `enumerates` says of a connector by its name whether its readers are
    assigned their splits. Checkpoints of jobs whose settings name no directory are below `checkpoint_directory`. A job
    that `is_recovered` has run under an earlier JobManager. `job_manager_id` is another one for each JobManager that TaskManagers
    can meet: what an earlier one has deployed under the same job is never taken for what this one has. A job
    that is recovered in an `epoch` has ids of checkpoints that no earlier JobManager uses that still runs.
    `describe_slots` says which slots the cluster has; it can have `slots_max` at the most, if that is known."""

    result_address: str = ""
    slot_request_timeout_ms: int = 300_000
    cancellation_timeout_ms: int = 230_000
    resend_ms: int = 500
    restart_strategy: Callable[[], RestartStrategy] | None = None
    enumerates: Callable[[str], bool] = lambda connector: False
    checkpoint_directory: str = ""
    is_recovered: bool = False
    job_manager_id: str = ""
    epoch: int = 0
    describe_slots: Callable[[], str] = lambda: ""
    slots_max: int | None = None

    def strategy_of(self, job: JobGraph) -> RestartStrategy:
        if job.is_query:
            # Rows that were sent cannot be recalled, and those of another attempt would come after them.
            return NoRestart()
        if self.restart_strategy is not None:
            return self.restart_strategy()
        strategy = restart_strategy_of(job.config, job.job_id)
        takes = takes_checkpoints(job.config)
        return UntilAllowed(strategy, takes_checkpoints=takes) if self.is_recovered else strategy

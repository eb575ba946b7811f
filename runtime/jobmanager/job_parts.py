"""What a JobMaster consists of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlstream.graph.job_graph import JobGraph
from sqlstream.runtime.jobmanager.checkpoints.job_checkpoints import JobCheckpoints
from sqlstream.runtime.jobmanager.events import JobMasterInstruction
from sqlstream.runtime.jobmanager.execution_graph import ExecutionGraph
from sqlstream.runtime.jobmanager.job_master_config import JobMasterConfig
from sqlstream.runtime.jobmanager.job_output import JobOutput
from sqlstream.runtime.jobmanager.job_phase import JobProgress
from sqlstream.runtime.jobmanager.job_tasks import JobTasks
from sqlstream.runtime.jobmanager.sources.job_sources import JobSources
from sqlstream.runtime.story import Story


@dataclass(frozen=True)
class JobParts:
    """Each part keeps the state of one side of the job, and none knows the others but for what it is made of. `emit` takes the
    instructions of all, in their order."""

    config: JobMasterConfig
    graph: ExecutionGraph
    progress: JobProgress
    tasks: JobTasks
    sources: JobSources
    output: JobOutput
    checkpoints: JobCheckpoints
    emit: Callable[[JobMasterInstruction], None]

    @property
    def job_graph(self) -> JobGraph:
        return self.graph.job_graph

    @property
    def story(self) -> Story:
        return self.progress.story

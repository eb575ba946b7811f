"""JobGraph → the JobGraph of the same operators at another parallelism."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from sqlstream import config as options
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.scaling import Scaling
from sqlstream.graph.stream_graph import StreamGraph, StreamNode
from sqlstream.planner.translate.job_graph import translate_job_graph
from sqlstream.planner.translate.scaling import edges_of, parallelism_of

_FOR_TABLES = "table.exec.resource.default-parallelism"


def rescaled_job_graph(job: JobGraph, parallelism: int) -> JobGraph:
    """Operators keep their ids and uids, and with them their state; those of a fixed parallelism keep that. The number of key
    groups stays what it was when the job was planned. UserError SS6230 for a job that has no other parallelism, SS6231 for
    more subtasks than key groups."""
    if parallelism < 1:
        raise UserError("SS6231", f"a job cannot have the parallelism {parallelism}", hint="give 1 or more")
    scaling = _scaling(job)
    key_groups = job.vertices[0].max_parallelism
    wanted = replace(scaling, parallelism=parallelism)
    counts = parallelism_of(wanted)
    if max(counts) > key_groups:
        raise UserError(
            "SS6231",
            f'job "{job.name}" has {key_groups} key groups, so that {parallelism} subtasks cannot share its keys',
            hint="give a lower parallelism; 'pipeline.max-parallelism' is set before a job is started",
        )
    operators = {o.id: o for v in job.vertices for o in v.operators}
    nodes = []
    for place, planned in enumerate(wanted.nodes):
        if not planned.operator:
            continue
        operator = operators[planned.operator]
        nodes.append(
            StreamNode(
                id=operator.id,
                uid=operator.uid,
                name=operator.name,
                spec=operator.spec,
                inputs=tuple(edges_of(wanted, place, counts)),
                output_schema=operator.output_schema,
                output_mode=operator.output_mode,
                parallelism=counts[place],
                max_parallelism=key_groups,
                description=operator.description,
                span=operator.span,
                state=operator.state,
            )
        )
    settings = _settings(job.config, parallelism)
    return translate_job_graph(StreamGraph(tuple(nodes)), settings, job.job_id, job.name, wanted)


def _scaling(job: JobGraph) -> Scaling:
    if job.scaling is None:
        raise UserError(
            "SS6230",
            f'job "{job.name}" is one of a batch engine, or was started by another version of sqlstream',
            hint="start it again with another 'parallelism.default'",
        )
    if parallelism_of(replace(job.scaling, parallelism=1)) == parallelism_of(
        replace(job.scaling, parallelism=2)
    ):
        raise UserError(
            "SS6230",
            f'every operator of job "{job.name}" has a fixed parallelism',
            hint="only operators over keys and over sources without 'scan.parallelism' have another one",
        )
    return job.scaling


def _settings(settings: Mapping[str, str], parallelism: int) -> dict[str, str]:
    """As if the job had been planned with this parallelism."""
    changed = {"parallelism.default": str(parallelism)}
    if int(options.get(settings, _FOR_TABLES)) > 0:
        changed[_FOR_TABLES] = str(parallelism)
    return dict(settings) | changed

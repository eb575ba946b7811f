"""How a JobGraph becomes a job: what it lacks is filled in, and what its user should know of it is told."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sqlstream import config as options
from sqlstream.client.clusters.cluster_client import ClusterClient
from sqlstream.client.following.lost_rows import RejectedRowsPlace
from sqlstream.client.sessions.outcomes import Job, LiteralJob, literal_batches
from sqlstream.client.sessions.shipped_files import CACHED_FILES, shipped_files
from sqlstream.errors import Span, SqlStreamError, UserError
from sqlstream.expressions import Literal, LiteralValue
from sqlstream.graph.job_graph import ChainedOperator, JobGraph, written_tables
from sqlstream.options.checkpointing_options import is_at_least_once, takes_checkpoints
from sqlstream.schema import Schema
from sqlstream.secrets import masked
from sqlstream.specs import CalcSpec, ChangingSinkSpec, SinkSpec, SourceSpec, ValuesSpec
from sqlstream.specs.sink import COLLECT, SinkAction
from sqlstream.specs.train_model import WEIGHTS
from sqlstream.spi.connector import KeepsRejectedRows, KnowsVersions

if TYPE_CHECKING:
    from sqlstream.runtime.host.files import LocalFiles


_WORDS = {
    SinkAction.OVERWRITE: "INSERT OVERWRITE",
    SinkAction.UPDATE: "UPDATE",
    SinkAction.DELETE: "DELETE FROM",
    SinkAction.TRUNCATE: "TRUNCATE TABLE",
}


def submit(graph: JobGraph, cluster: ClusterClient, files: LocalFiles) -> Job:
    """Start a job on a cluster; `files` are those that its tables may name by their path. UserError for settings that no job can
    have, and for files that cannot go with it."""
    from sqlstream.runtime.checkpoint.places import with_absolute_places

    graph = with_versions(replace(graph, config=with_absolute_places(graph.config)), files)
    if graph.config.get(CACHED_FILES):
        graph = replace(graph, artifacts=graph.artifacts + shipped_files(graph.config, cluster, files))
    if collects(graph):
        graph = without_rejected_files(graph)
    literals = literal_rows(graph)
    if literals is not None:
        found = job_of(graph, cluster)
        return LiteralJob(
            found.id,
            found.label,
            True,
            found.is_updating,
            found.schema,
            cluster,
            {},
            literal_batches(*literals),
        )
    cluster.submit(graph)
    notes = (guarantee_note(graph), training_note(graph), recovery_note(graph, cluster))
    return dataclasses.replace(job_of(graph, cluster), note="\n".join(note for note in notes if note))


def collects(graph: JobGraph) -> bool:
    """Whether rows of the job go to the client."""
    return any(spec.connector == COLLECT for _, spec in written_tables(graph))


def job_of(graph: JobGraph, cluster: ClusterClient) -> Job:
    """A job that was submitted to the cluster."""
    sinks = [spec for _, spec in written_tables(graph)]
    collected = [s.schema for s in sinks if s.connector == COLLECT]
    return Job(
        graph.job_id,
        "SELECT" if collected else _label(sinks),
        is_bounded(graph),
        bool(collected) and not _is_insert_only(graph),
        collected[0] if collected else None,
        cluster,
        rejected_rows_places(graph),
    )


def known_job(job_id: str, cluster: ClusterClient, owner: str) -> Job | None:
    """The job of that id with which a statement of `owner` has begun, maybe by another server; None when the cluster knows none.
    UserError SS6008 for the job of another owner, and for one whose rows go to a client: everybody may know its id."""
    try:
        graph = cluster.job_graph(job_id)
    except UserError:
        return None
    if graph.owner != owner or collects(graph):
        raise id_of_another(job_id)
    return job_of(graph, cluster)


def id_of_another(job_id: str) -> UserError:
    return UserError("SS6008", f'job id "{job_id}" belongs to another job')


def with_versions(graph: JobGraph, files: LocalFiles) -> JobGraph:
    """The graph whose sinks know what the tables are that they rewrite, before anything is read of them."""
    from sqlstream.runtime.connectors import connector

    def known(operator: ChainedOperator) -> ChainedOperator:
        spec = operator.spec
        if not isinstance(spec, ChangingSinkSpec) or not spec.action.changes_rows:
            return operator
        sink = connector(spec.connector)
        if not isinstance(sink, KnowsVersions):
            return operator
        return replace(operator, spec=replace(spec, version=sink.version(spec, files)))

    if not any(isinstance(spec, ChangingSinkSpec) for _, spec in written_tables(graph)):
        return graph
    vertices = tuple(replace(v, operators=tuple(map(known, v.operators))) for v in graph.vertices)
    return replace(graph, vertices=vertices)


def without_rejected_files(graph: JobGraph) -> JobGraph:
    """The graph with rejected-rows files turned off: a SELECT writes nothing beside the files that it reads."""
    from sqlstream.runtime.connectors import connector

    def changed(operator: ChainedOperator) -> ChainedOperator:
        spec = operator.spec
        if isinstance(spec, SourceSpec) and isinstance(
            keeper := connector(spec.connector), KeepsRejectedRows
        ):
            return replace(operator, spec=keeper.without_rejected_files(spec))
        return operator

    vertices = tuple(replace(v, operators=tuple(map(changed, v.operators))) for v in graph.vertices)
    return replace(graph, vertices=vertices)


def rejected_rows_places(graph: JobGraph) -> dict[int, RejectedRowsPlace]:
    """Where each source keeps the rows that it cannot decode, by operator id."""
    from sqlstream.runtime.connectors import connector
    from sqlstream.runtime.connectors.rejected_rows import rejected_rows_name

    places = {}
    for operator in (o for v in graph.vertices for o in v.operators):
        spec = operator.spec
        if isinstance(spec, SourceSpec) and isinstance(
            keeper := connector(spec.connector), KeepsRejectedRows
        ):
            directory = keeper.rejected_rows_directory(spec)
            path = os.path.join(directory, rejected_rows_name(graph.job_id)) if directory else None
            places[operator.id] = RejectedRowsPlace(spec.table, path)
    return places


def guarantee_note(graph: JobGraph) -> str:
    """What a recovery of the job cannot promise, because of its sinks and sources; empty for a job without checkpoints."""
    from sqlstream.runtime.connectors import connector

    if not takes_checkpoints(graph.config):
        return ""
    sinks = dict.fromkeys(
        f"'{spec.connector}'"
        for _, spec in written_tables(graph)
        if connector(spec.connector).descriptor.writing.repeats_rows(spec.options)
    )
    readings = {
        f'"{spec.table}"': connector(spec.connector).descriptor.reading
        for spec in (o.spec for v in graph.vertices for o in v.operators)
        if isinstance(spec, SourceSpec)
    }
    tables = [table for table, reading in readings.items() if reading.counts_rows]
    read_once = [table for table, reading in readings.items() if reading.reads_once]
    notes = []
    if is_at_least_once(graph.config):
        notes.append("checkpoints are at-least-once: after a failure rows may count twice")
    elif sinks:
        notes.append(f"connector {', '.join(sinks)} is at-least-once: after a failure rows may come again")
    if tables:
        notes.append(
            f"rows of {', '.join(tables)} are each read once only if nobody changes the table before a recovery"
        )
    if read_once:
        notes.append(
            f"rows of {', '.join(read_once)} cannot be read again: after a failure those since the last checkpoint are missing"
        )
    return "\n".join(f"note: {note}" for note in notes)


def training_note(graph: JobGraph) -> str:
    """What a job that trains a model for ever cannot do without checkpoints."""
    trains = any(spec.connector == WEIGHTS for _, spec in written_tables(graph))
    if not trains or takes_checkpoints(graph.config) or is_bounded(graph):
        return ""
    return "note: the model is never published without checkpoints: SET 'execution.checkpointing.interval' = '10 s' before"


def recovery_note(graph: JobGraph, cluster: ClusterClient) -> str:
    """What a job that was submitted with the state of another one does not take of it, what it begins without, and which jobs
    have gone on from the same state and write the same tables; empty when it goes on with all, alone."""
    path: str = options.get(graph.config, "execution.state-recovery.path")
    if not path:
        return ""
    found = cluster.checkpoints(graph.job_id)
    notes = []
    if found.left_out:
        notes.append(f"state is left out: {'; '.join(found.left_out)}")
    if found.begun_empty:
        notes.append(f"begins without state: {'; '.join(found.begun_empty)}")
    if found.is_drained:
        notes.append(
            "the savepoint was taken WITH DRAIN: its windows have fired, and rows of event time are late"
        )
    notes += notes_of_followers(graph, path, cluster)
    return "\n".join(f"note: {note}" for note in notes)


def _label(sinks: list[SinkSpec]) -> str:
    """What a job does with which tables."""
    if [s.connector for s in sinks] == [WEIGHTS]:
        return f"CREATE MODEL {sinks[0].table}"
    changing = next((s for s in sinks if isinstance(s, ChangingSinkSpec)), None)
    words = "INSERT INTO" if changing is None or len(sinks) > 1 else _WORDS[changing.action]
    return f"{words} {', '.join(dict.fromkeys(s.table for s in sinks))}"


def is_bounded(graph: JobGraph) -> bool:
    """Whether every source ends."""
    sources = [o.spec for v in graph.vertices for o in v.operators if isinstance(o.spec, SourceSpec)]
    return all(s.is_bounded for s in sources)


def _is_insert_only(graph: JobGraph) -> bool:
    """Whether no sink is told of updates."""
    return all(mode.is_insert_only for o, _ in written_tables(graph) for mode in o.input_modes)


def literal_rows(graph: JobGraph) -> tuple[Schema, tuple[tuple[LiteralValue, ...], ...]] | None:
    """The schema and rows of a query whose operators only pass literal rows to the client; None for every other job."""
    if len(graph.vertices) != 1 or graph.vertices[0].parallelism != 1:
        return None
    operators = graph.vertices[0].operators
    source, sink = operators[0].spec, operators[-1].spec
    if not isinstance(source, ValuesSpec) or not isinstance(sink, SinkSpec) or sink.connector != COLLECT:
        return None
    rows = source.rows
    for calc in operators[1:-1]:
        if not isinstance(calc.spec, CalcSpec) or calc.spec.condition is not None:
            return None
        values = [p.value for p in calc.spec.projections if isinstance(p, Literal)]
        if len(values) < len(calc.spec.projections):
            return None
        rows = (tuple(values),) * len(rows)
    return sink.schema, rows


LOOKED_AT_MAX = 100
"""How many of the cluster's newest jobs are looked at."""
NAMED_MAX = 3


def refuse_shared_weights(graph: JobGraph, cluster: ClusterClient, span: Span | None) -> None:
    """UserError SS3533 for a training whose weights another job of the cluster would replace, and it those."""
    own = {_weights_of(spec) for _, spec in written_tables(graph) if spec.connector == WEIGHTS}
    for entry in cluster.jobs() if own else ():
        if entry.status.is_terminal:
            continue
        try:
            written = written_tables(cluster.job_graph(entry.job_id))
        except SqlStreamError:
            # It has been forgotten meanwhile, or is none of this user's.
            continue
        other = next((s for _, s in written if s.connector == WEIGHTS and _weights_of(s) in own), None)
        if other is not None:
            raise UserError(
                "SS3533",
                f'job {entry.job_id} publishes the weights of model "{other.table}" to this file',
                span=span,
                hint=f"name another file in 'weights.path', or stop that job first: STOP JOB '{entry.job_id}'",
            )


def _weights_of(spec: SinkSpec) -> str:
    path = spec.options["path"]
    return path if "://" in path else os.path.realpath(path)


def notes_of_followers(graph: JobGraph, path: str, cluster: ClusterClient) -> list[str]:
    """For each other job of the cluster that has gone on from `path` and writes a table of this one: its rows behind it stand
    beside those that this job writes."""
    own = {_place(spec): spec.table for _, spec in written_tables(graph)}
    notes = []
    newest = sorted(cluster.jobs(), key=lambda entry: -entry.start_ms)
    for entry in (e for e in newest[:LOOKED_AT_MAX] if e.job_id != graph.job_id):
        try:
            other = cluster.job_graph(entry.job_id)
        except SqlStreamError:
            # It has been forgotten meanwhile.
            continue
        if options.get(other.config, "execution.state-recovery.path") != path:
            continue
        written = [_place(spec) for _, spec in written_tables(other)]
        tables = dict.fromkeys(f'"{own[place]}"' for place in written if place in own)
        if tables:
            notes.append(
                f"job {entry.job_id} ({entry.status.value}) has gone on from it too: what it writes to "
                f"{', '.join(tables)} is written by this job again"
            )
    more = [f"and so have {len(notes) - NAMED_MAX} other jobs"] if len(notes) > NAMED_MAX else []
    return notes[:NAMED_MAX] + more


def _place(spec: SinkSpec) -> tuple[object, ...]:
    """Where the rows go. Passwords of jobs that have ended are not known any more."""
    return (spec.connector, *sorted((key, masked(key, value)) for key, value in spec.options.items()))

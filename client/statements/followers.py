"""The jobs that have gone on from the same checkpoint or savepoint as another one."""

from __future__ import annotations

from sqlstream import config as options
from sqlstream.client.clusters.cluster_client import ClusterClient
from sqlstream.errors import SqlStreamError
from sqlstream.graph.job_graph import JobGraph, written_tables
from sqlstream.secrets import masked
from sqlstream.specs import SinkSpec

LOOKED_AT_MAX = 100
"""How many of the cluster's newest jobs are looked at."""
NAMED_MAX = 3


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

"""What the bound forms of statements do beyond their session: jobs, changes of catalogs and settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from sqlstream.catalog import changes
from sqlstream.effects import Effects
from sqlstream.graph.job_graph import JobGraph, read_tables, written_tables
from sqlstream.specs.sink import COLLECT

if TYPE_CHECKING:
    from sqlstream.planner.statements.result import Change

_PLACES = frozenset(
    {
        "execution.checkpointing.dir",
        "execution.checkpointing.savepoint-dir",
        "execution.state-recovery.path",
        "python.files",
        "pipeline.cached-files",
        "s3.endpoint",
        "gs.endpoint",
        "fs.azure.endpoint",
    }
)
"""Settings that name files or servers, which the jobs under them read, write or ask."""


def job_effects(graph: JobGraph) -> Effects:
    """Which tables a job reads and writes. Rows that go to the client change none."""
    return Effects(
        reads=frozenset(spec.table for _, spec in read_tables(graph)),
        writes=frozenset(spec.table for _, spec in written_tables(graph) if spec.connector != COLLECT),
    )


def settings_effects(settings: Mapping[str, str]) -> Effects:
    """Which files and servers settings name.

    >>> settings_effects({"python.files": "a.py", "parallelism.default": "2"}).files
    frozenset({'a.py'})
    """
    return Effects(files=frozenset(value for key, value in settings.items() if key in _PLACES and value))


def changes_effects(made: Iterable[Change]) -> Effects:
    """What the changes of a DDL statement concern. The current catalog and database are the session's own."""
    from sqlstream.planner.statements.result import ResetConfig, SetConfig

    found = Effects()
    for change in made:
        match change:
            case SetConfig(key, value):
                found |= settings_effects({key: value})
            case ResetConfig() | changes.UseDatabase():
                pass
            case changes.PutCatalog(name=name) | changes.RemoveCatalog(name=name):
                found |= Effects(catalogs=frozenset({name}))
            case changes.PutDatabase(name=name) | changes.RemoveDatabase(name=name):
                found |= Effects(objects=frozenset({name}))
            case (
                changes.RemoveDamaged(path)
                | changes.RemoveDamagedFunction(path)
                | changes.RemoveDamagedModel(path)
            ):
                found |= Effects(objects=frozenset({path.name}))
            case _:
                found |= Effects(objects=frozenset({change.entry.path.name}))
    return found

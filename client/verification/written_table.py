"""Whether a table shows what was written into it: an INSERT into an empty copy of its table, which is then read back."""

from __future__ import annotations

import dataclasses
import os
import secrets
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sqlstream import config as options
from sqlstream.catalog import ColumnKind
from sqlstream.client.verification.outcome import WrittenTable
from sqlstream.client.verification.run import run_to_end
from sqlstream.effects import Right
from sqlstream.errors import UserError
from sqlstream.expressions import InputRef
from sqlstream.planner.bind.binder import root_namespace
from sqlstream.planner.bind.relations.tables import bind_table_source
from sqlstream.planner.bind.sink import collecting_sink
from sqlstream.planner.compile import compile_statements
from sqlstream.planner.relational.nodes import Project, Sink
from sqlstream.runtime.checkpoint.places import check_place
from sqlstream.runtime.connectors import connector
from sqlstream.schema import Field, Schema
from sqlstream.spi.connector import CopiesTables

if TYPE_CHECKING:
    from sqlstream.client.sessions.planning import PlanningSession
    from sqlstream.graph.job_graph import JobGraph
    from sqlstream.messages.rpc import JobMetrics
    from sqlstream.planner.batch import CompiledBatch
    from sqlstream.planner.bind.context import BindContext

_ENFORCERS = ("table.exec.sink.type-length-enforcer", "table.exec.sink.not-null-enforcer")
_UNCHANGING = ("IGNORE", "ERROR")
"""Values of an enforcer with which it changes and drops no rows."""

Compare = Callable[[Sink], WrittenTable]
"""Compares the rows of a query, which runs as a stream, with those of the batch."""


def verify_written(
    session: PlanningSession, sink: Sink, batch: CompiledBatch, context: BindContext, compare: Compare
) -> tuple[WrittenTable, JobMetrics | None]:
    """What the table of an INSERT shows when its rows have been written, and the figures of the job that wrote them: None where
    the table was not read back. `batch` is the query in batch. JobError when the rows cannot be written or read."""
    try:
        _check(session, sink, batch, context)
        with tempfile.TemporaryDirectory(prefix="sqlstream-verify-") as directory:
            copy = _copy(session, sink, directory)
            graph = session.with_python_files(_writing(copy, context), context)
            metrics = run_to_end(session.submit_graph(graph), lambda batch: None)
            return compare(reading(copy, context)), metrics
    except _NotReadBack as reason:
        return WrittenTable(not_read=str(reason)), None


def _writing(copy: Sink, context: BindContext) -> JobGraph:
    try:
        return compile_statements((copy,), context, secrets.token_hex(16)).job_graph
    except UserError as error:
        # In batch the table may take rows that it does not take as a stream.
        raise _NotReadBack(f"the statement is refused as a stream: {error.message}") from None


class _NotReadBack(Exception):
    """Why a table cannot be copied and read."""


def _check(session: PlanningSession, sink: Sink, batch: CompiledBatch, context: BindContext) -> None:
    if options.get(session.config, "execution.target") != "local":
        raise _NotReadBack("jobs run elsewhere, and the copy would lie on this machine")
    if not session.permit.allows(Right.WRITE):
        raise _NotReadBack(f"{session.permit.who} may not write tables")
    if sink.action is not None:
        raise _NotReadBack("the statement changes rows that are there already")
    for key in _ENFORCERS:
        if options.get(context.config, key) not in _UNCHANGING:
            raise _NotReadBack(f"{key} changes or drops rows")
    if sink.table.primary_key and not _is_unique(sink, batch):
        raise _NotReadBack("it keeps one row of each primary key, and the query may give several")


def _is_unique(sink: Sink, batch: CompiledBatch) -> bool:
    """Whether the query is known to give at most one row for each primary key."""
    places = {sink.schema.index_of(name) for name in sink.table.primary_key}
    return any(places.issuperset(key) for key in batch.optimised[0].result_keys())


def _copy(session: PlanningSession, sink: Sink, directory: str) -> Sink:
    """The sink of an empty table of the same kind in `directory`."""
    given = dict(sink.options)
    named = connector(given["connector"])
    if not isinstance(named, CopiesTables):
        raise _NotReadBack(f'a table of connector "{named.descriptor.identifier}" cannot be read')
    place = os.path.join(directory, "table")
    try:
        check_place(place, session.files())
    except UserError as error:
        raise _NotReadBack(error.message) from None
    copied = named.empty_copy(given, place)
    if copied is None:
        raise _NotReadBack("it has no copy on this machine")
    table = replace(
        sink.table,
        columns=tuple(c for c in sink.table.columns if c.kind is ColumnKind.PHYSICAL),
        watermark=None,
        options=copied,
    )
    return dataclasses.replace(sink, table=table, options=tuple(sorted(copied.items())))


def reading(copy: Sink, context: BindContext) -> Sink:
    """SELECT of the written columns, in their order and under their names."""
    node = bind_table_source(copy.table, dict(copy.options), root_namespace(context), copy.span)
    names = copy.schema.names
    columns = tuple(
        InputRef(node.schema.index_of(n), node.schema.types[node.schema.index_of(n)]) for n in names
    )
    schema = Schema(tuple(Field(n, c.type) for n, c in zip(names, columns, strict=True)))
    return collecting_sink(
        Project(input=node, expressions=columns, schema=schema, span=copy.span), context, copy.span
    )

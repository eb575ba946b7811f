"""The versions of a table that is read as changes: its changes as rows, of which a deletion ends the version before."""

from __future__ import annotations

import dataclasses

from sqlstream.changelog import RowKind
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Call, Expression, InputRef, Literal, remap
from sqlstream.planner.bind.versions import Versions
from sqlstream.planner.relational.nodes import Project, RelationalNode, TableScan, ToChangelog, Watermark
from sqlstream.schema import Field, Schema
from sqlstream.spi.changelog_options import OP_COLUMN, has_tombstones
from sqlstream.types import BOOLEAN, STRING

_OP, _IS_THERE = "$op", "$is_there"
# A -U says nothing that the +U behind it does not.
_CODES = tuple(None if kind is RowKind.UPDATE_BEFORE else kind.symbol for kind in RowKind)


def reads_changes(node: RelationalNode) -> bool:
    """Whether rows of a table below are replaced or deleted by later ones."""
    is_changing = isinstance(node, TableScan) and not node.mode.is_insert_only
    return is_changing or any(map(reads_changes, node.inputs))


def versions_of_changes(versions: Versions, name: str, span: Span | None) -> Versions:
    """Each +I and +U is a version, and each -D one that no row matches, from the row time that it carries. UserError SS3411 for a
    query over changes, and for a table whose deletions have nothing but the key."""
    watermark = versions.node
    if not versions.is_table:
        raise UserError(
            "SS3411",
            f'"{name}" keeps the last row of each key of a table of changes, which may take back any of its rows',
            span=span,
            hint="join the table of changes itself: by its primary key and watermark each of its changes is a version",
        )
    assert isinstance(watermark, Watermark)
    project = watermark.input if isinstance(watermark.input, Project) else None
    scan = watermark.input if project is None else project.input
    assert isinstance(scan, TableScan)
    if has_tombstones(dict(scan.options)):
        raise UserError(
            "SS3411",
            f'a row of "{name}" with nothing but its key is a deletion, and has no row time from which on there is no version',
            span=span,
            hint=f"name the column that says what a row does in '{OP_COLUMN}', or declare a table of the same rows that only"
            " inserts: by primary key and watermark each of its rows is a version",
        )
    return _over_events(versions, watermark, project, scan)


def _over_events(
    versions: Versions, watermark: Watermark, project: Project | None, scan: TableScan
) -> Versions:
    """The columns of the table, and behind them whether the row is there."""
    events = dataclasses.replace(scan, keeps_events=True)
    operation = Field(_OP, STRING.not_null())
    told = ToChangelog(
        input=events,
        codes=_CODES,
        keys=(),
        schema=Schema((operation, *scan.schema.fields)),
        span=scan.span,
    )
    deletion = Literal(RowKind.DELETE.symbol, STRING.not_null())
    is_there = Call("<>", (InputRef(0, operation.type), deletion), BOOLEAN.not_null())
    columns: tuple[Expression, ...] = tuple(InputRef(i, t) for i, t in enumerate(scan.schema.types))
    columns = columns if project is None else project.expressions
    behind = {i: i + 1 for i in range(len(scan.schema))}
    extra = Field(_IS_THERE, is_there.type)
    rows = Project(
        input=told,
        expressions=(*(remap(e, behind) for e in columns), is_there),
        schema=Schema((*watermark.input.schema.fields, extra)),
        span=scan.span,
    )
    node = dataclasses.replace(watermark, input=rows, schema=Schema((*watermark.schema.fields, extra)))
    condition = InputRef(len(watermark.schema), extra.type)
    return dataclasses.replace(versions, node=node, conditions=(*versions.conditions, condition))

"""`t$expired`: the rows of a table that the state of jobs has let go because of their age."""

from __future__ import annotations

import msgspec

from sqlstream import catalog
from sqlstream.errors import ErrorsAt, Span, UserError
from sqlstream.expired_rows import COLUMNS, CONNECTOR, METADATA_PREFIX, READ, KeptRows, table_identity
from sqlstream.planner.bind.context import BindContext, find_table
from sqlstream.planner.bind.relations.table_options import find_connector
from sqlstream.planner.bind.relations.tables import declared_columns, scan_of
from sqlstream.planner.bind.scope import Namespace
from sqlstream.planner.dialect.statements import Option
from sqlstream.planner.relational.nodes import RelationalNode


def expired_table(
    path: catalog.ObjectPath, base: catalog.CatalogTable, context: BindContext, span: Span | None
) -> catalog.CatalogTable:
    """The columns are NULL where the state of a job had none. Computed columns are computed of the others."""
    descriptor = find_connector(base.options, context, span)
    if not descriptor.is_source:
        raise UserError(
            "SS3003",
            f'table "{path.name}" cannot be read: no job reads table "{base.path.name}"',
            span=span,
            detail=f"its connector {descriptor.identifier} is a sink only",
            hint="ask for the expired rows of a table that jobs read",
        )
    columns = tuple(
        c
        if c.kind is catalog.ColumnKind.COMPUTED
        else catalog.Column(c.name, c.type.without_time_attribute().with_nullable(True), comment=c.comment)
        for c in base.columns
    )
    taken = {c.name for c in columns}
    own = (catalog.Column(f.name, f.type, comment=c) for f, c in COLUMNS if f.name not in taken)
    return catalog.CatalogTable(path, (*columns, *own), {"connector": CONNECTOR})


def bind_expired(
    found: catalog.CatalogTable,
    name: str,
    hints: tuple[Option, ...],
    namespace: Namespace,
    span: Span | None,
) -> RelationalNode:
    """A scan of what the last checkpoints of the jobs have kept. UserError SS3570 where no job keeps any."""
    if hints:
        raise UserError(
            "SS4003",
            f'"{found.path.name}" takes no OPTIONS hint',
            span=hints[0].key_span,
            hint="its rows are those of the table's own place: leave the hint out",
        )
    context = namespace.context
    base = find_table(msgspec.structs.replace(found.path, name=name), context, span)
    identity = table_identity(name, base.options, find_connector(base.options, context, span))
    columns = {
        c.name: f"{METADATA_PREFIX}{c.metadata_key or c.name}"
        if c.kind is catalog.ColumnKind.METADATA
        else c.name
        for c in base.columns
        if c.kind is not catalog.ColumnKind.COMPUTED
    }
    with ErrorsAt(span):
        read = KeptRows(identity, columns, context.expired_places(name, identity))
    options = {**found.options, READ: msgspec.json.encode(read).decode()}
    return declared_columns(scan_of(found, options, True, {}, span), namespace.at(span))

"""Tables and views in FROM: a scan with computed columns and watermark above it, or the view's query."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import TypeVar

import msgspec
from sqlglot import exp

from sqlstream import catalog, config
from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.config_option import parse_duration_ms
from sqlstream.effects import Effects
from sqlstream.errors import ErrorsAt, Span, UserError
from sqlstream.expressions import Expression, InputRef, references, substitute
from sqlstream.models import TRAINED, WEIGHTS_PATH, weights_options
from sqlstream.planner.bind.context import BindContext, find_object, find_table, resolve_path
from sqlstream.planner.bind.expressions.casts import cast_to
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.relations.table_options import (
    check_hints,
    check_table_changes,
    check_table_options,
    find_connector,
    is_bounded,
    metadata_of,
    written_options,
)
from sqlstream.planner.bind.scope import FromItem, Namespace, Scope
from sqlstream.planner.dialect import nodes
from sqlstream.planner.dialect.parser import parse_expression, parse_query, table_options
from sqlstream.planner.dialect.statements import Option
from sqlstream.planner.relational.nodes import LateRows, Project, RelationalNode, TableScan, Watermark
from sqlstream.planner.relational.watermark import WATERMARK_COLUMN, watermark_type
from sqlstream.schema import Field, Schema
from sqlstream.specs.train_model import PUBLISHED
from sqlstream.specs.watermark import ALIGNMENT_GROUP, Alignment, EmitStrategy
from sqlstream.spi.changelog_options import source_mode_of
from sqlstream.spi.connector import READS, REJECTED_ROWS, REJECTED_ROWS_PATH
from sqlstream.spi.format import value_format
from sqlstream.spi.inspection import FileInference
from sqlstream.types import LogicalType, as_rowtime

T = TypeVar("T")


def bind_table(node: exp.Table, namespace: Namespace) -> FromItem:
    """Bind a table, view or common table expression, under its alias or its own name."""
    parts = tuple(str(part.name) for part in node.parts)
    span = _name_span(node, namespace)
    hints = table_options(node)
    if len(parts) == 1 and parts[0] in namespace.ctes:
        query = namespace.ctes[parts[0]]
        return FromItem(query, Scope.of(query.schema, parts))
    path = resolve_path(parts, namespace.catalog, namespace.database, span)
    beside = find_side_table(path, namespace.context, span)
    found = beside or find_object(path, namespace.context, span, tuple(namespace.ctes))
    if isinstance(found, catalog.CatalogView):
        if hints:
            raise UserError(
                "SS4003",
                f'"{path.name}" is a view and takes no OPTIONS hint',
                span=hints[0].key_span,
                hint="write the hint behind a table within the view",
            )
        bound = _bind_view(found, namespace, span)
    else:
        is_stored = namespace.fixed_span is not None
        table, kind = split_name(path.name) if beside is not None else ("", "")
        given = {} if kind == EXPIRED else check_hints(found, hints, namespace.context, is_stored=is_stored)
        overrides = {**found.options, **given}
        if kind == LATE:
            base = find_table(msgspec.structs.replace(path, name=table), namespace.context, span)
            rows = bind_table_source(base, overrides, namespace, span)
            assert isinstance(rows, Watermark)
            bound = LateRows.of(rows)
        elif kind == EXPIRED:
            from sqlstream.planner.bind.relations.expired_rows import bind_expired

            bound = bind_expired(found, table, hints, namespace, span)
        else:
            bound = bind_table_source(found, overrides, namespace, span)
            if namespace.context.backfills is not None:
                bound = namespace.context.backfills.over(bound, path, span)
    return FromItem(bound, Scope.of(bound.schema, (path.catalog, path.database, path.name)))


def bind_file(node: nodes.FilePath, namespace: Namespace) -> FromItem:
    """Bind files in FROM under the name of the file without its suffixes. Within a view they are what they were when it was
    created."""
    path, span, hints = str(node.this.name), namespace.span(node.this), table_options(node)
    files = namespace.files
    known = None if files is None else files.find(path, written_options(hints))
    inferred = known or define_files(path, hints, namespace.context, span)
    bound = bind_table_source(anonymous_table(path, inferred), inferred.options, namespace, span)
    name = os.path.basename(path.rstrip("/")).split(".")[0]
    return FromItem(bound, Scope.of(bound.schema, (name,) if name else ()))


def _name_span(node: exp.Table, namespace: Namespace) -> Span | None:
    """The position of the table's name, without alias and hints."""
    spans = [s for part in node.parts if (s := namespace.span(part)) is not None]
    return Span(spans[0].start, spans[-1].end) if spans else namespace.span(node)


def _bind_view(view: catalog.CatalogView, namespace: Namespace, span: Span | None) -> RelationalNode:
    if view.path in namespace.views:
        raise UserError("SS2016", f'view "{view.path.name}" reads itself', span=span)
    inner = namespace.inside_view(view, span)
    key = (view.path, inner.fixed_span)
    known = namespace.bound_views.get(key)
    if known is not None:
        return known

    def bind() -> RelationalNode:
        return inner.bind_subquery(parse_query(view.query), inner)

    query = _blaming(f'in the definition of view "{view.path.name}"', span, bind)
    bound = rename(query, view.column_names) if view.column_names else query
    namespace.bound_views[key] = bound
    return bound


def rename(node: RelationalNode, names: tuple[str, ...]) -> RelationalNode:
    """`node` with its columns renamed to `names`."""
    return Project(
        input=node,
        expressions=references(node.schema.types),
        schema=Schema.of(*zip(names, node.schema.types, strict=True)),
        span=node.span,
    )


def bind_table_source(
    table: catalog.CatalogTable, options: dict[str, str], namespace: Namespace, span: Span | None
) -> RelationalNode:
    """Scan, computed columns and watermark of `table`; the output has the declared columns in order."""
    descriptor = find_connector(options, namespace.context, span)
    if not descriptor.is_source:
        raise UserError(
            "SS3003",
            f'table "{table.path.name}" cannot be read: connector "{descriptor.identifier}" is only a sink',
            span=span,
        )
    with ErrorsAt(span):
        check_table_changes(table, options, namespace.context)
    written = namespace.context.formats.get(value_format(options)) if descriptor.place.has_format else None
    metadata = metadata_of(descriptor, options, namespace.context)
    scan = scan_of(table, options, is_bounded(descriptor, options), metadata, span)
    if written is not None:
        mode = descriptor.reading.mode
        if mode.is_insert_only:
            mode = source_mode_of(written, options, bool(table.primary_key))
        scan = dataclasses.replace(
            scan,
            mode=mode,
            leaves_out_values=written.leaves_out_values and mode is ChangelogMode.UPSERT,
            varying_metadata=written.varying_metadata if mode is ChangelogMode.RETRACT else frozenset(),
        )
    node = declared_columns(scan, namespace.at(span))
    return _with_watermark(node, table, options, namespace.at(span), span)


def declared_columns(scan: TableScan, namespace: Namespace) -> RelationalNode:
    """The declared columns of a table in order, over a scan of it."""
    columns = bind_columns(scan.table, scan.schema, namespace, scan.span)
    if _is_identity(columns, scan):
        return scan
    names = [c.name for c in scan.table.columns]
    schema = Schema.of(*[(name, e.type) for name, e in zip(names, columns, strict=True)])
    return Project(input=scan, expressions=columns, schema=schema, span=scan.span)


def scan_of(
    table: catalog.CatalogTable,
    options: dict[str, str],
    bounded: bool,
    metadata_types: dict[str, LogicalType],
    span: Span | None,
) -> TableScan:
    physical = [c for c in table.columns if c.kind is catalog.ColumnKind.PHYSICAL]
    metadata = tuple(
        dict.fromkeys(
            Field(c.metadata_key or c.name, metadata_types.get(c.metadata_key or c.name, c.type))
            for c in table.columns
            if c.kind is catalog.ColumnKind.METADATA
        )
    )
    return TableScan(
        table=table,
        options=tuple(sorted(options.items())),
        columns=tuple(c.name for c in physical),
        metadata=metadata,
        is_bounded=bounded,
        schema=Schema(tuple(Field(c.name, c.type.without_time_attribute()) for c in physical) + metadata),
        span=span,
    )


def bind_columns(
    table: catalog.CatalogTable, scanned: Schema, namespace: Namespace, span: Span | None
) -> tuple[Expression, ...]:
    """One expression per declared column, over the scan's columns."""
    physical = [c.name for c in table.columns if c.kind is catalog.ColumnKind.PHYSICAL]
    width = len(physical)
    keys = [f.name for f in scanned.fields[width:]]
    stored: dict[str, Expression] = {}
    for column in table.columns:
        if column.kind is catalog.ColumnKind.PHYSICAL:
            index = physical.index(column.name)
            stored[column.name] = InputRef(index, scanned.types[index])
        elif column.kind is catalog.ColumnKind.METADATA:
            index = width + keys.index(column.metadata_key or column.name)
            stored[column.name] = cast_to(InputRef(index, scanned.types[index]), column.type, span)
    return tuple(stored.get(c.name) or _computed(c, stored, table, namespace, span) for c in table.columns)


def _computed(
    column: catalog.Column,
    stored: dict[str, Expression],
    table: catalog.CatalogTable,
    namespace: Namespace,
    span: Span | None,
) -> Expression:
    def bind() -> Expression:
        scope = Scope.of(Schema.of(*[(n, e.type) for n, e in stored.items()]), (table.path.name,))
        binder = ScalarBinder(namespace, scope, f'computed column "{column.name}"')
        bound = binder.bind(parse_expression(column.expression))
        return substitute(bound, tuple(stored.values()))

    return _blaming(f'in computed column "{column.name}" of table "{table.path.name}"', span, bind)


def _with_watermark(
    node: RelationalNode,
    table: catalog.CatalogTable,
    options: dict[str, str],
    namespace: Namespace,
    span: Span | None,
) -> RelationalNode:
    definition, alignment = table.watermark, Alignment.of(options)
    if definition is None:
        if alignment is not None:
            raise UserError(
                "SS4003",
                f'table "{table.path.name}" has no watermark by which it could be aligned',
                span=span,
                hint=f"declare WATERMARK FOR a column, or leave out '{ALIGNMENT_GROUP}'",
            )
        return node

    def bind() -> Expression:
        binder = ScalarBinder(namespace, Scope.of(node.schema, (table.path.name,)), "WATERMARK")
        return binder.bind(parse_expression(definition.expression))

    expression = _blaming(f'in the watermark of table "{table.path.name}"', span, bind)
    column = node.schema.index_of(definition.column)
    fields = list(node.schema.fields)
    fields[column] = Field(definition.column, as_rowtime(fields[column].type))
    idle = options.get("scan.watermark.idle-timeout")
    return Watermark(
        input=node,
        column=column,
        expression=expression,
        emit_strategy=EmitStrategy(options.get("scan.watermark.emit.strategy", "on-periodic").lower()),
        idle_timeout_ms=parse_duration_ms(idle)
        if idle is not None
        else int(config.get(namespace.context.config, "table.exec.source.idle-timeout")),
        alignment=alignment,
        schema=Schema(tuple(fields)),
        span=span,
    )


def _is_identity(columns: tuple[Expression, ...], scan: TableScan) -> bool:
    return len(columns) == len(scan.schema) and all(
        isinstance(e, InputRef) and e.index == i and scan.schema.names[i] == name
        for i, (e, name) in enumerate(zip(columns, [c.name for c in scan.table.columns], strict=True))
    )


def _blaming(where: str, span: Span | None, bind: Callable[[], T]) -> T:
    """Run `bind` over stored text: its errors point at the reference in the user's script, and `where` names the text."""
    try:
        return bind()
    except UserError as error:
        detail = f"{error.detail}; {where}" if error.detail else where
        raise UserError(error.code, error.message, span=span, detail=detail, hint=error.hint) from error


# Files that a statement reads by their path: `FROM 'path'` and CREATE TABLE … LIKE 'path'.


CONNECTOR = "filesystem"


def define_files(
    path: str, written: tuple[Option, ...], context: BindContext, span: Span | None
) -> catalog.InferredTable:
    """The table of the files at a path, inferred once per statement. UserError with a position for options that do not fit, and
    where nothing can be inferred."""
    given = written_options(written)
    known = context.files.find(path, given)
    if known is None:
        known = _infer(path, written, context, span)
        context.files.add(catalog.FileDefinition(path, given, known))
    return known


def _infer(
    path: str, written: tuple[Option, ...], context: BindContext, span: Span | None
) -> catalog.InferredTable:
    inference = context.files.inference
    if inference is None:
        raise UserError(
            "SS3001",
            "files cannot be read by their path here",
            span=span,
            hint="declare a table for them with CREATE TABLE",
        )
    context.permit.require(Effects(files=frozenset({path})), span)
    with ErrorsAt(span):
        given = _completed(path, written, inference, span)
        check_table_options(given, (), context, span)
        return inference.table({o.key: o.value for o in given})


def _completed(
    path: str, written: tuple[Option, ...], inference: FileInference, span: Span | None
) -> tuple[Option, ...]:
    """All options of a table at the path, as if they had been written."""
    place = span or Span(0, 0)
    for option in written:
        if option.key == "path":
            hint = "write the path in place of the one in quotes"
            raise UserError(
                "SS4003", "the path is that of the files in quotes", span=option.key_span, hint=hint
            )
        if option.key == "connector" and option.value != CONNECTOR:
            raise UserError(
                "SS4003",
                f'a path in quotes is read by connector "{CONNECTOR}", not "{option.value}"',
                span=option.value_span,
                hint="leave the option out",
            )
    keys = {o.key for o in written}
    added = [Option("connector", CONNECTOR, place, place)] if "connector" not in keys else []
    added.append(Option("path", path, place, place))
    if "format" not in keys:
        added.append(Option("format", inference.format(path), place, place))
    return (*added, *written)


def anonymous_table(path: str, table: catalog.InferredTable) -> catalog.CatalogTable:
    """The table of a path in FROM, which is in no catalog."""
    return catalog.CatalogTable(
        catalog.ObjectPath("", "", path),
        table.columns,
        table.options,
        partition_keys=table.partition_keys,
        is_anonymous=True,
    )


# The tables beside a table: `t$late`, its rows behind the watermark, `t$errors`, those that could not be decoded, and
# `t$expired`, those that the state of jobs has let go. Beside a model that a job trains: `m$weights`.


LATE, ERRORS, WEIGHTS, EXPIRED = "late", "errors", "weights", "expired"

_ERROR_COLUMNS = (
    catalog.Column("job", sql.STRING, comment="the job that read the row"),
    catalog.Column("rejected_at", sql.timestamp_ltz(3), comment="when it did"),
)
_ERROR_COMMENTS = {
    "file": "the file that holds the row",
    "line": "its line there, the first is 1",
    "reason": "why it could not be decoded",
    "text": "what stands there",
    "topic": "the topic of the message",
    "partition": "its partition",
    "offset": "its offset there",
    "key": "the bytes of its key",
    "value": "the bytes of its value",
}
_PLACE_OPTIONS = ("connector", "path", REJECTED_ROWS_PATH)


def split_name(name: str) -> tuple[str, str]:
    """("t", "late") of "t$late"; ("", "") of any other name."""
    table, _, kind = name.rpartition("$")
    return (table, kind) if table and kind in (LATE, ERRORS, WEIGHTS, EXPIRED) else ("", "")


def find_side_table(
    path: catalog.ObjectPath, context: BindContext, span: Span | None
) -> catalog.CatalogTable | None:
    """What a name beside that of a table reads; None when it is no such name, or there is no such table. Of `t$late` the
    options are those of the table. UserError SS3003 where the table has nothing of the kind."""
    name, kind = split_name(path.name)
    if kind == WEIGHTS:
        return _weights_table(path, name, context, span)
    base = context.catalog.get(msgspec.structs.replace(path, name=name)) if name else None
    if not isinstance(base, catalog.CatalogTable):
        return None
    if kind == EXPIRED:
        from sqlstream.planner.bind.relations.expired_rows import expired_table

        return expired_table(path, base, context, span)
    return _late_table(path, base, span) if kind == LATE else _errors_table(path, base, context, span)


def _late_table(
    path: catalog.ObjectPath, base: catalog.CatalogTable, span: Span | None
) -> catalog.CatalogTable:
    if base.watermark is None:
        raise UserError(
            "SS3003",
            f'table "{path.name}" cannot be read: no row of table "{base.path.name}" is late',
            span=span,
            detail="it declares no WATERMARK",
            hint=f"declare one: ALTER TABLE {base.path.name} ADD WATERMARK FOR …",
        )
    columns = tuple(
        msgspec.structs.replace(c, kind=catalog.ColumnKind.PHYSICAL, type=c.type.without_time_attribute())
        if c.name == base.watermark.column
        else c
        for c in base.columns
    )
    time = next(c for c in base.columns if c.name == base.watermark.column)
    own = catalog.Column(
        WATERMARK_COLUMN, watermark_type(time.type), comment="the watermark that the row is behind"
    )
    return msgspec.structs.replace(
        base, path=path, columns=(*columns, own), watermark=None, primary_key=(), partition_keys=()
    )


_WEIGHTS_COMMENTS = {
    "version": "how many versions have been published",
    "rows": "how many rows were learned",
    "skipped": "those with a NULL, NaN or infinity",
    "loss": "of the last mini-batch, before it was learned",
}


def _weights_table(
    path: catalog.ObjectPath, name: str, context: BindContext, span: Span | None
) -> catalog.CatalogTable | None:
    model_path = msgspec.structs.replace(path, name=name)
    model = context.catalog.model(model_path, True) or context.catalog.model(model_path, False)
    if model is None:
        return None
    if model.provider != TRAINED:
        raise UserError(
            "SS3003",
            f'table "{path.name}" cannot be read: no job trains model "{name}"',
            span=span,
            hint="CREATE MODEL … AS SELECT … trains one",
        )
    columns = tuple(
        catalog.Column(f.name, f.type, comment=_WEIGHTS_COMMENTS.get(f.name, "")) for f in PUBLISHED.fields
    )
    place = weights_options(
        model.options[WEIGHTS_PATH], context.config, context.connectors[CONNECTOR].options
    )
    options = {"connector": CONNECTOR, **place, "format": "json"}
    return catalog.CatalogTable(path, columns, options)


def _errors_table(
    path: catalog.ObjectPath, base: catalog.CatalogTable, context: BindContext, span: Span | None
) -> catalog.CatalogTable:
    descriptor = context.connectors.get(base.options.get("connector", ""))
    if descriptor is None or not descriptor.reading.rejected_rows:
        raise UserError(
            "SS3003",
            f'table "{path.name}" cannot be read: connector "{base.options.get("connector")}" keeps no rejected rows',
            span=span,
            hint=f'the rows of "{base.path.name}" are read or the job fails',
        )
    place = {key: base.options[key] for key in _PLACE_OPTIONS if key in base.options}
    if descriptor.identifier != CONNECTOR:
        kept = base.options.get(REJECTED_ROWS_PATH)
        if not kept:
            raise UserError(
                "SS3003",
                f'table "{path.name}" cannot be read: table "{base.path.name}" keeps no rejected rows',
                span=span,
                hint=f"ALTER TABLE {base.path.name} SET ('{REJECTED_ROWS_PATH}' = '…'), a directory for them",
            )
        place = {"connector": CONNECTOR, "path": kept, REJECTED_ROWS_PATH: kept}
    # A row that is being written is read the next time.
    options = {
        **place,
        READS: REJECTED_ROWS,
        "format": "json",
        "json.ignore-parse-errors": "true",
    }
    columns = tuple(
        catalog.Column(f.name, f.type, comment=_ERROR_COMMENTS.get(f.name, ""))
        for f in descriptor.reading.rejected_rows
    )
    return catalog.CatalogTable(path=path, columns=(*_ERROR_COLUMNS, *columns), options=options)

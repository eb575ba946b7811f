"""UPDATE, DELETE and TRUNCATE TABLE: the query of the rows that they change, and the sink that changes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from sqlglot import exp

from sqlstream.catalog import CatalogTable, Column, ColumnKind
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import Span, UserError
from sqlstream.expressions import TRUE, Expression, InputRef, Literal
from sqlstream.planner.bind.binder import bind_query
from sqlstream.planner.bind.context import BindContext, find_table, object_path, suggest
from sqlstream.planner.bind.expressions.calls import bind_call
from sqlstream.planner.bind.expressions.casts import can_cast_implicitly, plain, stored_value
from sqlstream.planner.bind.relations.table_options import check_hints, find_connector, written_format
from sqlstream.planner.dialect.nodes import span_of
from sqlstream.planner.dialect.statements import Delete, Identifier, Option, Truncate, Update
from sqlstream.planner.guards import refuse_depth
from sqlstream.planner.relational.nodes import Project, RelationalNode, Sink, Values
from sqlstream.schema import Field, Schema
from sqlstream.specs.sink import SinkAction
from sqlstream.spi.changelog_options import COMPACTED, ChangelogOptions
from sqlstream.spi.connector import ConnectorDescriptor

_IGNORE = ".ignore-parse-errors"
"""The end of the option by which formats skip what they cannot decode."""

_AFFECTED = "$affected"
"""Which rows a statement changes; no column can have this name but in backticks."""


@dataclasses.dataclass(frozen=True)
class _Target:
    """The table of a statement, as it is read and written."""

    table: CatalogTable
    options: dict[str, str]
    descriptor: ConnectorDescriptor
    columns: tuple[Column, ...]
    name: Identifier
    action: SinkAction

    @property
    def is_by_key(self) -> bool:
        """Whether the changed rows alone are written; otherwise all rows of the table are written anew."""
        return self.descriptor.writing.mode is ChangelogMode.UPSERT

    def sink(self, source: RelationalNode) -> Sink:
        fields = tuple(Field(c.name, c.type.without_time_attribute()) for c in self.columns)
        return Sink(
            input=source,
            table=self.table,
            options=tuple(sorted(self.options.items())),
            schema=Schema(fields),
            span=self.name.span,
            action=self.action,
        )


def check_can_change(
    table: CatalogTable, descriptor: ConnectorDescriptor, action: SinkAction, span: Span | None
) -> None:
    """UserError SS3490 for a connector whose tables only grow."""
    if descriptor.writing.changes_rows:
        return
    what = "INSERT OVERWRITE" if action is SinkAction.OVERWRITE else action.value
    raise UserError(
        "SS3490",
        f'{what} cannot replace rows of table "{table.path.name}": connector "{descriptor.identifier}" '
        + ("only adds rows" if descriptor.is_sink else "is only a source"),
        span=span,
        hint="filesystem, duckdb and jdbc can; write INSERT INTO to add rows"
        if descriptor.is_sink
        else "filesystem, duckdb and jdbc can",
    )


@refuse_depth()
def bind_truncate(statement: Truncate, context: BindContext) -> Sink:
    """A sink without rows, whose commit removes those that are there."""
    target = _target(statement.target, (), SinkAction.TRUNCATE, context)
    schema = Schema(tuple(Field(c.name, c.type.without_time_attribute()) for c in target.columns))
    return target.sink(Values(schema=schema, rows=(), span=statement.span))


@refuse_depth()
def bind_delete(statement: Delete, context: BindContext) -> Sink:
    """The rows that go, or all rows with a mark of these."""
    target = _target(statement.target, statement.hints, SinkAction.DELETE, context)
    return _changed(target, statement, {}, context)


@refuse_depth()
def bind_update(statement: Update, context: BindContext) -> Sink:
    """The rows that change, with their new values, or all rows with a mark of these. UserError for columns that do not exist,
    are assigned twice, or take no such value."""
    target = _target(statement.target, statement.hints, SinkAction.UPDATE, context)
    return _changed(target, statement, dict(_assigned(statement, target)), context)


def _target(name: Identifier, hints: tuple[Option, ...], action: SinkAction, context: BindContext) -> _Target:
    table = find_table(object_path(name.parts, context, name.span), context, name.span)
    options = {**table.options, **check_hints(table, hints, context)}
    descriptor = find_connector(options, context, name.span)
    check_can_change(table, descriptor, action, name.span)
    for column in table.columns:
        if column.kind is ColumnKind.METADATA and not column.is_virtual:
            raise UserError(
                "SS3003",
                f'metadata column "{column.name}" of table "{table.path.name}" cannot be written',
                span=name.span,
                hint="declare it VIRTUAL",
            )
    if action.changes_rows:
        _check_rows_are_found(table, options, descriptor, action, name.span, context)
    columns = tuple(c for c in table.columns if c.kind is ColumnKind.PHYSICAL)
    return _Target(table, options, descriptor, columns, name, action)


def _check_rows_are_found(
    table: CatalogTable,
    options: dict[str, str],
    descriptor: ConnectorDescriptor,
    action: SinkAction,
    span: Span | None,
    context: BindContext,
) -> None:
    name = table.path.name
    if descriptor.writing.mode is ChangelogMode.UPSERT and not table.primary_key:
        raise UserError(
            "SS3491",
            f'{action.value} finds rows of connector "{descriptor.identifier}" by the primary key, and table "{name}" has none',
            span=span,
            hint=f"declare it: ALTER TABLE `{name}` ADD PRIMARY KEY (…) NOT ENFORCED",
        )
    written = written_format(descriptor, options, context)
    if written is not None and not written.source_mode.is_insert_only:
        raise UserError(
            "SS3491",
            f'{action.value} changes rows, and the files of table "{name}" hold changes (format "{options["format"]}")',
            span=span,
            hint="write changes: INSERT INTO the table the rows of a query that updates",
        )


def _assigned(statement: Update, target: _Target) -> Iterator[tuple[str, exp.Expression]]:
    seen: set[str] = set()
    by_name = {c.name: c for c in target.table.columns}
    is_compacted = (
        target.descriptor.place.has_format and ChangelogOptions.of(target.options).mode == COMPACTED
    )
    for assignment in statement.assignments:
        name, span = assignment.column.parts[-1], assignment.column.span
        column = by_name.get(name)
        if column is None:
            hint = suggest(name, [c.name for c in target.columns], "columns")
            message = f'column "{name}" does not exist in table "{target.table.path.name}"'
            raise UserError("SS2003", message, span=span, hint=hint)
        if column.kind is not ColumnKind.PHYSICAL:
            kind = "computed" if column.kind is ColumnKind.COMPUTED else "a metadata column"
            message = f'column "{name}" of table "{target.table.path.name}" cannot be written: it is {kind}'
            raise UserError("SS2011", message, span=span, hint="assign columns that the table stores")
        if name in seen:
            raise UserError("SS2012", f'column "{name}" is assigned twice', span=span, hint="assign it once")
        if target.is_by_key and name in target.table.primary_key:
            raise UserError(
                "SS3491",
                f'column "{name}" is part of the primary key of table "{target.table.path.name}", by which UPDATE finds its rows',
                span=span,
                hint="INSERT the rows with their new keys, then DELETE those with the old ones",
            )
        if is_compacted and name in target.table.primary_key:
            raise UserError(
                "SS3491",
                f'column "{name}" is part of the primary key of table "{target.table.path.name}", of which there is one row each',
                span=span,
                hint="INSERT the rows with their new keys, then DELETE those with the old ones",
            )
        seen.add(name)
        yield name, assignment.value


def _changed(
    target: _Target,
    statement: Update | Delete,
    assigned: dict[str, exp.Expression],
    context: BindContext,
) -> Sink:
    """The sink over the columns of the table, with the assigned values, and the mark."""
    query = bind_query(_query(target, statement, list(assigned.values())), context)
    width = len(target.columns)
    flag: Expression = TRUE if target.is_by_key else InputRef(width, query.schema.types[width])
    first_value = width if target.is_by_key else width + 1
    expressions: list[Expression] = []
    for index, column in enumerate(target.columns):
        old: Expression = InputRef(index, query.schema.types[index])
        if column.name in assigned:
            place = first_value + list(assigned).index(column.name)
            new = _value(
                InputRef(place, query.schema.types[place]),
                column,
                assigned[column.name],
                target,
                context.config,
            )
            old = new if target.is_by_key else bind_call("CASE", (flag, new, old), None)
        expressions.append(stored_value(old, column.type, None, context.config))
    expressions.append(flag)
    names = (*(c.name for c in target.columns), _AFFECTED)
    schema = Schema(tuple(Field(n, e.type) for n, e in zip(names, expressions, strict=True)))
    project = Project(input=query, expressions=tuple(expressions), schema=schema, span=statement.span)
    return target.sink(project)


def _value(
    value: Expression, column: Column, written: exp.Expression, target: _Target, config: Mapping[str, str]
) -> Expression:
    if not can_cast_implicitly(value.type, column.type):
        raise UserError(
            "SS2008",
            f'column "{column.name}" of table "{target.table.path.name}" is {plain(column.type)}, not {plain(value.type)}',
            span=span_of(written),
            hint=f"write CAST(… AS {plain(column.type)})",
        )
    if isinstance(value, Literal) and value.value is None and not column.type.nullable:
        raise UserError(
            "SS2011",
            f'column "{column.name}" is NOT NULL',
            span=span_of(written),
            hint="assign a value that is not NULL",
        )
    return stored_value(value, column.type, span_of(written), config)


def _query(target: _Target, statement: Update | Delete, values: list[exp.Expression]) -> exp.Expression:
    """By key: SELECT columns, values FROM t WHERE condition. Otherwise, as the mark must be computed once:

    SELECT columns, mark, CASE WHEN mark THEN value END … FROM (SELECT *, (condition) IS TRUE AS mark FROM t) AS t
    """
    alias = statement.alias.parts[0] if statement.alias is not None else statement.target.parts[-1]
    columns: list[exp.Expr] = [_column(c.name, alias) for c in target.columns]
    table = _table(target, alias)
    condition = statement.condition
    if target.is_by_key:
        query = exp.Select(expressions=[*columns, *values], from_=exp.From(this=table))
        if condition is not None:
            query.set("where", exp.Where(this=condition))
        return query
    mark = (
        exp.Boolean(this=True)
        if condition is None
        else exp.Is(this=condition, expression=exp.Boolean(this=True))
    )
    marked = exp.Select(
        expressions=[exp.Star(), exp.Alias(this=mark, alias=_identifier(_AFFECTED))],
        from_=exp.From(this=table),
    )
    new = [exp.Case(ifs=[exp.If(this=_column(_AFFECTED, alias), true=value)]) for value in values]
    inner = exp.Subquery(this=marked, alias=exp.TableAlias(this=_identifier(alias)))
    return exp.Select(expressions=[*columns, _column(_AFFECTED, alias), *new], from_=exp.From(this=inner))


def _table(target: _Target, alias: str) -> exp.Expr:
    path = target.table.path
    table = exp.Table(
        this=_identifier(path.name),
        db=_identifier(path.database),
        catalog=_identifier(path.catalog),
        alias=exp.TableAlias(this=_identifier(alias)),
    )
    table.meta["span"] = target.name.span
    span = target.name.span
    options = [
        Option(key, value, span, span)
        for key, value in target.options.items()
        if value != target.table.options.get(key)
    ]
    skipping = f"{target.options.get('format', '')}{_IGNORE}"
    if not target.is_by_key and skipping in target.options:
        # A row that is skipped would be gone from the table.
        options.append(Option(skipping, "false", span, span))
    table.meta["options"] = tuple(options)
    return table


def _column(name: str, table: str) -> exp.Column:
    return exp.Column(this=_identifier(name), table=_identifier(table))


def _identifier(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=True)

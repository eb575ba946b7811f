"""ALTER TABLE and ALTER VIEW: names, options of tables, queries of views."""

from __future__ import annotations

from msgspec.structs import replace
from sqlglot import exp

from sqlstream import catalog
from sqlstream.catalog import CatalogObject, CatalogTable, CatalogView, PutObject
from sqlstream.errors import Span, UserError
from sqlstream.planner.bind.context import BindContext, find_object, object_path, renamed_path, suggest
from sqlstream.planner.bind.relations.table_options import check_altered_options
from sqlstream.planner.dialect import statements
from sqlstream.planner.statements.create_table import apply_create_table
from sqlstream.planner.statements.create_view import bind_view
from sqlstream.planner.statements.result import DdlResult
from sqlstream.planner.statements.show_create import constraint_name
from sqlstream.planner.statements.table_like import declared


def rename(statement: statements.RenameObject, context: BindContext) -> DdlResult:
    """Give a table or view another name in its database."""
    kind = "view" if statement.is_view else "table"
    found = _find(statement.name, context, statement.is_view, statement.if_exists)
    if found is None:
        return _absent(statement.name, kind)
    target = statement.target
    path = renamed_path(found.path, target.parts, kind, context, target.span)
    if context.catalog.get_kind(path, found.is_temporary) is not None:
        raise UserError(
            "SS2013", f'"{path.name}" exists already', span=target.span, hint="choose another name"
        )
    done = f'{kind} "{found.path.name}" is now "{path.name}"'
    return DdlResult.ok(catalog.RenameObject(found, path.name), done=done)


def alter_table_options(statement: statements.AlterTableOptions, context: BindContext) -> DdlResult:
    """Set options of a table, or reset them to their defaults."""
    found = _find(statement.name, context, False, statement.if_exists)
    if found is None:
        return _absent(statement.name, "table")
    assert isinstance(found, CatalogTable)
    if not statement.options and not statement.reset:
        raise UserError(
            "SS2011", "ALTER TABLE … SET takes at least one option", span=statement.span, hint="name one"
        )
    reset = {key.parts[0]: key.span for key in statement.reset}
    options = check_altered_options(
        found, statement.options, reset, context, statements.option_places(statement)
    )
    return DdlResult.ok(
        PutObject(replace(found, options=options), found), done=f'table "{found.path.name}" altered'
    )


def alter_table(statement: statements.AlterTable, context: BindContext) -> DdlResult:
    """Add, change, drop or rename columns, the primary key or the watermark of a table."""
    found = _find(statement.name, context, False, statement.if_exists)
    if found is None:
        return _absent(statement.name, "table")
    assert isinstance(found, CatalogTable)
    return alter_columns(statement, found, context)


def alter_view(statement: statements.AlterView, context: BindContext) -> DdlResult:
    """Give a view another query. Its column names become those of the query, as in Flink."""
    found = _find(statement.name, context, True, False)
    assert isinstance(found, CatalogView)
    altered = bind_view(found.path, statement.query, statement.query_text, (), statement.name.span, context)
    altered = replace(altered, comment=found.comment, is_temporary=found.is_temporary)
    return DdlResult.ok(PutObject(altered, found), done=f'view "{found.path.name}" altered')


def _find(
    name: statements.Identifier, context: BindContext, is_view: bool, if_exists: bool
) -> CatalogObject | None:
    """The visible object of that name and kind; None when there is none and the statement says IF EXISTS."""
    path = object_path(name.parts, context, name.span)
    if if_exists and context.catalog.get(path) is None:
        return None
    found = find_object(path, context, name.span)
    if isinstance(found, CatalogView) != is_view:
        actual, kind = ("view", "table") if not is_view else ("table", "view")
        raise UserError(
            "SS2002",
            f'"{path.name}" is a {actual}, not a {kind}',
            span=name.span,
            hint=f"write ALTER {actual.upper()} {path.name}",
        )
    return found


def _absent(name: statements.Identifier, kind: str) -> DdlResult:
    return DdlResult.ok(done=f'{kind} "{name.parts[-1]}" does not exist: nothing changed')


# ALTER TABLE: columns, primary key and watermark of a table, which is declared anew with them.


def alter_columns(statement: statements.AlterTable, table: CatalogTable, context: BindContext) -> DdlResult:
    """The table with the changes made one after the other. UserError with a position for one that contradicts the table."""
    written = declared(table, statement.name, statement.text, statement.span)
    for change in statement.changes:
        written = _changed(written, change)
    altered = replace(apply_create_table(written, context), path=table.path, is_temporary=table.is_temporary)
    return DdlResult.ok(PutObject(altered, table), done=f'table "{table.path.name}" altered')


def _changed(table: statements.CreateTable, change: statements.TableChange) -> statements.CreateTable:
    match change:
        case statements.PutColumn():
            return _with_column(table, change)
        case statements.DropColumn(name):
            return _without_column(table, name)
        case statements.RenameColumn():
            return _renamed(table, change)
        case statements.PutWatermark(watermark, is_new):
            _check_put("watermark", table.watermark is not None, is_new, watermark.span)
            return replace(table, watermark=watermark)
        case statements.DropWatermark(span):
            _check_put("watermark", table.watermark is not None, False, span)
            return replace(table, watermark=None)
        case statements.PutPrimaryKey(columns, is_new, name):
            _check_put("primary key", bool(table.primary_key), is_new, columns[0].span)
            return replace(table, primary_key=columns, key_name=name)
        case statements.DropPrimaryKey(span, name):
            _check_put("primary key", bool(table.primary_key), False, span)
            actual = constraint_name(table.key_name, tuple(k.parts[0] for k in table.primary_key))
            if name and name != actual:
                hint = f'its only constraint is "{actual}"'
                raise UserError("SS2011", f'the table has no constraint "{name}"', span=span, hint=hint)
            return replace(table, primary_key=(), key_name="")


def _check_put(what: str, is_there: bool, is_new: bool, span: Span) -> None:
    if is_new and is_there:
        raise UserError(
            "SS2012", f"the table has a {what} already", span=span, hint="change it with ALTER TABLE … MODIFY"
        )
    if not is_new and not is_there:
        raise UserError(
            "SS2003", f"the table has no {what}", span=span, hint="add one with ALTER TABLE … ADD"
        )


def _with_column(table: statements.CreateTable, change: statements.PutColumn) -> statements.CreateTable:
    # Its key, if it has one, is a change of its own.
    column = replace(change.column, is_primary_key=False)
    if column.expression is not None and not column.stored_text:
        start = table.span.start
        place = change.column.expression.meta["span"] if change.column.expression is not None else column.span
        column = replace(column, stored_text=table.text[place.start - start : place.end - start])
    names = [c.name for c in table.columns]
    if change.is_new == (column.name in names):
        if change.is_new:
            raise UserError(
                "SS2012",
                f'the table has column "{column.name}" already',
                span=column.span,
                hint="change it with ALTER TABLE … MODIFY",
            )
        raise _no_column(statements.Identifier((column.name,), column.span), names)
    kept = [c for c in table.columns if c.name != column.name]
    place_at = len(kept) if change.is_new else names.index(column.name)
    if change.is_first:
        place_at = 0
    if change.after is not None:
        others = [c.name for c in kept]
        if change.after.parts[0] not in others:
            raise _no_column(change.after, others)
        place_at = others.index(change.after.parts[0]) + 1
    return replace(table, columns=(*kept[:place_at], column, *kept[place_at:]))


def _without_column(table: statements.CreateTable, name: statements.Identifier) -> statements.CreateTable:
    names = [c.name for c in table.columns]
    if name.parts[0] not in names:
        raise _no_column(name, names)
    _check_unused(table, name)
    return replace(table, columns=tuple(c for c in table.columns if c.name != name.parts[0]))


def _renamed(table: statements.CreateTable, change: statements.RenameColumn) -> statements.CreateTable:
    names = [c.name for c in table.columns]
    old, new = change.name.parts[0], change.target.parts[0]
    if old not in names:
        raise _no_column(change.name, names)
    if new in names:
        raise UserError(
            "SS2012",
            f'the table has column "{new}" already',
            span=change.target.span,
            hint="choose another name",
        )
    _check_unused(table, change.name, has_keys=False)
    columns = tuple(replace(c, name=new) if c.name == old else c for c in table.columns)

    def renamed(keys: tuple[statements.Identifier, ...]) -> tuple[statements.Identifier, ...]:
        return tuple(change.target if k.parts[0] == old else k for k in keys)

    return replace(
        table,
        columns=columns,
        primary_key=renamed(table.primary_key),
        partition_keys=renamed(table.partition_keys),
    )


def _check_unused(table: statements.CreateTable, name: statements.Identifier, has_keys: bool = True) -> None:
    """UserError SS2011 for a column that another part of the table is made of."""
    wanted = name.parts[0]
    users = [
        f'computed column "{c.name}"'
        for c in table.columns
        if c.kind is statements.ColumnKind.COMPUTED and c.name != wanted and _reads(c.expression, wanted)
    ]
    if table.watermark is not None and (
        table.watermark.column.parts[0] == wanted or _reads(table.watermark.expression, wanted)
    ):
        users.append("the watermark")
    if has_keys:
        users += ["the primary key"] if wanted in [k.parts[0] for k in table.primary_key] else []
        users += ["PARTITIONED BY"] if wanted in [k.parts[0] for k in table.partition_keys] else []
    if users:
        raise UserError(
            "SS2011",
            f'column "{wanted}" is used by {users[0]}',
            span=name.span,
            hint="drop or change that first",
        )


def _reads(expression: exp.Expression | None, name: str) -> bool:
    if expression is None:
        return False
    return any(str(column.parts[0].name) == name for column in expression.find_all(exp.Column))


def _no_column(name: statements.Identifier, names: list[str]) -> UserError:
    return UserError(
        "SS2003",
        f'column "{name.parts[0]}" does not exist',
        span=name.span,
        hint=suggest(name.parts[0], names, "columns"),
    )

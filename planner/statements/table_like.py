"""CREATE TABLE … LIKE table: what the other table declares, and what the statement changes of it."""

from __future__ import annotations

from msgspec.structs import replace

from sqlstream.catalog import CatalogTable, Column
from sqlstream.errors import Span, UserError
from sqlstream.planner.bind.context import BindContext, find_table, object_path
from sqlstream.planner.dialect import statements
from sqlstream.planner.dialect.parser import parse_expression

_FEATURES = ("CONSTRAINTS", "DISTRIBUTION", "GENERATED", "METADATA", "OPTIONS", "PARTITIONS", "WATERMARKS")
_INCLUDING, _EXCLUDING, _OVERWRITING = "INCLUDING", "EXCLUDING", "OVERWRITING"


def like_table(
    statement: statements.CreateTable, like: statements.LikeTable, context: BindContext
) -> statements.CreateTable:
    """The statement with what it takes of the other table written out (Flink: MergeTableLikeUtil). Columns of the other table
    come first. UserError SS2012 for a part that both have, unless it is OVERWRITING."""
    base = find_table(object_path(like.name.parts, context, like.name.span), context, like.name.span)
    other = declared(base, like.name, statement.text, statement.span)
    strategies = _strategies(like.options)
    columns = _columns(statement.columns, other.columns, strategies)
    watermark, key, partitions = other.watermark, other.primary_key, other.partition_keys
    if strategies["WATERMARKS"] == _EXCLUDING or (
        statement.watermark and strategies["WATERMARKS"] == _OVERWRITING
    ):
        watermark = None
    if statement.watermark is not None and watermark is not None:
        raise _repeated("watermark", statement.watermark.span, "OVERWRITING WATERMARKS")
    key = key if strategies["CONSTRAINTS"] == _INCLUDING else ()
    if key and (statement.primary_key or any(c.is_primary_key for c in statement.columns)):
        place = statement.primary_key[0].span if statement.primary_key else statement.name.span
        raise _repeated("primary key", place, "EXCLUDING CONSTRAINTS")
    partitions = partitions if strategies["PARTITIONS"] == _INCLUDING else ()
    if partitions and statement.partition_keys:
        raise _repeated("PARTITIONED BY", statement.partition_keys[0].span, "EXCLUDING PARTITIONS")
    return replace(
        statement,
        columns=columns,
        watermark=statement.watermark or watermark,
        primary_key=statement.primary_key or key,
        key_name=other.key_name if key else statement.key_name,
        partition_keys=statement.partition_keys or partitions,
        options=_options(statement.options, other.options, strategies["OPTIONS"]),
        comment=statement.comment or other.comment,
        like=None,
    )


def _strategies(options: tuple[statements.LikeOption, ...]) -> dict[str, str]:
    """By feature: what is done with that of the other table. Without a word it is included, and options are overwritten."""
    seen: dict[str, statements.LikeOption] = {}
    for option in options:
        if option.feature in seen:
            hint = "keep one of the two"
            raise UserError("SS2012", f"LIKE says {option.feature} twice", span=option.span, hint=hint)
        seen[option.feature] = option
    of_all = seen["ALL"].strategy if "ALL" in seen else _INCLUDING
    found = dict.fromkeys(_FEATURES, of_all)
    if "ALL" not in seen:
        found["OPTIONS"] = _OVERWRITING
    return {**found, **{feature: o.strategy for feature, o in seen.items() if feature != "ALL"}}


def _columns(
    written: tuple[statements.ColumnDef, ...],
    others: tuple[statements.ColumnDef, ...],
    strategies: dict[str, str],
) -> tuple[statements.ColumnDef, ...]:
    by_kind = {statements.ColumnKind.COMPUTED: "GENERATED", statements.ColumnKind.METADATA: "METADATA"}
    merged: dict[str, statements.ColumnDef] = {}
    for column in others:
        feature = by_kind.get(column.kind)
        if feature is None or strategies[feature] != _EXCLUDING:
            merged[column.name] = column
    for column in written:
        other = merged.get(column.name)
        if other is not None:
            feature = by_kind.get(other.kind)
            if feature is None or strategies[feature] != _OVERWRITING or column.kind is not other.kind:
                way = f"OVERWRITING {feature}" if feature is not None and column.kind is other.kind else ""
                raise _repeated(f'column "{column.name}"', column.span, way)
        merged[column.name] = column
    return tuple(merged.values())


def _options(
    written: tuple[statements.Option, ...], others: tuple[statements.Option, ...], strategy: str
) -> tuple[statements.Option, ...]:
    if strategy == _EXCLUDING:
        return written
    keys = {o.key for o in others}
    repeated = next((o for o in written if o.key in keys), None)
    if repeated is not None and strategy == _INCLUDING:
        raise _repeated(f"option '{repeated.key}'", repeated.key_span, "OVERWRITING OPTIONS")
    own = {o.key for o in written}
    return tuple(o for o in others if o.key not in own) + written


def _repeated(what: str, span: Span, way: str) -> UserError:
    hint = f"leave it out, or write LIKE … ({way})" if way else "leave it out, or give it another name"
    return UserError("SS2012", f"the other table has {what} too", span=span, hint=hint)


# A table of the catalog as if it had been written in the statement that names it: what LIKE and ALTER TABLE begin
# with.


def declared(
    table: CatalogTable, name: statements.Identifier, text: str, span: Span
) -> statements.CreateTable:
    """The CREATE TABLE of `table` under another `name`; each of its parts stands at the place of the name."""
    place = name.span
    keys = tuple(statements.Identifier((key,), place) for key in table.primary_key)
    watermark = table.watermark
    return statements.CreateTable(
        text,
        span,
        name=name,
        columns=tuple(_column(column, place) for column in table.columns),
        watermark=None
        if watermark is None
        else statements.WatermarkDef(
            statements.Identifier((watermark.column,), place),
            parse_expression(watermark.expression),
            place,
            watermark.expression,
        ),
        primary_key=keys,
        key_name=table.key_name,
        partition_keys=tuple(statements.Identifier((key,), place) for key in table.partition_keys),
        options=written_options(table.options, place),
        is_temporary=table.is_temporary,
        comment=table.comment,
    )


def written_options(options: dict[str, str], place: Span) -> tuple[statements.Option, ...]:
    return tuple(statements.Option(key, value, place, place) for key, value in options.items())


def _column(column: Column, place: Span) -> statements.ColumnDef:
    kind = statements.ColumnKind(column.kind.value)
    made = statements.ColumnDef(column.name, kind, place, comment=column.comment)
    if kind is statements.ColumnKind.COMPUTED:
        expression = parse_expression(column.expression)
        return replace(made, expression=expression, stored_text=column.expression)
    made = replace(made, type=column.type.without_time_attribute())
    if kind is statements.ColumnKind.METADATA:
        return replace(made, metadata_key=column.metadata_key, is_virtual=column.is_virtual)
    return made

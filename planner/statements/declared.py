"""A table of the catalog as if it had been written in the statement that names it: what LIKE and ALTER TABLE begin with."""

from __future__ import annotations

import dataclasses

from sqlstream.catalog import CatalogTable, Column
from sqlstream.errors import Span
from sqlstream.planner.dialect.parser import parse_expression
from sqlstream.planner.dialect.statements import (
    ColumnDef,
    ColumnKind,
    CreateTable,
    Identifier,
    Option,
    WatermarkDef,
)


def declared(table: CatalogTable, name: Identifier, text: str, span: Span) -> CreateTable:
    """The CREATE TABLE of `table` under another `name`; each of its parts stands at the place of the name."""
    place = name.span
    keys = tuple(Identifier((key,), place) for key in table.primary_key)
    watermark = table.watermark
    return CreateTable(
        text,
        span,
        name=name,
        columns=tuple(_column(column, place) for column in table.columns),
        watermark=None
        if watermark is None
        else WatermarkDef(
            Identifier((watermark.column,), place),
            parse_expression(watermark.expression),
            place,
            watermark.expression,
        ),
        primary_key=keys,
        key_name=table.key_name,
        partition_keys=tuple(Identifier((key,), place) for key in table.partition_keys),
        options=written_options(table.options, place),
        is_temporary=table.is_temporary,
        comment=table.comment,
    )


def written_options(options: dict[str, str], place: Span) -> tuple[Option, ...]:
    return tuple(Option(key, value, place, place) for key, value in options.items())


def _column(column: Column, place: Span) -> ColumnDef:
    kind = ColumnKind(column.kind.value)
    made = ColumnDef(column.name, kind, place, comment=column.comment)
    if kind is ColumnKind.COMPUTED:
        expression = parse_expression(column.expression)
        return dataclasses.replace(made, expression=expression, stored_text=column.expression)
    made = dataclasses.replace(made, type=column.type.without_time_attribute())
    if kind is ColumnKind.METADATA:
        return dataclasses.replace(made, metadata_key=column.metadata_key, is_virtual=column.is_virtual)
    return made

"""Which types a format of plain text fields can carry."""

from __future__ import annotations

from sqlstream.errors import UserError
from sqlstream.schema import Schema
from sqlstream.types import LogicalType, TypeRoot, is_interval

_NESTED = (TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.MULTISET, TypeRoot.ROW)


def refuse_types(identifier: str, schema: Schema, *, allows_nested: bool) -> None:
    """UserError SS4006 for the first column whose type, at any depth, the format cannot carry."""
    for field in schema.fields:
        refused = find_refused(field.type, allows_nested)
        if refused is not None:
            instead = "format json or parquet" if refused.root in _NESTED else "a cast to STRING or BIGINT"
            raise UserError(
                "SS4006",
                f'format "{identifier}" cannot carry column "{field.name}" of type {field.type}',
                column=field.name,
                hint=f"use {instead}",
            )


def find_refused(t: LogicalType, allows_nested: bool) -> LogicalType | None:
    """The type, or the one within it, that has no text of its own; None when there is none."""
    if is_interval(t) or t.root is TypeRoot.SYMBOL or (t.root in _NESTED and not allows_nested):
        return t
    parts = [part for part in (t.element, t.key, *(f.type for f in t.fields)) if part is not None]
    return next((found for part in parts if (found := find_refused(part, allows_nested)) is not None), None)

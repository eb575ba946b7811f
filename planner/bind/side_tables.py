"""The tables beside a table: `t$late`, its rows behind the watermark, and `t$errors`, those that could not be decoded."""

from __future__ import annotations

import msgspec

from sqlstream import types as sql
from sqlstream.catalog import CatalogTable, Column, ColumnKind, ObjectPath
from sqlstream.errors import Span, UserError
from sqlstream.planner.bind.context import BindContext
from sqlstream.planner.relational.late_rows import WATERMARK_COLUMN, watermark_type

LATE, ERRORS = "late", "errors"

_ERROR_COLUMNS = (
    Column("job", sql.STRING, comment="the job that read the row"),
    Column("rejected_at", sql.timestamp_ltz(3), comment="when it did"),
    Column("file", sql.STRING, comment="the file that holds the row"),
    Column("line", sql.BIGINT, comment="its line there, the first is 1"),
    Column("reason", sql.STRING, comment="why it could not be decoded"),
    Column("text", sql.STRING, comment="what stands there"),
)
_PLACE_OPTIONS = ("connector", "path", "source.rejected-rows.path")


def split_name(name: str) -> tuple[str, str]:
    """("t", "late") of "t$late"; ("", "") of any other name."""
    table, _, kind = name.rpartition("$")
    return (table, kind) if table and kind in (LATE, ERRORS) else ("", "")


def find_side_table(path: ObjectPath, context: BindContext, span: Span | None) -> CatalogTable | None:
    """What a name beside that of a table reads; None when it is no such name, or there is no such table. Of `t$late` the
    options are those of the table. UserError SS3003 where the table has nothing of the kind."""
    name, kind = split_name(path.name)
    base = context.catalog.get(msgspec.structs.replace(path, name=name)) if name else None
    if not isinstance(base, CatalogTable):
        return None
    return _late_table(path, base, span) if kind == LATE else _errors_table(path, base, context, span)


def _late_table(path: ObjectPath, base: CatalogTable, span: Span | None) -> CatalogTable:
    if base.watermark is None:
        raise UserError(
            "SS3003",
            f'table "{path.name}" cannot be read: no row of table "{base.path.name}" is late',
            span=span,
            detail="it declares no WATERMARK",
            hint=f"declare one: ALTER TABLE {base.path.name} ADD WATERMARK FOR …",
        )
    columns = tuple(
        msgspec.structs.replace(c, kind=ColumnKind.PHYSICAL, type=c.type.without_time_attribute())
        if c.name == base.watermark.column
        else c
        for c in base.columns
    )
    time = next(c for c in base.columns if c.name == base.watermark.column)
    own = Column(WATERMARK_COLUMN, watermark_type(time.type), comment="the watermark that the row is behind")
    return msgspec.structs.replace(
        base, path=path, columns=(*columns, own), watermark=None, primary_key=(), partition_keys=()
    )


def _errors_table(
    path: ObjectPath, base: CatalogTable, context: BindContext, span: Span | None
) -> CatalogTable:
    descriptor = context.connectors.get(base.options.get("connector", ""))
    if descriptor is None or not descriptor.reading.keeps_rejected_rows:
        raise UserError(
            "SS3003",
            f'table "{path.name}" cannot be read: connector "{base.options.get("connector")}" keeps no rejected rows',
            span=span,
            hint=f'the rows of "{base.path.name}" are read or the job fails',
        )
    place = {key: base.options[key] for key in _PLACE_OPTIONS if key in base.options}
    # A row that is being written is read the next time.
    options = {
        **place,
        "source.reads": "rejected-rows",
        "format": "json",
        "json.ignore-parse-errors": "true",
    }
    return CatalogTable(path=path, columns=_ERROR_COLUMNS, options=options)

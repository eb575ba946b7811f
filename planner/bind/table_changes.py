"""Tables whose options say that their rows make a changelog: what must go together."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream.catalog import CatalogTable
from sqlstream.errors import Span, UserError
from sqlstream.spi.changelog_options import (
    APPEND,
    COMPACTED,
    MODE,
    OP_COLUMN,
    RETRACT,
    UPSERT,
    ChangelogOptions,
)
from sqlstream.spi.format import FormatDescriptor
from sqlstream.types import STRING_ROOTS

_OF_ADDED_FILES = (
    "sink.rolling-policy.",
    "sink.partition-commit.",
    "auto-compaction",
    "compaction.",
    "partition.time-extractor.",
)
"""Options of files that stay as they are once they are committed."""


def check_changes(
    table: CatalogTable, options: Mapping[str, str], written: FormatDescriptor | None, span: Span | None
) -> None:
    """UserError SS4003 for options of a changelog that do not go with each other, the format or the table. `written` is the
    format as it is without them."""
    if written is None or (MODE not in options and OP_COLUMN not in options):
        return
    given, name = ChangelogOptions.of(options), table.path.name
    if not written.source_mode.is_insert_only and (given.mode != APPEND or given.op_column is not None):
        key = MODE if given.mode != APPEND else OP_COLUMN
        raise UserError(
            "SS4003",
            f'option "{key}" of table "{name}" has no use: format "{written.identifier}" says what each row does',
            span=span,
            hint="leave the option out, or choose format csv, json or parquet",
        )
    if written.identifier == "raw" and given.mode != APPEND:
        raise UserError(
            "SS4003",
            f'format "raw" of table "{name}" has one column, and no room for changes',
            span=span,
            hint="choose format csv, json or parquet",
        )
    if given.op_column is not None and given.mode in (APPEND, COMPACTED):
        raise UserError(
            "SS4003",
            f'option "{OP_COLUMN}" of table "{name}" has no use with "{MODE}" = "{given.mode}"',
            span=span,
            hint=f"add '{MODE}' = 'retract' for changes of whole rows, or 'upsert' for changes by the primary key",
        )
    if given.mode == RETRACT and given.op_column is None:
        raise UserError(
            "SS4005",
            f'table "{name}" needs the option "{OP_COLUMN}": its rows are changes',
            span=span,
            hint=f"add '{OP_COLUMN}' = 'op', the column of the files that has +I, -U, +U or -D",
        )
    if given.op_column is not None and given.op_column in table.physical_schema().names:
        raise UserError(
            "SS4003",
            f'column "{given.op_column}" of table "{name}" is also its "{OP_COLUMN}"',
            span=span,
            hint="leave the column out of the table: it says what the row does, and is none of its values",
        )
    if given.mode not in (APPEND, RETRACT):
        _check_key(table, given, span)
    if given.mode == COMPACTED:
        _check_replaced(table, options, span)
    if given.mode == UPSERT and given.op_column is None and written.identifier == "csv":
        _check_nulls(table, options, span)


def _check_key(table: CatalogTable, given: ChangelogOptions, span: Span | None) -> None:
    name = table.path.name
    if not table.primary_key:
        raise UserError(
            "SS4003",
            f'"{MODE}" = "{given.mode}" of table "{name}" goes by the primary key, and the table has none',
            span=span,
            hint="declare PRIMARY KEY (…) NOT ENFORCED in the table",
        )
    outside = [key for key in table.partition_keys if key not in table.primary_key]
    if outside:
        raise UserError(
            "SS4003",
            f'table "{name}" is partitioned by "{outside[0]}", which is not in its primary key: a row that moves to'
            " another partition would stay in the one before, too",
            span=span,
            hint="add the column to the primary key, or partition by columns of the key",
        )
    values = [c for c in table.physical_schema().names if c not in table.primary_key]
    if given.op_column is None and given.mode != COMPACTED and not values:
        raise UserError(
            "SS4005",
            f'table "{name}" needs the option "{OP_COLUMN}": without other columns than its key a row cannot say that it'
            " deletes",
            span=span,
            hint=f"add '{OP_COLUMN}' = 'op'",
        )


def _check_replaced(table: CatalogTable, options: Mapping[str, str], span: Span | None) -> None:
    for key in options:
        if key == "source.monitor-interval" or key.startswith(_OF_ADDED_FILES):
            raise UserError(
                "SS4003",
                f'option "{key}" of table "{table.path.name}" has no use with "{MODE}" = "compacted", whose files are replaced by'
                " each commit",
                span=span,
                hint="leave the option out",
            )


def _check_nulls(table: CatalogTable, options: Mapping[str, str], span: Span | None) -> None:
    keeps_nulls = (
        "csv.null-literal" in options or options.get("csv.empty-string-as-null", "").lower() == "true"
    )
    schema = table.physical_schema()
    texts = [f.name for f in schema.fields if f.name not in table.primary_key and f.type.root in STRING_ROOTS]
    if texts and not keeps_nulls:
        raise UserError(
            "SS4005",
            f'table "{table.path.name}" cannot read a row that deletes: in format csv the empty value of column'
            f' "{texts[0]}" is a text, not NULL',
            span=span,
            hint=f"add '{OP_COLUMN}' = 'op', or 'csv.null-literal' = '…'",
        )

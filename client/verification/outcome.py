"""What VERIFY has found, as data: the shape of `sqlstream verify --json`, and its text."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.client.rendering.render import make_renderer
from sqlstream.client.rendering.tables import Look, text_columns
from sqlstream.schema import Field, Schema
from sqlstream.terminal_text import NULL_TEXT
from sqlstream.types import STRING

Row = dict[str, str | None]
"""The values by column as texts, as CAST to STRING gives them; None for NULL."""


class ContributingTable(msgspec.Struct, frozen=True):
    """The rows of a table that contributed to the rows of a key. `is_complete`: there are no more than those in `rows`.
    `not_traced` says why they are not known, and is empty otherwise."""

    table: str
    rows: tuple[Row, ...] = ()
    is_complete: bool = True
    not_traced: str = ""


class Difference(msgspec.Struct, frozen=True):
    """The differing rows of one key, each as often as its side has it more than the other. `key` is empty for a result without a
    key, where each row stands alone."""

    key: Row
    stream: tuple[Row, ...]
    batch: tuple[Row, ...]
    inputs: tuple[ContributingTable, ...]


class Reason(msgspec.Struct, frozen=True):
    """Why rows may differ though neither side is wrong. `kind`: late-rows, rejected-rows, null-rows, expired-state, ties, limit,
    floats or not-deterministic."""

    kind: str
    text: str


class WrittenTable(msgspec.Struct, frozen=True):
    """What the table of an INSERT shows, beside the rows of the query in batch: `surplus_rows` are only in the table,
    `missing_rows` only in the batch. `not_read` says why the table was not read back, and is empty otherwise."""

    rows: int = 0
    surplus_rows: int = 0
    missing_rows: int = 0
    differences: tuple[Difference, ...] = ()
    not_read: str = ""

    @property
    def is_equal(self) -> bool:
        return not self.surplus_rows and not self.missing_rows


class Verification(msgspec.Struct, frozen=True):
    """One query, run as a stream and in batch. `surplus_rows` are only in the stream, `missing_rows` only in the batch;
    `differences` has the first keys that differ. `near_rows`: pairs that were taken as equal, since only floats differ, within
    `tolerance`. `table` is what the table of an INSERT shows, once the rows of its query are equal. `choice` says why
    differing rows are equally right: the statement leaves a choice among equal rows, and `is_equal` holds."""

    statement: str
    is_equal: bool
    engine: str
    stream_rows: int
    batch_rows: int
    stream_seconds: float
    batch_seconds: float
    surplus_rows: int
    missing_rows: int
    near_rows: int
    tolerance: float
    differences: tuple[Difference, ...]
    reasons: tuple[Reason, ...]
    table: WrittenTable | None = None
    choice: str = ""


def shown_rows(batch: pa.RecordBatch, schema: Schema, time_zone: str) -> tuple[Row, ...]:
    """A few rows as texts."""
    texts = [column.to_pylist() for column in text_columns(batch, schema, False, time_zone, NULL_TEXT)]
    return tuple(dict(zip(schema.names, row, strict=True)) for row in zip(*texts, strict=True))


def verification_text(found: Verification) -> str:
    """The answer for people."""
    stream = f"{_rows(found.stream_rows)} as a stream ({found.stream_seconds:.2f} s)"
    batch = f"{_rows(found.batch_rows)} in batch on {found.engine} ({found.batch_seconds:.2f} s)"
    if (found.is_equal and not found.choice) or (found.table is not None and not found.table.is_equal):
        lines = [f"equal: {stream}, {batch}"]
        if found.near_rows:
            differ = "differs" if found.near_rows == 1 else "differ"
            tolerance = f"the tolerance of {found.tolerance!r}"
            lines.append(f"{_rows(found.near_rows)} {differ} in floats within {tolerance}")
        return "\n".join([*lines, *_table_lines(found)])
    lines = [
        f"{'equal but for ties' if found.choice else 'different'}: {stream}, {batch}",
        f"{_rows(found.surplus_rows)} only in the stream, {_rows(found.missing_rows)} only in the batch",
    ]
    if found.choice:
        lines.append(f"equally right: {found.choice}")
    for number, difference in enumerate(found.differences):
        lines += ["", *_difference_lines(number, difference)]
    if found.reasons:
        lines += ["", *(f"reason: {reason.text}" for reason in found.reasons)]
    return "\n".join(lines)


def _table_lines(found: Verification) -> list[str]:
    """What the table of an INSERT shows."""
    table = found.table
    if table is None:
        return []
    if table.not_read:
        return [f"the table was not read back: {table.not_read}"]
    if table.is_equal:
        return ["the table shows these rows"]
    lines = [
        f"different: the table shows {_rows(table.rows)}",
        f"{_rows(table.surplus_rows)} only in the table, {_rows(table.missing_rows)} only in the batch",
    ]
    for number, difference in enumerate(table.differences):
        lines += ["", *_difference_lines(number, difference, "table")]
    if found.reasons:
        lines += ["", *(f"reason: {reason.text}" for reason in found.reasons)]
    return lines


def _difference_lines(number: int, difference: Difference, side: str = "stream") -> list[str]:
    key = ", ".join(f"{name} = {_value(value)}" for name, value in difference.key.items())
    sides = {side: difference.stream, "batch": difference.batch}
    rows = [{"": side, **row} for side, of_side in sides.items() for row in of_side]
    lines = [f"difference {number + 1}{': ' if key else ''}{key}", *drawn(rows)]
    return lines + contributing_lines(difference.inputs)


def contributing_lines(tables: Iterable[ContributingTable]) -> list[str]:
    """The rows of each table that contribute."""
    lines: list[str] = []
    for table in tables:
        if table.not_traced:
            lines.append(f'rows of table "{table.table}" are not traced: {table.not_traced}')
            continue
        if not table.rows:
            lines.append(f'no row of table "{table.table}" contributes')
            continue
        count = _rows(len(table.rows))
        what = f"{count} contribute" if len(table.rows) > 1 else f"{count} contributes"
        lines.append(f'table "{table.table}": {what if table.is_complete else f"the first {count}"}')
        lines += drawn(table.rows)
    return lines


def drawn(rows: Sequence[Mapping[str, str | None]]) -> list[str]:
    """The lines of a table of one or more rows."""
    schema = Schema(tuple(Field(name, STRING) for name in rows[0]))
    out = io.StringIO()
    table = make_renderer("table", Look(schema), with_op=False, out=out)
    table.write(pa.RecordBatch.from_pylist([*rows], to_arrow_schema(schema)))
    table.finish()
    # The last line counts the rows.
    return out.getvalue().rstrip("\n").splitlines()[:-1]


def _value(value: str | None) -> str:
    return "NULL" if value is None else value


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"

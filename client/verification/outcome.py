"""What VERIFY has found, as data: the shape of `sqlstream verify --json`, and its text."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pyarrow as pa

from client.render import JsonLines, make_renderer
from client.tables import text_columns
from sqlstream.schema import Field, Schema
from sqlstream.types import STRING

Row = dict[str, Any]


class ShownRows(msgspec.Struct, frozen=True):
    """Rows for people and programs: JSON values by column, and a table drawn with lines."""

    rows: tuple[Row, ...]
    drawn: str


class ContributingTable(msgspec.Struct, frozen=True):
    """The rows of a table that contributed to the rows of a key. `is_complete`: there are no more than those in `rows`.
    `not_traced` says why they are not known, and is empty otherwise."""

    table: str
    rows: tuple[Row, ...] = ()
    is_complete: bool = True
    not_traced: str = ""
    drawn: str = ""


class Difference(msgspec.Struct, frozen=True):
    """The differing rows of one key, each as often as its side has it more than the other. `key` is empty for a result without a
    key, where each row stands alone."""

    key: Row
    stream: tuple[Row, ...]
    batch: tuple[Row, ...]
    inputs: tuple[ContributingTable, ...]
    drawn: str = ""


class Reason(msgspec.Struct, frozen=True):
    """Why rows may differ though neither side is wrong. `kind`: late-rows, rejected-rows, null-rows, expired-state, ties, limit,
    floats or not-deterministic."""

    kind: str
    text: str


class Verification(msgspec.Struct, frozen=True):
    """One query, run as a stream and in batch. `surplus_rows` are only in the stream, `missing_rows` only in the batch. Of the keys
    that differ, `differences` has the first. `near_rows`: pairs that were taken as equal, with floats within `tolerance`."""

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


def shown_rows(batch: pa.RecordBatch, schema: Schema, sides: list[str] | None, time_zone: str) -> ShownRows:
    """Rows as JSON and as a drawn table, whose first column names the side of each row if `sides` does."""
    out = io.StringIO()
    json_lines = JsonLines(schema, False, out)
    json_lines.write(batch)
    json_lines.finish()
    rows = tuple(msgspec.json.decode(line) for line in out.getvalue().splitlines())
    texts = text_columns(batch, schema, False, time_zone)
    names = list(schema.names)
    if sides is not None:
        texts, names = [pa.array(sides, pa.string()), *texts], ["", *names]
    drawn = io.StringIO()
    table = make_renderer("table", Schema(tuple(Field(n, STRING) for n in names)), with_op=False, out=drawn)
    arrow = pa.schema([pa.field(name, pa.string()) for name in names])
    table.write(pa.RecordBatch.from_arrays(texts, schema=arrow))
    table.finish()
    lines = drawn.getvalue().rstrip("\n").splitlines()
    return ShownRows(rows, "\n".join(line for line in lines if line[:1] in "┌│├└+|"))


def verification_text(found: Verification) -> str:
    """The answer for people."""
    stream = f"{_rows(found.stream_rows)} as a stream ({found.stream_seconds:.2f} s)"
    batch = f"{_rows(found.batch_rows)} in batch on {found.engine} ({found.batch_seconds:.2f} s)"
    if found.is_equal:
        lines = [f"equal: {stream}, {batch}"]
        if found.near_rows:
            lines.append(
                f"{_rows(found.near_rows)} differ in floats within the tolerance of {found.tolerance!r}"
            )
        return "\n".join(lines)
    lines = [
        f"different: {stream}, {batch}",
        f"{_rows(found.surplus_rows)} only in the stream, {_rows(found.missing_rows)} only in the batch",
    ]
    for number, difference in enumerate(found.differences):
        lines += ["", *_difference_lines(number, difference)]
    if found.reasons:
        lines += ["", *(f"reason: {reason.text}" for reason in found.reasons)]
    return "\n".join(lines)


def _difference_lines(number: int, difference: Difference) -> list[str]:
    key = ", ".join(f"{name} = {_value(value)}" for name, value in difference.key.items())
    lines = [f"difference {number + 1}{': ' if key else ''}{key}", difference.drawn]
    for table in difference.inputs:
        if table.not_traced:
            lines.append(f'rows of table "{table.table}" are not traced: {table.not_traced}')
            continue
        if not table.rows:
            lines.append(f'no row of table "{table.table}" contributes')
            continue
        count = _rows(len(table.rows))
        what = f"{count} contribute" if len(table.rows) > 1 else f"{count} contributes"
        lines.append(f'table "{table.table}": {what if table.is_complete else f"the first {count}"}')
        lines.append(table.drawn)
    return lines


def _value(value: object) -> str:
    return "NULL" if value is None else str(value)


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"

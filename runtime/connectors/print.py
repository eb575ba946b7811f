"""Connector `print`: a sink that writes one line per row to the user's terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import kind_texts, without_row_kinds
from sqlstream.changelog import ChangelogMode
from sqlstream.runtime.formats.text_values import bracketed, format_text
from sqlstream.schema import Schema
from sqlstream.spi.connector import ConnectorContext, ConnectorDescriptor, OptionType, SinkWriter, Writing
from sqlstream.spi.one_sided import SinkOnlyConnector
from sqlstream.spi.table_options import descriptors_of, option, parse_options
from sqlstream.types import BINARY_ROOTS, TIMESTAMP_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from sqlstream.specs import SinkSpec
    from sqlstream.spi.committable import Committable


@dataclass(frozen=True, kw_only=True)
class PrintOptions:
    """The options of a table."""

    identifier: str | None = option("print-identifier", OptionType.STRING, "What every line begins with.")
    is_error: bool = option(
        "standard-error", OptionType.BOOLEAN, "Print to standard error instead of standard output.", "false"
    )
    sink_parallelism: int | None = option(
        "sink.parallelism", OptionType.INTEGER, "How many subtasks print.", minimum=1
    )


class Print(SinkOnlyConnector):
    """A sink without format; lines are Flink's: `id:subtask> +I[1, abc, null]`."""

    descriptor = ConnectorDescriptor(
        identifier="print",
        options=descriptors_of(PrintOptions),
        writing=Writing(mode=ChangelogMode.RETRACT, is_at_least_once=True),
    )

    def sink(self, spec: SinkSpec, mode: ChangelogMode, context: ConnectorContext) -> SinkWriter:
        return PrintWriter(spec, context)


def line_prefix(identifier: str, subtask: int, parallelism: int) -> str:
    """Flink's prefix of a row: the identifier, when there is one, and the number of the subtask, from 1, when there are
    several.

    >>> line_prefix("late", 1, 4)
    'late:2> '
    >>> line_prefix("", 0, 1)
    ''
    """
    number = str(subtask + 1) if parallelism > 1 else ""
    parts = ":".join(part for part in (identifier, number) if part)
    return f"{parts}> " if parts else ""


class PrintWriter:
    """Turn each batch into lines, column by column. No state."""

    def __init__(self, spec: SinkSpec, context: ConnectorContext) -> None:
        self._schema = spec.schema
        self._print_lines = context.print_lines
        options = parse_options(PrintOptions, spec.options)
        self._is_error = options.is_error
        self._prefix = line_prefix(options.identifier or "", context.subtask, context.parallelism)

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._print_lines(row_lines(batch, self._schema, self._prefix), self._is_error)

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        return []

    def abort(self) -> None:
        """Nothing to do: printed lines cannot be removed."""


# Rows as Flink's `Row.toString` writes them, whole columns at a time.


_NULL = "null"


def row_lines(batch: pa.RecordBatch, schema: Schema, prefix: str) -> list[str]:
    """One line per row, such as `late:2> +I[1, abc, null]`."""
    data = without_row_kinds(batch)
    kinds = kind_texts(batch, lambda kind: f"{kind.symbol}[")
    fields = _joined(data.columns, schema.types)
    lines: list[str] = pc.binary_join_element_wise(
        pa.scalar(prefix), kinds, fields, pa.scalar("]"), ""
    ).to_pylist()
    return lines


def _joined(columns: Sequence[pa.Array], types: Sequence[LogicalType]) -> pa.Array:
    texts = [pc.fill_null(_text(column, t), _NULL) for column, t in zip(columns, types, strict=True)]
    return pc.binary_join_element_wise(*texts, pa.scalar(", "))


def _text(column: pa.Array, t: LogicalType) -> pa.Array:
    """Each value as text; NULL stays NULL."""
    match t.root:
        case TypeRoot.ROW:
            joined = _joined(column.flatten(), [f.type for f in t.fields])
            texts = pc.binary_join_element_wise(pa.scalar("+I["), joined, pa.scalar("]"), "")
            return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string()))
        case TypeRoot.ARRAY:
            assert t.element is not None
            return bracketed(column, pc.fill_null(_text(column.values, t.element), _NULL), "[, ]")
        case TypeRoot.MAP | TypeRoot.MULTISET:
            return _map_text(column, t)
        case _ if t.root in BINARY_ROOTS:
            return _bytes_text(column)
        case _ if t.root in TIMESTAMP_ROOTS:
            return format_text(column, t, "T")
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return _float_text(column, t)
        case _:
            return format_text(column, t)


def _map_text(column: pa.MapArray, t: LogicalType) -> pa.Array:
    key, value = (t.key, t.element) if t.key is not None else (t.element, LogicalType(TypeRoot.INTEGER))
    assert key is not None
    assert value is not None
    keys = pc.fill_null(_text(column.keys, key), _NULL)
    items = pc.fill_null(_text(column.items, value), _NULL)
    return bracketed(column, pc.binary_join_element_wise(keys, items, pa.scalar("=")), "{, }")


def _bytes_text(column: pa.Array) -> pa.Array:
    """Java prints bytes as signed numbers: [1, -1]."""
    lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
    present = column.drop_null()
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(present)], pa.int32()), present), b"")
    numbers = pa.Array.from_buffers(pa.int8(), int(lengths.sum()), [None, joined.buffers()[2]]).cast(
        pa.string()
    )
    return bracketed(pa.ListArray.from_arrays(offsets, numbers, mask=column.is_null()), numbers, "[, ]")


def _float_text(column: pa.Array, t: LogicalType) -> pa.Array:
    """Java's way: 1 is 1.0, and 1e+20 is 1.0E20."""
    texts = format_text(column, t)
    texts = pc.replace_substring_regex(texts, r"^(-?\d+)$", r"\1.0")
    texts = pc.replace_substring_regex(texts, r"^(-?\d+)e", r"\1.0e")
    return pc.replace_substring_regex(texts, r"e\+?", "E")

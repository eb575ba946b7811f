"""The rows of the queries of WITH MUTUALLY RECURSIVE in each turn, and what of them is read outside."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.arrow import is_changelog, to_arrow_schema, with_row_kinds
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.operators.iterate import emit_pieces, net_changes
from sqlstream.runtime.operators.operator import OperatorContext, Output
from sqlstream.runtime.operators.unroll import net_of_slots, signed_kinds
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.tables.row_multiset import PlacedMultiset, RowMultiset
from sqlstream.schema import Field, Schema
from sqlstream.specs.iterate import ROUND_COLUMN, SIGN_COLUMN, MutualIterateSpec
from sqlstream.types import BIGINT

TURN, SIGN = Field(ROUND_COLUMN, BIGINT.not_null()), Field(SIGN_COLUMN, BIGINT.not_null())


class RowsOfTurns:
    """How often each row of one of the queries comes (a count above zero) or goes (below) in each turn. State: these counts, by
    the key groups of the columns `placement`."""

    def __init__(
        self, number: int, columns: Schema, context: OperatorContext, placement: tuple[int, ...]
    ) -> None:
        self._width = len(columns)
        counted = Schema((*columns.fields, TURN))
        self._counted = to_arrow_schema(counted, ChangelogMode.RETRACT)
        self._touched: Array = np.empty(0, dtype=np.int64)
        rows = to_arrow_schema(counted)
        self._rows = context.state.add(
            PlacedMultiset(rows, f"rows{number + 1}", placement, context.state.scope)
            if placement
            else RowMultiset(rows, f"rows{number + 1}")
        )
        self._schema = to_arrow_schema(Schema((*columns.fields, TURN, SIGN)), ChangelogMode.RETRACT)

    def admit(self, turn: int, made: pa.RecordBatch) -> tuple[Array, Array]:
        """(slots, counts): the rows whose count in this turn is another one, and by how much; `forget` comes behind it."""
        turns = to_array(pa.int64(), np.full(made.num_rows, turn, dtype=np.int64))
        kinds = signed_kinds(made, self._width)
        arrays = [*made.columns[: self._width], turns, pa.array(kinds)]
        slots, _ = self._rows.apply(pa.RecordBatch.from_arrays(arrays, schema=self._counted))
        self._touched = slots
        return net_of_slots(slots, kinds)

    def columns(self, slots: Array) -> list[pa.Array]:
        return self._rows.columns(slots, range(self._width))

    def changes(self, slots: Array, counts: Array) -> pa.RecordBatch:
        """What is other in the rows with their turns and signs, each as often as it is there: -D before +I."""
        after = self._rows.counts[slots]
        before = after - counts
        comes = np.maximum(after, 0) - np.maximum(before, 0)
        goes = np.maximum(-after, 0) - np.maximum(-before, 0)
        places = np.tile(np.arange(len(slots)), 2)
        signs = np.repeat(np.array([1, -1], dtype=np.int64), len(slots))
        times = np.concatenate([comes, goes])
        order = np.argsort(times > 0, kind="stable")
        order = np.repeat(order, np.abs(times[order]))
        columns = self._rows.columns(slots[places[order]], range(self._width + 1))
        kinds = np.where(times[order] > 0, int(RowKind.INSERT), int(RowKind.DELETE)).astype(np.int8)
        arrays = [*columns, to_array(pa.int64(), signs[order]), pa.array(kinds)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def forget(self) -> None:
        """What comes and goes no more."""
        self._rows.sweep(self._touched)


class ResultOfQueries:
    """The changes of the queries that are read. State: none between two batches."""

    def __init__(self, spec: MutualIterateSpec, context: OperatorContext, *, has_kinds: bool) -> None:
        self._spec = spec
        self._has_kinds = has_kinds
        mode = ChangelogMode.RETRACT if has_kinds else ChangelogMode.INSERT_ONLY
        self._schema = to_arrow_schema(context.output_schema, mode)
        self._held: dict[int, list[pa.RecordBatch]] = {query: [] for query in spec.read}
        self._schemas = {
            query: to_arrow_schema(spec.columns[query], ChangelogMode.RETRACT) for query in spec.read
        }
        self.bytes = 0

    def add(self, query: int, columns: list[pa.Array], counts: Array) -> None:
        kinds = np.where(counts > 0, int(RowKind.INSERT), int(RowKind.DELETE)).astype(np.int8)
        rows = pa.RecordBatch.from_arrays([*columns, pa.array(kinds)], schema=self._schemas[query])
        if (np.abs(counts) != 1).any():
            rows = rows.take(pa.array(np.repeat(np.arange(len(counts)), np.abs(counts))))
        self.add_rows(query, rows)

    def add_rows(self, query: int, rows: pa.RecordBatch) -> None:
        if self._has_kinds and not is_changelog(rows):
            rows = with_row_kinds(rows, RowKind.INSERT)
        self._held[query].append(rows)
        self.bytes += rows.nbytes

    def emit(self, output: Output) -> None:
        for query, batches in self._held.items():
            if batches:
                changes = pa.concat_batches(batches)
                batches.clear()
                # Without rounds a row has one change at most.
                if self._spec.has_rounds:
                    changes = net_changes(changes)
                emit_pieces(self._widened(query, changes), output)
        self.bytes = 0

    def _widened(self, query: int, changes: pa.RecordBatch) -> pa.RecordBatch:
        width = len(self._spec.columns[query])
        own, kinds = changes.columns[:width], changes.columns[width:]
        if len(self._spec.read) == 1:
            return pa.RecordBatch.from_arrays(changes.columns, schema=self._schema)
        rows = changes.num_rows
        columns = [pa.array(np.full(rows, query, dtype=np.int32))]
        for each in self._spec.read:
            types = to_arrow_schema(self._spec.columns[each]).types
            columns += own if each == query else [pa.nulls(rows, t) for t in types]
        return pa.RecordBatch.from_arrays([*columns, *kinds], schema=self._schema)

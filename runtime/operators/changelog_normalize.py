"""Changes by key become a changelog of whole rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.arrow import is_accumulate, is_changelog, row_kinds, to_arrow_schema, without_row_kinds
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.runtime.evaluate.nested_keys import identities
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.operators.equal_values import batch_groups, equal_values
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.slot_columns import RowColumn
from sqlstream.runtime.state.tables.keyed_table import KeyedTable
from sqlstream.runtime.update_pairs import moved_kinds, portion_kinds
from sqlstream.specs.changelog_functions import ChangelogNormalizeSpec

UNKNOWN_VALUES_COUNT = "numUnknownValues"

_NOWHERE = -1


class ChangelogNormalize(Operator[ChangelogNormalizeSpec]):
    """Emits what each batch changes of the last row of each key: of several changes of a key the last one counts, unless the spec
    keeps them all.

    State: the last row of each key that is there, dropped `state_ttl_ms` after its last change; a key that is deleted is
    forgotten.
    """

    def __init__(self, spec: ChangelogNormalizeSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        row_schema = to_arrow_schema(context.input_schemas[0])
        self._row_schema = row_schema if spec.marks < 0 else pa.schema(list(row_schema)[: spec.marks])
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)
        self._rows = RowColumn(self._row_schema)
        keys = pa.schema([self._row_schema.field(key) for key in spec.keys])
        self._last = context.state.add(
            KeyedTable("rows", keys, [self._rows], context.state.scope, ttl_ms=spec.state_ttl_ms)
        )

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        rows, is_deletion, unknown = self._changes(batch)
        if not rows.num_rows:
            return
        groups, first_rows = batch_groups([rows.column(key) for key in self.spec.keys], rows.num_rows)
        last = np.arange(rows.num_rows)
        if len(first_rows) < rows.num_rows:
            last = np.empty(len(first_rows), dtype=np.int64)
            last[groups] = np.arange(rows.num_rows)
            rows, unknown = _last_known(rows, unknown, is_deletion, groups)
            if not self.spec.keeps_changes:
                rows, is_deletion = rows.take(to_array(pa.int64(), last)), is_deletion[last]
                unknown = {number: is_unknown[last] for number, is_unknown in unknown.items()}
                groups = last = np.arange(rows.num_rows)
        of_keys = pa.array(last)
        slots, is_new = self._last.get_or_create([rows.column(key).take(of_keys) for key in self.spec.keys])
        self._last.writing(slots)
        # A key that was not there has no row before.
        before = self._rows.get(slots[~is_new])
        places = np.where(is_new, _NOWHERE, np.cumsum(~is_new) - 1)[groups]
        if unknown:
            rows = self._filled(rows, unknown, before, places)
        ends = rows if len(last) == rows.num_rows else rows.take(of_keys)
        is_added = ~is_deletion[last]
        self._rows.put(slots[is_added], ends if is_added.all() else ends.filter(pa.array(is_added)))
        if len(last) < rows.num_rows:
            earlier = _earlier_of_group(groups)
            within = np.where(is_deletion[earlier], _NOWHERE, before.num_rows + earlier)
            places = np.where(earlier < 0, places, within)
        self._emit(before, rows, places, is_deletion, output)
        if not is_added.all():
            self._last.forget(slots[~is_added])

    def _filled(
        self, rows: pa.RecordBatch, unknown: dict[int, Array], before: pa.RecordBatch, places: Array
    ) -> pa.RecordBatch:
        """`rows` with the values of the rows of `before` at these places, where theirs are unknown."""
        is_new = places < 0
        columns = list(rows.columns)
        for number, is_unknown in unknown.items():
            self.context.count(UNKNOWN_VALUES_COUNT, int((is_unknown & is_new).sum()))
            sources = np.where(is_unknown, rows.num_rows + places, np.arange(rows.num_rows))
            values = pa.concat_arrays([columns[number], before.column(number)])
            columns[number] = values.take(pa.array(sources, mask=is_unknown & is_new))
        return pa.RecordBatch.from_arrays(columns, schema=self._row_schema)

    def _changes(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Array, dict[int, Array]]:
        """The rows that come or go, whether each of them goes, and of the columns that have unknown values: where."""
        columns = without_row_kinds(batch).columns
        marks = columns[self.spec.marks] if self.spec.marks >= 0 else None
        rows = pa.RecordBatch.from_arrays(columns[: len(self._row_schema)], schema=self._row_schema)
        if is_changelog(batch):
            kinds = moved_kinds(portion_kinds(row_kinds(batch)), [rows.column(key) for key in self.spec.keys])
            says = np.flatnonzero(kinds != RowKind.UPDATE_BEFORE)
            if len(says) < len(kinds):
                rows, kinds = rows.take(pa.array(says)), kinds[says]
                marks = None if marks is None else marks.take(pa.array(says))
            is_deletion = ~is_accumulate(kinds)
        else:
            is_deletion = self._are_tombstones(rows)
        unknown = {} if marks is None or marks.null_count == len(marks) else _unknown_values(marks)
        return rows, is_deletion, unknown

    def _are_tombstones(self, rows: pa.RecordBatch) -> Array:
        are_all_null = np.full(rows.num_rows, bool(self.spec.values))
        for column in self.spec.values:
            are_all_null &= rows.column(column).is_null().to_numpy(zero_copy_only=False)
        return are_all_null

    def _emit(
        self, before: pa.RecordBatch, rows: pa.RecordBatch, places: Array, is_deletion: Array, output: Output
    ) -> None:
        """What the changes do; `places` says which row each one changes, of `before` and then of `rows`."""
        count = rows.num_rows
        is_new = places < 0
        is_update = ~is_new & ~is_deletion
        both = pa.concat_batches([before, rows])
        if not self.spec.state_ttl_ms:
            # With a time to live it is told again, so that the operators behind keep the row for as long.
            updates = np.flatnonzero(is_update)
            olds, news = both.take(pa.array(places[updates])), rows.take(pa.array(updates))
            is_update[updates[_equal_rows(olds, news)]] = False
        tells_before = self.context.output_mode is ChangelogMode.RETRACT
        is_retracted = (~is_new & is_deletion) | (is_update & tells_before)
        is_emitted = (is_new & ~is_deletion) | is_update
        # Candidates 2 * i (the row before change i) and 2 * i + 1 (its row behind) keep a -U next to its +U.
        picked = np.column_stack([is_retracted, is_emitted]).ravel()
        change_of = np.repeat(np.arange(count), 2)[picked]
        is_after = np.tile(np.array([False, True]), count)[picked]
        if not len(change_of):
            return
        kinds = np.where(is_after, RowKind.UPDATE_AFTER, RowKind.UPDATE_BEFORE).astype(np.int8)
        kinds[is_after & is_new[change_of]] = RowKind.INSERT
        kinds[~is_after & is_deletion[change_of]] = RowKind.DELETE
        emitted = both.take(
            to_array(pa.int64(), np.where(is_after, before.num_rows + change_of, places[change_of]))
        )
        output.emit(
            pa.RecordBatch.from_arrays([*emitted.columns, to_array(pa.int8(), kinds)], schema=self._schema)
        )


def _earlier_of_group(groups: Array) -> Array:
    """int64[n]: for each row the last one before it of its group, -1 where there is none."""
    order = np.argsort(groups, kind="stable")
    earlier = np.full(len(groups), -1, dtype=np.int64)
    follows = groups[order[1:]] == groups[order[:-1]]
    earlier[order[1:][follows]] = order[:-1][follows]
    return earlier


def _unknown_values(marks: pa.Array) -> dict[int, Array]:
    """By column, which rows lack its value."""
    coded = marks.dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    found: dict[int, Array] = {}
    for code, mark in enumerate(coded.dictionary.to_pylist()):
        for column in map(int, mark.strip(",").split(",")):
            found[column] = found.get(column, False) | (codes == code)
    return found


def _last_known(
    rows: pa.RecordBatch, unknown: dict[int, Array], is_deletion: Array, groups: Array
) -> tuple[pa.RecordBatch, dict[int, Array]]:
    """`rows` with the last value of the group before each unknown one, behind the last deletion of the group, in its place; and
    of the columns in which there is no such value: where."""
    if not unknown:
        return rows, unknown
    count = rows.num_rows
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    columns, left = list(rows.columns), {}
    for number, is_unknown in unknown.items():
        is_known = (~is_unknown | is_deletion)[order]
        known = np.maximum.accumulate(np.where(is_known, np.arange(count), -1))
        sources, is_missing = np.empty(count, dtype=np.int64), np.empty(count, dtype=bool)
        is_missing[order] = known < starts
        sources[order] = order[np.maximum(known, 0)]
        columns[number] = columns[number].take(pa.array(sources, mask=is_missing))
        if is_missing.any():
            left[number] = is_missing
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema), left


def _equal_rows(olds: pa.RecordBatch, news: pa.RecordBatch) -> Array:
    """bool[n]: rows in which all columns are the same."""
    equal = np.ones(olds.num_rows, dtype=bool)
    for old, new in zip(identities(olds.columns), identities(news.columns), strict=True):
        equal &= equal_values(old, new)
    return equal

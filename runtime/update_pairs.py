"""The two halves of an update. A -U lies directly before its +U, in one batch; what separates them makes a -D and a +I of them.

So no -U is ever alone: a consumer that replaces rows by their key may pass over it, as its +U follows (docs/decisions/0003).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.arrow import row_kinds, with_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.runtime.operators.equal_values import equal_values
from sqlstream.runtime.state.storage.arrays import Array

Mask = np.ndarray[Any, np.dtype[np.bool_]]

_STEP = RowKind.DELETE - RowKind.UPDATE_BEFORE
assert RowKind.UPDATE_AFTER - RowKind.INSERT == _STEP


def filtered_kinds(kinds: Array, is_kept: Mask) -> Array:
    """The kinds of a batch's rows when only those that are kept go on: the half of an update whose other half is dropped is a
    -D or a +I. Every -U of the batch has its +U behind it."""
    is_before = kinds[:-1] == RowKind.UPDATE_BEFORE
    is_split = is_before & (is_kept[:-1] != is_kept[1:])
    return _split(kinds, is_split) if is_split.any() else kinds


def paired_kinds(kinds: Array, is_together: Mask) -> Array:
    """The kinds of rows of which some may be alone: row i and the one behind it are an update if they are -U and +U and
    `is_together[i]`, bool[n - 1]. Every other -U is a -D, and every other +U a +I."""
    is_before, is_after = kinds == RowKind.UPDATE_BEFORE, kinds == RowKind.UPDATE_AFTER
    is_pair = is_before[:-1] & is_after[1:] & is_together
    pairs = int(np.count_nonzero(is_pair))
    if pairs == int(np.count_nonzero(is_before)) and pairs == int(np.count_nonzero(is_after)):
        return kinds
    is_before[:-1] &= ~is_pair
    is_after[1:] &= ~is_pair
    single = kinds.copy()
    single[is_before] = RowKind.DELETE
    single[is_after] = RowKind.INSERT
    return single


def portion_kinds(kinds: Array) -> Array:
    """The kinds of neighbouring rows of a batch, whose first and last row may be half an update."""
    return paired_kinds(kinds, np.ones(1, dtype=bool)) if len(kinds) else kinds


def derived_kinds(kinds: Array, origins: Array, others: Array | None = None) -> Array:
    """The kinds of rows that are made of the rows at `origins` of a batch with these kinds, in its order: an update stays one if
    each half makes one row. With `others`, of which row of another table too, it must be the same."""
    made = kinds[origins]
    follows = origins[1:] - origins[:-1]
    is_together = follows == 1
    # The halves of an update that make several rows each stand in two groups.
    is_together[1:] &= follows[:-1] != 0
    is_together[:-1] &= follows[1:] != 0
    if others is not None:
        is_together &= others[1:] == others[:-1]
    return paired_kinds(made, is_together)


def moved_kinds(kinds: Array, keys: Sequence[pa.Array]) -> Array:
    """The kinds of a batch's rows for a consumer that knows them by these keys: an update of a row whose key changes deletes the
    one with the old key. Every -U of the batch has its +U behind it."""
    befores = np.flatnonzero(kinds[:-1] == RowKind.UPDATE_BEFORE)
    if not len(befores) or not keys:
        return kinds
    is_same = same_keys(keys, befores)
    if is_same.all():
        return kinds
    is_split = np.zeros(max(0, len(kinds) - 1), dtype=bool)
    is_split[befores[~is_same]] = True
    return _split(kinds, is_split)


def whole_updates(
    batches: Iterable[pa.RecordBatch], keys: Sequence[str], *, are_versions: bool = False
) -> Iterator[pa.RecordBatch]:
    """The batches of a changelog that anybody wrote, as the contract has it: the halves of an update in one batch, and an update
    that changes the `keys` of a row, or of which half is missing, as a -D and a +I. No row changes its place.

    Of rows that are versions, the -D of such a change has the old keys and the other values of the +I, of which one is its time.
    """
    waiting: pa.RecordBatch | None = None
    for batch in batches:
        if waiting is not None:
            batch, waiting = pa.concat_batches([waiting, batch]), None
        if batch.num_rows and row_kinds(batch)[-1] == RowKind.UPDATE_BEFORE:
            waiting, batch = batch.slice(batch.num_rows - 1), batch.slice(0, batch.num_rows - 1)
        yield _with_whole_updates(batch, keys, are_versions)
    if waiting is not None:
        yield _with_whole_updates(waiting, keys, are_versions)


def _with_whole_updates(batch: pa.RecordBatch, keys: Sequence[str], are_versions: bool) -> pa.RecordBatch:
    written = row_kinds(batch)
    paired = portion_kinds(written)
    is_known = set(keys) <= set(batch.schema.names)
    kinds = moved_kinds(paired, [batch.column(key) for key in keys] if is_known else [])
    if are_versions and kinds is not paired:
        is_moved = (paired == RowKind.UPDATE_BEFORE) & (kinds == RowKind.DELETE)
        rows = pa.array(np.arange(len(kinds)) + is_moved)
        names = batch.schema.names
        columns = [c if n in keys else c.take(rows) for n, c in zip(names, batch.columns, strict=True)]
        batch = pa.RecordBatch.from_arrays(columns, schema=batch.schema)
    return batch if kinds is written else with_row_kinds(batch, kinds)


def same_keys(keys: Sequence[pa.Array], rows: Array) -> Mask:
    """Whether each of these rows and the row behind it have the same keys."""
    here, behind = pa.array(rows), pa.array(rows + 1)
    is_same = np.ones(len(rows), dtype=bool)
    for key in keys:
        is_same &= equal_values(key.take(here), key.take(behind))
    return is_same


def _split(kinds: Array, is_split: Mask) -> Array:
    """Makes a -D of each row that is split from the one behind it, and of that a +I. Sums are much faster than choosing rows."""
    kinds, step = kinds.copy(), is_split.view(np.int8) * np.int8(_STEP)
    kinds[:-1] += step
    kinds[1:] -= step
    return kinds

"""Lookup join: each row with the rows that a table has under its key when the row arrives."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa

from sqlstream.arrow import row_kinds, with_row_kinds, without_row_kinds
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.lookup.cache import make_cache
from sqlstream.runtime.lookup.fetcher import Fetcher
from sqlstream.runtime.operators.join.joined import JoinedRows, portions
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.update_pairs import derived_kinds, portion_kinds
from sqlstream.specs.join import JoinKind, LookupJoinSpec
from sqlstream.spi.connector import LookupSource
from sqlstream.spi.lookup import LookupOptions


class LookupJoin(Operator[LookupJoinSpec]):
    """Emits the pairs of a row with its matches in order of the input, and for LEFT a row without matches with NULLs.

    All keys of a batch are answered at once (`LookupCache.find`), so its rows see the table at one moment. The table is read
    before the batch is emitted, and the watermark passes after it. State: none that is saved; the cache may be lost."""

    def __init__(self, spec: LookupJoinSpec, context: OperatorContext, source: LookupSource) -> None:
        super().__init__(spec, context)
        options = LookupOptions.of(spec.source.options)
        self._fetcher = Fetcher(spec, context, source, options.max_retries)
        self._cache = make_cache(options, self._fetcher, spec.right_keys, context.now_ms, context.count)
        sides = (context.input_schemas[0], spec.right_schema)
        self._joined = JoinedRows(spec.condition, dataclasses.replace(context, input_schemas=sides))
        self._is_left_join = spec.kind is JoinKind.LEFT

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if batch.num_rows == 0:
            return
        slots = self._cache.find([batch.column(k) for k in self.spec.left_keys])
        if self._cache.rows.is_one_to_one:
            self._join(batch, slots, output)
        else:
            for start, stop in portions(self._cache.rows.counts(slots)):
                self._join(batch.slice(start, stop - start), slots[start:stop], output)
        self._cache.release()

    def _join(self, batch: pa.RecordBatch, slots: Array, output: Output) -> None:
        rows = without_row_kinds(batch)
        known = self._cache.rows
        mine, row_ids = known.match(slots)
        # When every row has one match, its columns are passed on without a copy.
        is_one_to_one = len(mine) == len(slots) and (known.is_one_to_one or bool((np.diff(mine) == 1).all()))
        matched = known.gather(row_ids)
        joined, passed = self._joined.pairs(rows, matched, None if is_one_to_one else mine, None)
        origins, partners = mine[passed], row_ids[passed]
        if self._is_left_join:
            joined, origins, partners = self._with_unmatched(rows, joined, origins, partners)
        if not self.context.output_mode.is_insert_only:
            kinds = derived_kinds(portion_kinds(row_kinds(batch)), origins, partners)
            joined = with_row_kinds(joined, np.ascontiguousarray(kinds, dtype=np.int8))
        output.emit(joined)

    def _with_unmatched(
        self, rows: pa.RecordBatch, joined: pa.RecordBatch, origins: Array, partners: Array
    ) -> tuple[pa.RecordBatch, Array, Array]:
        """The pairs and the rows without one, padded, in the order of `rows`; the partner of the latter is -1."""
        is_matched = np.zeros(rows.num_rows, dtype=bool)
        is_matched[origins] = True
        if is_matched.all():
            return joined, origins, partners
        unmatched = np.flatnonzero(~is_matched)
        both = pa.concat_batches([joined, self._joined.padded(rows, unmatched)])
        origins = np.concatenate([origins, unmatched])
        partners = np.concatenate([partners, np.full(len(unmatched), -1)])
        order = np.argsort(origins, kind="stable")
        return both.take(to_array(pa.int64(), order)), origins[order], partners[order]

    def next_processing_time_ms(self) -> int | None:
        return self._cache.next_reload_ms()

    def on_processing_time(self, now_ms: int, output: Output) -> None:
        if self._cache.next_reload_ms() is not None:
            self._cache.reload_if_due()

    def close(self) -> None:
        self._fetcher.close()

"""Vector search: each row with the rows of a table whose vectors are nearest to its own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.runtime.lookup.fetcher import Fetcher
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.join import JoinKind, VectorMetric, VectorSearchSpec
from sqlstream.spi.connector import LookupSource
from sqlstream.spi.lookup import CacheKind, LookupOptions, Reload, lookup_options_given

_PRODUCTS_MAX = 1 << 24
"""Scores that are computed at once, of some rows with all vectors of the table."""
_ROWS_MAX = 65_536
_VALUES_MAX = 1 << 22
"""Values of vectors that are made DOUBLE at once, to be scored exactly."""


class VectorSearch(Operator[VectorSearchSpec]):
    """Emits each row with its nearest rows of the table, the nearest first, and for LEFT a row without any with NULLs.

    The table is read whole before the first row, and again when that is due: as `lookup.cache` of the table says, for each batch
    without a cache, or as the call does. Its vectors have one length.
    State: none that is saved; the table may be lost."""

    def __init__(self, spec: VectorSearchSpec, context: OperatorContext, source: LookupSource) -> None:
        super().__init__(spec, context)
        reload = Reload(spec.reload_ms, is_fixed_rate=True) if spec.reload_ms else None
        given = lookup_options_given(spec.source.options)
        self._options = given or LookupOptions(cache=CacheKind.FULL, reload=reload)
        self._fetcher = Fetcher(spec, context, source, self._options.max_retries)
        self._schema = to_arrow_schema(context.output_schema)
        self._metric = VectorMetric(spec.metric)
        self._table: VectorTable | None = None
        self._due_ms: int | None = None

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if batch.num_rows == 0:
            return
        table = self._loaded()
        queries, asking = self._queries(batch.column(self.spec.query), table)
        rows = max(1, min(_ROWS_MAX // self.spec.top_k, _PRODUCTS_MAX // max(len(table.vectors), 1)))
        for start in range(0, batch.num_rows, rows):
            stop = min(start + rows, batch.num_rows)
            low, high = np.searchsorted(asking, (start, stop))
            found, scores = table.nearest(queries[low:high], self.spec.top_k)
            self._emit(batch.slice(start, stop - start), asking[low:high] - start, found, scores, output)

    def _loaded(self) -> VectorTable:
        began_ms = self.context.now_ms()
        is_due = self._options.cache is CacheKind.NONE or (
            self._due_ms is not None and began_ms >= self._due_ms
        )
        if self._table is None or is_due:
            # Not two of them at once.
            self._table = None
            rows = self._fetcher.load(self._options.full_rows_max)
            self._table = VectorTable(rows, self.spec.vector, self._metric, self.spec.source.table)
            if self._options.reload is not None:
                self._due_ms = self._options.reload.next_ms(began_ms, self.context.now_ms())
        return self._table

    def _queries(self, column: pa.Array, table: VectorTable) -> tuple[Array, Array]:
        """The vectors that are searched for, and the rows that have one."""
        asking, vectors = vectors_of(column, "the vectors that are searched for")
        if len(vectors) and len(table.vectors) and vectors.shape[1] != table.vectors.shape[1]:
            raise UserError(
                "SS5445",
                f"a vector of length {vectors.shape[1]} is searched for in table "
                f'"{self.spec.source.table}", whose vectors have length {table.vectors.shape[1]}',
                hint="make the vectors of both by the same model",
            )
        return vectors.astype(np.float64), asking

    def _emit(
        self, batch: pa.RecordBatch, asking: Array, found: Array, scores: Array, output: Output
    ) -> None:
        """`found` and `scores` have a row for each of `asking`; -1 stands for no row."""
        is_there = found >= 0
        mine = np.repeat(asking, is_there.sum(axis=1))
        places, values = found[is_there], scores[is_there]
        if self.spec.kind is JoinKind.LEFT:
            alone = np.setdiff1d(np.arange(batch.num_rows), mine)
            mine = np.concatenate([mine, alone])
            places = np.concatenate([places, np.full(len(alone), -1)])
            values = np.concatenate([values, np.zeros(len(alone))])
            order = np.argsort(mine, kind="stable")
            mine, places, values = mine[order], places[order], values[order]
        assert self._table is not None
        is_none = places < 0
        taken, matched = pa.array(mine), pa.array(places, mask=is_none)
        arrays = [batch.column(c).take(taken) for c in self.spec.columns]
        arrays += [column.take(matched) for column in self._table.rows.columns]
        arrays.append(pa.array(values, mask=is_none))
        output.emit(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        self._fetcher.close()


class VectorTable:
    """The rows of a table, whose `vectors` are those of its rows `numbers`. A row whose vector is NULL, or has a NULL, NaN or
    infinity in it, or with COSINE no direction, is none of them. No state beside."""

    def __init__(self, rows: pa.RecordBatch, vector: int, metric: VectorMetric, name: str) -> None:
        self.rows = rows
        self._metric = metric
        self._numbers, self.vectors = vectors_of(rows.column(vector), f'the vectors of table "{name}"')
        exact = np.einsum("ij,ij->i", self.vectors, self.vectors, dtype=np.float64)
        if metric is VectorMetric.COSINE:
            has_direction = exact > 0
            self._numbers, self.vectors = self._numbers[has_direction], self.vectors[has_direction]
            exact = exact[has_direction]
        self._squares = exact

    def nearest(self, queries: Array, top_k: int) -> tuple[Array, Array]:
        """For each of these vectors (float64[n, length]) the numbers of its nearest rows and their scores, the nearest first, of
        equal ones the first of the table; -1 where there are fewer."""
        count = len(self.vectors)
        found = np.full((len(queries), top_k), -1, dtype=np.int64)
        scores = np.zeros((len(queries), top_k))
        if not count or not len(queries):
            return found, scores
        kept = min(top_k, count)
        rough = self._rough(queries)
        least = np.partition(rough, count - kept, axis=1)[:, count - kept]
        with np.errstate(invalid="ignore"):
            # Whatever is no number is scored.
            is_far = rough < (least - self._slack(queries))[:, None]
        for row, query in enumerate(queries):
            # A loop over rows, of which each scores but few vectors.
            if self._metric is VectorMetric.COSINE and not query.any():
                continue
            places = np.flatnonzero(~is_far[row])
            exact = self._scores(query, places)
            order = np.argsort(exact if self._metric is VectorMetric.L2 else -exact, kind="stable")[:kept]
            found[row, :kept], scores[row, :kept] = self._numbers[places[order]], exact[order]
        return found, scores

    def _rough(self, queries: Array) -> Array:
        """For each query and vector what is the greater the nearer it is: computed at once, as precise as the vectors are."""
        vectors = self.vectors
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            rough: Array = queries.astype(vectors.dtype) @ vectors.T
            if self._metric is VectorMetric.COSINE:
                rough /= np.sqrt(self._squares).astype(vectors.dtype)
            elif self._metric is VectorMetric.L2:
                rough = 2 * rough - self._squares.astype(vectors.dtype)
        return rough

    def _slack(self, queries: Array) -> Array:
        """By how much a vector that is among the nearest may be behind the last of these in `_rough`: twice the bound of the
        rounding errors of products of vectors (Higham, Accuracy and Stability of Numerical Algorithms, 3.1)."""
        info = np.finfo(self.vectors.dtype)
        lengths, squares = np.sqrt((queries**2).sum(axis=1)), self._squares
        longest, shortest = np.sqrt(squares.max()), np.sqrt(squares.min())
        reach, least = lengths * longest, 1 + longest
        if self._metric is VectorMetric.L2:
            reach = (lengths + longest) ** 2
        relative = reach
        if self._metric is VectorMetric.COSINE:
            relative, least = lengths, 1 + 1 / shortest
        slack = 2 * (queries.shape[1] + 8) * (info.eps * relative + info.smallest_subnormal * least)
        largest = np.maximum(np.maximum(lengths, longest), reach)
        is_in_range = largest < info.max / 4
        if self._metric is VectorMetric.COSINE:
            is_in_range &= shortest > info.tiny
        return np.where(is_in_range, slack, np.inf)

    def _scores(self, query: Array, places: Array) -> Array:
        step = max(_VALUES_MAX // max(len(query), 1), 1)
        parts = [self._scored(query, places[low : low + step]) for low in range(0, len(places), step)]
        return np.concatenate(parts)

    def _scored(self, query: Array, places: Array) -> Array:
        vectors = self.vectors[places].astype(np.float64)
        if self._metric is VectorMetric.L2:
            return np.sqrt(((vectors - query) ** 2).sum(axis=1))
        products = vectors @ query
        if self._metric is VectorMetric.DOT:
            return products
        length = np.sqrt(query @ query)
        return products / (np.sqrt(self._squares[places]) * length if length else 1.0)


def vectors_of(column: pa.Array, what: str) -> tuple[Array, Array]:
    """The positions of the values that are vectors, and these in one matrix. UserError SS5445 where they differ in length."""
    element = column.type.value_type
    dtype = np.float32 if pa.types.is_float32(element) else np.float64
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    present = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    if not len(present):
        return present, np.zeros((0, 0), dtype=dtype)
    width = int(lengths[present[0]])
    if (lengths[present] != width).any():
        other = int(next(n for n in lengths[present] if n != width))
        raise UserError(
            "SS5445", f"{what} have lengths {width} and {other}", hint="give all vectors one length"
        )
    # NULL elements become NaN.
    values = column.flatten().to_numpy(zero_copy_only=False).astype(dtype, copy=False)
    vectors = np.ascontiguousarray(values.reshape(len(present), width))
    is_finite = np.isfinite(vectors).all(axis=1)
    return (present, vectors) if is_finite.all() else (present[is_finite], vectors[is_finite])

"""Output rows of matches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.runtime.evaluate import EvaluationContext
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.match import UNMATCHED
from sqlstream.runtime.operators.match.matcher import Found, Segments
from sqlstream.runtime.operators.match.values import MatchedRows, MatchValues, ranges
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.schema import Schema
from sqlstream.specs.match_recognize import MatchRecognizeSpec, RowsPerMatch


class MatchRows:
    """Builds the output rows of a spec from its matches. No state."""

    def __init__(
        self, spec: MatchRecognizeSpec, input: Schema, output: Schema, evaluation: EvaluationContext
    ) -> None:
        self._spec = spec
        self._schema = to_arrow_schema(output)
        self._width = len(input)
        self._values = MatchValues(spec.measures, input, spec.variables, evaluation)
        self._variable_of = np.array([i.first for i in spec.program], dtype=np.int64)
        self._is_excluded = np.array([i.is_excluded for i in spec.program], dtype=bool)

    def build(self, segments: Segments, found: Found, numbers: Array) -> pa.RecordBatch:
        """The output of the records, in their order; `numbers` are those of the matches."""
        starts = found.records[:, 1]
        is_unmatched = found.records[:, 3] == UNMATCHED
        lengths = np.where(is_unmatched, 0, found.records[:, 2] - starts)
        bounds = np.concatenate(([0], np.cumsum(lengths)))
        rows = ranges(starts, lengths)
        if self._spec.rows_per_match is RowsPerMatch.ONE:
            matches, ends, shown = np.arange(len(starts)), bounds[1:], starts
        else:
            matches, ends, shown = self._all_rows(found, starts, lengths, bounds, is_unmatched)
        begins, key_ends = segments.bounds[:-1], segments.bounds[1:]
        counts = key_ends - begins
        matched = MatchedRows(
            batch=segments.batch,
            partition_begin=np.repeat(begins, counts),
            partition_end=np.repeat(key_ends, counts),
            rows=rows,
            variables=self._variable_of[found.labels],
            starts=bounds,
            numbers=numbers,
            matches=matches,
            ends=ends,
        )
        measures = self._values.compute(matched)
        if is_unmatched.any():
            mask = to_array(pa.bool_(), is_unmatched[matches])
            measures = [_nulled(m, mask) for m in measures]
        is_one = self._spec.rows_per_match is RowsPerMatch.ONE
        copied = self._spec.partition_keys if is_one else range(self._width)
        chosen = to_array(pa.int64(), np.ascontiguousarray(shown))
        columns = [segments.batch.column(c).take(chosen) for c in copied]
        arrays = [*columns, *measures]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _all_rows(
        self, found: Found, starts: Array, lengths: Array, bounds: Array, is_unmatched: Array
    ) -> tuple[Array, Array, Array]:
        """Match, end of what is seen, and row of each output row: those of matches that are not excluded, unmatched rows, and one
        for an empty match."""
        is_alone = lengths == 0
        if self._spec.rows_per_match is RowsPerMatch.ALL_OMIT_EMPTY:
            is_alone = is_alone & is_unmatched
        counts = lengths + is_alone
        matches = np.repeat(np.arange(len(starts)), counts)
        within = ranges(np.zeros(len(counts), dtype=np.int64), counts)
        ends = np.minimum(bounds[matches] + within + 1, bounds[matches + 1])
        shown = starts[matches] + within
        is_mapped = lengths[matches] > 0
        if self._is_excluded.any():
            kept = np.ones(len(matches), dtype=bool)
            kept[is_mapped] = ~self._is_excluded[found.labels]
            matches, ends, shown = matches[kept], ends[kept], shown[kept]
        return matches, ends, shown


def _nulled(column: pa.Array, mask: pa.Array) -> pa.Array:
    rows = np.arange(len(column))
    return column.take(pa.array(rows, mask=mask.to_numpy(zero_copy_only=False)))

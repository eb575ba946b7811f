"""Values that differ each time they are computed, and are kept for as long as their row is there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.arrow import is_accumulate, row_kinds, to_arrow_schema
from sqlstream.runtime.evaluate import EvaluationContext
from sqlstream.runtime.evaluate.nested_keys import identities
from sqlstream.runtime.evaluate.program import Program
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.operators.equal_values import batch_groups
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.tables.keyed_rows import KeyedRows
from sqlstream.specs.calc import KeptValuesSpec

_NONE = -1
_IS_OWED = "$is_owed"


class KeptValues(Operator[KeptValuesSpec]):
    """Computes the values of a row when it comes, and gives the retraction of the row the same.

    Of equal rows the one that came first is retracted first. A retraction that comes before its row, as from another subtask, has
    its values computed, which the row then gets.
    State: the keys and values of each row that is there, and of each retraction that waits for its row (`$is_owed`), dropped
    `state_ttl_ms` after it came.
    """

    def __init__(self, spec: KeptValuesSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._watermark_ms: int | None = None
        evaluation = EvaluationContext.of(context.now_ms, context.config)
        evaluation.watermark_ms = lambda: self._watermark_ms
        self._program = Program(spec.expressions, evaluation)
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)
        columns = to_arrow_schema(context.input_schemas[0])
        values = list(self._schema)[len(columns) : len(columns) + len(spec.expressions)]
        self._kept_schema = pa.schema(
            [
                *(pa.field(f"key{i}", columns.field(key).type) for i, key in enumerate(spec.keys)),
                *(pa.field(f"value{i}", field.type) for i, field in enumerate(values)),
                pa.field(_IS_OWED, pa.bool_()),
            ]
        )
        found_by = tuple(spec.keys.index(column) for column in spec.distribution)
        self._kept = context.state.add(
            KeyedRows("values", self._kept_schema, found_by, context.state.scope, ttl_ms=spec.state_ttl_ms)
        )

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if batch.num_rows == 0:
            return
        columns = batch.columns[:-1]
        keys = [batch.column(key) for key in self.spec.keys]
        kept_ids, kept = self._candidates(batch)
        held = len(kept_ids)
        comes = is_accumulate(row_kinds(batch))
        is_added = np.concatenate([~kept.column(_IS_OWED).to_numpy(zero_copy_only=False), comes])
        partners = _partners(self._groups(kept, keys, held + batch.num_rows), is_added)
        partners_of_rows = partners[held:]
        places = np.arange(held, held + batch.num_rows)
        has_values = (partners_of_rows != _NONE) & (partners_of_rows < places)
        fresh = np.flatnonzero(~has_values)
        computed = self._computed(columns, fresh, batch.num_rows)
        # The values of kept rows, then those that are computed, by the place of the row that they belong to.
        place_of_values = np.empty(held + batch.num_rows, dtype=np.int64)
        place_of_values[:held] = np.arange(held)
        place_of_values[held + fresh] = held + np.arange(len(fresh))
        chosen = to_array(pa.int64(), place_of_values[np.where(has_values, partners_of_rows, places)])
        first = len(self.spec.keys)
        values = [
            pa.concat_arrays([kept.column(first + i), column]).take(chosen)
            for i, column in enumerate(computed)
        ]
        self._keep(kept_ids[partners[:held] != _NONE], keys, values, comes, partners_of_rows == _NONE)
        output.emit(pa.RecordBatch.from_arrays([*columns, *values, batch.columns[-1]], schema=self._schema))

    def _candidates(self, batch: pa.RecordBatch) -> tuple[Array, pa.RecordBatch]:
        """What is kept under the keys of the batch, by age within a key."""
        keys = [batch.column(column) for column in self.spec.distribution]
        slots = np.unique(self._kept.find(keys, batch.num_rows))
        _, ids = self._kept.match(slots[slots >= 0])
        return ids, self._kept.gather(ids)

    def _groups(self, kept: pa.RecordBatch, keys: list[pa.Array], rows: int) -> Array:
        """The group of equal keys of each kept row and each row of the batch."""
        both = [pa.concat_arrays([kept.column(i), key]) for i, key in enumerate(keys)]
        return batch_groups(identities(both), rows)[0]

    def _computed(self, columns: list[pa.Array], rows: Array, count: int) -> list[pa.Array]:
        """The values of these rows, computed anew."""
        if len(rows) < count:
            chosen = to_array(pa.int64(), rows)
            columns = [column.take(chosen) for column in columns]
        types = self._kept_schema.types[len(self.spec.keys) : -1]
        computed = self._program.run(columns, len(rows))
        return [c if c.type == t else c.cast(t) for c, t in zip(computed, types, strict=True)]

    def _keep(
        self, gone: Array, keys: list[pa.Array], values: list[pa.Array], comes: Array, is_alone: Array
    ) -> None:
        self._kept.remove(gone)
        if is_alone.any():
            rows = pa.RecordBatch.from_arrays([*keys, *values, pa.array(~comes)], schema=self._kept_schema)
            self._kept.append(rows if is_alone.all() else rows.filter(pa.array(is_alone)))

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        self._watermark_ms = watermark_ms
        return watermark_ms


def _partners(groups: Array, is_added: Array) -> Array:
    """int64[n]: of the k-th addition of a group the place of its k-th retraction, and the reverse; -1 where there is none."""
    partners = np.full(len(groups), _NONE, dtype=np.int64)
    added, retracted = np.flatnonzero(is_added), np.flatnonzero(~is_added)
    if not len(added) or not len(retracted):
        return partners
    added, retracted = (rows[np.argsort(groups[rows], kind="stable")] for rows in (added, retracted))
    # By group and number within it, both in order: equal pairs meet.
    codes_added, codes_retracted = (_numbered(groups[rows], len(groups)) for rows in (added, retracted))
    _, here, there = np.intersect1d(codes_added, codes_retracted, assume_unique=True, return_indices=True)
    partners[added[here]] = retracted[there]
    partners[retracted[there]] = added[here]
    return partners


def _numbered(groups: Array, width: int) -> Array:
    """Of sorted groups: the group and the number of each entry within it, as one number."""
    firsts = np.searchsorted(groups, groups, side="left")
    return groups.astype(np.int64) * (width + 1) + np.arange(len(groups)) - firsts

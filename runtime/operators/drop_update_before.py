"""Drops the -U rows of a changelog."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.arrow import row_kinds, with_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.runtime.operators.operator import Operator, Output
from sqlstream.runtime.update_pairs import moved_kinds
from sqlstream.specs.calc import DropUpdateBeforeSpec


class DropUpdateBefore(Operator[DropUpdateBeforeSpec]):
    """Emits all rows except -U: the following +U replaces the old row by its key, unless that is another one. No state."""

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        kinds = row_kinds(batch)
        moved = moved_kinds(kinds, [batch.column(key) for key in self.spec.keys])
        if moved is not kinds:
            batch = with_row_kinds(batch, moved)
        is_kept = moved != RowKind.UPDATE_BEFORE
        output.emit(batch if is_kept.all() else batch.filter(pa.array(is_kept)))

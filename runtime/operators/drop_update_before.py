"""Drops the -U rows of a changelog."""

from __future__ import annotations

import pyarrow as pa

from runtime.operators.operator import Operator, Output
from sqlstream.arrow import row_kinds
from sqlstream.changelog import RowKind
from sqlstream.specs.calc import DropUpdateBeforeSpec


class DropUpdateBefore(Operator[DropUpdateBeforeSpec]):
    """Emits all rows except -U: the following +U replaces the old row by its key. No state."""

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        is_kept = row_kinds(batch) != RowKind.UPDATE_BEFORE
        output.emit(batch if is_kept.all() else batch.filter(pa.array(is_kept)))

"""Which rows of a table an UPDATE or DELETE changes, as their row kinds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import with_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.runtime.operators.operator import Operator, Output
from sqlstream.specs.mark_changes import MarkChangesSpec


class MarkChanges(Operator[MarkChangesSpec]):
    """Turns the last column of its input into the kinds of the rows. No state."""

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        changed = RowKind.DELETE if self.spec.is_deleting else RowKind.UPDATE_AFTER
        flags = pc.fill_null(batch.column(batch.num_columns - 1), False).to_numpy(zero_copy_only=False)
        kinds = np.where(flags, np.int8(changed), np.int8(RowKind.INSERT))
        output.emit(with_row_kinds(batch.select(range(batch.num_columns - 1)), kinds))

"""Batches without columns, which still count their rows."""

from __future__ import annotations

import pyarrow as pa


def empty_columns(rows: int) -> pa.RecordBatch:
    """A batch of `rows` rows without columns, as `SELECT COUNT(*)` reads them."""
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))

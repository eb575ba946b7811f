"""A table that is read whole fits into one batch, or is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sqlstream.errors import UserError
from sqlstream.runtime.lookup.whole_table import one_batch


def test_more_values_than_a_column_holds_are_refused() -> None:
    # Values of type NULL take no memory.
    half = 1 << 30
    vectors = pa.ListArray.from_arrays(pa.array([0, half], pa.int32()), pa.nulls(half))
    part = pa.record_batch({"v": vectors})
    assert one_batch([part], part.schema, "docs").num_rows == 1
    assert one_batch([], part.schema, "docs").schema == part.schema
    with pytest.raises(UserError) as raised:
        one_batch([part, part], part.schema, "docs")
    assert raised.value.code == "SS5446"
    assert raised.value.hint

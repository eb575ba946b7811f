"""COUNT_WINDOW(TABLE t PARTITION BY k, size [, slide]): windows of so many rows, as a process table function."""

from __future__ import annotations

from typing import Any

import numpy as np

from sqlstream import types as sql
from sqlstream.function_ref import FunctionRef
from sqlstream.process_functions import (
    OPTIONAL_PARTITION_BY,
    PASS_COLUMNS_THROUGH,
    SET_SEMANTIC_TABLE,
    Context,
    ProcessTableFunction,
    ScalarArgument,
    TableArgument,
    ValueState,
    declared_function,
)


class CountWindow(ProcessTableFunction):
    """Each row once per window of `size` rows of its key that it is in; a window begins with every `slide`-th row.

    `window_number` and `window_position`, that of the row in the window, begin with 1. State: the number of rows of each key.
    """

    result_type = "ROW<window_number BIGINT NOT NULL, window_position BIGINT NOT NULL>"
    data = TableArgument(SET_SEMANTIC_TABLE, OPTIONAL_PARTITION_BY, PASS_COLUMNS_THROUGH)
    size = ScalarArgument("BIGINT NOT NULL")
    slide = ScalarArgument("BIGINT NOT NULL", default=0)
    rows = ValueState("BIGINT", default=0)

    def on_batch(self, ctx: Context, batch: Any) -> Any:
        size, slide = self.size, self.slide or self.size
        before = self.rows.get(ctx.keys).to_numpy()
        self.rows.put(ctx.keys, before + ctx.row_counts)
        numbers = before[ctx.groups] + ctx.row_numbers
        if slide == size:
            return {"window_number": numbers // size + 1, "window_position": numbers % size + 1}
        first = np.maximum(numbers - size, -slide) // slide + 1
        counts = numbers // slide - first + 1
        rows = np.repeat(np.arange(len(numbers)), counts)
        windows = first[rows] + np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        positions = numbers[rows] - windows * slide + 1
        ctx.emit({"window_number": windows + 1, "window_position": positions}, rows=rows)
        return None


def count_window() -> FunctionRef:
    """COUNT_WINDOW, as a call carries it."""
    declared = declared_function(CountWindow).declared
    number = sql.BIGINT.not_null()
    return FunctionRef(
        "count_window",
        CountWindow.__module__,
        CountWindow.__name__,
        declared.kind,
        declared.mode,
        declared.parameters,
        (None, number, number),
        sql.row(("window_number", number), ("window_position", number)),
        declared.optional,
        methods=declared.methods,
        process=declared.process,
        state_types=(sql.BIGINT,),
    )

"""Process table functions of a user, as the tests of CREATE FUNCTION ship them. Of those for tests/sql the rows that they put out
do not depend, together, on the order in which rows of a key come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream import (
    OPTIONAL_PARTITION_BY,
    PASS_COLUMNS_THROUGH,
    ROW_SEMANTIC_TABLE,
    SET_SEMANTIC_TABLE,
    ListState,
    MapState,
    ProcessTableFunction,
    ScalarArgument,
    TableArgument,
    ValueState,
)


class Numbered(ProcessTableFunction):
    """Numbers the rows of each key.

    And nothing else.
    """

    result_type = "ROW<n BIGINT>"
    input = TableArgument(SET_SEMANTIC_TABLE, OPTIONAL_PARTITION_BY)
    first = ScalarArgument("BIGINT NOT NULL", default=1)
    count = ValueState("BIGINT", default=0)

    def on_batch(self, ctx, batch):
        before = self.count.get(ctx.keys).to_numpy()
        self.count.put(ctx.keys, before + ctx.row_counts)
        return {"n": before[ctx.groups] + ctx.row_numbers + self.first}


class Remembered(ProcessTableFunction):
    """Of each row how often its key has had the value, how many values there are, and the longest text; on whole batches."""

    result_type = "ROW<what STRING, v BIGINT, n BIGINT>"
    input = TableArgument(SET_SEMANTIC_TABLE)
    times = MapState("BIGINT", "BIGINT")
    all = ListState("BIGINT")
    last = ValueState("ROW<v BIGINT, texts ARRAY<STRING>>")

    def on_batch(self, ctx, batch):
        values, groups = batch.column("v"), ctx.groups
        pairs = np.stack([groups, values.to_numpy()])
        _, of_row = np.unique(pairs, axis=1, return_inverse=True)
        of_row = of_row.ravel()
        before = self.times.get(ctx.keys, groups, values).to_numpy(zero_copy_only=False)
        before = np.nan_to_num(before.astype(float)).astype(np.int64)
        rank = np.array([(of_row[:i] == pair).sum() for i, pair in enumerate(of_row)])
        self.times.put(ctx.keys, groups, values, before + rank + 1)
        self.all.append(ctx.keys, groups, values)
        lengths = np.array([len(found) for found in self.all.get(ctx.keys).to_pylist()])
        ctx.emit([pa.repeat("value", batch.num_rows), values, before + rank + 1])
        whole = lengths - ctx.row_counts
        ctx.emit({"what": pa.repeat("row", batch.num_rows), "v": pa.nulls(batch.num_rows, pa.int64()),
                  "n": whole[groups] + ctx.row_numbers + 1})  # fmt: skip
        self.last.put(ctx.keys, [{"v": int(n), "texts": ["x"] * int(n % 3)} for n in lengths])
        assert self.last.get(ctx.keys).field("v").to_pylist() == lengths.tolist()


class RememberedByRow(ProcessTableFunction):
    """As `Remembered`, row by row."""

    result_type = "ROW<what STRING, v BIGINT, n BIGINT>"
    input = TableArgument(SET_SEMANTIC_TABLE)
    times = MapState("BIGINT", "BIGINT")
    all = ListState("BIGINT")
    last = ValueState("ARRAY<BIGINT>")

    def eval(self, ctx, row):
        v = row["v"]
        self.times[v] = self.times[v] + 1 if v in self.times else 1
        yield "value", v, self.times[v]
        self.all.add(v)
        yield {"what": "row", "n": len(self.all)}
        if self.last.value is None:
            self.last.value = []
        self.last.value.append(len(self.all))
        assert self.last.value[-1] == sum(n for _, n in self.times.items())


class Wandering(ProcessTableFunction):
    """Writes, removes and clears as its rows say, and puts out all that its key has."""

    result_type = "STRING"
    input = TableArgument(SET_SEMANTIC_TABLE)
    value = ValueState("BIGINT", default=7)
    map = MapState("BIGINT", "STRING", ttl="1 h")
    list = ListState("ARRAY<BIGINT>")

    def eval(self, ctx, row):
        wander(row["v"], self)
        yield repr((self.value.value, sorted(self.map.items()), [*self.list]))


def wander(v: int, states: Any) -> None:
    """One step of Wandering: of `states` with the values of a key, or with those of a model."""
    match v % 9:
        case 0 | 1:
            states.value.value += v
        case 2 | 3:
            states.map[v % 5] = str(v)
        case 4:
            for key in [key for key in states.map if key > v % 5]:
                del states.map[key]
        case 5:
            states.list.add([v, v + 1])
        case 6:
            states.list.update([item[:1] for item in states.list][::-1])
        case 7:
            states.value.clear()
            states.map.clear()
        case 8:
            if len(states.list) > 2:
                states.list.clear()


class Doubled(ProcessTableFunction):
    """Two rows of each, beside the columns of the table."""

    result_type = "STRING"
    input = TableArgument(ROW_SEMANTIC_TABLE, PASS_COLUMNS_THROUGH)

    def on_batch(self, ctx, batch):
        rows = np.repeat(np.arange(batch.num_rows), 2)
        ctx.emit([["first", "second"] * batch.num_rows], rows=rows)


class Paired(ProcessTableFunction):
    """The rows of the left table with the number of rows that the right one has had of their key."""

    result_type = "ROW<side STRING, n BIGINT>"
    left = TableArgument(SET_SEMANTIC_TABLE)
    right = TableArgument(SET_SEMANTIC_TABLE)
    rights = ValueState("BIGINT", default=0)
    opened = False

    def open(self) -> None:
        self.opened = True

    def eval(self, ctx, row) -> Any:
        assert self.opened
        assert ctx.key == (row["k"],)
        if ctx.table == "right":
            self.rights.value += 1
            return [("right", self.rights.value)]
        return [("left", None)]


class Broken(ProcessTableFunction):
    """Fails as its argument says."""

    result_type = "ROW<n BIGINT>"
    input = TableArgument(SET_SEMANTIC_TABLE)
    how = ScalarArgument("STRING NOT NULL")
    count = ValueState("INT NOT NULL", default=0)

    def on_batch(self, ctx, batch):
        match self.how:
            case "raise":
                raise ValueError("not today")
            case "too few":
                return {"n": [1]}
            case "another column":
                return {"m": [1] * batch.num_rows}
            case "a text":
                return "text"
            case "a wrong type":
                return {"n": ["x"] * batch.num_rows}
            case "beyond the rows":
                ctx.emit([[1]], rows=[batch.num_rows])
            case "beyond the keys":
                self.count.get(ctx.keys.take(np.array([len(ctx.keys)])))
            case "rows and keys":
                ctx.emit([[1]], rows=[0], keys=ctx.keys)
            case "a state of another type":
                self.count.put(ctx.keys, [2**40] * len(ctx.keys))
            case "too many states":
                self.count.put(ctx.keys, [1] * (len(ctx.keys) + 1))
        return None

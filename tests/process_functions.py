"""Process table functions of a user, as the tests of CREATE FUNCTION ship them. Of those for tests/sql the rows that they put out
do not depend, together, on the order in which rows of a key come."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream import (
    OPTIONAL_PARTITION_BY,
    PASS_COLUMNS_THROUGH,
    REQUIRE_ON_TIME,
    ROW_SEMANTIC_TABLE,
    SET_SEMANTIC_TABLE,
    SUPPORT_UPDATES,
    Change,
    ChangelogMode,
    Deletion,
    ListState,
    MapState,
    ProcessTableFunction,
    ScalarArgument,
    SideOutput,
    TableArgument,
    ValueState,
)
from sqlstream.changelog import RowKind


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


class Recent(ProcessTableFunction):
    """Half a second after each row how many rows its key has had since then, in the order of their times."""

    result_type = "ROW<n BIGINT>"
    input = TableArgument(SET_SEMANTIC_TABLE, REQUIRE_ON_TIME)
    times = MapState("BIGINT", "BIGINT")

    def eval(self, ctx, row):
        self.times[ctx.time_ms] = self.times[ctx.time_ms] + 1 if ctx.time_ms in self.times else 1
        ctx.register_on_time(ctx.time_ms + 500)

    def on_timer(self, ctx):
        yield sum(n for time, n in self.times.items() if ctx.time_ms - 500 <= time <= ctx.time_ms)
        for time in list(self.times):
            if time <= ctx.time_ms - 500:
                del self.times[time]


class Sessions(ProcessTableFunction):
    """The rows of a key that follow each other within a gap, whose rows come in order of time; on whole batches."""

    result_type = "ROW<n BIGINT, seconds DOUBLE>"
    input = TableArgument(SET_SEMANTIC_TABLE, REQUIRE_ON_TIME)
    gap_ms = ScalarArgument("BIGINT NOT NULL")
    count = ValueState("BIGINT", default=0)
    first = ValueState("BIGINT", default=2**62)

    def on_batch(self, ctx, batch):
        count = self.count.get(ctx.keys).to_numpy() + ctx.row_counts
        first = self.first.get(ctx.keys).to_numpy().copy()
        np.minimum.at(first, ctx.groups, ctx.times_ms)
        last = np.full(len(ctx.keys), -(2**62))
        np.maximum.at(last, ctx.groups, ctx.times_ms)
        self.count.put(ctx.keys, count)
        self.first.put(ctx.keys, first)
        ctx.register_on_time("end", last + self.gap_ms)

    def on_timer(self, ctx):
        first = self.first.get(ctx.keys).to_numpy()
        ctx.emit({"n": self.count.get(ctx.keys), "seconds": (ctx.times_ms - self.gap_ms - first) / 1000})
        ctx.clear_all()


class Alarmed(ProcessTableFunction):
    """Sets and clears timers as its rows say, and puts out those that fire."""

    result_type = "STRING"
    input = TableArgument(SET_SEMANTIC_TABLE)
    fired = ValueState("INT", default=0)

    def eval(self, ctx, row):
        alarm(row["v"], ctx.time_ms, ctx)

    def on_timer(self, ctx):
        self.fired.value += 1
        if ctx.timer == "a" and self.fired.value % 3:
            ctx.register_on_time("b", ctx.time_ms + self.fired.value)
        yield f"{ctx.timer} {ctx.time_ms}"

    def on_late(self, ctx, row):
        yield f"late {row['v']}"


def alarm(v: int, time_ms: int, ctx: Any) -> None:
    """One step of Alarmed, with its context or that of a model."""
    match v % 8:
        case 0 | 1:
            ctx.register_on_time(time_ms + v)
        case 2 | 3:
            ctx.register_on_time("a", time_ms + 2 * v)
        case 4:
            ctx.register_on_time("b", time_ms - v)
        case 5:
            ctx.clear_timer("a")
        case 6:
            ctx.clear_all_timers()
            ctx.register_on_time("b", time_ms + 2_000)


class AlarmedInOrder(Alarmed):
    """The same, whose late rows are dropped."""

    on_late = ProcessTableFunction.on_late


class AsOf(ProcessTableFunction):
    """The rows of the left table with how many rows of the right one come before them, by time."""

    result_type = "ROW<n BIGINT>"
    left = TableArgument(SET_SEMANTIC_TABLE)
    right = TableArgument(SET_SEMANTIC_TABLE)
    rights = ValueState("BIGINT", default=0)

    def on_batch(self, ctx, batch):
        rights = self.rights.get(ctx.keys).to_numpy()
        if ctx.table == "right":
            self.rights.put(ctx.keys, rights + ctx.row_counts)
            return None
        return {"n": rights[ctx.groups]}


class Summed(ProcessTableFunction):
    """The number of rows of each key and the sum of `n`, of a table that updates; on whole batches."""

    result_type = "ROW<c BIGINT, total BIGINT>"
    deletes_rows = True
    input = TableArgument(SET_SEMANTIC_TABLE, SUPPORT_UPDATES)
    count = ValueState("BIGINT", default=0)
    total = ValueState("BIGINT", default=0)

    def on_batch(self, ctx, batch):
        count, total = self.count.get(ctx.keys).to_numpy(), self.total.get(ctx.keys).to_numpy()
        had = np.flatnonzero(count)
        ctx.emit([count[had], total[had]], keys=ctx.keys.take(had), deletes=True)
        change = np.zeros((2, len(ctx.keys)), dtype=np.int64)
        np.add.at(change[0], ctx.groups, ctx.signs)
        np.add.at(change[1], ctx.groups, ctx.signs * batch.column("n").to_numpy())
        self.count.put(ctx.keys, count + change[0])
        self.total.put(ctx.keys, total + change[1])
        has = np.flatnonzero(count + change[0])
        ctx.emit([(count + change[0])[has], (total + change[1])[has]], keys=ctx.keys.take(has))


class SummedByRow(ProcessTableFunction):
    """The same, row by row; the number of changes of each key is put out on the side."""

    result_type = "ROW<c BIGINT, total BIGINT>"
    deletes_rows = True
    input = TableArgument(SET_SEMANTIC_TABLE, SUPPORT_UPDATES)
    sums = ValueState("ROW<c BIGINT, total BIGINT>")
    changed = SideOutput("ROW<sign BIGINT NOT NULL>")

    def eval(self, ctx, row):
        before = self.sums.value
        sign = -1 if ctx.kind in (RowKind.DELETE, RowKind.UPDATE_BEFORE) else 1
        after = {"c": sign, "total": sign * row["n"]}
        if before is not None:
            yield Deletion((before["c"], before["total"]))
            after = {"c": before["c"] + sign, "total": before["total"] + sign * row["n"]}
        self.sums.value = after if after["c"] else None
        yield self.changed(sign)
        if after["c"]:
            yield after


class Ticking(ProcessTableFunction):
    """By processing time: a row ten milliseconds after each first row of a key, and so on, three times."""

    result_type = "BIGINT"
    input = TableArgument(SET_SEMANTIC_TABLE)
    ticks = ValueState("BIGINT")

    def on_batch(self, ctx, batch):
        fresh = ctx.keys.take(np.asarray(self.ticks.get(ctx.keys).is_null()))
        self.ticks.put(fresh, [0] * len(fresh))
        ctx.register_on_processing_time("tick", ctx.now_ms + 10, keys=fresh)

    def on_timer(self, ctx):
        ticks = self.ticks.get(ctx.keys).to_numpy() + 1
        self.ticks.put(ctx.keys, ticks)
        again = ctx.keys.take(ticks < 3)
        ctx.register_on_processing_time("tick", ctx.now_ms + 10, keys=again)
        ctx.emit([ticks], keys=ctx.keys)


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
            case "by key":
                ctx.emit([[1]] * 1, keys=ctx.keys)
            case "a deletion":
                ctx.emit([[1]] * 1, rows=[0], deletes=[True])
            case "a timer":
                ctx.register_on_processing_time(1)
            case "too many states":
                self.count.put(ctx.keys, [1] * (len(ctx.keys) + 1))
            case "a number":
                return {"n": 1}
            case "a value for a state":
                self.count = 1
        return None


class BrokenByRow(ProcessTableFunction):
    """Fails as its argument says."""

    result_type = "ROW<t VARCHAR(3)>"
    input = TableArgument(SET_SEMANTIC_TABLE)
    how = ScalarArgument("STRING NOT NULL")

    def eval(self, ctx, row):
        match self.how:
            case "a text":
                return "abc"
            case "a dict":
                return {"t": "abc"}
            case "too long":
                return ["abcd"]
            case "without end":
                return itertools.repeat("abc")


class LongTexts(ProcessTableFunction):
    result_type = "ROW<t VARCHAR(3)>"
    input = TableArgument(SET_SEMANTIC_TABLE)

    def on_batch(self, ctx, batch):
        return [pa.array(["abcd"] * batch.num_rows)]


class Sifted(ProcessTableFunction):
    """Numbers the rows of each key, and puts out the odd values, and every third number, on the side; on whole batches."""

    result_type = "ROW<n BIGINT NOT NULL>"
    input = TableArgument(SET_SEMANTIC_TABLE)
    count = ValueState("BIGINT", default=0)
    odd = SideOutput("ROW<v BIGINT NOT NULL, what STRING>")
    third = SideOutput("BIGINT")

    def on_batch(self, ctx, batch):
        before = self.count.get(ctx.keys).to_numpy()
        self.count.put(ctx.keys, before + ctx.row_counts)
        numbers = before[ctx.groups] + ctx.row_numbers + 1
        rows = np.flatnonzero(batch.column("v").to_numpy() % 2)
        ctx.emit(
            {"v": batch.column("v").take(pa.array(rows)), "what": ["odd"] * len(rows)},
            rows=rows,
            output=self.odd,
        )
        third = numbers % 3 == 0
        ctx.emit([numbers[third]], rows=third, output=self.third)
        return {"n": numbers}


class SiftedByRow(ProcessTableFunction):
    """The same, row by row; half a second after each row its time is put out on the side, too."""

    result_type = "ROW<n BIGINT NOT NULL>"
    input = TableArgument(SET_SEMANTIC_TABLE)
    count = ValueState("BIGINT", default=0)
    odd = SideOutput("ROW<v BIGINT NOT NULL, what STRING>")
    third = SideOutput("BIGINT")
    time = SideOutput("ROW<time_ms BIGINT>")

    def eval(self, ctx, row):
        self.count.value += 1
        if row["v"] % 2:
            yield self.odd(v=row["v"], what="odd")
        yield self.count.value
        if self.count.value % 3 == 0:
            yield self.third(self.count.value)
        if ctx.time_ms is not None:
            ctx.register_on_time(ctx.time_ms + 500)

    def on_timer(self, ctx):
        yield self.time(ctx.time_ms)


class Extremes(ProcessTableFunction):
    """The least and the greatest value of each key and their number, of keys whose sum is odd; rows replace each other by key."""

    result_type = "ROW<low BIGINT NOT NULL, high BIGINT, n BIGINT>"
    changelog_mode = ChangelogMode.UPSERT
    input = TableArgument(SET_SEMANTIC_TABLE)
    held = ValueState("ROW<low BIGINT, high BIGINT, n BIGINT, total BIGINT>")
    gone = SideOutput("ROW<total BIGINT>")

    def eval(self, ctx, row):
        v, old = row["v"], self.held.value
        new = {"low": v, "high": v, "n": 1, "total": v}
        if old is not None:
            new = {"low": min(v, old["low"]), "high": max(v, old["high"]),
                   "n": old["n"] + 1, "total": old["total"] + v}  # fmt: skip
        self.held.value = new
        yield from self.changes(old, new)

    def changes(self, old, new):
        if new["total"] % 2:
            yield Change(RowKind.UPDATE_AFTER, (new["low"], new["high"], new["n"]))
        elif old is not None and old["total"] % 2:
            yield Deletion()
            yield self.gone(new["total"])


class ExtremesRetracted(Extremes):
    """The same, which names the rows that it takes back."""

    changelog_mode = ChangelogMode.RETRACT

    def changes(self, old, new):
        was = old is not None and old["total"] % 2
        before = (old["low"], old["high"], old["n"]) if was else None
        after = (new["low"], new["high"], new["n"]) if new["total"] % 2 else None
        if was and after:
            yield Change(RowKind.UPDATE_BEFORE, before)
            yield Change(RowKind.UPDATE_AFTER, after)
        elif was:
            yield Deletion(before)
            yield self.gone(new["total"])
        elif after:
            yield after


class ExtremesInBatches(ProcessTableFunction):
    """The same as Extremes, on whole batches."""

    result_type = "ROW<low BIGINT NOT NULL, high BIGINT, n BIGINT>"
    changelog_mode = ChangelogMode.UPSERT
    input = TableArgument(SET_SEMANTIC_TABLE)
    low = ValueState("BIGINT", default=2**62)
    high = ValueState("BIGINT", default=-(2**62))
    n = ValueState("BIGINT", default=0)
    total = ValueState("BIGINT", default=0)

    def on_batch(self, ctx, batch):
        low, high, n, self.before = self.added(ctx, batch.column("v").to_numpy())
        self.put_out(ctx, [low, high, n], self.total.get(ctx.keys).to_numpy() % 2 == 1)

    def added(self, ctx, values):
        """(low, high, number) of each key now, and the same before."""
        states = (self.low, self.high, self.n, self.total)
        before = [state.get(ctx.keys).to_numpy() for state in states]
        low, high, n, total = (column.copy() for column in before)
        np.minimum.at(low, ctx.groups, values)
        np.maximum.at(high, ctx.groups, values)
        np.add.at(total, ctx.groups, values)
        n += ctx.row_counts
        for state, column in zip(states, (low, high, n, total), strict=True):
            state.put(ctx.keys, column)
        return low, high, n, before

    def put_out(self, ctx, columns, is_odd):
        odd, even = np.flatnonzero(is_odd), np.flatnonzero(~is_odd)
        ctx.emit([c[odd] for c in columns], keys=ctx.keys.take(odd), kinds=RowKind.UPDATE_AFTER)
        was = even[(self.before[3] % 2 == 1)[even]]
        ctx.emit(None, keys=ctx.keys.take(was), kinds=[RowKind.DELETE] * len(was))


class ExtremesRetractedInBatches(ExtremesInBatches):
    """The same as ExtremesRetracted, on whole batches: all rows of a batch with their kinds."""

    changelog_mode = ChangelogMode.RETRACT

    def put_out(self, ctx, columns, is_odd):
        was = self.before[3] % 2 == 1
        # Behind each other what a key had, and what it has.
        rows = [np.column_stack(pair).ravel() for pair in zip(self.before[:3], columns, strict=True)]
        kept = np.column_stack([was, is_odd]).ravel()
        kinds = np.tile(np.array([RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER], dtype=np.int8), len(was))
        keys = ctx.keys.take(np.repeat(np.arange(len(was)), 2)[kept])
        ctx.emit([row[kept] for row in rows], keys=keys, kinds=pa.array(kinds[kept]))


class Freed(Extremes):
    """Extremes that may be called without keys."""

    input = TableArgument(SET_SEMANTIC_TABLE, OPTIONAL_PARTITION_BY)

"""What CANARY has found: the changes of two statements by key, where they differ, and in what."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import row_kinds, signs_of, to_arrow_schema, without_row_kinds
from sqlstream.client.verification.outcome import Row, drawn, shown_rows
from sqlstream.schema import Field, Schema
from sqlstream.specs import SinkSpec

KEYS_HELD_MAX = 10_000
"""How many differing keys are held while the canary runs, of which the first are shown."""

HELD_BYTES_MAX = 64 << 20
WAITING_ROWS_MAX = 50_000
"""Changes that are counted together."""

_WEIGHT = "weight"

OLD_COUNT, NEW_COUNT = "old_count", "new_count"


def comparing_query(sink: SinkSpec) -> str:
    """The query over the tables `old_rows` and `new_rows`, of changes with their kind `op`, whose rows are the differences.

    With a primary key: the last change of each key on both sides, where they are not the same; a key that both have deleted is,
    whatever was in the row. Without: each row with how often
    either side has it, where that is not equal."""
    columns = [f"c{place}" for place in range(len(sink.schema))]
    if not sink.primary_key:
        counts = ", ".join(
            f"SUM(CASE WHEN side = {side} THEN w ELSE 0 END) AS {name}"
            for side, name in enumerate((OLD_COUNT, NEW_COUNT))
        )
        sides = " UNION ALL ".join(
            f"SELECT {side} AS side, CASE WHEN op = 'I' THEN 1 ELSE -1 END AS w, {', '.join(columns)} FROM {table}"
            for side, table in enumerate(("old_rows", "new_rows"))
        )
        grouped = f"SELECT {counts}, {', '.join(columns)} FROM ({sides}) GROUP BY {', '.join(columns)}"
        return f"SELECT * FROM ({grouped}) WHERE {OLD_COUNT} <> {NEW_COUNT}"
    keys = [f"c{key}" for key in sink.primary_key]
    names = ["op", *columns]
    selected = ", ".join(f"{side}.{n} AS {side}_{n}" for side in ("old", "new") for n in names)
    sides = " FULL JOIN ".join(
        f"(SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {', '.join(keys)} ORDER BY t DESC) AS r"
        f" FROM {side}_rows) WHERE r = 1) AS {side}"
        for side in ("old", "new")
    )
    on = " AND ".join(f"old.{key} = new.{key}" for key in keys)
    others = " OR ".join(f"old.{name} IS DISTINCT FROM new.{name}" for name in columns)
    differ = f"old.op IS DISTINCT FROM new.op OR (old.op = 'I' AND ({others}))"
    return f"SELECT {selected} FROM {sides} ON {on} WHERE {differ}"


@dataclasses.dataclass(frozen=True)
class Differing:
    """One key that differs, or one row of a table without a key: what either statement has written last, None for nothing."""

    cause: str
    key: Row
    old: Row | None
    new: Row | None
    count: int = 1


class Differences:
    """The differences, kept up to date by the changelog of `comparing_query`. Counts are exact; of the keys themselves
    KEYS_HELD_MAX are held, or fewer of HELD_BYTES_MAX.

    State: how many keys differ by cause and by column, the rows of some, and changes that wait to be counted together."""

    def __init__(self, sink: SinkSpec, time_zone: str) -> None:
        self._schema = sink.schema
        self._key = sink.primary_key
        self._time_zone = time_zone
        self._causes: Counter[str] = Counter()
        self._held: pa.Table | None = None
        self._waiting: list[pa.Table] = []
        self._rows = self._nbytes = 0

    @property
    def has_key(self) -> bool:
        return bool(self._key)

    @property
    def causes(self) -> Counter[str]:
        self._count_waiting()
        return self._causes

    @property
    def count(self) -> int:
        return sum(self.causes.values())

    def add(self, batch: pa.RecordBatch) -> None:
        weights = signs_of(row_kinds(batch))
        batch = without_row_kinds(batch)
        names = [*map(str, range(batch.num_columns)), _WEIGHT]
        changes = pa.table([*batch.columns, pa.array(weights)], names=names)
        self._waiting.append(changes)
        self._rows += changes.num_rows
        self._nbytes += changes.nbytes
        if self._rows >= WAITING_ROWS_MAX or self._nbytes >= HELD_BYTES_MAX:
            self._count_waiting()

    def _count_waiting(self) -> None:
        if not self._waiting:
            return
        changes = pa.concat_tables(self._waiting).combine_chunks()
        self._waiting, self._rows, self._nbytes = [], 0, 0
        found = self._found(changes)
        rows = found.times * changes.column(_WEIGHT).to_numpy()
        sums = np.zeros(len(found.texts), np.int64)
        np.add.at(sums, found.of_row, rows)
        for text, more in zip(found.texts, sums.tolist(), strict=True):
            self._causes[text] += more
            if not self._causes[text]:
                del self._causes[text]
        self._hold(changes)

    def _hold(self, changes: pa.Table) -> None:
        """Rows that were held and are still there, then those that come, while there is room. The end of a row that came when
        there was none is not held, either."""
        held = self._held if self._held is not None else changes.slice(0, 0)
        rows = pa.concat_tables([held, changes]).combine_chunks()
        keys = [name for name in rows.column_names if name != _WEIGHT]
        comparable = pa.table([_comparable(_whole(rows, name)) for name in keys], names=keys)
        comparable = comparable.append_column(_WEIGHT, rows.column(_WEIGHT))
        comparable = comparable.append_column("place", pa.array(np.arange(rows.num_rows)))
        sums = comparable.group_by(keys, use_threads=False).aggregate([(_WEIGHT, "sum"), ("place", "min")])
        places = sums.column("place_min").to_numpy()
        weights = sums.column(f"{_WEIGHT}_sum").to_numpy()
        is_there = weights > 0
        places, weights = places[is_there], weights[is_there]
        order = np.argsort(places)
        room = KEYS_HELD_MAX if held.nbytes < HELD_BYTES_MAX else held.num_rows
        kept = order[: max(room, int((places < held.num_rows).sum()))]
        taken = rows.take(pa.array(places[kept]))
        self._held = taken.set_column(taken.num_columns - 1, _WEIGHT, pa.array(weights[kept]))

    def _found(self, rows: pa.Table) -> _Causes:
        """In what rows of the comparison differ."""
        if not self._key:
            more = _whole(rows, "0").to_numpy() - _whole(rows, "1").to_numpy()
            texts = ["written by the old statement alone", "written by the new statement alone"]
            return _Causes(texts, (more < 0).astype(np.int64), np.abs(more))
        width = len(self._schema)
        ops = np.stack([_codes(_whole(rows, str(place))) for place in (0, width + 1)], axis=1)
        pairs = ((str(1 + c), str(width + 2 + c)) for c in range(width))
        differ = np.stack([_differ(_whole(rows, a), _whole(rows, b)) for a, b in pairs], axis=1)
        differ[ops[:, 0] != ops[:, 1]] = False
        kinds = np.concatenate([ops, np.packbits(differ, axis=1)], axis=1)
        _, firsts, of_row = np.unique(kinds, axis=0, return_index=True, return_inverse=True)
        texts = [self._text(ops[first].tolist(), differ[first].tolist()) for first in firsts]
        return _Causes(texts, of_row.reshape(-1), np.ones(rows.num_rows, np.int64))

    def _text(self, ops: list[int], differ: list[bool]) -> str:
        old, new = ops
        if old == new:
            return f"other values of {', '.join(n for n, d in zip(self._schema.names, differ, strict=True) if d)}"
        if _NOTHING in ops:
            side, op = ("new", new) if old == _NOTHING else ("old", old)
            return f"{'written' if op == _INSERTED else 'deleted'} by the {side} statement alone"
        return f"deleted by the {'old' if new == _INSERTED else 'new'} statement, written by the other"

    def shown(self, count: int) -> Iterator[Differing]:
        """The first keys that differ."""
        self._count_waiting()
        if self._held is None:
            return
        found = self._found(self._held)
        columns = [column.to_pylist() for column in self._held.columns[:-1]]
        rows = list(enumerate(zip(*columns, strict=True)))
        width = len(self._schema)
        for place, row in sorted(rows, key=lambda r: tuple(map(str, r[1])))[:count]:
            cause = found.texts[found.of_row[place]]
            if not self._key:
                told, times = self._told(row[2:]), int(found.times[place])
                yield Differing(
                    cause, {}, told if row[0] > row[1] else None, told if row[0] < row[1] else None, times
                )
                continue
            old, new = (
                self._told(s[1:]) if s[0] == "I" else None for s in (row[: width + 1], row[width + 1 :])
            )
            known = self._told((row[1:] if row[0] is not None else row[width + 2 :])[:width])
            key = {self._schema.names[k]: known[self._schema.names[k]] for k in self._key}
            yield Differing(cause, key, old, new)

    def _told(self, values: tuple[Any, ...]) -> Row:
        """The values of the columns as texts."""
        fields = tuple(Field(f.name, f.type.with_nullable(True)) for f in self._schema.fields)
        schema = to_arrow_schema(Schema(fields))
        columns = [pa.array([v], field.type) for v, field in zip(values, schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        return shown_rows(batch, Schema(fields), self._time_zone)[0]


@dataclasses.dataclass(frozen=True)
class _Causes:
    """Of each row its cause, as a place in `texts`, and how many rows of a table it stands for."""

    texts: list[str]
    of_row: np.ndarray[Any, np.dtype[np.int64]]
    times: np.ndarray[Any, np.dtype[np.int64]]


_NOTHING, _INSERTED = 2, 0


def _codes(ops: pa.Array) -> np.ndarray[Any, np.dtype[np.uint8]]:
    codes = pc.index_in(ops, value_set=pa.array(["I", "D"])).fill_null(_NOTHING)
    return codes.to_numpy(zero_copy_only=False).astype(np.uint8)


def _differ(old: pa.Array, new: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    old, new = _comparable(old), _comparable(new)
    equal = pc.equal(old, new)
    if pa.types.is_floating(old.type):
        equal = pc.or_(equal, pc.and_(pc.is_nan(old), pc.is_nan(new)))
    same = pc.or_(equal.fill_null(False), pc.and_(old.is_null(), new.is_null()))
    return np.asarray(pc.invert(same).to_numpy(zero_copy_only=False))


def _comparable(column: pa.Array) -> pa.Array:
    """Values that Arrow groups and compares: each NaN as the same one, as each zero, and nested values as their texts."""
    kind = column.type
    if pa.types.is_floating(kind):
        one = pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), kind), column)
        return pc.add(one, pa.scalar(0.0, kind))
    if pa.types.is_nested(kind) or pa.types.is_null(kind) or pa.types.is_interval(kind):
        return pa.array([None if v is None else repr(v) for v in column.to_pylist()], pa.string())
    return column


def _whole(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def differences_text(differences: Differences, shown: int, what: str) -> list[str]:
    """Lines: how many differ by cause, then the first keys with the rows of both. `what` has been compared."""
    if not differences.count:
        return [f"equal: {what}"]
    keys = "keys" if differences.count != 1 else "key"
    lines = [f"different: {differences.count:,} {keys if differences.has_key else 'rows'}, {what}"]
    lines += [
        f"  {count:,} {cause}"
        for cause, count in sorted(differences.causes.items(), key=lambda c: (-c[1], c[0]))
    ]
    for number, each in enumerate(differences.shown(shown)):
        key = ", ".join(f"{name} = {value}" for name, value in each.key.items())
        times = f" ({each.count} times)" if each.count > 1 else ""
        lines += ["", f"difference {number + 1}: {key + ': ' if key else ''}{each.cause}{times}"]
        rows: list[Mapping[str, str | None]] = [
            {"": side, **row} for side, row in (("old", each.old), ("new", each.new)) if row is not None
        ]
        lines += drawn(rows) if rows else []
    return lines

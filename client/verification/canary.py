"""What CANARY has found: the changes of two statements by key, where they differ, and in what."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ROW_KIND_COLUMN, RowKind
from sqlstream.client.verification.outcome import Row, drawn, shown_rows
from sqlstream.schema import Field, Schema
from sqlstream.specs import SinkSpec

KEYS_HELD_MAX = 10_000
"""How many differing keys are held while the canary runs, of which the first are shown."""

_NAN = float("nan")

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
    KEYS_HELD_MAX are held.

    State: how many keys differ by cause and by column, and the rows of some."""

    def __init__(self, sink: SinkSpec, time_zone: str) -> None:
        self._schema = sink.schema
        self._key = sink.primary_key
        self._time_zone = time_zone
        self.causes: Counter[str] = Counter()
        self._held: Counter[tuple[Any, ...]] = Counter()

    @property
    def has_key(self) -> bool:
        return bool(self._key)

    @property
    def count(self) -> int:
        return sum(self.causes.values())

    def add(self, batch: pa.RecordBatch) -> None:
        kinds = [0] * batch.num_rows
        if ROW_KIND_COLUMN in batch.schema.names:
            kinds = batch.column(ROW_KIND_COLUMN).to_pylist()
            batch = batch.drop_columns([ROW_KIND_COLUMN])
        for kind, row in zip(kinds, zip(*(_hashable(c) for c in batch.columns), strict=True), strict=True):
            weight = 1 if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER) else -1
            cause, rows = self._cause(row)
            self.causes[cause] += weight * rows
            if not self.causes[cause]:
                del self.causes[cause]
            # The end of a row that came while the place was used up is not held, either.
            if row in self._held or (weight > 0 and len(self._held) < KEYS_HELD_MAX):
                self._held[row] += weight
                if not self._held[row]:
                    del self._held[row]

    def _cause(self, row: tuple[Any, ...]) -> tuple[str, int]:
        """In what a row of the comparison differs, and how many rows of a table that is."""
        width = len(self._schema)
        if not self._key:
            more = row[0] - row[1]
            return (
                "written by the old statement alone" if more > 0 else "written by the new statement alone",
                abs(more),
            )
        old, new = row[: width + 1], row[width + 1 :]
        if old[0] == new[0]:
            values = zip(self._schema.names, old[1:], new[1:], strict=True)
            names = [n for n, a, b in values if a is not b and a != b]
            return f"other values of {', '.join(names)}", 1
        if old[0] is None or new[0] is None:
            side, op = ("new", new[0]) if old[0] is None else ("old", old[0])
            return f"{'written' if op == 'I' else 'deleted'} by the {side} statement alone", 1
        return f"deleted by the {'old' if old[0] == 'D' else 'new'} statement, written by the other", 1

    def shown(self, count: int) -> Iterator[Differing]:
        """The first keys that differ."""
        rows = [row for row, held in self._held.items() if held > 0]
        width = len(self._schema)
        for row in sorted(rows, key=lambda r: tuple(map(str, r)))[:count]:
            cause, times = self._cause(row)
            if not self._key:
                told = self._told(row[2:])
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
        columns = [pa.array([_value(v)], field.type) for v, field in zip(values, schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        return shown_rows(batch, Schema(fields), self._time_zone)[0]


def _hashable(column: pa.Array) -> list[Any]:
    """Nested values as pairs of their own, which `_value` undoes; each NaN as the same one, which is itself in a tuple."""
    if pa.types.is_floating(column.type):
        return [v if v == v else _NAN for v in column.to_pylist()]
    if not pa.types.is_nested(column.type):
        return list(column.to_pylist())
    return [None if v is None else _Nested(v) for v in column.to_pylist()]


class _Nested:
    """A nested value that is equal to another one with the same text."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Nested) and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash(repr(self.value))

    def __str__(self) -> str:
        return repr(self.value)


def _value(value: Any) -> Any:
    return value.value if isinstance(value, _Nested) else value


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

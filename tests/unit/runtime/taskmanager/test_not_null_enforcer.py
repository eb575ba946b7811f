"""A NULL for a NOT NULL column fails the job, or its row is dropped and counted."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema, with_row_kinds
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.errors import UserError
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.runtime.operators.sink import NOT_NULL_ENFORCER, NotNullEnforcer
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec

SCHEMA = Schema.of(("k", sql.INT.not_null()), ("v", sql.STRING.not_null()), ("w", sql.STRING))
COUNTS: Counter[str] = Counter()


def enforcer(mode: str | None = None) -> NotNullEnforcer:
    COUNTS.clear()
    context = OperatorContext(
        (SCHEMA,),
        (ChangelogMode.INSERT_ONLY,),
        SCHEMA,
        ChangelogMode.INSERT_ONLY,
        config={NOT_NULL_ENFORCER: mode} if mode else {},
        count=lambda name, n: COUNTS.update({name: n}),
    )
    return NotNullEnforcer(SinkSpec("t", "print", {}, SCHEMA), context)


def batch(*rows: tuple[int | None, str | None, str | None]) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "k": pa.array([r[0] for r in rows], pa.int32()),
            "v": pa.array([r[1] for r in rows], pa.string()),
            "w": pa.array([r[2] for r in rows], pa.string()),
        }
    )


def test_rows_without_null_pass_untouched() -> None:
    rows = batch((1, "a", None))
    assert enforcer().enforce(rows) is rows


def test_a_null_fails_and_names_the_column() -> None:
    with pytest.raises(UserError, match='column "v" of table "t" is NOT NULL') as caught:
        enforcer().enforce(batch((1, "a", None), (2, None, None)))
    assert NOT_NULL_ENFORCER in caught.value.hint


def test_drop_leaves_out_and_counts_every_row_with_such_a_null() -> None:
    rows = batch((1, "a", None), (2, None, None), (None, None, "x"), (None, "b", "x"))
    assert enforcer("DROP").enforce(rows).to_pylist() == [{"k": 1, "v": "a", "w": None}]
    assert COUNTS == {"numNullRecordsDropped": 3}


def test_a_deletion_by_key_passes() -> None:
    rows = with_row_kinds(batch((1, None, None)), RowKind.DELETE)
    assert enforcer().enforce(rows).num_rows == 1


NESTED = Schema.of(
    ("k", sql.INT),
    ("r", sql.row(("a", sql.INT.not_null()), ("b", sql.row(("c", sql.STRING.not_null()))))),
    ("l", sql.array(sql.row(("d", sql.INT.not_null())))),
    ("m", sql.map_of(sql.STRING.not_null(), sql.INT.not_null())),
)
FINE: dict[str, Any] = {"k": 0, "r": {"a": 1, "b": {"c": "x"}}, "l": [{"d": 1}, None], "m": [("k", 1)]}


def nested(mode: str, depth: str, *rows: dict[str, Any]) -> tuple[NotNullEnforcer, pa.RecordBatch]:
    COUNTS.clear()
    modes = (ChangelogMode.INSERT_ONLY,)
    context = OperatorContext(
        (NESTED,),
        modes,
        NESTED,
        *modes,
        config={NOT_NULL_ENFORCER: mode, "table.exec.sink.nested-constraint-enforcer": depth},
        count=lambda name, n: COUNTS.update({name: n}),
    )
    given = [{**FINE, "k": 9, "r": None, "l": None}, *rows]
    batch = pa.RecordBatch.from_pylist(given, schema=to_arrow_schema(NESTED)).slice(1)
    return NotNullEnforcer(SinkSpec("t", "print", {}, NESTED), context), batch


BROKEN = {
    "r.a": {"r": {"a": None, "b": None}},
    "r.b.c": {"r": {"a": 1, "b": {"c": None}}},
    "l[element].d": {"l": [{"d": 1}, {"d": None}]},
    "m[value]": {"m": [("k", None), ("l", 1)]},
}


@pytest.mark.parametrize("place", BROKEN)
def test_a_null_within_a_value_fails_and_names_its_place(place: str) -> None:
    row = {**FINE, **BROKEN[place]}
    checking, rows = nested("ERROR", "ROWS_AND_COLLECTIONS", FINE, row)
    with pytest.raises(UserError, match=re.escape(f'column "{place}" of table "t" is NOT NULL')):
        checking.enforce(rows)
    passing, rows = nested("ERROR", "IGNORE", FINE, row)
    assert passing.enforce(rows) is rows
    of_rows, rows = nested("ERROR", "ROWS", FINE, row)
    if place.startswith("r."):
        with pytest.raises(UserError):
            of_rows.enforce(rows)
    else:
        assert of_rows.enforce(rows) is rows
    deleted = with_row_kinds(rows, RowKind.DELETE)
    assert checking.enforce(deleted).num_rows == 2


def test_rows_with_a_null_within_a_value_are_dropped_and_counted() -> None:
    absent = {"k": 1, "r": None, "l": [None], "m": None}
    broken = [{**FINE, **change} for change in BROKEN.values()]
    dropping, rows = nested("DROP", "ROWS_AND_COLLECTIONS", FINE, *broken, absent)
    assert dropping.enforce(rows).to_pylist() == [FINE, absent]
    assert COUNTS == {"numNullRecordsDropped": 4}

"""A NULL for a NOT NULL column fails the job, or its row is dropped and counted."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from runtime.operators.operator import OperatorContext
from runtime.operators.sink.not_null_enforcer import ENFORCER, NotNullEnforcer
from sqlstream import types as sql
from sqlstream.arrow import with_row_kinds
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.errors import UserError
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
        config={ENFORCER: mode} if mode else {},
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
    assert ENFORCER in caught.value.hint


def test_drop_leaves_out_and_counts_every_row_with_such_a_null() -> None:
    rows = batch((1, "a", None), (2, None, None), (None, None, "x"), (None, "b", "x"))
    assert enforcer("DROP").enforce(rows).to_pylist() == [{"k": 1, "v": "a", "w": None}]
    assert COUNTS == {"numNullRecordsDropped": 3}


def test_a_deletion_by_key_passes() -> None:
    rows = with_row_kinds(batch((1, None, None)), RowKind.DELETE)
    assert enforcer().enforce(rows).num_rows == 1

"""Which expressions may fail on some row, and how often."""

from __future__ import annotations

import pytest
from expression_harness import call, cast, col, lit, symbol

from sqlstream import types as sql
from sqlstream.expressions import Call, Expression
from sqlstream.runtime.evaluate.fallible import can_fail, fails_rarely
from sqlstream.types import BIGINT, BOOLEAN, BYTES, DOUBLE, INT, STRING

DECIMAL = sql.decimal(10, 2)
TIMESTAMP = sql.timestamp(3)
DAY = lit(86_400_000, sql.INTERVAL_DAY_TIME)
OFTEN, RARELY, NEVER = (True, False), (True, True), (False, True)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (col(0, INT), NEVER),
        (lit(0, INT), NEVER),
        (call("+", col(0, INT), col(1, INT)), RARELY),
        (call("/", col(0, INT), col(1, INT)), OFTEN),
        (call("/", col(0, INT), lit(0, INT)), OFTEN),
        (call("/", col(0, INT), lit(None, INT)), OFTEN),
        (call("/", col(0, INT), lit(2, INT)), NEVER),
        (call("/", col(0, BIGINT), lit(2, INT)), NEVER),
        (call("/", col(0, DOUBLE), col(1, DOUBLE)), NEVER),
        (call("%", col(0, DECIMAL), col(1, DECIMAL)), OFTEN),
        (call("MOD", col(0, INT), lit(3, INT)), NEVER),
        (call("MOD", col(0, INT), col(1, INT)), OFTEN),
        (cast(col(0, STRING), INT), OFTEN),
        (cast(col(0, STRING), INT, is_try=True), NEVER),
        (cast(col(0, STRING), sql.char(3)), NEVER),
        (cast(col(0, INT), STRING), NEVER),
        (cast(col(0, BYTES), STRING), OFTEN),
        (cast(col(0, STRING), BYTES), OFTEN),
        (cast(col(0, BYTES), sql.binary(3)), NEVER),
        (cast(col(0, sql.array(STRING)), sql.array(INT)), OFTEN),
        (cast(col(0, DOUBLE), INT), RARELY),
        (cast(col(0, TIMESTAMP), sql.timestamp(9)), RARELY),
        (call("+", col(0, TIMESTAMP), DAY), RARELY),
        (call("-", col(0, TIMESTAMP), DAY), RARELY),
        (call("NEGATE", DAY), RARELY),
        (Call("EXTRACT", (lit("YEAR", sql.SYMBOL), col(0, TIMESTAMP)), BIGINT), NEVER),
        (Call("FROM_BASE64", (col(0, STRING),), STRING), OFTEN),
        (Call("RAND_INTEGER", (col(0, INT),), INT), OFTEN),
        (Call("PI", (), DOUBLE), NEVER),
        (Call("NOT", (call("=", call("/", col(0, INT), col(1, INT)), lit(1, INT)),), BOOLEAN), OFTEN),
        (call("=", call("+", col(0, TIMESTAMP), DAY), col(1, TIMESTAMP)), RARELY),
        (call("TIMESTAMPDIFF", symbol("NANOSECOND"), col(0, TIMESTAMP), col(1, TIMESTAMP)), RARELY),
        (call("TIMESTAMPDIFF", symbol("SECOND"), col(0, TIMESTAMP), col(1, TIMESTAMP)), NEVER),
        (call("DATE_FORMAT", col(0, TIMESTAMP), lit("yyyy", STRING)), NEVER),
        (call("DATE_FORMAT", col(0, TIMESTAMP), col(1, STRING)), RARELY),
        (call("REPEAT", col(0, STRING), col(1, INT)), RARELY),
    ],
    ids=str,
)
def test_what_may_fail(expression: Expression, expected: tuple[bool, bool]) -> None:
    assert (can_fail(expression), fails_rarely(expression)) == expected

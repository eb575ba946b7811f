"""Random well-typed expressions over columns of edge values, and what must hold of every one of them.

    fuzzer = ExpressionFuzzer(seed)
    check(fuzzer.expression(), fuzzer.batch())     # AssertionError, or the exception that escaped

Calls are bound as the binder binds them. An expression may fail with a UserError; nothing else may come out of it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
from operator_harness import column_of, values_of

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.errors import InternalError, UserError
from sqlstream.expressions import Call, Expression, InputRef, Literal, transform, walk
from sqlstream.functions import SCALAR_FUNCTIONS
from sqlstream.planner.bind.expressions.calls import bind_call
from sqlstream.planner.bind.expressions.casts import explicit_cast
from sqlstream.planner.rules.constant_folding import fold
from sqlstream.runtime.evaluate import EvaluationContext, compile_expression
from sqlstream.runtime.evaluate.time.time_range import bounds_of
from sqlstream.schema import Schema
from sqlstream.types import LogicalType, TypeRoot

D = Decimal
ROWS = 12
INTEGERS = [0, 1, -1, 2, 3, 7, 10, -5]
TEXTS = [
    "",
    " ",
    "a",
    "abc",
    "Ab1",
    "é",
    "日本",
    "𝄞x",
    "a b  c",
    "%",
    "_",
    "\\",
    "\n",
    "a,b,,c",
    "x" * 40,
    "\0",
    "ß",
    "'",
]
NUMBER_TEXTS = [
    *(
        "0",
        "-0",
        "1",
        " 42 ",
        "1e3",
        "-1.5",
        "0x10",
        "NaN",
        "Infinity",
        "99999999999999999999",
        "1e400",
        "+7",
        ".",
    ),
    *("1_000", "١", "true", "no", "1e-38", "0." + "1" * 50, "9" * 60, "1e99999999999", "--1", "1e", "٣"),
]
TIME_TEXTS = [
    *(
        "2024-02-29 12:34:56.789",
        "2023-02-29",
        "0001-01-01",
        "0000-01-01",
        "9999-12-31 23:59:59.999999999",
        "10000-01-01",
    ),
    *(
        "2024-1-1",
        "2024-03-31 02:30:00",
        "12:34:56",
        "24:00:00",
        "2024-06-15T01:02:03",
        "nonsense",
        "2300-01-01 00:00:00",
    ),
    *(
        "1500-01-01",
        "2024",
        "2024-13-01",
        "-0001-01-01",
        "2024-10-27 02:30:00",
        "1677-09-21 00:12:43.145224193",
        " 2020-01-01 ",
    ),
]
PATTERNS = [
    *(
        "a",
        "a%",
        "%b_",
        "(",
        "[a-",
        "\\d+",
        "(a)(b)?",
        "x*",
        "",
        "^$",
        "a|b",
        ".",
        "(?i)a",
        "a{2}",
        "*",
        "(?=a)",
        "\\",
        "$",
    ),
    *(
        "yyyy-MM-dd",
        "HH:mm:ss",
        "yyyy-MM-dd HH:mm:ss.SSS",
        "q",
        "'",
        "!%",
        ",",
        "!",
        "UTC",
        "Europe/Berlin",
        "Mars/Base",
        "%5.1f",
        "%e",
        "UTF-16",
        "$.a[0]",
        "lax $[",
        "yyyy-MM yyyy",
    ),
]
EDGES: list[tuple[LogicalType, list[Any]]] = [
    (sql.TINYINT, [*INTEGERS, 127, -128]),
    (sql.SMALLINT, [*INTEGERS, 2**15 - 1, -(2**15)]),
    (sql.INT, [*INTEGERS, 2**31 - 1, -(2**31), 97, 256]),
    (sql.BIGINT, [*INTEGERS, 2**63 - 1, -(2**63), 1_704_067_200, 253_402_300_800, -62_135_596_801]),
    (sql.FLOAT, [0.0, -0.0, 1.5, -2.25, 3.4028234663852886e38, 1e-45, math.nan, math.inf, -math.inf]),
    (
        sql.DOUBLE,
        [0.0, -0.0, 0.5, -1.005, 1.7e308, 5e-324, math.nan, math.inf, -math.inf, 1e15, 123456789.125, 9.2e18],
    ),
    (sql.decimal(1, 0), [D(0), D(9), D(-9)]),
    (sql.decimal(5, 2), [D("0.00"), D("-0.01"), D("999.99"), D("-999.99"), D("1.50"), D("2.50")]),
    (sql.decimal(19, 4), [D("0.0000"), D("999999999999999.9999"), D("-1.2345")]),
    (sql.decimal(38, 0), [D(0), D(1), D("9" * 38), D("-" + "9" * 38), D(2**63)]),
    (sql.decimal(38, 18), [D("1e-18"), D("9" * 20 + "." + "9" * 18), D("-0.5"), D(3)]),
    (sql.decimal(38, 38), [D("1e-38"), D("-0." + "9" * 38), D(0)]),
    (sql.BOOLEAN, [True, False]),
    (sql.char(3), ["abc", "a  ", "é  "]),
    (sql.varchar(5), ["", "abcde", "𝄞"]),
    (sql.STRING, TEXTS),
    (sql.STRING, NUMBER_TEXTS),
    (sql.STRING, TIME_TEXTS),
    (sql.STRING, PATTERNS),
    (sql.BYTES, [b"", b"a", b"\xff\x00", "é".encode(), b"x" * 20]),
    (sql.binary(2), [b"ab", b"\0\0", b"\xff\xfe"]),
    (sql.DATE, [0, -1, 19_782, -719_162, 2_932_896, -106_650, 106_650]),
    (sql.time(0), [0, 86_399_000, 43_200_000]),
    (sql.time(3), [0, 86_399_999, 1]),
    *(
        (
            t,
            [
                0,
                -per_second,
                1_711_852_200 * per_second,
                *bounds_of(to_arrow_type(t)),
                1_729_989_000 * per_second,
            ],
        )
        for t, per_second in (
            (sql.timestamp(3), 10**3),
            (sql.timestamp(6), 10**6),
            (sql.timestamp(9), 10**9),
            (sql.timestamp_ltz(3), 10**3),
            (sql.timestamp_ltz(6), 10**6),
            (sql.timestamp_ltz(9), 10**9),
        )
    ),
    (sql.INTERVAL_DAY_TIME, [0, 1, -1, 86_400_000, 2**63 - 1, -(2**63) + 1, 3_600_000]),
    (sql.INTERVAL_YEAR_MONTH, [0, 1, -1, 12, 2**31 - 1, -(2**31) + 1]),
    (sql.array(sql.INT), [[], [1, None, 3], [2**31 - 1], [None]]),
    (sql.array(sql.STRING), [[], ["1", "x", None], ["2024-01-01"], [""]]),
    (sql.array(sql.array(sql.INT)), [[], [[1], None, []]]),
    (sql.map_of(sql.STRING, sql.INT), [[], [("a", 1), ("b", None)], [("", 0)]]),
    (
        sql.row(("f", sql.INT), ("g", sql.STRING)),
        [{"f": 1, "g": "x"}, {"f": None, "g": "7"}, {"f": -1, "g": None}],
    ),
]
"""Types of the columns, and values of each, which every operation must survive."""

BOOLEAN_COLUMN = next(i for i, (t, _) in enumerate(EDGES) if t == sql.BOOLEAN)
CONDITIONS = {"AND", "OR", "NOT", "CASE", "IF", "IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE"}
TARGETS = [t for t, _ in EDGES] + [
    *(
        sql.char(1),
        sql.char(6),
        sql.varchar(1),
        sql.varbinary(3),
        sql.timestamp(0),
        sql.timestamp_ltz(0),
        sql.time(2),
    ),
    *(
        sql.decimal(3, 1),
        sql.decimal(20, 10),
        sql.array(sql.DATE),
        sql.array(sql.decimal(4, 2)),
        sql.array(sql.STRING),
    ),
    sql.row(("f", sql.STRING), ("g", sql.INT)),
]
UNITS = [
    "YEAR",
    "QUARTER",
    "MONTH",
    "WEEK",
    "DAY",
    "HOUR",
    "MINUTE",
    "SECOND",
    "DOW",
    "DOY",
    "EPOCH",
    "ISOYEAR",
    "MILLISECOND",
]
SYMBOL_AT = {"EXTRACT": 0, "TIMESTAMPADD": 0, "TIMESTAMPDIFF": 0, "TRIM": 0}
NOT_BOUND_BY_NAME = {"CAST", "TRY_CAST", "FIELD", "PROCTIME", "CURRENT_WATERMARK"} | {
    *("CURRENT_DATABASE", "JSON_ITEMS", "JSON_MEMBER", "JSON_MEMBERS", "ORDERED_ARRAY", "ORDERED_LIST"),
}
"""The name of the database is bound as a constant; the others are called by the binder alone, with arguments that it makes."""
FUNCTIONS = sorted(set(SCALAR_FUNCTIONS) - NOT_BOUND_BY_NAME)
CHANCE = {"RAND", "RAND_INTEGER", "UUID"}
ZONES = ["UTC", "UTC", "Europe/Berlin", "Pacific/Apia", "+05:30"]
TEXT_LENGTH_MAX = 100_000
"""REPEAT and LPAD of a number from the edges would fill the memory: they are called with small ones."""


class ExpressionFuzzer:
    """Makes expressions and a batch for them; the same seed makes the same."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.time_zone = self._random.choice(ZONES)

    def batch(self) -> pa.RecordBatch:
        """A column for each of `EDGES`, with a NULL here and there."""
        columns = []
        for type_, values in EDGES:
            drawn = [self._random.choice([*values, *values, None]) for _ in range(ROWS)]
            columns.append(column_of(drawn, to_arrow_type(type_)))
        return pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])

    def expression(self) -> Call:
        """A call whose arguments are columns, constants and smaller calls."""
        pool: list[Expression] = [self._leaf() for _ in range(6)]
        made: Call | None = None
        for _ in range(self._random.choice((1, 1, 1, 2, 3))):
            call = self._call(pool)
            if call is not None:
                made = call
                pool += [call, call]
        return made or self.expression()

    def call_of(self, name: str) -> Expression:
        """A call of one function, mostly over texts and small numbers. UserError when the binder refuses it."""
        texts = [Literal(text, sql.STRING.not_null()) for text in self._random.sample(PATTERNS, 6)]
        numbers = [Literal(n, sql.INT.not_null()) for n in self._random.sample(INTEGERS, 2)]
        columns = [InputRef(i, t) for i, (t, _) in enumerate(EDGES) if t == sql.STRING][:2]
        return self._bound(name, [*texts, *numbers, *columns], of_pool=0.75)

    def _call(self, pool: list[Expression]) -> Call | None:
        name = self._random.choice(
            [*FUNCTIONS, "CAST", "TRY_CAST", "CAST", "TRY_CAST", "FIELD", "ITEM", "ARRAY", "MAP"]
        )
        for _ in range(60):
            try:
                bound = self._bound(name, pool)
            except UserError:
                continue
            if isinstance(bound, Call) and not _is_huge(bound):
                return bound
        return None

    def _bound(self, name: str, pool: list[Expression], of_pool: float = 0.3) -> Expression:
        if name in ("CAST", "TRY_CAST"):
            return explicit_cast(name, self._argument(pool, of_pool), self._random.choice(TARGETS), None)
        if name == "FIELD":
            row = InputRef(len(EDGES) - 1, EDGES[-1][0])
            index = self._random.randrange(2)
            return Call("FIELD", (row, Literal(index, sql.INT.not_null())), row.type.fields[index].type)
        function = SCALAR_FUNCTIONS[name]
        count = self._random.randint(function.args_min, min(function.args_max, function.args_min + 3))
        args = [self._argument(pool, of_pool) for _ in range(count)]
        if name in CONDITIONS:
            places = range(0, count - 1, 2) if name in ("CASE", "IF") else range(count)
            for place in places:
                args[place] = self._condition(args[place])
        if name in ("REPEAT", "LPAD", "RPAD") and count > 1:
            args[1] = Literal(self._random.choice([-1, 0, 1, 5, 300]), sql.INT.not_null())
        if name in SYMBOL_AT or (name in ("FLOOR", "CEIL") and count == 2):
            at = SYMBOL_AT.get(name, 1)
            words = ["BOTH", "LEADING", "TRAILING"] if name == "TRIM" else UNITS
            args[at] = Literal(self._random.choice(words), sql.STRING.not_null())
        return bind_call(name, tuple(args), None)

    def _condition(self, value: Expression) -> Expression:
        if self._random.random() < 0.3:
            return InputRef(BOOLEAN_COLUMN, sql.BOOLEAN)
        return bind_call(self._random.choice(["IS NULL", "IS NOT NULL"]), (value,), None)

    def _argument(self, pool: list[Expression], of_pool: float) -> Expression:
        return self._random.choice(pool) if self._random.random() < of_pool else self._leaf()

    def _leaf(self) -> Expression:
        index = self._random.randrange(len(EDGES))
        type_, values = EDGES[index]
        if self._random.random() < 0.65:
            return InputRef(index, type_)
        if self._random.random() < 0.1:
            return Literal(None, type_ if self._random.random() < 0.5 else sql.NULL)
        literal = literal_of(self._random.choice(values), type_)
        return InputRef(index, type_) if literal is None else literal


def _is_huge(call: Call) -> bool:
    """Whether a computed text may grow again: concatenations of columns stay small."""
    return sum(isinstance(n, Call) and n.function in ("REPEAT", "LPAD", "RPAD") for n in walk(call)) > 1


def literal_of(value: Any, type_: LogicalType) -> Literal | None:
    """The constant as the planner writes it; None for a type without literals."""
    if value is None:
        return Literal(None, type_)
    if type_.element is not None or type_.fields:
        return None
    if type_.root is TypeRoot.DECIMAL:
        value = f"{value:f}"
    elif sql.is_timestamp(type_):
        unit = {"ms": 10**6, "us": 10**3, "ns": 1}[to_arrow_type(type_).unit]
        value = value * unit
        value = value if -(2**63) <= value < 2**63 else str(value)
    elif type_.root in sql.BINARY_ROOTS:
        value = value.hex()
    elif type_.root is TypeRoot.FLOAT:
        value = float(value)
    return Literal(value, type_.not_null())


SCHEMA = Schema.of(*((f"c{i}", t) for i, (t, _) in enumerate(EDGES)))


def run(expression: Expression, batch: pa.RecordBatch, time_zone: str) -> pa.Array | UserError:
    """The column, or the UserError that stopped it; any other exception escapes."""
    try:
        context = EvaluationContext(now_ms=lambda: 1_700_000_000_000, time_zone=time_zone)
        return compile_expression(expression, SCHEMA, context)(batch)
    except InternalError:
        raise
    except UserError as error:
        return error


def check(expression: Call, batch: pa.RecordBatch, time_zone: str, chance: random.Random) -> None:
    """AssertionError when the result depends on how rows are split into batches or on which arguments are constant, or is
    not a value of the declared type."""
    whole = run(expression, batch, time_zone)
    if any(isinstance(n, Call) and n.function in CHANCE for n in walk(expression)):
        return
    if isinstance(whole, pa.Array):
        whole.validate(full=True)
        assert whole.type == to_arrow_type(expression.type), f"{whole.type} is not {expression.type}"
        assert len(whole) == batch.num_rows
        assert_fits(whole, expression.type)
    place = chance.randrange(batch.num_rows + 1)
    parts = [run(expression, part, time_zone) for part in (batch.slice(0, place), batch.slice(place))]
    if isinstance(whole, UserError):
        assert any(isinstance(p, UserError) for p in parts), f"only the whole batch fails: {whole}"
    else:
        assert all(isinstance(p, pa.Array) for p in parts), f"only a part fails: {parts}"
        together = [v for part in parts for v in plain_values(part)]
        assert_same(together, plain_values(whole), "split")
    for row in chance.sample(range(batch.num_rows), 2):
        _check_constant(expression, batch.slice(row, 1), time_zone)


def _check_constant(expression: Call, row: pa.RecordBatch, time_zone: str) -> None:
    """The same with the row's values as constants."""
    values = [column_values(row.column(i))[0] for i in range(row.num_columns)]

    def replace(node: Expression) -> Expression:
        if not isinstance(node, InputRef):
            return node
        literal = literal_of(values[node.index], node.type)
        return node if literal is None else Literal(literal.value, node.type)

    of_columns = run(expression, row, time_zone)
    constant = transform(expression, replace)
    for form in (constant, fold(constant)):
        of_constants = run(form, row, time_zone)
        if isinstance(of_columns, UserError) or isinstance(of_constants, UserError):
            # What must be a constant is refused as a column, and a bad pattern is an error only as a constant.
            codes = {e.code for e in (of_columns, of_constants) if isinstance(e, UserError)}
            is_both = isinstance(of_columns, UserError) and isinstance(of_constants, UserError)
            assert is_both or any(c.startswith("SS31") for c in codes), (
                f"{form}: {of_columns} or {of_constants}"
            )
            continue
        assert_same(plain_values(of_constants), plain_values(of_columns), f"constant {form}")


def column_values(column: pa.Array) -> list[Any]:
    return values_of(column)


def plain_values(column: pa.Array) -> list[Any]:
    """Plain values, times at any depth as integers: not all of them are Python's."""
    t = column.type
    if pa.types.is_struct(t):
        fields = zip(*(plain_values(c) for c in column.flatten()), strict=True)
        return [
            value if valid else None
            for value, valid in zip(fields, column.is_valid().to_pylist(), strict=True)
        ]
    if not pa.types.is_list(t) and not pa.types.is_map(t):
        return values_of(column)
    parts = [column.values] if pa.types.is_list(t) else [column.keys, column.items]
    items = list(zip(*(plain_values(p) for p in parts), strict=True))
    offsets = column.offsets.to_pylist()
    bounds = zip(offsets, offsets[1:], column.is_valid().to_pylist(), strict=False)
    return [items[start:stop] if valid else None for start, stop, valid in bounds]


def assert_same(found: list[Any], expected: list[Any], what: str) -> None:
    for place, (a, b) in enumerate(zip(found, expected, strict=True)):
        is_close = (
            isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=1e-12) and a != 0
        )
        assert is_close or repr(a) == repr(b), f"{what}: {a!r} is not {b!r} at {place}"


def assert_fits(column: pa.Array, type_: LogicalType) -> None:
    """Every value is one of the type: NOT NULL, length, range, digits of a second, at any depth."""
    for part, t in _parts(column, type_):
        # A decimal with too many digits is NULL, whatever its type says: this is Flink's.
        assert t.nullable or part.null_count == 0 or t.root is TypeRoot.DECIMAL, f"a NULL in {type_}"
        if t.root in (*sql.STRING_ROOTS, *sql.BINARY_ROOTS):
            lengths = [len(v) for v in part.to_pylist() if v is not None]
            assert all(n <= t.length for n in lengths), f"{lengths} in {t}"
            is_fixed = t.root in (TypeRoot.CHAR, TypeRoot.BINARY)
            assert not is_fixed or all(n == t.length for n in lengths), f"{lengths} in {t}"
        if t.root is TypeRoot.DATE or sql.is_timestamp(t):
            low, high = bounds_of(part.type)
            values = [v for v in values_of(part) if v is not None]
            assert all(low <= v <= high for v in values), f"{values} beyond the range of {t}"
            if sql.is_timestamp(t):
                step = 10 ** ({"ms": 3, "us": 6, "ns": 9}[part.type.unit] - t.precision)
                assert all(v % step == 0 for v in values), f"{values} have more digits than {t}"
        if t.root is TypeRoot.TIME:
            assert all(0 <= v < 86_400_000 for v in values_of(part) if v is not None)


def _parts(column: pa.Array, type_: LogicalType) -> Iterator[tuple[pa.Array, LogicalType]]:
    yield column, type_
    kept = column.drop_null()
    if type_.root is TypeRoot.ARRAY and type_.element is not None:
        yield from _parts(kept.flatten(), type_.element)
    elif type_.root is TypeRoot.MAP and type_.element is not None and type_.key is not None:
        entries = pa.concat_arrays([kept]) if kept.offset else kept
        yield from _parts(entries.keys, type_.key)
        yield from _parts(entries.items, type_.element)
    elif type_.root is TypeRoot.ROW:
        for child, field in zip(kept.flatten(), type_.fields, strict=True):
            yield from _parts(child, field.type)

"""Operators and functions of numbers and of points in time."""

from __future__ import annotations

import decimal
import math
from decimal import ROUND_HALF_UP, Decimal

import pyarrow as pa
import pytest
from expression_harness import call, cast, col, evaluate, lit, symbol
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.runtime.evaluate import compile_expression
from sqlstream.schema import Schema
from sqlstream.types import BIGINT, BOOLEAN, DOUBLE, INT, SMALLINT

D = Decimal
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


def binary(symbol_: str, a: sql.LogicalType, b: sql.LogicalType) -> sql.LogicalType:
    return call(symbol_, col(0, a), col(1, b)).type


@pytest.mark.parametrize(
    ("symbol_", "a", "b", "result"),
    [
        ("+", INT, BIGINT, "BIGINT"),
        ("+", SMALLINT, SMALLINT, "SMALLINT"),
        ("/", INT, INT, "INT"),
        ("*", BIGINT, sql.decimal(3, 3), "DECIMAL(23, 3)"),
        ("+", sql.decimal(10, 2), INT, "DECIMAL(13, 2)"),
        ("/", sql.decimal(5, 2), sql.decimal(3, 1), "DECIMAL(10, 6)"),
        ("%", BIGINT, INT, "INT"),
        ("*", sql.decimal(10, 2), DOUBLE, "DOUBLE"),
        ("-", sql.timestamp(3), sql.INTERVAL_DAY_TIME, "TIMESTAMP(3)"),
        ("-", sql.timestamp(3), sql.timestamp(3), "INTERVAL DAY TO SECOND(3)"),
    ],
)
def test_result_types_are_flinks(symbol_: str, a: sql.LogicalType, b: sql.LogicalType, result: str) -> None:
    assert str(binary(symbol_, a, b)) == result


def test_nullability_is_that_of_any_argument() -> None:
    assert not binary("+", INT.not_null(), BIGINT.not_null()).nullable
    assert binary("+", INT.not_null(), BIGINT).nullable


@pytest.mark.parametrize(
    ("symbol_", "expected"),
    [
        ("+", [5, None, LONG_MIN]),
        ("-", [9, None, LONG_MAX - 1]),
        ("*", [-14, None, LONG_MAX]),
        ("/", [-3, None, LONG_MAX]),
    ],
)
def test_whole_numbers_wrap_as_in_java(symbol_: str, expected: list[int | None]) -> None:
    rows = [(7, -2), (None, 1), (LONG_MAX, 1)]
    assert evaluate(call(symbol_, col(0, BIGINT), col(1, BIGINT)), rows) == expected


def test_the_smallest_long_divided_by_minus_one_wraps() -> None:
    assert evaluate(call("/", col(0, BIGINT), col(1, BIGINT)), [(LONG_MIN, -1), (8, -1)]) == [LONG_MIN, -8]


def test_division_of_whole_numbers_by_zero_fails() -> None:
    with pytest.raises(UserError, match="division by zero"):
        evaluate(call("/", col(0, INT), col(1, INT)), [(1, 0)])


def test_division_by_zero_of_null_is_null() -> None:
    assert evaluate(call("/", col(0, INT), col(1, INT)), [(None, 0), (4, 2)]) == [None, 2]


def test_division_of_doubles_by_zero_is_infinite() -> None:
    assert evaluate(call("/", col(0, DOUBLE), col(1, DOUBLE)), [(1.0, 0.0)]) == [math.inf]


def test_a_branch_that_is_not_taken_cannot_fail() -> None:
    guarded = call(
        "CASE", call("=", col(1, INT), lit(0, INT)), lit(-1, INT), call("/", col(0, INT), col(1, INT))
    )
    assert evaluate(guarded, [(8, 2), (1, 0), (None, 3)]) == [4, -1, None]
    both = call(
        "AND",
        call("<>", col(1, INT), lit(0, INT)),
        call(">", call("/", col(0, INT), col(1, INT)), lit(2, INT)),
    )
    assert evaluate(both, [(8, 2), (1, 0), (None, 3), (1, None)]) == [True, False, None, None]
    either = call(
        "OR", call("=", col(1, INT), lit(0, INT)), call(">", call("/", col(0, INT), col(1, INT)), lit(2, INT))
    )
    assert evaluate(either, [(8, 2), (1, 0), (2, 2)]) == [True, True, False]


def test_the_remainder_has_the_sign_of_the_dividend() -> None:
    assert evaluate(call("MOD", col(0, BIGINT), col(1, INT)), [(7, 3), (-7, 3), (7, -3), (None, 1)]) == [
        1,
        -1,
        1,
        None,
    ]
    decimals = call("%", col(0, sql.decimal(5, 2)), col(1, sql.decimal(3, 1)))
    assert evaluate(decimals, [(D("7.55"), D("2.0")), (D("-7.55"), D("2.0"))]) == [D("1.55"), D("-1.55")]


@given(
    st.lists(
        st.tuples(st.integers(LONG_MIN, LONG_MAX) | st.none(), st.integers(-999, 999) | st.none()),
        max_size=20,
    )
)
@settings(max_examples=50, deadline=None)
def test_bigint_times_decimal_is_exact(rows: list[tuple[int | None, int | None]]) -> None:
    given_rows = [(a, None if b is None else D(b).scaleb(-3)) for a, b in rows]
    expected = [None if a is None or b is None else D(a * b).scaleb(-3) for a, b in rows]
    assert evaluate(call("*", col(0, BIGINT), col(1, sql.decimal(3, 3))), given_rows) == expected


@given(
    st.lists(
        st.tuples(st.integers(-(10**15), 10**15), st.integers(-(10**7), 10**7).filter(bool)),
        min_size=1,
        max_size=20,
    )
)
@settings(max_examples=50, deadline=None)
def test_decimal_quotients_round_half_up(rows: list[tuple[int, int]]) -> None:
    given_rows = [(D(a).scaleb(-2), D(b).scaleb(-3)) for a, b in rows]
    divided = call("/", col(0, sql.decimal(16, 2)), col(1, sql.decimal(8, 3)))
    unit = D(1).scaleb(-divided.type.scale)
    expected = [(a / b).quantize(unit, ROUND_HALF_UP) for a, b in given_rows]
    assert evaluate(divided, given_rows) == expected


def test_quotients_of_decimal_sums_are_exact_as_long_as_their_values_are_short() -> None:
    total = sql.decimal(38, 2)
    divided = call("/", col(0, total), col(1, total))
    assert evaluate(divided, [(D("4.75"), D("3.00")), (None, D("1.00"))]) == [D("1.583333"), None]
    widest = D("9" * 36 + ".99")
    for operator in ("/", "*"):
        with pytest.raises(UserError) as error:
            evaluate(call(operator, col(0, total), col(1, total)), [(widest, widest)])
        assert error.value.code == "SS5103"


def test_the_digits_of_one_row_do_not_count_for_another() -> None:
    widest, one = D("9" * 38), D(1)
    whole = sql.decimal(38, 0)
    rows = [(widest, one), (one, widest), (None, widest), (widest, None)]
    assert evaluate(call("*", col(0, whole), col(1, whole)), rows) == [widest, widest, None, None]
    fractions = sql.decimal(38, 38)
    least = D("1E-38")
    rows = [(widest, None), (None, least)]
    assert evaluate(call("-", col(0, whole), col(1, fractions)), rows) == [None, None]
    assert evaluate(call("*", col(0, fractions), col(1, fractions)), [(least, None)]) == [None]
    assert evaluate(call("/", col(0, whole), col(1, fractions)), [(widest, None), (None, least)]) == [
        None,
        None,
    ]


def test_sums_of_decimals_carry() -> None:
    added = call("+", col(0, sql.decimal(4, 2)), col(1, sql.decimal(5, 4)))
    assert evaluate(added, [(D("99.99"), D("9.9999")), (None, D("1"))]) == [D("109.9899"), None]


def test_a_product_beyond_38_digits_is_null() -> None:
    wide = sql.decimal(38, 0)
    assert evaluate(call("*", col(0, wide), col(1, wide)), [(D(10**30), D(10**30)), (D(2), D(3))]) == [
        None,
        D(6),
    ]


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [
        (1.005, 2, 1.01),
        (2.675, 2, 2.68),
        (-2.5, 0, -3.0),
        (1234.5, -2, 1200.0),
        (1e300, 2, 1e300),
        (None, 1, None),
    ],
)
def test_round_of_doubles_is_half_up_in_decimal(
    value: float | None, digits: int, expected: float | None
) -> None:
    assert evaluate(call("ROUND", col(0, DOUBLE), lit(digits, INT.not_null())), [(value,)]) == [expected]


def test_round_and_truncate_of_exact_numbers() -> None:
    price = col(0, sql.decimal(5, 3))
    two = lit(2, INT.not_null())
    assert evaluate(call("ROUND", price, two), [(D("99.995"),), (D("-1.234"),)]) == [D("100.00"), D("-1.23")]
    assert evaluate(call("TRUNCATE", price, two), [(D("99.999"),)]) == [D("99.99")]
    assert evaluate(call("ROUND", col(0, INT), lit(-2, INT.not_null())), [(1250,), (-1250,), (1249,)]) == [
        1300,
        -1300,
        1200,
    ]
    assert evaluate(call("FLOOR", price), [(D("-1.5"),)]) == [D("-2")]
    assert evaluate(call("CEIL", col(0, sql.decimal(2, 1))), [(D("9.9"),)]) == [D("10")]
    assert evaluate(call("TRUNCATE", col(0, DOUBLE), lit(2, INT.not_null())), [(2.3,), (-2.347,)]) == [
        2.3,
        -2.34,
    ]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("SQRT", 9.0, 3.0),
        ("LN", math.e, 1.0),
        ("LOG10", 100.0, 2.0),
        ("EXP", 0.0, 1.0),
        ("ABS", -2.5, 2.5),
        ("SIGN", -2.5, -1.0),
    ],
)
def test_functions_of_one_double(name: str, value: float, expected: float) -> None:
    assert evaluate(call(name, col(0, DOUBLE)), [(value,), (None,)]) == [expected, None]


def test_a_power_is_as_exact_as_that_of_the_c_library() -> None:
    rows = [(0.1, 2.0), (1.1, 3.0), (-8.0, 0.5), (0.0, -1.0), (None, 2.0)]
    square, cube, root, pole, absent = evaluate(call("POWER", col(0, sql.DOUBLE), col(1, sql.DOUBLE)), rows)
    assert (square, cube, pole, absent) == (0.1**2.0, 1.1**3.0, float("inf"), None)
    assert root != root


def test_the_sign_of_a_decimal_is_one() -> None:
    sign = call("SIGN", col(0, sql.decimal(3, 1)))
    assert evaluate(sign, [(D("-2.5"),), (D("0"),), (None,)]) == [D("-1"), D("0"), None]
    assert evaluate(call("SIGN", col(0, BIGINT)), [(-9,), (4,)]) == [-1, 1]
    assert evaluate(call("ABS", col(0, sql.decimal(3, 1))), [(D("-2.5"),)]) == [D("2.5")]
    assert evaluate(call("NEGATE", col(0, sql.decimal(3, 1))), [(D("-2.5"),)]) == [D("2.5")]


def test_a_decimal_below_one_has_a_whole_part_and_rounds_to_any_place() -> None:
    below_one = col(0, sql.decimal(2, 2))
    assert evaluate(cast(below_one, INT), [(D("-0.99"),), (None,)]) == [0, None]
    for digits in (-1, -2, -80):
        for value in (below_one, col(0, sql.decimal(38, 2))):
            rounded = call("ROUND", value, lit(digits, INT))
            assert evaluate(rounded, [(D("0.99"),), (None,)]) == [D("0"), None]
            assert evaluate(call("TRUNCATE", *rounded.args), [(D("0.99"),)]) == [D("0")]
    assert evaluate(call("ROUND", col(0, sql.decimal(5, 2)), lit(-2, INT)), [(D("50.00"),)]) == [D("100")]


def test_timestamps_move_by_intervals() -> None:
    moved = call("-", col(0, sql.timestamp(3)), lit(4_000, sql.INTERVAL_DAY_TIME))
    assert evaluate(moved, [(10_000,), (None,), (1_000,)]) == [6_000, None, -3_000]
    microseconds = call("+", col(0, sql.timestamp(6)), lit(1, sql.INTERVAL_DAY_TIME))
    assert evaluate(microseconds, [(5,)]) == [1_005]
    months = call("+", col(0, sql.DATE), lit(1, sql.INTERVAL_YEAR_MONTH))
    assert evaluate(months, [(30,), (0,)]) == [58, 31]
    assert evaluate(call("-", col(0, sql.timestamp(3)), col(1, sql.timestamp(3))), [(5, 12)]) == [-7]
    assert evaluate(
        call("+", col(0, sql.time(0)), lit(7_200_000, sql.INTERVAL_DAY_TIME)), [(82_800_000,)]
    ) == [3_600_000]
    assert evaluate(call("*", col(0, sql.INTERVAL_DAY_TIME), lit(3, INT)), [(5,), (None,)]) == [15, None]


def test_floor_and_ceil_of_points_in_time() -> None:
    floored = call("FLOOR", col(0, sql.timestamp(3)), symbol("HOUR"))
    assert evaluate(floored, [(3_600_001,), (-1,)]) == [3_600_000, -3_600_000]
    assert evaluate(call("CEIL", col(0, sql.timestamp(3)), symbol("DAY")), [(1,)]) == [86_400_000]
    for unit in ("DAY", "MONTH", "QUARTER", "YEAR"):
        assert evaluate(call("CEIL", col(0, sql.timestamp(3)), symbol(unit)), [(0,)]) == [0]
    assert evaluate(call("CEIL", col(0, sql.DATE), symbol("MONTH")), [(31,), (32,)]) == [31, 59]
    assert evaluate(call("FLOOR", col(0, sql.time(0)), symbol("MINUTE")), [(61_000,)]) == [60_000]
    assert evaluate(call("FLOOR", col(0, sql.DATE), symbol("MONTH")), [(45,)]) == [31]


def test_random_numbers_stay_in_their_range() -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}] * 50, pa.struct([])))
    function = compile_expression(call("RAND_INTEGER", lit(5, INT)), Schema(()))
    assert set(function(batch).to_pylist()) == {0, 1, 2, 3, 4}


def test_constants_are_folded_but_never_fail_early() -> None:
    never = call("CASE", lit(False, BOOLEAN), call("/", lit(1, INT), lit(0, INT)), lit(7, INT))
    assert evaluate(never, [(), ()]) == [7, 7]
    with pytest.raises(UserError, match="division by zero"):
        evaluate(call("/", lit(1, INT), lit(0, INT)), [()])
    assert evaluate(cast(call("+", lit(1, INT), lit(2, INT)), BIGINT), [(), ()]) == [3, 3]


EXACT = decimal.Context(prec=120)
REMAINDER_VALUES = st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-1000, 1000)


@given(
    st.lists(st.tuples(REMAINDER_VALUES, REMAINDER_VALUES.filter(bool)), min_size=1, max_size=8),
    st.sampled_from([(0, 38), (38, 0), (18, 20), (0, 0), (38, 38), (5, 2)]),
)
@settings(max_examples=60, deadline=None)
def test_remainders_of_decimals_are_exact(pairs: list[tuple[int, int]], scales: tuple[int, int]) -> None:
    left, right = (sql.decimal(38, scale) for scale in scales)
    rows = [(Decimal(a).scaleb(-scales[0], EXACT), Decimal(b).scaleb(-scales[1], EXACT)) for a, b in pairs]
    rest = call("%", col(0, left), col(1, right))
    limit = Decimal(10) ** (rest.type.precision - rest.type.scale)

    def reference(a: Decimal, b: Decimal) -> Decimal | None:
        exact = EXACT.remainder(a, b)
        rounded = exact.quantize(Decimal(1).scaleb(-rest.type.scale), ROUND_HALF_UP, EXACT)
        # `abs` would round to the digits of the default context.
        return rounded if rounded.copy_abs() < limit else None

    assert evaluate(rest, rows) == [reference(a, b) for a, b in rows]


def test_a_remainder_by_the_smallest_decimal_is_zero() -> None:
    rest = call("%", col(0, BIGINT), col(1, sql.decimal(38, 38)))
    assert evaluate(rest, [(7, Decimal("1e-38")), (None, Decimal("1e-38"))]) == [Decimal(0), None]


def test_a_bound_of_chance_that_is_not_above_zero_is_an_error() -> None:
    with pytest.raises(UserError, match="not above 0"):
        evaluate(call("RAND_INTEGER", col(0, INT)), [(5,), (0,)])


def test_sums_with_more_digits_than_can_be_counted_are_refused() -> None:
    difference = call("-", col(0, sql.decimal(38, 0)), col(1, sql.decimal(38, 38)))
    with pytest.raises(UserError) as error:
        evaluate(difference, [(D("9" * 38), D("0." + "9" * 38))])
    assert error.value.code == "SS5103"


def test_factors_of_19_digits_are_not_cut_to_64_bits() -> None:
    most = D("999999999999999.9999")
    product = call("*", col(0, sql.decimal(19, 4)), col(1, SMALLINT))
    assert evaluate(product, [(most, 3), (-most, 10)]) == [3 * most, -10 * most]

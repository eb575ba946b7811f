"""The function registry: names, argument types and result types."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from types import ModuleType

import pytest
from expression_harness import accepts, call, col, lit, symbol

from sqlstream import types as sql
from sqlstream.expressions import AggregateCall
from sqlstream.functions import AGGREGATE_FUNCTIONS, SCALAR_FUNCTIONS, AggregateFunction, ScalarFunction
from sqlstream.functions.aggregates import accumulator_fields
from sqlstream.runtime.aggregates import Accumulator
from sqlstream.schema import Schema
from sqlstream.spi.imported_by_need import imported
from sqlstream.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, NULL, STRING, LogicalType

ROOT = Path(__file__).parents[4]


def builders_in(module: ModuleType) -> set[str]:
    """The public names of a module under which it has builders of its own."""
    names = {
        name
        for node in ast.parse(inspect.getsource(module)).body
        for name in (
            [node.name]
            if isinstance(node, ast.FunctionDef)
            else [t.id for t in node.targets if isinstance(t, ast.Name)]
            if isinstance(node, ast.Assign)
            else []
        )
    }
    return {
        name
        for name in names
        if not name.startswith("_")
        and inspect.isfunction(found := getattr(module, name))
        and list(inspect.signature(found).parameters) == ["call", "context"]
    }


def test_every_function_has_an_implementation_and_every_implementation_a_function() -> None:
    places = {f.implementation for f in SCALAR_FUNCTIONS.values()}
    assert all(callable(imported(f"sqlstream.runtime.evaluate.{place}")) for place in places)
    modules = {place.partition(":")[0] for place in places}
    found = {
        f"{m}:{name}"
        for m in modules
        for name in builders_in(importlib.import_module(f"sqlstream.runtime.evaluate.{m}"))
    }
    code = "\n".join(path.read_text() for path in (ROOT / "runtime/evaluate").rglob("*.py"))
    unused = {place for place in found if code.count(place.partition(":")[2]) == 1}
    assert unused - places == set()


def test_every_aggregate_has_its_accumulators() -> None:
    for function in AGGREGATE_FUNCTIONS.values():
        for place in (function.implementation, *([function.retracting] if function.retracting else [])):
            assert issubclass(imported(f"sqlstream.runtime.aggregates.{place}"), Accumulator)


@pytest.mark.parametrize("functions", [SCALAR_FUNCTIONS, AGGREGATE_FUNCTIONS])
def test_functions_stand_under_their_own_upper_case_name(
    functions: dict[str, ScalarFunction | AggregateFunction],
) -> None:
    assert all(name == f.name == name.upper() for name, f in functions.items())


@pytest.mark.parametrize(
    ("function", "argument", "result"),
    [
        ("SUM", INT, "INT"),
        ("SUM", BIGINT.not_null(), "BIGINT"),
        ("SUM", sql.decimal(10, 2), "DECIMAL(38, 2)"),
        ("AVG", INT, "INT"),
        ("AVG", DOUBLE, "DOUBLE"),
        ("AVG", sql.decimal(10, 2), "DECIMAL(38, 6)"),
        ("AVG", sql.decimal(20, 8), "DECIMAL(38, 8)"),
        ("COUNT", STRING, "BIGINT NOT NULL"),
        ("MAX", sql.as_rowtime(sql.timestamp(3).not_null()), "TIMESTAMP(3)"),
        ("STDDEV_POP", DOUBLE, "DOUBLE"),
    ],
)
def test_aggregates_have_flinks_result_types(function: str, argument: LogicalType, result: str) -> None:
    assert str(AGGREGATE_FUNCTIONS[function].result_type((argument,))) == result


@pytest.mark.parametrize(
    ("function", "argument", "layout"),
    [
        ("COUNT", INT, ["BIGINT"]),
        ("SUM", INT, ["BIGINT", "BIGINT"]),
        ("AVG", sql.decimal(5, 2), ["DECIMAL(38, 2)", "BIGINT"]),
        ("MIN", STRING, ["STRING"]),
        ("VAR_POP", DOUBLE, ["BIGINT", "DOUBLE", "DOUBLE"]),
    ],
)
def test_accumulators_have_the_documented_layout(
    function: str, argument: LogicalType, layout: list[str]
) -> None:
    schema = Schema.of(("k", INT), ("v", argument))
    fields = accumulator_fields(AggregateCall(function, (1,), argument), schema)
    assert fields is not None
    assert [str(f.type) for f in fields] == layout
    assert accumulator_fields(AggregateCall(function, (1,), argument, is_distinct=True), schema) is None
    assert accumulator_fields(AggregateCall("FIRST_VALUE", (1,), argument), schema) is None


def test_arguments_that_do_not_fit_are_not_accepted() -> None:
    assert not accepts("UPPER", INT)
    assert not accepts("SQRT", STRING)
    assert not accepts("+", STRING, INT)
    assert not accepts("AND", INT, BOOLEAN)
    assert not accepts("CASE", BOOLEAN, INT, STRING)
    assert not accepts("CASE", BOOLEAN, INT)
    assert not accepts("FLOOR", STRING)
    assert not accepts("FLOOR", INT, sql.SYMBOL)
    assert not accepts("-", sql.INTERVAL_DAY_TIME, sql.timestamp(3))


def test_an_untyped_null_takes_the_type_that_is_asked_for() -> None:
    assert str(call("UPPER", lit(None, NULL)).type) == "STRING"
    assert str(call("+", col(0, BIGINT), lit(None, NULL)).type) == "BIGINT"
    assert str(call("CASE", col(0, BOOLEAN), lit(None, NULL), col(1, INT.not_null())).type) == "INT"


def test_literal_digits_set_the_scale_of_round() -> None:
    two = lit(2, INT.not_null())
    assert str(call("ROUND", col(0, sql.decimal(10, 4)), two).type) == "DECIMAL(9, 2)"
    computed = call("CHAR_LENGTH", lit("ab", sql.STRING.not_null()))
    assert str(call("ROUND", col(0, sql.decimal(10, 4)), computed).type) == "DECIMAL(10, 4)"
    for digits, type_ in (
        (4, "DECIMAL(10, 4)"),
        (3, "DECIMAL(10, 3)"),
        (0, "DECIMAL(7, 0)"),
        (-1, "DECIMAL(7, 0)"),
    ):
        found = call("ROUND", col(0, sql.decimal(10, 4)), lit(digits, INT.not_null()))
        assert str(found.type) == type_


def test_time_attributes_end_at_functions() -> None:
    rowtime = sql.as_rowtime(sql.timestamp(3))
    assert not sql.is_rowtime(call("+", col(0, rowtime), lit(1, sql.INTERVAL_DAY_TIME)).type)
    assert not sql.is_rowtime(call("FLOOR", col(0, rowtime), symbol("DAY")).type)
    assert not sql.is_rowtime(call("COALESCE", col(0, rowtime)).type)
    assert sql.is_proctime(call("PROCTIME").type)


def test_strings_concatenate_their_lengths() -> None:
    assert str(call("||", col(0, sql.char(2)), col(1, sql.char(3))).type) == "CHAR(5)"
    assert str(call("||", col(0, sql.varchar(2)), col(1, STRING)).type) == "STRING"


def test_dates_and_timestamps_share_a_type() -> None:
    assert str(call("COALESCE", col(0, DATE), col(1, sql.timestamp(3))).type) == "TIMESTAMP(3)"


def test_text_cut_or_filled_to_a_negative_length_may_be_null() -> None:
    text, two, minus = lit("a", STRING.not_null()), lit(2, INT.not_null()), lit(-2, INT.not_null())
    assert str(call("LPAD", text, minus, text).type) == "STRING"
    assert str(call("SUBSTRING", text, two, minus).type) == "STRING"
    assert str(call("SUBSTRING", text, two, two).type) == "STRING NOT NULL"
    assert str(call("SUBSTRING", text, two, lit(0, INT.not_null())).type) == "STRING NOT NULL"


def test_what_has_no_order_has_no_greatest() -> None:
    assert not accepts("GREATEST", sql.array(INT), sql.array(INT))
    assert not accepts("LEAST", sql.row(("a", INT)))

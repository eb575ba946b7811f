"""Spark 4 as an engine for batch queries, in a session with `sqlstream.spark`.

TIMESTAMP and TIMESTAMP_LTZ are TIMESTAMP_NTZ (LTZ: the instant in UTC). Intervals are whole numbers, BIGINT milliseconds and
INT months; TIME is INT milliseconds of the day. Spark's own types order, add and print otherwise. CHAR is STRING: its values
are padded already. Comparisons with NaN differ from Flink's: Spark finds it equal to itself (docs/batch.md). Which type is
which stands in `sqlstream.spark_types`.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Mapping

from sqlglot import exp

from sqlstream import spark_types
from sqlstream.errors import UserError
from sqlstream.expressions import AggregateCall, Call, Literal
from sqlstream.functions.merging import as_decimal
from sqlstream.planner.lower import native, tree
from sqlstream.planner.lower.aggregates import REFUSED_AGGREGATES, lower_aggregate
from sqlstream.planner.lower.engine import STEPS, EngineDialect, HostedFunctions, refuse
from sqlstream.planner.lower.native import NATIVE, OPERATORS, Handler
from sqlstream.planner.lower.relation import lower_to_sql
from sqlstream.planner.relational.nodes import RelationalNode
from sqlstream.schema import Schema
from sqlstream.types import BINARY_ROOTS, TIMESTAMP_ROOTS, LogicalType, TypeRoot

ENGINE = "Spark"
_EPOCH = datetime.datetime(1970, 1, 1)
_LISTED_STEPS_MAX = 256


def type_(t: LogicalType) -> exp.DataType:
    """The type of `sqlstream.spark_types` as a tree. UserError SS3301."""
    return _parsed(spark_types.spark_type(t)).copy()


@functools.lru_cache(maxsize=256)
def _parsed(written: str) -> exp.DataType:
    return exp.DataType.build(written, dialect="spark")


def _plain(kind: exp.DType) -> exp.DataType:
    return exp.DataType(this=kind)


INT, BIGINT, DOUBLE, STRING, DATE = map(
    _plain, (exp.DType.INT, exp.DType.BIGINT, exp.DType.DOUBLE, exp.DType.TEXT, exp.DType.DATE)
)
TIMESTAMP = _plain(exp.DType.TIMESTAMPNTZ)


def text(value: str) -> exp.Expr:
    """A string literal. Control characters are given as bytes: Spark reads an escaped one together with digits behind it."""
    if all(c >= " " and c != "\x7f" for c in value):
        return tree.text(value)
    return tree.cast(exp.HexString(this=value.encode().hex().upper()), STRING)


def literal(node: Literal) -> exp.Expr:
    """A constant with its type."""
    made = type_(node.type)
    if node.value is None:
        return tree.cast(tree.null(), made)
    value, root = node.value, node.type.root
    if isinstance(value, bool):
        return tree.boolean(value)
    if root in BINARY_ROOTS:
        return exp.HexString(this=str(value).upper())
    if root in TIMESTAMP_ROOTS:
        moment = _EPOCH + datetime.timedelta(microseconds=int(str(value)) // 1000)
        return tree.cast(tree.text(moment.isoformat(" ")), TIMESTAMP)
    if root is TypeRoot.DATE:
        day = datetime.date.fromordinal(_EPOCH.toordinal() + int(value))
        return tree.cast(tree.text(f"{day:%Y}".zfill(4) + f"{day:-%m-%d}"), DATE)
    if isinstance(value, int):
        return tree.cast(tree.number(value) if value >= 0 else tree.text(str(value)), made)
    if root in (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.SYMBOL):
        return text(str(value))
    return tree.cast(tree.text(repr(value) if isinstance(value, float) else str(value)), made)


def _decimals(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr | None:
    """+, - and * of decimals, exact before they are rounded; NULL where the result does not fit, as in Flink."""
    if call.type.root is not TypeRoot.DECIMAL:
        return NATIVE[call.function](call, args, engine)
    made, t = args[0], call.args[0].type
    for arg, given in zip(args[1:], call.args[1:], strict=True):
        # Spark gives whole numbers other digits.
        sides = [tree.cast(side, type_(as_decimal(own))) for side, own in ((made, t), (arg, given.type))]
        made, t = tree.cast(tree.operate(OPERATORS[call.function], *sides), type_(call.type)), call.type
    return made


def _item(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr:
    collection, place = args
    if call.args[0].type.root is not TypeRoot.ARRAY:
        return tree.call("element_at", collection, place)
    return tree.call("get", collection, tree.operate(exp.Sub, place, tree.cast(tree.number(1), INT)))


def _cardinality(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr | None:
    is_counted = call.args[0].type.root in (TypeRoot.ARRAY, TypeRoot.MAP)
    return tree.call("size", args[0]) if is_counted else None


FUNCTIONS: dict[str, Handler] = {
    **NATIVE,
    **dict.fromkeys(("+", "-", "*"), _decimals),
    "FIELD": native.field(
        lambda row, name: exp.Dot(this=row.copy(), expression=exp.Identifier(this=name, quoted=True))
    ),
    "ITEM": _item,
    "CARDINALITY": _cardinality,
    **native.date_parts({"DOY": "dayofyear", "WEEK": "weekofyear"}),
    "STARTSWITH": native.of_text("startswith"),
    "ENDSWITH": native.of_text("endswith"),
}
"""The whitelist, by name of the function."""


@dataclasses.dataclass(frozen=True)
class SparkDialect:
    """The EngineDialect of Spark. An error of a row is Spark's raise_error."""

    functions: HostedFunctions = dataclasses.field(default_factory=HostedFunctions)
    time_zone: str = "UTC"
    title: str = ENGINE
    sqlglot_name: str = "spark"
    recurses: bool = False
    joins_by_functions: bool = False
    calls_python: bool = False

    def type_(self, t: LogicalType) -> exp.DataType:
        return type_(t)

    def has_type(self, t: LogicalType) -> bool:
        try:
            spark_types.spark_type(t)
        except UserError:
            return False
        return True

    def scanned(self, column: exp.Expr, t: LogicalType) -> exp.Expr:
        """The reader provides the types of `sqlstream.spark_types`; a timestamp may be of either of Spark's."""
        return tree.cast(column, type_(t))

    def literal(self, constant: Literal) -> exp.Expr:
        return literal(constant)

    def native(self, call: Call, args: list[exp.Expr]) -> exp.Expr | None:
        handler = FUNCTIONS.get(call.function)
        return None if handler is None else handler(call, args, self)

    def failure(self, message: str, t: LogicalType) -> exp.Expr:
        return tree.cast(tree.call("raise_error", tree.text(message)), type_(t))

    def aggregate(self, call: AggregateCall, input_schema: Schema) -> exp.Expr:
        return lower_aggregate(call, input_schema, self, [tree.input_column(a) for a in call.args])

    def collected(self, call: AggregateCall) -> exp.Expr:
        raise refuse(ENGINE, call.function, hint=REFUSED_AGGREGATES[call.function])

    def element_numbers(self, array: exp.Expr, is_outer: bool) -> exp.Expr:
        count = tree.call("size", array)
        has_some = tree.operate(exp.GT, count, tree.number(0))
        numbers = tree.call("sequence", tree.number(1), count)
        return tree.call(
            "explode_outer" if is_outer else "explode", tree.case([(has_some, numbers)], tree.null())
        )

    def last_known(self, value: exp.Expr, place: exp.Expr, keys: list[exp.Expr]) -> exp.Expr:
        latest = tree.over(tree.call("max_by", tree.call("array", value), place), keys)
        return tree.call("element_at", latest, tree.number(1))

    def milliseconds(self, timestamp: exp.Expr) -> exp.Expr:
        return tree.call("unix_millis", timestamp)

    def timestamp(self, milliseconds: exp.Expr) -> exp.Expr:
        return tree.cast(tree.call("timestamp_millis", milliseconds), TIMESTAMP)

    def steps(self, count: int) -> exp.Expr:
        if count > _LISTED_STEPS_MAX:
            return exp.Table(this=tree.call("range", tree.number(count)), alias=STEPS)
        # Unlike a range, a list costs no Spark job of its own.
        rows = [exp.Tuple(expressions=[tree.number(i)]) for i in range(count)]
        return exp.Values(expressions=rows, alias=STEPS)


def lower_spark(
    node: RelationalNode,
    tables: Mapping[str, str],
    time_zone: str = "UTC",
    functions: HostedFunctions | None = None,
) -> str:
    """The text of `relation.lower` for Spark; `tables` maps a table's name to the relation (a view, or another item of FROM)
    with its rows. `functions` takes what the stream's own evaluator computes."""
    engine = SparkDialect(HostedFunctions() if functions is None else functions, time_zone)
    return lower_to_sql(node, engine, tables)

"""Spark's dialect: the tables of types, functions, aggregates and windows behind one EngineDialect."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from sqlstream.expressions import AggregateCall, Call, Literal
from sqlstream.functions import bitmap, json
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.ansi import REFUSED_AGGREGATES
from sqlstream.planner.lower.hosting import Hosted
from sqlstream.planner.lower.refusals import PYTHON_HINT
from sqlstream.planner.lower.spark import points
from sqlstream.planner.lower.spark.aggregates import lower_aggregate
from sqlstream.planner.lower.spark.arithmetic import ARITHMETIC
from sqlstream.planner.lower.spark.arrays import ARRAYS
from sqlstream.planner.lower.spark.casts import CASTS
from sqlstream.planner.lower.spark.clock import CLOCK
from sqlstream.planner.lower.spark.encodings import ENCODINGS
from sqlstream.planner.lower.spark.patterns import PATTERNS
from sqlstream.planner.lower.spark.predicates import PREDICATES
from sqlstream.planner.lower.spark.scope import ENGINE, Builder, fail, refuse
from sqlstream.planner.lower.spark.strings import STRINGS
from sqlstream.planner.lower.spark.temporal import TEMPORAL
from sqlstream.planner.lower.spark.types import literal, spark_type
from sqlstream.planner.lower.windows import WindowTerms, lower_window_tvf
from sqlstream.planner.relational.nodes import WindowTvf
from sqlstream.schema import Schema
from sqlstream.specs.window import WindowKind
from sqlstream.times import is_utc
from sqlstream.types import LogicalType, TypeRoot

_LISTED_STEPS_MAX = 256

FUNCTIONS: dict[str, Builder] = {
    **PREDICATES,
    **ARITHMETIC,
    **ARRAYS,
    **ENCODINGS,
    **STRINGS,
    **PATTERNS,
    **TEMPORAL,
    **CLOCK,
    **CASTS,
}
"""By name of the function."""

REFUSED: dict[str, str] = {
    **dict.fromkeys((f.name for f in bitmap.FUNCTIONS), bitmap.BATCH_REASON),
    "PRINTF": "an engine rounds and pads otherwise than Java",
    "CONVERT_TZ": "an engine reads other texts as times",
    "KEY_BYTES": "an engine compares the values themselves",
    "CURRENT_DATABASE": "a statement has it as a constant",
    **dict.fromkeys((f.name for f in json.FUNCTIONS), json.JSON_REASON),
    **dict.fromkeys(
        ("ENCODE", "DECODE"), "an engine fails for what a charset has not, where a stream replaces it"
    ),
    "MAKE_VALID_UTF8": "an engine replaces other sequences of malformed bytes",
    "PARSE_URL": "an engine reads other texts as URLs",
    **dict.fromkeys(("URL_DECODE", "UNHEX"), "an engine fails for malformed texts, where a stream has NULL"),
    **dict.fromkeys(("INET_ATON", "INET_NTOA"), "an engine has no such function"),
    "REGEXP_EXTRACT_ALL": "an engine has empty texts for groups that match nothing",
    **dict.fromkeys(
        ("RAND", "RAND_INTEGER", "UUID"), "an engine may compute it again where the value is read twice"
    ),
    "STR_TO_MAP": "an engine keeps empty pairs at the end of the text",
    "ORDERED_ARRAY": "what it orders NaN and texts by is ours",
    "ORDERED_LIST": "what it orders NaN and texts by is ours",
    "CURRENT_WATERMARK": "the rows of a batch have no watermark",
    "PROCTIME": "the rows of a batch arrive at no time that could order them",
}
"""The other scalar functions, each with the reason. Some are refused for some arguments only."""


@dataclasses.dataclass(frozen=True)
class SparkDialect:
    """Spark 4 with `SPARK_SQL_SETTINGS` in force, in one session time zone of the statement's.

    Comparisons with NaN differ from Flink's: Spark finds it equal to itself (docs/batch.md). An error of a row is
    Spark's raise_error.
    """

    time_zone: str = "UTC"
    title: str = ENGINE
    sqlglot_name: str = "spark"

    def type_(self, t: LogicalType) -> exp.DataType:
        return spark_type(t)

    def scanned(self, column: exp.Expr, t: LogicalType) -> exp.Expr:
        """The reader provides the types of `sqlstream.planner.lower.spark.types`; a timestamp may be of either of Spark's."""
        return tree.cast(column, spark_type(t))

    def literal(self, constant: Literal) -> exp.Expr:
        return literal(constant)

    def call(self, call: Call, args: list[exp.Expr]) -> exp.Expr:
        if call.ref is not None:
            raise refuse(f"Python function {call.function}", hint=PYTHON_HINT).at(call.span)
        builder = FUNCTIONS.get(call.function)
        if builder is None:
            raise refuse(call.function, hint=REFUSED.get(call.function, ""))
        spark_type(call.type)
        return builder(call, args, self.time_zone)

    def has_type(self, t: LogicalType) -> bool:
        return True

    def hosted(self, call: Call) -> Hosted | None:
        return None

    def failure(self, message: str, t: LogicalType) -> exp.Expr:
        return fail(message, spark_type(t))

    def aggregate(self, call: AggregateCall, input_schema: Schema) -> exp.Expr:
        return lower_aggregate(call, input_schema)

    def collected(self, call: AggregateCall) -> exp.Expr:
        raise refuse(call.function, hint=REFUSED_AGGREGATES[call.function])

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

    def window_tvf(self, node: WindowTvf, source: exp.Expr) -> exp.Expr:
        zone, t = node.window.time_zone, node.input.schema.types[node.time_column]
        is_local = t.root is TypeRoot.TIMESTAMP_LTZ and not is_utc(zone)
        if is_local and node.window.kind is WindowKind.SESSION:
            # A session may lie on both sides of a change of the clock.
            raise refuse(f'a SESSION window of TIMESTAMP_LTZ in time zone "{zone}"')
        local = points.to_local(tree.input_column(node.time_column), t, zone)
        terms = WindowTerms(
            local_ms=tree.call("unix_millis", local),
            bound=_timestamp,
            window_time=lambda milliseconds: points.from_local(_timestamp(milliseconds), t, zone),
            steps=_steps,
        )
        return lower_window_tvf(node, source, terms)


def _timestamp(milliseconds: exp.Expr) -> exp.Expr:
    return points.from_micros(tree.operate(exp.Mul, milliseconds, tree.number(1000)))


def _steps(count: int) -> exp.Expr:
    names = exp.TableAlias(this=exp.to_identifier("n"), columns=[exp.to_identifier("step")])
    if count > _LISTED_STEPS_MAX:
        return exp.Table(this=tree.call("range", tree.number(count)), alias=names)
    # Unlike a range, a list costs no Spark job of its own.
    rows = [exp.Tuple(expressions=[tree.number(i)]) for i in range(count)]
    return exp.Values(expressions=rows, alias=names)

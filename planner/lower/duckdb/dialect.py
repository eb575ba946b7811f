"""DuckDB as an engine for batch queries."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from sqlstream.expressions import AggregateCall, Call, Literal
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.duckdb import types
from sqlstream.planner.lower.duckdb.aggregates import aggregated, lower_aggregate
from sqlstream.planner.lower.duckdb.functions import HANDLERS, REFUSED
from sqlstream.planner.lower.duckdb.local_time import from_local, is_utc
from sqlstream.planner.lower.duckdb.refusals import ENGINE, refuse
from sqlstream.planner.lower.duckdb.strings import in_case
from sqlstream.planner.lower.duckdb.times import local, milliseconds_of
from sqlstream.planner.lower.hosting import Hosted, HostedFunctions
from sqlstream.planner.lower.refusals import PYTHON_HINT
from sqlstream.planner.lower.windows import WindowTerms, lower_window_tvf
from sqlstream.planner.relational.nodes import WindowTvf
from sqlstream.schema import Schema
from sqlstream.specs.window import WindowKind
from sqlstream.types import INT, LogicalType, TypeRoot


@dataclasses.dataclass(frozen=True)
class DuckDbDialect:
    """The EngineDialect of DuckDB, for sessions in `time_zone`. See `types` for how values are held. `functions` collects what
    the stream's own functions compute; None: nothing may be."""

    time_zone: str = "UTC"
    title: str = ENGINE
    sqlglot_name: str = "duckdb"
    functions: HostedFunctions | None = None

    def type_(self, t: LogicalType) -> exp.DataType:
        return types.type_(t)

    def scanned(self, column: exp.Expr, t: LogicalType) -> exp.Expr:
        if t.root is TypeRoot.TIMESTAMP_LTZ:
            # A cast would depend on the connection's time zone, should the column be a TIMESTAMPTZ.
            types.type_(t)
            return tree.call("make_timestamp", tree.call("epoch_us", column))
        return tree.cast(column, types.type_(t))

    def literal(self, literal: Literal) -> exp.Expr:
        return types.literal(literal)

    def call(self, call: Call, args: list[exp.Expr]) -> exp.Expr:
        if call.ref is not None:
            raise refuse(f"Python function {call.function}", hint=PYTHON_HINT, span=call.span)
        if call.function in ("UPPER", "LOWER") and (found := self.hosted(call)):
            if found.arguments != call.args:
                raise refuse(f"{call.function} of a constant")
            return in_case(call.function.lower(), args[0], lambda value: tree.call(found.name, value))
        handler = HANDLERS.get(call.function)
        if handler is None:
            raise refuse(call.function, hint=REFUSED.get(call.function, ""))
        return handler(call, args, self.time_zone)

    def has_type(self, t: LogicalType) -> bool:
        return types.has_type(t)

    def hosted(self, call: Call) -> Hosted | None:
        return None if self.functions is None else self.functions.host(call, types.has_type)

    def failure(self, message: str, t: LogicalType) -> exp.Expr:
        return types.failure(message, types.type_(t))

    def aggregate(self, call: AggregateCall, input_schema: Schema) -> exp.Expr:
        return lower_aggregate(call, input_schema)

    def collected(self, call: AggregateCall) -> exp.Expr:
        return tree.cast(aggregated("list", call, tree.input_column(call.args[0])), types.type_(call.type))

    def element_numbers(self, array: exp.Expr, is_outer: bool) -> exp.Expr:
        count = tree.call("len", array)
        numbers = tree.call("range", tree.number(1), tree.operate(exp.Add, count, tree.number(1)))
        if is_outer:
            is_empty = tree.operate(exp.GT, count, tree.number(0))
            numbers = tree.case([(is_empty, numbers)], tree.raw("[NULL]"))
        return tree.cast(tree.call("unnest", numbers), types.type_(INT))

    def last_known(self, value: exp.Expr, place: exp.Expr, keys: list[exp.Expr]) -> exp.Expr:
        # arg_max passes over a NULL, but not over a list of it.
        latest = tree.over(tree.call("arg_max", tree.call("list_value", value), place), keys)
        return tree.call("list_extract", latest, tree.number(1))

    def window_tvf(self, node: WindowTvf, source: exp.Expr) -> exp.Expr:
        t, zone = node.input.schema.types[node.time_column], node.window.time_zone
        is_instant = t.root is TypeRoot.TIMESTAMP_LTZ
        if is_instant and node.window.kind is WindowKind.SESSION and not is_utc(zone):
            raise refuse(f'a SESSION window of TIMESTAMP_LTZ in time zone "{zone}"')

        def window_time(milliseconds: exp.Expr) -> exp.Expr:
            return from_local(_timestamp(milliseconds), zone) if is_instant else _timestamp(milliseconds)

        terms = WindowTerms(
            local_ms=milliseconds_of(local(tree.input_column(node.time_column), t, zone), t),
            bound=_timestamp,
            window_time=window_time,
            steps=_steps,
        )
        return lower_window_tvf(node, source, terms)


def _timestamp(milliseconds: exp.Expr) -> exp.Expr:
    return tree.call("make_timestamp", tree.operate(exp.Mul, milliseconds, tree.number(1000)))


def _steps(count: int) -> exp.Expr:
    names = exp.TableAlias(this=exp.to_identifier("n"), columns=[exp.to_identifier("step")])
    return exp.Table(this=tree.call("range", tree.number(count)), alias=names)

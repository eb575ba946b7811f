"""DuckDB as an engine for batch queries.

TIMESTAMP and TIMESTAMP_LTZ are DuckDB TIMESTAMPs (LTZ: the instant in UTC); intervals are whole numbers, BIGINT milliseconds
and INTEGER months, because DuckDB's own INTERVAL orders and adds otherwise than SQL's two kinds. Integer overflow stops the
query with DuckDB's error. Comparisons with NaN differ from Flink's: DuckDB finds it equal to itself and greater than every
number (docs/batch.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.expressions import AggregateCall, Call, Literal
from sqlstream.functions.merging import as_decimal
from sqlstream.planner.lower import native, tree
from sqlstream.planner.lower.aggregates import aggregated, lower_aggregate
from sqlstream.planner.lower.engine import STEPS, EngineDialect, HostedFunctions, refuse
from sqlstream.planner.lower.native import NATIVE, OPERATORS, Handler
from sqlstream.planner.lower.relation import lower_to_sql
from sqlstream.planner.relational.nodes import RelationalNode
from sqlstream.schema import Schema
from sqlstream.types import DECIMAL_PRECISION_MAX, TIMESTAMP_ROOTS, LogicalType, TypeRoot

ENGINE = "DuckDB"
TIMESTAMP_PRECISION_MAX = 6

_PLAIN: dict[TypeRoot, exp.DType] = {
    TypeRoot.CHAR: exp.DType.VARCHAR,
    TypeRoot.VARCHAR: exp.DType.VARCHAR,
    TypeRoot.BOOLEAN: exp.DType.BOOLEAN,
    TypeRoot.BINARY: exp.DType.VARBINARY,
    TypeRoot.VARBINARY: exp.DType.VARBINARY,
    TypeRoot.TINYINT: exp.DType.TINYINT,
    TypeRoot.SMALLINT: exp.DType.SMALLINT,
    TypeRoot.INTEGER: exp.DType.INT,
    TypeRoot.BIGINT: exp.DType.BIGINT,
    TypeRoot.FLOAT: exp.DType.FLOAT,
    TypeRoot.DOUBLE: exp.DType.DOUBLE,
    TypeRoot.DATE: exp.DType.DATE,
    TypeRoot.TIME: exp.DType.TIME,
    TypeRoot.INTERVAL_DAY_TIME: exp.DType.BIGINT,
    TypeRoot.INTERVAL_YEAR_MONTH: exp.DType.INT,
    TypeRoot.NULL: exp.DType.INT,
    TypeRoot.SYMBOL: exp.DType.VARCHAR,
}


def type_(t: LogicalType) -> exp.DataType:
    """The DuckDB type that holds all values of `t`. UserError for timestamps finer than a microsecond and nested types
    without one."""
    if t.root in _PLAIN:
        return plain(_PLAIN[t.root])
    match t.root:
        case TypeRoot.DECIMAL:
            return decimal(t.precision, t.scale)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ if t.precision <= TIMESTAMP_PRECISION_MAX:
            return TIMESTAMP.copy()
        case TypeRoot.ARRAY if t.element is not None:
            return exp.DataType(this=exp.DType.ARRAY, expressions=[type_(t.element)], nested=True)
        case TypeRoot.MAP if t.key is not None and t.element is not None:
            return exp.DataType(this=exp.DType.MAP, expressions=[type_(t.key), type_(t.element)], nested=True)
        case TypeRoot.ROW if len({f.name.lower() for f in t.fields}) == len(t.fields):
            # DuckDB takes names that differ in case alone for one.
            fields = [
                exp.ColumnDef(this=exp.Identifier(this=f.name, quoted=True), kind=type_(f.type))
                for f in t.fields
            ]
            return exp.DataType(this=exp.DType.STRUCT, expressions=fields, nested=True)
    raise refuse(ENGINE, f"type {t.with_nullable(True)}")


def has_type(t: LogicalType) -> bool:
    """Whether `type_` has one."""
    try:
        type_(t)
    except UserError:
        return False
    return True


def type_name(t: LogicalType) -> str:
    """`type_` as text."""
    return type_(t).sql(dialect="duckdb")


def quote(name: str) -> str:
    """A name as a quoted identifier."""
    return exp.Identifier(this=name, quoted=True).sql(dialect="duckdb")


def plain(dtype: exp.DType) -> exp.DataType:
    return exp.DataType(this=dtype)


def decimal(precision: int, scale: int) -> exp.DataType:
    sizes = [exp.DataTypeParam(this=tree.number(size)) for size in (precision, scale)]
    return exp.DataType(this=exp.DType.DECIMAL, expressions=sizes)


TEXT = plain(exp.DType.VARCHAR)
INTEGER = plain(exp.DType.INT)
BIGINT = plain(exp.DType.BIGINT)
DOUBLE = plain(exp.DType.DOUBLE)
TIME = plain(exp.DType.TIME)
TIMESTAMP = plain(exp.DType.TIMESTAMP)


def _value(node: Literal) -> exp.Expr:
    value, root = node.value, node.type.root
    if isinstance(value, bool):
        return tree.boolean(value)
    if isinstance(value, float):
        return tree.text(repr(value))
    if root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
        return tree.call("from_hex", tree.text(str(value)))
    if root in TIMESTAMP_ROOTS:
        micros = int(str(value)) // 1000
        return tree.call("make_timestamp", tree.cast(tree.number(micros), BIGINT))
    if isinstance(value, int):
        match root:
            case TypeRoot.DATE:
                return tree.call("make_date", tree.cast(tree.number(value), INTEGER))
            case TypeRoot.TIME:
                micros_of_day = tree.call("to_microseconds", tree.number(value * 1000))
                return tree.operate(exp.Add, tree.cast(tree.text("00:00:00"), TIME), micros_of_day)
        return tree.number(value)
    return tree.text(str(value))


def _decimals(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr | None:
    """+, - and * of decimals; NULL where the result does not fit, as in Flink."""
    if call.type.root is not TypeRoot.DECIMAL:
        return NATIVE[call.function](call, args, engine)
    made, t = args[0], call.args[0].type
    for arg in args[1:]:
        # DuckDB's result overflows at 18 digits unless an operand has more.
        wide = tree.cast(made, decimal(DECIMAL_PRECISION_MAX, as_decimal(t).scale))
        made, t = (
            tree.try_cast(tree.operate(OPERATORS[call.function], wide, arg), type_(call.type)),
            call.type,
        )
    return made


def _quotient(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr | None:
    if call.type.root in sql.APPROXIMATE_ROOTS:
        return tree.operate(exp.Div, *args)
    return NATIVE["/"](call, args, engine)


def _negated(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr | None:
    # DuckDB takes the least number of a type for a wider one when it is a constant.
    made = NATIVE["NEGATE"](call, args, engine)
    return made if made is None else tree.cast(made, type_(call.type))


def _item(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr:
    collection, place = args
    if call.args[0].type.root is not TypeRoot.ARRAY:
        return tree.call("map_extract_value", collection, place)
    # DuckDB counts negative places from the end.
    is_place = tree.operate(exp.GT, place, tree.number(0))
    return tree.case([(is_place, tree.call("list_extract", collection, place))])


def _cardinality(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr | None:
    functions = {TypeRoot.ARRAY: "len", TypeRoot.MAP: "cardinality"}
    found = functions.get(call.args[0].type.root)
    return None if found is None else tree.cast(tree.call(found, args[0]), INTEGER)


FUNCTIONS: dict[str, Handler] = {
    **NATIVE,
    **dict.fromkeys(("+", "-", "*"), _decimals),
    "/": _quotient,
    "NEGATE": _negated,
    "FIELD": native.field(lambda row, name: tree.call("struct_extract", row, tree.text(name))),
    "ITEM": _item,
    "CARDINALITY": _cardinality,
    **native.date_parts({"DOY": "dayofyear"}),
    "STARTSWITH": native.of_text("starts_with"),
    "ENDSWITH": native.of_text("ends_with"),
}
"""The whitelist, by name of the function."""


@dataclasses.dataclass(frozen=True)
class DuckDbDialect:
    """The EngineDialect of DuckDB."""

    functions: HostedFunctions = dataclasses.field(default_factory=HostedFunctions)
    time_zone: str = "UTC"
    title: str = ENGINE
    sqlglot_name: str = "duckdb"
    recurses: bool = True
    joins_by_functions: bool = True
    calls_python: bool = True

    def type_(self, t: LogicalType) -> exp.DataType:
        return type_(t)

    def has_type(self, t: LogicalType) -> bool:
        return has_type(t)

    def scanned(self, column: exp.Expr, t: LogicalType) -> exp.Expr:
        if t.root is TypeRoot.TIMESTAMP_LTZ:
            # A cast would depend on the connection's time zone, should the column be a TIMESTAMPTZ.
            type_(t)
            return tree.call("make_timestamp", tree.call("epoch_us", column))
        return tree.cast(column, type_(t))

    def literal(self, literal: Literal) -> exp.Expr:
        made = tree.null() if literal.value is None else _value(literal)
        return tree.cast(made, type_(literal.type))

    def native(self, call: Call, args: list[exp.Expr]) -> exp.Expr | None:
        handler = FUNCTIONS.get(call.function)
        return None if handler is None else handler(call, args, self)

    def failure(self, message: str, t: LogicalType) -> exp.Expr:
        return tree.cast(tree.call("error", tree.text(message)), type_(t))

    def aggregate(self, call: AggregateCall, input_schema: Schema) -> exp.Expr:
        if call.function == "PERCENTILE":
            return _percentile(call, input_schema)
        return lower_aggregate(call, input_schema, self, _counted(call))

    def collected(self, call: AggregateCall) -> exp.Expr:
        return tree.cast(aggregated("list", call, tree.input_column(call.args[0])), type_(call.type))

    def element_numbers(self, array: exp.Expr, is_outer: bool) -> exp.Expr:
        count = tree.call("len", array)
        numbers = tree.call("range", tree.number(1), tree.operate(exp.Add, count, tree.number(1)))
        if is_outer:
            is_empty = tree.operate(exp.GT, count, tree.number(0))
            numbers = tree.case([(is_empty, numbers)], tree.raw("[NULL]"))
        return tree.cast(tree.call("unnest", numbers), INTEGER)

    def last_known(self, value: exp.Expr, place: exp.Expr, keys: list[exp.Expr]) -> exp.Expr:
        # arg_max passes over a NULL, but not over a list of it.
        latest = tree.over(tree.call("arg_max", tree.call("list_value", value), place), keys)
        return tree.call("list_extract", latest, tree.number(1))

    def milliseconds(self, timestamp: exp.Expr) -> exp.Expr:
        return tree.call("epoch_ms", timestamp)

    def timestamp(self, milliseconds: exp.Expr) -> exp.Expr:
        return tree.call("make_timestamp", tree.operate(exp.Mul, milliseconds, tree.number(1000)))

    def steps(self, count: int) -> exp.Expr:
        return exp.Table(this=tree.call("range", tree.number(count)), alias=STEPS)


def lower_duckdb(
    node: RelationalNode,
    tables: Mapping[str, str],
    time_zone: str = "UTC",
    functions: HostedFunctions | None = None,
) -> str:
    """The text of `relation.lower` in DuckDB; `tables` maps a table's name to the DuckDB relation (a name or a FROM item)
    with its rows. `functions` takes what the stream's own evaluator computes."""
    engine = DuckDbDialect(HostedFunctions() if functions is None else functions, time_zone)
    return lower_to_sql(node, engine, tables)


def _counted(call: AggregateCall) -> list[exp.Expr]:
    """The argument of COUNT; of several columns a row that is NULL where one of them is."""
    columns = [tree.input_column(a) for a in call.args]
    if len(columns) < 2:
        return columns
    is_present = tree.all_of([tree.is_not_null(column) for column in columns])
    return [tree.case([(is_present, tree.call("row", *columns))])]


def _percentile(call: AggregateCall, input_schema: Schema) -> exp.Expr:
    """Interpolated between the two nearest values in the stream's order of operations, which `quantile_cont` has too, but for
    constant shares only."""
    if len(call.args) == 3:
        raise refuse(ENGINE, "PERCENTILE with frequencies")
    value = tree.operate(
        exp.Add, tree.cast(tree.input_column(call.args[0]), DOUBLE), tree.cast(tree.number(0), DOUBLE)
    )
    share = tree.input_column(call.args[1])
    is_array = input_schema.types[call.args[1]].root is TypeRoot.ARRAY
    shares = tree.cast(share if is_array else tree.call("list_value", share), type_(sql.array(sql.DOUBLE)))
    condition = tree.input_column(call.filter) if call.filter >= 0 else None
    values = tree.call(
        "list_sort",
        tree.call("list_filter", aggregated("list", call, value), tree.raw("lambda x: x IS NOT NULL")),
    )
    given = tree.filtered(tree.call("any_value", shares), condition)

    # Lambdas hold no aggregates, so that both are computed before.
    both = tree.call("list_value", tree.call("row", values, given))
    made = tree.call(
        "list_extract", tree.call("list_transform", both, tree.raw(_INTERPOLATED)), tree.number(1)
    )
    return tree.cast(made if is_array else tree.call("list_extract", made, tree.number(1)), type_(call.type))


_AT = "list_extract(struct_extract(s, 1), 1 + CAST({}(p * (len(struct_extract(s, 1)) - 1)) AS BIGINT))"
_LOW, _HIGH = _AT.format("floor"), _AT.format("ceil")
_PLACE = "p * (len(struct_extract(s, 1)) - 1)"
_INTERPOLATED = (
    "lambda s: CASE WHEN len(struct_extract(s, 1)) > 0 THEN list_transform(struct_extract(s, 2), lambda p:"
    f" CASE WHEN p BETWEEN 0 AND 1 THEN {_LOW} + ({_HIGH} - {_LOW}) * ({_PLACE} - floor({_PLACE})) END) END"
)
"""The values at the shares of a row of both: sorted values, and shares."""

"""Resolved expressions as DuckDB SQL with Flink's results; expressions that DuckDB cannot compute exactly are refused.

Integer overflow and malformed text stop the query with DuckDB's error. NaN and infinities are out of scope, because
DuckDB compares them otherwise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from planner.lower.date_patterns import pattern_regex, strftime_format
from planner.lower.duckdb_casts import cast, require_utc
from planner.lower.duckdb_functions import EXTRACTED, TEMPLATES, TRUNCATED_UNITS
from planner.lower.duckdb_types import literal, text, type_name
from planner.lower.refusals import refuse
from sqlstream import types as sql
from sqlstream.expressions import Call, Expression, InputRef, Literal
from sqlstream.functions.merging import as_decimal
from sqlstream.time_range import timestamp_bounds
from sqlstream.time_units import UNIT_MONTHS, UNIT_MS
from sqlstream.types import DECIMAL_PRECISION_MAX, LogicalType, TypeRoot

Columns = Callable[[int], str]
"""The SQL of an input column."""


class ExpressionLowering:
    """Renders expressions over the input columns whose SQL is `columns`."""

    def __init__(self, columns: Columns, time_zone: str) -> None:
        self._columns = columns
        self._time_zone = time_zone

    def render(self, expression: Expression) -> str:
        """SQL of the expression, with the type that `type_name` gives. UserError SS3301 for a refused expression."""
        match expression:
            case InputRef(index):
                return self._columns(index)
            case Literal():
                return literal(expression)
            case Call():
                handler = _HANDLERS.get(expression.function)
                if handler is not None:
                    return handler(self, expression)
                return self._by_template(expression)

    def args(self, call: Call) -> list[str]:
        return [self.render(a) for a in call.args]

    def local(self, value: Expression) -> str:
        """A point in time as local time of the session's time zone."""
        if value.type.root is TypeRoot.TIMESTAMP_LTZ:
            require_utc(self._time_zone)
        return self.render(value)

    def cast(self, call: Call) -> str:
        (value,) = call.args
        is_try = call.function == "TRY_CAST"
        return cast(self.render(value), value.type, call.type, self._time_zone, is_try=is_try)

    def _by_template(self, call: Call) -> str:
        template = TEMPLATES.get(call.function)
        if template is None:
            raise refuse(call.function)
        return template.format(*self.args(call))

    def in_type(self, value: str, t: LogicalType) -> str:
        """`value` as `t`; a decimal that does not fit is NULL, as in Flink."""
        return f"{'TRY_CAST' if t.root is TypeRoot.DECIMAL else 'CAST'}({value} AS {type_name(t)})"

    # -- operators ---------------------------------------------------------------------------------

    def connective(self, call: Call) -> str:
        return "(" + f" {call.function} ".join(self.args(call)) + ")"

    def concatenation(self, call: Call) -> str:
        return "(" + " || ".join(self.args(call)) + ")"

    def is_in(self, call: Call) -> str:
        first, *rest = self.args(call)
        return f"({first} IN ({', '.join(rest)}))"

    def case(self, call: Call) -> str:
        args = self.args(call)
        pairs = zip(args[0:-1:2], args[1:-1:2], strict=True)
        branches = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
        return f"CASE {branches} ELSE {args[-1]} END"

    def coalesce(self, call: Call) -> str:
        return f"coalesce({', '.join(self.args(call))})"

    def concatenation_with_separator(self, call: Call) -> str:
        return f"concat_ws({', '.join(self.args(call))})"

    def extreme(self, call: Call) -> str:
        """GREATEST or LEAST, which are NULL if an argument is."""
        args = self.args(call)
        is_null = " OR ".join(f"{a} IS NULL" for a in args)
        return f"CASE WHEN {is_null} THEN NULL ELSE {call.function.lower()}({', '.join(args)}) END"

    def like(self, call: Call) -> str:
        value, pattern, *escape = self.args(call)
        if escape and not all(isinstance(a, Literal) for a in call.args[1:]):
            raise refuse("LIKE … ESCAPE with a pattern that is no constant")
        return f"({value} LIKE {pattern}{f' ESCAPE {escape[0]}' if escape else ''})"

    def field(self, call: Call) -> str:
        row = call.args[0]
        return f"struct_extract({self.render(row)}, {text(row.type.fields[_number(call, 1)].name)})"

    def array(self, call: Call) -> str:
        return f"[{', '.join(self.args(call))}]"

    def item(self, call: Call) -> str:
        collection, place = self.args(call)
        if call.args[0].type.root is not TypeRoot.ARRAY:
            return f"{collection}[{place}]"
        # DuckDB counts negative positions from the end.
        return f"CASE WHEN {place} > 0 THEN {collection}[{place}] END"

    def padded(self, call: Call) -> str:
        if call.args[1].type.root is TypeRoot.BIGINT:
            raise refuse(f"{call.function} with a BIGINT length", hint="cast it to INT")
        return self._by_template(call)

    # -- numbers -----------------------------------------------------------------------------------

    def plus_or_minus(self, call: Call) -> str:
        *before, right = call.args
        left = before[0] if len(before) == 1 else Call(call.function, tuple(before), call.type)
        if call.function == "+" and sql.is_interval(left.type) and not sql.is_interval(right.type):
            left, right = right, left
        if sql.is_numeric(left.type) or sql.is_interval(left.type):
            return self._exact(call.function, left, right, call.type)
        if TypeRoot.TIME in (left.type.root, right.type.root):
            raise refuse("arithmetic of TIME")
        if not sql.is_interval(right.type):
            return f"(epoch_ms({self.local(left)}) - epoch_ms({self.local(right)}))"
        value = self.local(left)
        if left.type.root is TypeRoot.DATE:
            value = f"CAST({value} AS TIMESTAMP)"
        moved = _held(self._moved(value, right.type, f"{call.function} {self.render(right)}"))
        return self.in_type(moved, call.type) if call.type.root is TypeRoot.DATE else moved

    def _moved(self, point: str, interval: LogicalType, signed: str) -> str:
        if interval.root is TypeRoot.INTERVAL_YEAR_MONTH:
            return f"({point} + to_months(CAST(0 {signed} AS INTEGER)))"
        return f"({point} + to_microseconds((0 {signed}) * 1000))"

    def times(self, call: Call) -> str:
        left, right = call.args
        return self._exact("*", left, right, call.type)

    def _exact(self, symbol: str, left: Expression, right: Expression, result: LogicalType) -> str:
        a = self.render(left)
        if result.root is TypeRoot.DECIMAL:
            # DuckDB's result overflows at 18 digits unless an operand has more.
            a = f"CAST({a} AS DECIMAL({DECIMAL_PRECISION_MAX}, {as_decimal(left.type).scale}))"
        return self.in_type(f"({a} {symbol} {self.render(right)})", result)

    def divided(self, call: Call) -> str:
        left, right = self.args(call)
        if call.type.root in sql.APPROXIMATE_ROOTS:
            return f"({left} / {right})"
        if call.type.root is TypeRoot.DECIMAL:
            a, b = (as_decimal(arg.type) for arg in call.args)
            quotient = decimal_quotient(left, a, right, b, call.type)
        else:
            quotient = self.in_type(f"({left} // {right})", call.type)
        return self._unless_zero(left, right, quotient, call.type)

    def remainder(self, call: Call) -> str:
        left, right = self.args(call)
        if call.type.root is TypeRoot.DECIMAL:
            a, b = (as_decimal(arg.type) for arg in call.args)
            if (
                max(a.precision - a.scale, b.precision - b.scale) + max(a.scale, b.scale)
                > DECIMAL_PRECISION_MAX
            ):
                raise refuse("a remainder of decimals with more than 38 digits", hint="cast to fewer digits")
        rest = self.in_type(f"({left} % {right})", call.type)
        if call.type.root in sql.APPROXIMATE_ROOTS:
            return rest
        return self._unless_zero(left, right, rest, call.type)

    def _unless_zero(self, left: str, right: str, result: str, t: LogicalType) -> str:
        """`result`, but an error for division by zero, as in a stream; DuckDB gives NULL."""
        fail = f"CAST(error('division by zero') AS {type_name(t)})"
        return f"CASE WHEN {left} IS NOT NULL AND {right} = 0 THEN {fail} ELSE {result} END"

    def rounded(self, call: Call) -> str:
        digits = _number(call, 1) if len(call.args) == 2 else 0
        value, t = self.render(call.args[0]), call.args[0].type
        if t.root is TypeRoot.DECIMAL:
            return self.in_type(f"round({value}, {digits})" if digits < t.scale else value, call.type)
        if sql.is_integer(t):
            return self.in_type(f"round({value}, {digits})" if digits < 0 else value, call.type)
        if not 0 <= digits <= 15:
            raise refuse(f"ROUND to {digits} digits")
        # Through text, as Java: the shortest decimal that prints as the number is rounded.
        return self.in_type(f"CAST(CAST({value} AS VARCHAR) AS DECIMAL(38, {digits}))", call.type)

    def floor_or_ceil(self, call: Call) -> str:
        function = "floor" if call.function == "FLOOR" else "ceil"
        if len(call.args) == 1:
            value = self.render(call.args[0])
            return value if sql.is_integer(call.type) else self.in_type(f"{function}({value})", call.type)
        unit = _word(call, 1)
        if function == "ceil" or unit not in TRUNCATED_UNITS or call.type.root is TypeRoot.TIME:
            raise refuse(f"{call.function} of {call.args[0].type.with_nullable(True)} to {unit}")
        return self.in_type(f"date_trunc({text(unit.lower())}, {self.local(call.args[0])})", call.type)

    # -- time --------------------------------------------------------------------------------------

    def extract(self, call: Call) -> str:
        unit = _word(call, 0) if call.function == "EXTRACT" else call.function
        if unit not in EXTRACTED:
            raise refuse(f"EXTRACT of {unit}")
        return f"CAST({EXTRACTED[unit].format(self.local(call.args[-1]))} AS BIGINT)"

    def date_format(self, call: Call) -> str:
        point = call.args[0]
        if sql.is_string(point.type):
            raise refuse("DATE_FORMAT of text", hint="cast the text to TIMESTAMP")
        return f"strftime({self.local(point)}, {text(strftime_format(_constant(call, 1)))})"

    def to_timestamp(self, call: Call) -> str:
        usual = "yyyy-MM-dd" if call.type.root is TypeRoot.DATE else "yyyy-MM-dd HH:mm:ss"
        pattern = _constant(call, 1) if len(call.args) == 2 else usual
        value = self.render(call.args[0])
        read = f"try_strptime({value}, {text(strftime_format(pattern))})"
        # A stream reads further forms: for these the query fails instead of misreading them.
        fail = "CAST(error('a time in another form than the pattern has no exact counterpart in DuckDB') AS TIMESTAMP)"
        result = (
            f"CASE WHEN regexp_full_match({value}, {text(pattern_regex(pattern))}) THEN {read} "
            f"WHEN regexp_matches(trim({value}), {text(_OTHER_TIMES)}) THEN {fail} END"
        )
        return f"CAST({result} AS DATE)" if call.type.root is TypeRoot.DATE else result

    def to_timestamp_ltz(self, call: Call) -> str:
        value = call.args[0]
        precision = _number(call, 1) if len(call.args) == 2 and not sql.is_string(value.type) else 3
        if not sql.is_integer(value.type) or precision not in (0, 3):
            raise refuse("TO_TIMESTAMP_LTZ of this kind", hint="give whole seconds (0) or milliseconds (3)")
        unit, factor = ("s", 1_000_000) if precision == 0 else ("ms", 1_000)
        (low, high), epoch = timestamp_bounds(unit), self.render(value)
        read = f"make_timestamp(CAST({epoch} AS BIGINT) * {factor})"
        return f"CASE WHEN {epoch} BETWEEN {low} AND {high} THEN {read} END"

    def timestamp_add(self, call: Call) -> str:
        unit, count, point = _word(call, 0), self.render(call.args[1]), call.args[2]
        value = self.local(point)
        if point.type.root is TypeRoot.DATE:
            value = f"CAST({value} AS TIMESTAMP)"
        if call.args[1].type.root is TypeRoot.BIGINT:
            raise refuse("TIMESTAMPADD of a BIGINT", hint="cast the count to INT")
        if unit in UNIT_MONTHS:
            moved = _held(f"({value} + to_months({count} * {UNIT_MONTHS[unit]}))")
        elif unit in UNIT_MS:
            moved = _held(f"({value} + to_microseconds(CAST({count} AS BIGINT) * {UNIT_MS[unit] * 1000}))")
        else:
            raise refuse(f"TIMESTAMPADD of {unit}")
        return self.in_type(moved, call.type)

    def timestamp_diff(self, call: Call) -> str:
        unit, start, end = _word(call, 0), *(self.local(a) for a in call.args[1:])
        if unit in UNIT_MONTHS:
            months = f"date_sub('month', CAST({start} AS TIMESTAMP), CAST({end} AS TIMESTAMP))"
            return f"CAST({months} // {UNIT_MONTHS[unit]} AS INTEGER)"
        if unit not in UNIT_MS:
            raise refuse(f"TIMESTAMPDIFF of {unit}")
        return f"CAST((epoch_ms({end}) - epoch_ms({start})) // {UNIT_MS[unit]} AS INTEGER)"

    # -- text --------------------------------------------------------------------------------------

    def substring(self, call: Call) -> str:
        value, start, *rest = self.args(call)
        length = rest[0] if rest else f"length({value})"
        return (
            f"CASE WHEN {length} < 0 THEN NULL WHEN {start} > 0 THEN substr({value}, {start}, {length})"
            f" WHEN {start} = 0 THEN substr({value}, 1, {length}) WHEN length({value}) + {start} < 0 THEN ''"
            f" ELSE substr({value}, length({value}) + {start} + 1, {length}) END"
        )

    def trim_standard(self, call: Call) -> str:
        function = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[_word(call, 0)]
        return f"{function}({self.render(call.args[2])}, {self.render(call.args[1])})"

    def trim(self, call: Call) -> str:
        value, *rest = self.args(call)
        function = {"BTRIM": "trim"}.get(call.function, call.function.lower())
        return f"{function}({value}, {rest[0] if rest else text(' ')})"

    def split_index(self, call: Call) -> str:
        value, delimiter, index = self.args(call)
        if sql.is_integer(call.args[1].type):
            delimiter = f"CASE WHEN {delimiter} BETWEEN 1 AND 255 THEN chr(CAST({delimiter} AS INTEGER)) END"
        elif not isinstance(call.args[1], Literal) or call.args[1].value == "":
            raise refuse("SPLIT_INDEX with a delimiter that is empty or no constant")
        part = f"string_split({value}, {delimiter})[CAST({index} AS BIGINT) + 1]"
        return f"CASE WHEN ({delimiter}) IS NULL OR {index} < 0 OR {value} = '' THEN NULL ELSE {part} END"

    def regexp(self, call: Call) -> str:
        value, regex = self.render(call.args[0]), text(_constant(call, 1))
        if call.function == "REGEXP" and not _constant(call, 1):
            return f"CASE WHEN {value} IS NOT NULL THEN FALSE END"
        if call.function == "REGEXP":
            return f"regexp_matches({value}, {regex})"
        group = _number(call, 2) if len(call.args) == 3 else 0
        found = f"regexp_extract({value}, {regex}, {group})"
        return f"CASE WHEN regexp_matches({value}, {regex}) THEN {found} END"


# '2024-1-1', with or without a time: TO_TIMESTAMP and TO_DATE read it besides their pattern.
_OTHER_TIMES = r"^[0-9]{1,4}(-[0-9]{1,2}){0,2}([ T]+[0-9]{1,2}:.*)?$"


def _held(moment: str) -> str:
    """`moment`, or an error outside the years 0001 to 9999, as in a stream."""
    fail = "CAST(error('timestamp out of range') AS TIMESTAMP)"
    within = "x BETWEEN TIMESTAMP '0001-01-01 00:00:00' AND TIMESTAMP '9999-12-31 23:59:59.999999'"
    return f"list_transform([{moment}], lambda x: CASE WHEN x IS NULL OR {within} THEN x ELSE {fail} END)[1]"


def decimal_quotient(left: str, a: LogicalType, right: str, b: LogicalType, result: LogicalType) -> str:
    """`left / right` rounded half up to the scale of `result`, in whole numbers: DuckDB divides decimals as DOUBLE."""
    shift = result.scale + b.scale - a.scale
    if (
        shift < 0
        or max(a.precision + shift, a.precision + a.scale, b.precision + b.scale) > DECIMAL_PRECISION_MAX
    ):
        raise refuse(
            f"division of {a.with_nullable(True)} by {b.with_nullable(True)}", hint="cast to fewer digits"
        )
    return scaled_quotient(unscaled(left, a.scale), shift, unscaled(right, b.scale), result)


def unscaled(value: str, scale: int) -> str:
    """A decimal's digits as a whole number."""
    return f"CAST({value} * CAST(1{'0' * scale} AS DECIMAL({scale + 1}, 0)) AS HUGEINT)"


def scaled_quotient(dividend: str, shift: int, divisor: str, result: LogicalType) -> str:
    """`dividend * 10^shift / divisor`, all of them whole, as the unscaled digits of a decimal `result`."""
    whole = f"({dividend} * CAST(1{'0' * shift} AS HUGEINT))"
    half = f"(abs({divisor}) // 2 + abs({divisor}) % 2)"
    # Half up, away from zero: one more when twice the rest reaches the divisor.
    carry = f"CASE WHEN abs({whole} % {divisor}) >= {half} THEN sign({whole}) * sign({divisor}) ELSE 0 END"
    unit = f"CAST('0.{'1'.zfill(result.scale)}' AS DECIMAL({result.scale}, {result.scale}))"
    digits = f"CAST({whole} // {divisor} + {carry} AS DECIMAL({DECIMAL_PRECISION_MAX - result.scale}, 0))"
    return f"TRY_CAST({digits} * {unit} AS {type_name(result)})"


def _literal(call: Call, position: int) -> Literal:
    found = call.args[position]
    if not isinstance(found, Literal) or found.value is None:
        raise refuse(f"{call.function} with argument {position + 1} that is no constant")
    return found


def _number(call: Call, position: int) -> int:
    return int(_literal(call, position).value)  # type: ignore[arg-type]


def _constant(call: Call, position: int) -> str:
    return str(_literal(call, position).value)


def _word(call: Call, position: int) -> str:
    return _constant(call, position).upper().removeprefix("SQL_TSI_")


_Handler = Callable[[ExpressionLowering, Call], str]


def _of(names: tuple[str, ...], handler: _Handler) -> dict[str, _Handler]:
    return dict.fromkeys(names, handler)


_HANDLERS: dict[str, _Handler] = functools.reduce(
    lambda a, b: a | b,
    (
        _of(("CAST", "TRY_CAST"), ExpressionLowering.cast),
        _of(("AND", "OR"), ExpressionLowering.connective),
        _of(("||", "CONCAT"), ExpressionLowering.concatenation),
        _of(("CONCAT_WS",), ExpressionLowering.concatenation_with_separator),
        _of(("IN",), ExpressionLowering.is_in),
        _of(("CASE",), ExpressionLowering.case),
        _of(("COALESCE",), ExpressionLowering.coalesce),
        _of(("GREATEST", "LEAST"), ExpressionLowering.extreme),
        _of(("LIKE",), ExpressionLowering.like),
        _of(("FIELD",), ExpressionLowering.field),
        _of(("ITEM",), ExpressionLowering.item),
        _of(("LPAD", "RPAD"), ExpressionLowering.padded),
        _of(("ARRAY",), ExpressionLowering.array),
        _of(("+", "-"), ExpressionLowering.plus_or_minus),
        _of(("*",), ExpressionLowering.times),
        _of(("/",), ExpressionLowering.divided),
        _of(("%", "MOD"), ExpressionLowering.remainder),
        _of(("ROUND",), ExpressionLowering.rounded),
        _of(("FLOOR", "CEIL", "CEILING"), ExpressionLowering.floor_or_ceil),
        _of(
            ("EXTRACT", *(u for u in EXTRACTED if u not in ("DOY", "DAY", "DOW"))), ExpressionLowering.extract
        ),
        _of(("DATE_FORMAT",), ExpressionLowering.date_format),
        _of(("TO_TIMESTAMP", "TO_DATE"), ExpressionLowering.to_timestamp),
        _of(("TO_TIMESTAMP_LTZ",), ExpressionLowering.to_timestamp_ltz),
        _of(("TIMESTAMPADD",), ExpressionLowering.timestamp_add),
        _of(("TIMESTAMPDIFF",), ExpressionLowering.timestamp_diff),
        _of(("SUBSTRING", "SUBSTR"), ExpressionLowering.substring),
        _of(("TRIM",), ExpressionLowering.trim_standard),
        _of(("LTRIM", "RTRIM", "BTRIM"), ExpressionLowering.trim),
        _of(("SPLIT_INDEX",), ExpressionLowering.split_index),
        _of(("REGEXP", "REGEXP_EXTRACT"), ExpressionLowering.regexp),
    ),
)

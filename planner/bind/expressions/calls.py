"""Functions and operators over bound arguments: counts, implicit casts and result types by signature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from sqlstream import types as sql
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Call, Expression, Literal
from sqlstream.functions import AGGREGATE_FUNCTIONS, CALLABLE, SCALAR_FUNCTIONS
from sqlstream.functions.comparison import NESTED
from sqlstream.functions.placed import OVER_FUNCTIONS
from sqlstream.functions.signature import AggregateFunction, ScalarFunction
from sqlstream.planner.bind.expressions.casts import cast_to, checked, plain, reads_text, try_cast_text_to
from sqlstream.planner.dialect.habits import foreign_functions, function_rewrite
from sqlstream.planner.dialect.tokens import WINDOW_FUNCTIONS
from sqlstream.times import DAY_MS, UNIT_MS
from sqlstream.types import LogicalType, TypeRoot


def bind_call(name: str, args: tuple[Expression, ...], span: Span | None) -> Expression:
    """The scalar function or operator `name` over `args`, which are cast where its signature requires it. UserError for a call
    that does not type-check, and for one that no row could make work."""
    function = scalar_function(name, span)
    check_argument_count(function, len(args), span)
    if name == "NULLIF" and args[0].type.root in NESTED:
        is_equal = bind_call("=", args, span)
        return bind_call("CASE", (is_equal, Literal(None, sql.NULL), args[0]), span)
    if name in ("+", "-"):
        args = _with_time_of_day(args, span)
    elif name == "TIMESTAMPADD" and (moved := _moved_time_of_day(args, span)) is not None:
        return bind_call("+", moved, span)
    elif name == "TIMESTAMPDIFF":
        args = _as_points_of_one_day(args, span)
    result, wanted = resolve_types(function, args, span)
    convert = try_cast_text_to if function.tries_text else cast_to
    cast = tuple(convert(a, t, span) for a, t in zip(args, wanted, strict=True))
    refined = function.refine(result, cast) if function.refine else result
    return checked(Call(function.name, cast, refined, span))


def _with_time_of_day(args: tuple[Expression, ...], span: Span | None) -> tuple[Expression, ...]:
    """A DATE that is moved by an interval with a part of a day is a TIMESTAMP(6), as in TIMESTAMPADD."""
    if not any(_has_part_of_day(a) for a in args):
        return args
    return tuple(cast_to(a, sql.timestamp(6), span) if a.type.root is TypeRoot.DATE else a for a in args)


def _moved_time_of_day(
    args: tuple[Expression, ...], span: Span | None
) -> tuple[Expression, Expression] | None:
    """The time of day and the interval that TIMESTAMPADD(unit, count, time) adds to it; None for other arguments."""
    unit, count, moved = args
    length = UNIT_MS.get(str(unit.value)) if isinstance(unit, Literal) else None
    if moved.type.root is not TypeRoot.TIME or length is None:
        return None
    if length < UNIT_MS["SECOND"]:
        moved = cast_to(moved, sql.time(3), span)
    if count.type.root is TypeRoot.NULL:
        count = cast_to(count, sql.INT, span)
    # After whole days it is the same time.
    return moved, bind_call("*", (Literal(length % DAY_MS, sql.INTERVAL_DAY_TIME.not_null()), count), span)


def _as_points_of_one_day(args: tuple[Expression, ...], span: Span | None) -> tuple[Expression, ...]:
    """The arguments of TIMESTAMPDIFF; two times of day are those of the first day."""
    unit, *times = args
    if not times or any(t.type.root is not TypeRoot.TIME for t in times):
        return args
    return (unit, *(cast_to(t, sql.timestamp(3), span) for t in times))


def _has_part_of_day(expression: Expression) -> bool:
    """Whether an interval is made of a literal that is no number of whole days."""
    if expression.type.root is not TypeRoot.INTERVAL_DAY_TIME:
        return False
    if isinstance(expression, Literal):
        return isinstance(expression.value, int) and expression.value % DAY_MS != 0
    return isinstance(expression, Call) and any(_has_part_of_day(a) for a in expression.args)


_LIST_HINT = "list the functions there are with SHOW FUNCTIONS"

INTERNAL = frozenset(
    {
        *("FIELD", "ITEM", "KEY_BYTES", "NEGATE", "SINGLE_ROW", "VARIANT_TEXT"),
        *("JSON_ITEMS", "JSON_MEMBER", "JSON_MEMBERS", "ORDERED_ARRAY", "ORDERED_LIST"),
    }
)
"""Functions that are written as other syntax: `row.field`, `array[1]`, `-number`, parts of JSON aggregates, `(SELECT …)`,
CAST of a VARIANT, aggregates WITHIN GROUP, keys of nested types."""


def callable_names() -> list[str]:
    """The functions that a user can call by name, sorted."""
    return sorted(CALLABLE)


def is_builtin(name: str) -> bool:
    """Whether a function that users can call has this name, in capitals."""
    return name not in INTERNAL and (name in SCALAR_FUNCTIONS or name in CALLABLE)


def is_aggregate(name: str) -> bool:
    return name in AGGREGATE_FUNCTIONS


def called_function(name: str, args: tuple[Expression, ...], span: Span | None) -> Expression:
    """A function that the user called by name. UserError SS2005 with a suggestion when there is none."""
    if name in INTERNAL:
        _fail_unknown(name, span)
    return bind_call(name, args, span)


def scalar_function(name: str, span: Span | None) -> ScalarFunction:
    """The signature of function `name`. UserError SS2005 with a suggestion when there is none."""
    found = SCALAR_FUNCTIONS.get(name)
    if found is None:
        _fail_unknown(name, span)
    return found


def _fail_unknown(name: str, span: Span | None) -> NoReturn:
    raise unknown_function(name, span)


def unknown_function(name: str, span: Span | None, arguments: Sequence[str] | None = None) -> UserError:
    """The error for a missing function, to be raised: SS3001 where Flink has it, else SS2005 with a suggestion, which has
    the texts of the call's `arguments` where they are known."""
    if name in OVER_FUNCTIONS:
        hint = f"write {OVER_FUNCTIONS[name].form}"
        return UserError("SS3004", f"{name}() needs an OVER", span=span, hint=hint)
    if name in GROUP_WINDOW_FUNCTIONS:
        call = name.split("_")[0]
        hint = f"GROUP BY {call}(time, INTERVAL '10' MINUTE), and {call}_START(…) of the same arguments in SELECT"
        if call == "CUMULATE":
            hint = (
                "use FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(time), …)) and GROUP BY window_start, window_end"
            )
        return UserError("SS3440", f"{name} has no place here", span=span, hint=hint)
    if name in ("GROUPING", "GROUPING_ID", "GROUP_ID"):
        hint = "use it in a SELECT with GROUP BY, in SELECT, HAVING or ORDER BY"
        return UserError("SS3441", f"{name} has no place here", span=span, hint=hint)
    if name == "SOURCE_WATERMARK":
        hint = "say how late rows may come: WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
        return UserError("SS3001", "no connector has watermarks of its own", span=span, hint=hint)
    if is_operator(name) and (operator := SCALAR_FUNCTIONS.get(name)) is not None:
        hint = f"write {operator.usage}"
        return UserError("SS2005", f"{name} is an operator and no function", span=span, hint=hint)
    if name in FLINK_FUNCTIONS:
        return UserError("SS3001", f"function {name} is not supported yet", span=span, hint=_LIST_HINT)
    message, hint = f'function "{name}" does not exist', _closest(name, arguments)
    return UserError("SS2005", message, span=span, hint=hint)


def _closest(name: str, arguments: Sequence[str] | None) -> str:
    """A hint with the function that was probably meant, also for (nearly) a name of another dialect."""
    import difflib

    if rewrite := function_rewrite(name, arguments):
        return f"use {rewrite}"
    close = difflib.get_close_matches(name, [*callable_names(), *foreign_functions()], n=1, cutoff=0.72)
    if not close:
        return _LIST_HINT
    rewrite = function_rewrite(close[0], None)
    return f"use {rewrite}" if rewrite else f'did you mean "{close[0]}"?'


def check_argument_count(function: ScalarFunction | AggregateFunction, count: int, span: Span | None) -> None:
    """UserError SS2006 when `function` does not take `count` arguments."""
    if function.args_min <= count <= function.args_max:
        return
    if function.args_min == function.args_max:
        wanted = _arguments(function.args_min)
    elif count > function.args_max:
        wanted = f"at most {_arguments(function.args_max)}"
    elif function.args_max > 100:
        wanted = f"at least {_arguments(function.args_min)}"
    else:
        wanted = f"{function.args_min} to {_arguments(function.args_max)}"
    raise UserError(
        "SS2006", f"{function.name} takes {wanted}, not {count}", span=span, hint=f"write {function.usage}"
    )


def _arguments(count: int) -> str:
    if count == 0:
        return "no arguments"
    return f"{count} argument{'' if count == 1 else 's'}"


def resolve_types(
    function: ScalarFunction | AggregateFunction, args: tuple[Expression, ...], span: Span | None
) -> tuple[LogicalType, tuple[LogicalType, ...]]:
    """The result type, and the types to cast the arguments to."""
    types = tuple(a.type.without_time_attribute() for a in args)
    coerced = function.coerce(types)
    if coerced is not None:
        tries = isinstance(function, ScalarFunction) and function.tries_text
        wanted = tuple(
            c.with_nullable(t.nullable or (tries and reads_text(t, c)))
            for c, t in zip(coerced, types, strict=True)
        )
        result = function.result_type(wanted)
        if result is not None:
            return result, wanted
    if is_operator(function.name):
        # The conditions of a CASE are BOOLEAN by now, so the types of its values are at fault.
        values = (*types[1::2], types[-1]) if function.name == "CASE" else types
        shown = " and ".join(dict.fromkeys(plain(t) for t in values))
        code, message = "SS2008", f"cannot apply {function.name} to {shown}"
        hint = _operator_hint(function.name, types, args)
    elif function.name in _SIGNS:
        sign, hint = _SIGNS[function.name]
        shown = " and ".join(plain(t) for t in types)
        code, message = "SS2008", f"cannot apply {sign} to {shown}"
    else:
        shown = ", ".join(_shown_argument(a, t) for a, t in zip(args, types, strict=True))
        code, message = "SS2006", f"{function.name} cannot be applied to ({shown})"
        hint = f"write {function.usage}; CAST an argument whose type does not fit"
    raise UserError(code, message, span=span, hint=hint)


_SIGNS = {
    "NEGATE": ("-", "CAST the value to a number"),
    "ITEM": (
        "[ ]",
        "write array[position] with a whole number from 1 on, map[key] with a key of the map's type, or variant['key']",
    ),
}
"""Functions that are written as a sign: the sign, and what it takes."""


def _shown_argument(argument: Expression, t: LogicalType) -> str:
    """The type of an argument, or the word that it is, such as the unit of EXTRACT."""
    is_word = isinstance(argument, Literal) and t == sql.STRING.not_null()
    return str(argument.value) if is_word and isinstance(argument, Literal) else plain(t)


_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">=", "IN", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"})


def _operator_hint(name: str, types: tuple[LogicalType, ...], args: tuple[Expression, ...]) -> str:
    if name in ("AND", "OR", "NOT"):
        return "compare each value with something, as in a > 0"
    roots = {t.root for t in types}
    texts = [sql.is_string(t) for t in types]
    if name == "||" and TypeRoot.ARRAY in roots:
        return "write ARRAY_CONCAT(array1, array2) to join arrays"
    if name == "||":
        if TypeRoot.BOOLEAN in roots:
            return "write OR between conditions; || joins texts"
        return "write CAST(value AS STRING) for what is no text; between conditions write OR"
    if name in _COMPARISONS and roots & NESTED:
        return "arrays, maps and rows of one type are equal or not, and have no order: compare an element or a field"
    if name == "+" and all(texts):
        return "write || to join texts"
    if name in ("+", "-") and TypeRoot.DATE in roots and roots & _WHOLE:
        return f"write date {name} INTERVAL '1' DAY, or TIMESTAMPADD(DAY, days, date)"
    if (
        name == "+"
        and len(types) == 2
        and roots <= {TypeRoot.DATE, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ}
    ):
        return (
            "times are not added: add an interval such as INTERVAL '1' DAY, or use TIMESTAMPDIFF(unit, a, b)"
        )
    if name in _COMPARISONS and any(texts) and any(sql.is_numeric(t) for t in types):
        literals = [a for a, is_text in zip(args, texts, strict=True) if is_text and isinstance(a, Literal)]
        if literals and all(_is_number(str(a.value)) for a in literals):
            return f"write {literals[0].value} without quotes"
        if literals:
            return "write CAST(number AS STRING) to compare as texts; the name of a column stands in backticks, not in quotes"
        if any(isinstance(a, Literal) and not is_text for a, is_text in zip(args, texts, strict=True)):
            return "put the number in quotes to compare as texts, or CAST the text to a number"
    if any(sql.is_interval(t) for t in types):
        if name in ("*", "/"):
            milliseconds = "CAST(CAST(interval AS BIGINT) * 0.5 AS BIGINT) is in milliseconds, or months"
            return f"an interval is multiplied by a whole number; {milliseconds}"
        return "months differ in their days: add one interval after the other to a time"
    if name == "-" and all(sql.is_timestamp(t) or t.root is TypeRoot.DATE for t in types):
        return "use TIMESTAMPDIFF(unit, earlier, later)"
    return "CAST one side to the other's type"


_WHOLE = {TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT}


def _is_number(text: str) -> bool:
    return text.removeprefix("-").replace(".", "", 1).isdigit()


def is_operator(name: str) -> bool:
    """Whether `name` is written between or around its operands rather than before parentheses."""
    return name in _WORD_OPERATORS or not name.replace("_", "").isalnum()


_WORD_OPERATORS = frozenset({"AND", "OR", "NOT", "IN", "LIKE", "CASE"})


# The functions of Flink SQL by name, so that errors distinguish a function that is not built from one that is
# unknown.


FLINK_FUNCTIONS = frozenset({
    "ABS", "ACOS", "ARRAY_AGG", "ARRAY_APPEND", "ARRAY_CONCAT", "ARRAY_CONTAINS", "ARRAY_DISTINCT",
    "ARRAY_EXCEPT", "ARRAY_INTERSECT", "ARRAY_JOIN", "ARRAY_MAX", "ARRAY_MIN", "ARRAY_POSITION",
    "ARRAY_PREPEND", "ARRAY_REMOVE", "ARRAY_REVERSE", "ARRAY_SLICE", "ARRAY_SORT", "ARRAY_UNION", "ASCII",
    "ASIN", "ATAN", "ATAN2", "AVG", "BIN", "BITMAP_AND", "BITMAP_ANDNOT", "BITMAP_AND_AGG",
    "BITMAP_AND_CARDINALITY_AGG", "BITMAP_BUILD", "BITMAP_BUILD_AGG", "BITMAP_BUILD_CARDINALITY_AGG",
    "BITMAP_CARDINALITY", "BITMAP_FROM_BYTES", "BITMAP_OR", "BITMAP_OR_AGG", "BITMAP_OR_CARDINALITY_AGG",
    "BITMAP_TO_ARRAY", "BITMAP_TO_BYTES", "BITMAP_TO_STRING", "BITMAP_XOR", "BITMAP_XOR_AGG",
    "BITMAP_XOR_CARDINALITY_AGG", "BTRIM", "CARDINALITY", "CAST", "CEIL", "CEILING", "CHARACTER_LENGTH",
    "CHAR_LENGTH", "CHR", "COALESCE", "COLLECT", "CONCAT", "CONCAT_WS", "CONVERT_TZ", "COS", "COSH", "COT",
    "COUNT", "CUME_DIST", "CURRENT_DATABASE", "CURRENT_DATE", "CURRENT_ROW_TIMESTAMP", "CURRENT_TIME",
    "CURRENT_TIMESTAMP", "CURRENT_WATERMARK", "DATE_FORMAT", "DAYOFMONTH", "DAYOFWEEK", "DAYOFYEAR",
    "DECODE", "DEGREES", "DENSE_RANK", "E", "ELEMENT", "ELT", "ENCODE", "ENDSWITH", "EXP", "EXTRACT",
    "FIRST_VALUE", "FLOOR", "FROM_BASE64", "FROM_UNIXTIME", "GREATEST", "GROUPING", "GROUPING_ID",
    "GROUP_ID", "HEX", "HOUR", "IF", "IFNULL", "INET_ATON", "INET_NTOA", "INITCAP", "INSTR", "IS_ALPHA",
    "IS_DECIMAL", "IS_DIGIT", "IS_VALID_UTF8", "JSON", "JSON_ARRAY", "JSON_ARRAYAGG", "JSON_EXISTS",
    "JSON_LENGTH", "JSON_OBJECT", "JSON_OBJECTAGG", "JSON_QUERY", "JSON_QUOTE", "JSON_STRING", "JSON_TYPE",
    "JSON_UNQUOTE", "JSON_VALUE", "LAG", "LAST_VALUE", "LEAD", "LEAST", "LEFT", "LISTAGG", "LN",
    "LOCALTIME", "LOCALTIMESTAMP", "LOCATE", "LOG", "LOG10", "LOG2", "LOWER", "LPAD", "LTRIM",
    "MAKE_VALID_UTF8", "MAP_ENTRIES", "MAP_FROM_ARRAYS", "MAP_KEYS", "MAP_UNION", "MAP_VALUES", "MAX",
    "MD5", "MIN", "MINUTE", "MONTH", "NOW", "NTILE", "NULLIF", "OBJECT_OF", "OBJECT_UPDATE", "OVERLAY",
    "PARSE_JSON", "PARSE_URL", "PERCENTILE", "PERCENT_RANK", "PI", "POSITION", "POWER", "PRINTF",
    "PROCTIME", "QUARTER", "RADIANS", "RAND", "RAND_INTEGER", "RANK", "REGEXP", "REGEXP_COUNT",
    "REGEXP_EXTRACT", "REGEXP_EXTRACT_ALL", "REGEXP_INSTR", "REGEXP_REPLACE", "REGEXP_SUBSTR", "REPEAT",
    "REPLACE", "REVERSE", "RIGHT", "ROUND", "ROW", "ROW_NUMBER", "RPAD", "RTRIM", "SECOND", "SHA1", "SHA2",
    "SHA224", "SHA256", "SHA384", "SHA512", "SIGN", "SIN", "SINH", "SPLIT", "SPLIT_INDEX", "SQRT",
    "STARTSWITH", "STDDEV_POP", "STDDEV_SAMP", "STR_TO_MAP", "SUBSTR", "SUBSTRING", "SUM", "TAN", "TANH",
    "TIMESTAMPADD", "TIMESTAMPDIFF", "TO_BASE64", "TO_DATE", "TO_TIMESTAMP", "TO_TIMESTAMP_LTZ",
    "TRANSLATE", "TRIM", "TRUNCATE", "TRY_CAST", "TRY_PARSE_JSON", "TYPEOF", "UNHEX", "UNIX_TIMESTAMP",
    "UPPER", "URL_DECODE", "URL_ENCODE", "UUID", "VARIANCE", "VAR_POP", "VAR_SAMP", "WEEK", "YEAR",
})  # fmt: skip

GROUP_WINDOW_FUNCTIONS = frozenset(
    f"{kind}{suffix}"
    for kind in WINDOW_FUNCTIONS
    for suffix in ("", "_START", "_END", "_ROWTIME", "_PROCTIME")
)
"""Group windows of old Flink versions, written in GROUP BY and SELECT."""

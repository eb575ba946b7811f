"""Functions and operators over bound arguments: counts, implicit casts and result types by signature."""

from __future__ import annotations

from typing import NoReturn

from planner.bind.casts import cast_to, plain, reads_text, try_cast_text_to
from planner.bind.flink_functions import FLINK_FUNCTIONS, FOREIGN_FUNCTIONS, GROUP_WINDOW_FUNCTIONS
from sqlstream import types as sql
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Call, Expression
from sqlstream.functions import AGGREGATE_FUNCTIONS, SCALAR_FUNCTIONS
from sqlstream.functions.json import REWRITTEN_AGGREGATES
from sqlstream.functions.signature import AggregateFunction, ScalarFunction
from sqlstream.types import LogicalType, TypeRoot


def bind_call(name: str, args: tuple[Expression, ...], span: Span | None) -> Expression:
    """The scalar function or operator `name` over `args`, which are cast where its signature requires it."""
    function = scalar_function(name, span)
    check_argument_count(function, len(args), span)
    result, wanted = resolve_types(function, args, span)
    convert = try_cast_text_to if function.tries_text else cast_to
    cast = tuple(convert(a, t, span) for a, t in zip(args, wanted, strict=True))
    refined = function.refine(result, cast) if function.refine else result
    return Call(function.name, cast, refined, span)


_LIST_HINT = "list the functions there are with SHOW FUNCTIONS"

INTERNAL = frozenset(
    {"FIELD", "ITEM", "NEGATE", "JSON_ITEMS", "JSON_MEMBER", "JSON_MEMBERS", "SINGLE_ROW", "VARIANT_TEXT"}
)
"""Functions that are written as other syntax: `row.field`, `array[1]`, `-number`, parts of JSON aggregates, `(SELECT …)`,
CAST of a VARIANT."""


def callable_names() -> list[str]:
    """The functions that a user can call by name, sorted."""
    known = (*SCALAR_FUNCTIONS, *AGGREGATE_FUNCTIONS, *REWRITTEN_AGGREGATES)
    names = (n for n in known if not is_operator(n) and n not in INTERNAL)
    return sorted(names)


def is_builtin(name: str) -> bool:
    """Whether a function that users can call has this name, in capitals."""
    return name not in INTERNAL and (
        name in SCALAR_FUNCTIONS or name in AGGREGATE_FUNCTIONS or name in REWRITTEN_AGGREGATES
    )


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


def unknown_function(name: str, span: Span | None) -> UserError:
    """The error for a missing function, to be raised: SS3001 where Flink has it, else SS2005 with a suggestion."""
    if name == "ROW_NUMBER":
        hint = "write ROW_NUMBER() OVER (PARTITION BY key ORDER BY column)"
        return UserError("SS3004", "ROW_NUMBER() needs an OVER", span=span, hint=hint)
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
    if name in FLINK_FUNCTIONS:
        return UserError("SS3001", f"function {name} is not supported yet", span=span, hint=_LIST_HINT)
    return UserError("SS2005", f'function "{name}" does not exist', span=span, hint=_closest(name))


def _closest(name: str) -> str:
    """A hint with the function that was probably meant, also for (nearly) a name of another dialect."""
    import difflib

    close = difflib.get_close_matches(name, [*callable_names(), *FOREIGN_FUNCTIONS], n=1)
    if not close:
        return _LIST_HINT
    return (
        f"use {FOREIGN_FUNCTIONS[close[0]]}"
        if close[0] in FOREIGN_FUNCTIONS
        else f'did you mean "{close[0]}"?'
    )


def check_argument_count(function: ScalarFunction | AggregateFunction, count: int, span: Span | None) -> None:
    """UserError SS2006 when `function` does not take `count` arguments."""
    if function.args_min <= count <= function.args_max:
        return
    if function.args_min == function.args_max:
        wanted = _arguments(function.args_min)
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
        hint = _operator_hint(function.name, types)
    else:
        shown = ", ".join(plain(t) for t in types)
        code, message = "SS2006", f"{function.name} cannot be applied to ({shown})"
        hint = f"write {function.usage}; CAST an argument whose type does not fit"
    raise UserError(code, message, span=span, hint=hint)


def _operator_hint(name: str, types: tuple[LogicalType, ...]) -> str:
    if name in ("AND", "OR", "NOT"):
        return "compare each value with something, as in a > 0"
    if name == "-" and all(sql.is_timestamp(t) or t.root is TypeRoot.DATE for t in types):
        return "use TIMESTAMPDIFF(unit, earlier, later)"
    return "CAST one side to the other's type"


def is_operator(name: str) -> bool:
    """Whether `name` is written between or around its operands rather than before parentheses."""
    return name in _WORD_OPERATORS or not name.replace("_", "").isalnum()


_WORD_OPERATORS = frozenset({"AND", "OR", "NOT", "IN", "LIKE", "CASE"})

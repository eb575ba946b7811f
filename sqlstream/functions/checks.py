"""Building blocks of checks: what a signature tells of a call's arguments before there is a row.

The binder calls a check with the constants that it has computed in their places. Some constants only the runtime reads, where a
wrong one is an error of the first row: those that the binder cannot compute (`UPPER('(')`), and those of a subquery.
"""

from __future__ import annotations

from sqlstream.errors import UserError
from sqlstream.expressions import Call, Expression, Literal, LiteralValue, walk
from sqlstream.functions.signature import IS_DETERMINISTIC, Check
from sqlstream.text.regular_expressions import java_regex


def unsupported(call: Call, reason: str, hint: str = "") -> UserError:
    """SS3102, to be raised, for a call that type-checks but that this engine does not compute."""
    return UserError("SS3102", f"{call.function} is not supported {reason}", hint=hint)


def not_constant(call: Call, position: int) -> UserError:
    """SS3101, to be raised, for an argument that must be a constant."""
    return UserError(
        "SS3101",
        f"argument {position + 1} of {call.function} is not a constant",
        hint="write a literal there",
    )


def is_constant(expression: Expression) -> bool:
    """Whether an expression has the same value for all rows of all batches, so that it is computed once."""
    for node in walk(expression):
        if isinstance(node, Call):
            if node.ref is not None or not IS_DETERMINISTIC.get(node.function) or not node.args:
                return False
        elif not isinstance(node, Literal):
            return False
    return True


def constant(call: Call, position: int) -> Literal | None:
    """An argument that must be a constant; None where only the runtime can compute it. UserError SS3101 for another one."""
    arg = call.args[position]
    if isinstance(arg, Literal):
        return arg
    if not is_constant(arg):
        raise not_constant(call, position)
    return None


def literals(call: Call, *positions: int) -> list[LiteralValue] | None:
    """The values of these arguments (of those that the call has); None unless all are literals, and none is NULL."""
    args = [call.args[p] for p in positions if p < len(call.args)]
    values: list[LiteralValue] = [a.value for a in args if isinstance(a, Literal) and a.value is not None]
    return values if len(values) == len(args) else None


def parameters(call: Call) -> list[LiteralValue] | None:
    """The values of all arguments but the first; None unless all are literals."""
    values = [a.value for a in call.args[1:] if isinstance(a, Literal)]
    return values if len(values) == len(call.args) - 1 else None


def constant_at(*positions: int) -> Check:
    """These arguments (of those that the call has) must be constants."""

    def check(call: Call) -> None:
        for position in positions:
            if position < len(call.args):
                constant(call, position)

    return check


def word_among(call: Call, value: LiteralValue, words: tuple[str, ...], relation: str) -> str:
    """A word of a function's syntax, in capitals. UserError SS3102 when it is none of `words`."""
    word = str(value).upper()
    if word not in words:
        raise unsupported(call, f"{relation} {word}", f"use one of {', '.join(words)}")
    return word


def one_of(position: int, words: tuple[str, ...], relation: str) -> Check:
    """This argument is a word of the function's syntax, such as a unit."""

    def check(call: Call) -> None:
        found = constant(call, position)
        if found is not None:
            word_among(call, found.value, words, relation)

    return check


def regex_at(position: int, *, beside: int | None = None) -> Check:
    """This argument, where it is a literal, is a regular expression. It is looked at once for all rows only when the argument
    `beside` is a literal too."""
    positions = (position,) if beside is None else (position, beside)

    def check(call: Call) -> None:
        found = literals(call, *positions)
        if found is not None:
            java_regex(str(found[0]))

    return check

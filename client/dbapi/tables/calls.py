"""Calls of SQL's functions by their names, in the form that SQL has for each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlstream.client.dbapi.errors import ProgrammingError
from sqlstream.client.dbapi.tables.expressions import (
    SUM,
    Aggregation,
    Computed,
    Expression,
    Value,
    Written,
    at,
    joined,
    listed,
    lit,
)
from sqlstream.client.dbapi.tables.text import word
from sqlstream.errors import did_you_mean
from sqlstream.functions import AGGREGATE_FUNCTIONS, CALLABLE, REWRITTEN_AGGREGATES
from sqlstream.functions.placed import OVER_FUNCTIONS
from sqlstream.functions.signature import DescribedFunction

METHODS = ("CAST", "TRY_CAST")
"""Functions that are methods of an expression."""

_WITHOUT_PARENTHESES = ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP")

Parts = Sequence["str | Written"]
R = TypeVar("R", bound=Expression)


def functions() -> dict[str, DescribedFunction]:
    """The functions that have a call, by the names that Python has for them."""
    found = {**CALLABLE, **OVER_FUNCTIONS}
    return {python_name(name): f for name, f in found.items() if name not in METHODS}


def python_name(name: str) -> str:
    """The name in Python.

    >>> python_name("LPAD"), python_name("IF")
    ('lpad', 'if_')
    """
    return "if_" if name == "IF" else name.lower()


def is_aggregate(name: str) -> bool:
    return name in AGGREGATE_FUNCTIONS or name in REWRITTEN_AGGREGATES or name in OVER_FUNCTIONS


def function_called(python_name: str) -> Callable[..., Expression]:
    """What makes calls of a function. AttributeError for a name that none has."""
    found = functions()
    if python_name not in found:
        hint = did_you_mean(python_name, tuple(found))
        raise AttributeError(f"SQL has no function {python_name!r}{': ' * bool(hint)}{hint}")
    function = found[python_name]
    if is_aggregate(function.name):
        called: Callable[..., Expression] = functools.partial(_aggregate, function.name)
    elif function.name in _FORMS:
        form = _FORMS[function.name]

        def called(*arguments: Value, **named: Value) -> Expression:
            return Computed(tuple(form(*arguments, **named)))
    else:
        called = functools.partial(_scalar, function.name)
    called.__doc__ = f"{function.usage}: {function.description}"
    return called


def _scalar(name: str, /, *arguments: Value) -> Expression:
    return Computed((f"{name}(", *listed(arguments), ")"))


def _aggregate(name: str, /, *arguments: Value, distinct: bool = False) -> Aggregation:
    given: Parts = ("*",) if name == "COUNT" and not arguments else listed(arguments)
    if name == "JSON_OBJECTAGG":
        given = _pairs(arguments)
    return Aggregation((f"{name}(", "DISTINCT " * distinct, *given, ")"))


# -- forms of their own ------------------------------------------------------------------------------


def _extract(unit: str, temporal: Value) -> Parts:
    return f"EXTRACT({word(unit)} FROM ", lit(temporal), ")"


def _to_unit(name: str) -> Callable[..., Parts]:
    def form(value: Value, unit: str = "") -> Parts:
        return f"{name}(", lit(value), f" TO {word(unit)})" if unit else ")"

    return form


def _of_unit(name: str) -> Callable[..., Parts]:
    def form(unit: str, *arguments: Value) -> Parts:
        return f"{name}({word(unit)}, ", *listed(arguments), ")"

    return form


def _trim(string: Value, chars: Value = None, *, side: str = "BOTH") -> Parts:
    if chars is None and side == "BOTH":
        return "TRIM(", lit(string), ")"
    characters: Parts = () if chars is None else (at(chars, SUM), " ")
    return f"TRIM({word(side)} ", *characters, "FROM ", lit(string), ")"


def _position(string: Value, within: Value) -> Parts:
    return "POSITION(", at(string, SUM), " IN ", at(within, SUM), ")"


def _overlay(string: Value, placing: Value, start: Value, length: Value = None) -> Parts:
    rest: Parts = () if length is None else (" FOR ", lit(length))
    return "OVERLAY(", lit(string), " PLACING ", lit(placing), " FROM ", lit(start), *rest, ")"


def _bracketed(name: str) -> Callable[..., Parts]:
    def form(*values: Value) -> Parts:
        return f"{name}[", *listed(values), "]"

    return form


def _pairs(values: Sequence[Value]) -> Parts:
    if len(values) % 2:
        raise ProgrammingError("a JSON object has a value for each key", code="SS3447")
    keys, items = values[::2], values[1::2]
    pairs = [Computed((lit(k), " VALUE ", lit(v))) for k, v in zip(keys, items, strict=True)]
    return joined(pairs)


def _json_object(*pairs: Value) -> Parts:
    return "JSON_OBJECT(", *_pairs(pairs), ")"


_FORMS: dict[str, Callable[..., Parts]] = {
    **{name: (lambda name=name: (name,)) for name in _WITHOUT_PARENTHESES},
    **{name: _to_unit(name) for name in ("FLOOR", "CEIL")},
    **{name: _of_unit(name) for name in ("TIMESTAMPADD", "TIMESTAMPDIFF")},
    **{name: _bracketed(name) for name in ("ARRAY", "MAP")},
    "EXTRACT": _extract,
    "JSON_OBJECT": _json_object,
    "OVERLAY": _overlay,
    "POSITION": _position,
    "TRIM": _trim,
}

FORMS_IN_PYTHON = {
    "EXTRACT": "unit: str, temporal: Value, /",
    "FLOOR": 'value: Value, unit: str = "", /',
    "CEIL": 'value: Value, unit: str = "", /',
    "OVERLAY": "string: Value, placing: Value, start: Value, length: Value = None, /",
    "POSITION": "string: Value, within: Value, /",
    "TIMESTAMPADD": "unit: str, count: Value, timepoint: Value, /",
    "TIMESTAMPDIFF": "unit: str, timepoint1: Value, timepoint2: Value, /",
    "TRIM": 'string: Value, chars: Value = None, /, *, side: str = "BOTH"',
}
"""The parameters of those whose usage in SQL does not tell them."""

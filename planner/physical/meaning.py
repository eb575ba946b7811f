"""What the rows of an operator mean, whatever they are called and however they are computed.

Two plans whose operators have equal meanings give equal rows for equal input. A meaning leaves out names of columns, their order
and number, positions in the text, options of tables, and which operator computes an expression.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from sqlstream.cancellation import check_not_given_up
from sqlstream.expressions import (
    AggregateCall,
    Call,
    Expression,
    InputRef,
    SortKey,
    conjuncts,
    inputs_of,
)
from sqlstream.function_ref import FunctionRef
from sqlstream.functions.determinism import is_deterministic
from sqlstream.types import LogicalType, TypeRoot

DIGITS = 32

OF_LOCAL_TIME = frozenset(
    ("FROM_UNIXTIME", "UNIX_TIMESTAMP", "LOCALTIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIME")
)
"""Functions that read the session's time zone without a TIMESTAMP_LTZ."""


class Condition(NamedTuple):
    """`reads` are the columns that decide whether it is TRUE; None where something else does, such as the time."""

    meaning: str
    reads: frozenset[str] | None


@dataclasses.dataclass(frozen=True)
class Meaning:
    """`base` and `conditions` say which rows there are: those of `base` for which every condition is TRUE. `columns` say what
    each column holds of such a row."""

    base: str
    columns: tuple[str, ...]
    conditions: frozenset[Condition] = frozenset()

    @property
    def rows(self) -> str:
        conditions = sorted(c.meaning for c in self.conditions)
        return digest_of("filter", self.base, conditions) if conditions else self.base

    def without(self, conditions: frozenset[Condition]) -> Meaning:
        return dataclasses.replace(self, conditions=self.conditions - conditions)

    def conditions_on(self, columns: Iterable[str]) -> frozenset[Condition]:
        """Those that are TRUE for all rows, or for none, that have the same values in these columns."""
        known = frozenset(columns)
        return frozenset(c for c in self.conditions if c.reads and c.reads <= known)

    def of(self, columns: Iterable[int]) -> list[str]:
        """What these columns hold; "" for -1."""
        return [self.columns[c] if c >= 0 else "" for c in columns]


def digest_of(*parts: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()[:DIGITS]


def type_text(t: LogicalType) -> str:
    return str(t.without_time_attribute())


def expression_meaning(expression: Expression, columns: Sequence[str], time_zone: str) -> str:
    """What an expression over columns of these meanings holds; that of a column is its own. `time_zone` is the session's."""
    check_not_given_up()
    if isinstance(expression, InputRef):
        return columns[expression.index]
    if isinstance(expression, Call):
        args = [expression_meaning(a, columns, time_zone) for a in expression.args]
        zone = [time_zone] if _reads_time_zone(expression) else []
        name = expression.function if expression.ref is None else _user_function(expression.ref)
        return digest_of("call", name, args, type_text(expression.type), *zone)
    # JSON has one number for 1 and 1.0, and none for NaN.
    return digest_of("literal", repr(expression.value), type_text(expression.type))


def _user_function(ref: FunctionRef) -> list[str]:
    """What a user's function is, whatever SQL calls it: its code is no part of it, so that a corrected one goes on from the
    state."""
    return ["python", ref.module, ref.attribute, str(ref.accumulator_type or "")]


def _reads_time_zone(call: Call) -> bool:
    types = (call.type, *(a.type for a in call.args))
    return call.function in OF_LOCAL_TIME or any(has_instants(t) for t in types)


def has_instants(t: LogicalType) -> bool:
    """Whether a value of the type has a TIMESTAMP_LTZ at any depth."""
    nested = (*(n for n in (t.element, t.key) if n is not None), *(f.type for f in t.fields))
    return t.root is TypeRoot.TIMESTAMP_LTZ or any(has_instants(n) for n in nested)


def call_meaning(call: AggregateCall, meaning: Meaning) -> str:
    filtered = meaning.of([call.filter])
    name = call.function if call.ref is None else _user_function(call.ref)
    return digest_of(
        "aggregate", name, call.is_distinct, meaning.of(call.args), filtered, type_text(call.type)
    )


def order_meaning(order: Iterable[SortKey], meaning: Meaning) -> list[Any]:
    return [[meaning.columns[k.column], k.is_descending, k.is_nulls_first] for k in order]


def condition_meanings(
    condition: Expression | None, columns: Sequence[str], time_zone: str
) -> frozenset[Condition]:
    return frozenset(_condition(part, columns, time_zone) for part in conjuncts(condition))


def _condition(part: Expression, columns: Sequence[str], time_zone: str) -> Condition:
    reads = frozenset(columns[i] for i in inputs_of(part)) if is_deterministic(part) else None
    return Condition(expression_meaning(part, columns, time_zone), reads)

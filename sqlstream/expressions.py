"""Resolved, typed expressions: what the binder makes, rules rewrite, plans carry and the runtime compiles.

An expression names its inputs by column index and carries its type; there is no name left to resolve. The tree is data
(msgspec), so it crosses the wire inside specs. Positions are no part of its meaning: expressions that differ in nothing
else are equal, so that sub-plans are shared and columns are computed once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from sqlstream.cancellation import check_not_given_up
from sqlstream.errors import Span
from sqlstream.function_ref import FunctionRef
from sqlstream.types import BINARY_ROOTS, BOOLEAN, LogicalType

_FRAMES_MAX = 6_000
"""Python's limit on nested calls in every process that has expressions, which are read, rewritten and compiled by recursion.
Generated statements nest some hundred levels, of up to fifteen calls each. A thread's stack of 8 MiB holds twice as many."""
sys.setrecursionlimit(max(sys.getrecursionlimit(), _FRAMES_MAX))

LiteralValue = bool | int | float | str | None


class InputRef(msgspec.Struct, frozen=True, tag_field="node", tag="input"):
    """Column `index` of the operator's input row (for a join: left columns, then right columns)."""

    index: int
    type: LogicalType

    def __str__(self) -> str:
        return f"${self.index}"


def references(types: Sequence[LogicalType], columns: Iterable[int] | None = None) -> tuple[InputRef, ...]:
    """The columns of an input with these types: all of them, or those with these numbers."""
    return tuple(InputRef(c, types[c]) for c in (range(len(types)) if columns is None else columns))


class Literal(msgspec.Struct, frozen=True, eq=False, tag_field="node", tag="literal"):
    """A constant. -0.0 and 0.0 are two.

    `value` by type: DECIMAL a str; DATE days since the epoch; TIME milliseconds of the day; TIMESTAMP and TIMESTAMP_LTZ
    *nanoseconds* since the epoch whatever the precision (beyond 64 bits, as in the year 9999, a str of their digits);
    INTERVAL DAY TO SECOND milliseconds; INTERVAL YEAR TO MONTH months; BINARY and BYTES a str of hex digits; the others the
    Python value. NULL is None with the type it was given.
    """

    value: LiteralValue
    type: LogicalType

    def __eq__(self, other: object) -> bool:
        if type(other) is not Literal or self.value != other.value or self.type != other.type:
            return False
        return not isinstance(self.value, float) or repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash((self.value, self.type))

    def __str__(self) -> str:
        if self.value is None:
            return "NULL"
        if isinstance(self.value, bool):
            return str(self.value).upper()
        if isinstance(self.value, int | float):
            return str(self.value)
        if self.type.root in BINARY_ROOTS:
            return f"x'{self.value}'"
        return "'" + self.value.replace("'", "''") + "'"


class Call(msgspec.Struct, frozen=True, eq=False, omit_defaults=True, tag_field="node", tag="call"):
    """A scalar function or operator applied to arguments; `function` is a key of `sqlstream.functions.SCALAR_FUNCTIONS`, or,
    where there is a `ref`, the name of a user's function in small letters, which no key is.

    CAST and TRY_CAST are calls with one argument whose target is `type`. CASE is
    `CASE(condition1, value1, …, conditionN, valueN, otherwise)` (always an odd number of arguments).
    AND, OR, || and + take two or more arguments; + goes from left to right, and every sum on the way has the type `type`.
    `span` is the SQL to underline when a row makes the call fail; it takes no part in equality.
    """

    function: str
    args: tuple[Expression, ...]
    type: LogicalType
    span: Span | None = None
    ref: FunctionRef | None = None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            type(other) is Call
            and self.function == other.function
            and self.args == other.args
            and self.type == other.type
            and self.ref == other.ref
        )

    def with_args(self, args: tuple[Expression, ...]) -> Call:
        """The same call of other arguments."""
        return Call(self.function, args, self.type, self.span, self.ref)

    def __ne__(self, other: object) -> bool:
        # A Struct has one of its own, by identity where `eq` is off.
        return not self == other

    def __hash__(self) -> int:
        # Without the type: nearly always the arguments tell it, and to hash one of many levels takes long.
        return hash((self.function, self.args))

    def __str__(self) -> str:
        if self.function in ("CAST", "TRY_CAST"):
            return (
                f"{self.function}({self.args[0]} AS {self.type.without_time_attribute().with_nullable(True)})"
            )
        if self.function in _INFIX and len(self.args) >= 2:
            return "(" + f" {self.function} ".join(str(a) for a in self.args) + ")"
        return f"{self.function}({', '.join(str(a) for a in self.args)})"


Expression = InputRef | Literal | Call

_INFIX = frozenset({"=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "AND", "OR", "||", "LIKE"})

TRUE = Literal(True, BOOLEAN.not_null())
FALSE = Literal(False, BOOLEAN.not_null())


class AggregateCall(msgspec.Struct, frozen=True):
    """One aggregate over columns of its input: arguments are column indexes, so the operator evaluates nothing.

    `function` is a key of `sqlstream.functions.AGGREGATE_FUNCTIONS`; `filter` is the index of a BOOLEAN column or -1;
    COUNT(*) has no `args`. With a `ref`, `function` is the name of a user's aggregate.
    """

    function: str
    args: tuple[int, ...]
    type: LogicalType
    is_distinct: bool = False
    filter: int = -1
    ref: FunctionRef | None = None

    def moved(self, places: Mapping[int, int]) -> AggregateCall:
        """The call where column i is column places[i]."""
        args = tuple(places[a] for a in self.args)
        return msgspec.structs.replace(
            self, args=args, filter=places[self.filter] if self.filter >= 0 else -1
        )

    def __str__(self) -> str:
        args = ", ".join(f"${a}" for a in self.args) or "*"
        text = f"{self.function}({'DISTINCT ' if self.is_distinct else ''}{args})"
        return f"{text} FILTER ${self.filter}" if self.filter >= 0 else text


class SortKey(msgspec.Struct, frozen=True):
    """Order by one column. Flink's default: NULLs first when ascending, last when descending (NULL is the smallest)."""

    column: int
    is_descending: bool = False
    is_nulls_first: bool = True

    def __str__(self) -> str:
        return f"${self.column} {'DESC' if self.is_descending else 'ASC'}"


def walk(expression: Expression) -> Iterator[Expression]:
    """Every node, parents first."""
    check_not_given_up()
    yield expression
    if isinstance(expression, Call):
        for arg in expression.args:
            yield from walk(arg)


def inputs_of(*expressions: Expression) -> frozenset[int]:
    """The column indexes that the expressions read."""
    return frozenset(n.index for e in expressions for n in walk(e) if isinstance(n, InputRef))


def transform(expression: Expression, function: Callable[[Expression], Expression]) -> Expression:
    """Rebuild bottom-up: `function` sees each node after its children were rebuilt."""
    check_not_given_up()
    if isinstance(expression, Call) and expression.args:
        args = tuple(transform(a, function) for a in expression.args)
        if args != expression.args:
            expression = expression.with_args(args)
    return function(expression)


def remap(expression: Expression, mapping: dict[int, int]) -> Expression:
    """Renumber the inputs. KeyError when the mapping lacks one: a rule that forgot a column is our bug."""

    def renumber(node: Expression) -> Expression:
        return InputRef(mapping[node.index], node.type) if isinstance(node, InputRef) else node

    return transform(expression, renumber)


def substitute(expression: Expression, projections: tuple[Expression, ...]) -> Expression:
    """Replace input i by `projections[i]`: an expression over a projection becomes one over the projection's input."""

    def replace(node: Expression) -> Expression:
        return projections[node.index] if isinstance(node, InputRef) else node

    return transform(expression, replace)


def conjuncts(condition: Expression | None) -> tuple[Expression, ...]:
    """The parts of a condition joined by AND, at any depth; empty for None and TRUE."""
    if condition is None or condition == TRUE:
        return ()
    if isinstance(condition, Call) and condition.function == "AND":
        return tuple(part for arg in condition.args for part in conjuncts(arg))
    return (condition,)


def conjunction(parts: Sequence[Expression]) -> Expression | None:
    """The inverse of `conjuncts`: None for no part."""
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    nullable = any(p.type.nullable for p in parts)
    return Call("AND", tuple(parts), BOOLEAN.with_nullable(nullable))

"""What a batch engine must provide so that plans are lowered to its SQL."""

from __future__ import annotations

from typing import Protocol

from sqlglot import exp

from sqlstream.errors import Span, UserError
from sqlstream.expressions import AggregateCall, Call, Expression, InputRef, Literal, walk
from sqlstream.functions import SCALAR_FUNCTIONS
from sqlstream.functions.temporal import CLOCKS
from sqlstream.planner.relational.correlation import OUTER
from sqlstream.schema import Schema
from sqlstream.specs.batch_query import HostedFunction
from sqlstream.types import INT, LogicalType


class HostedFunctions:
    """The hosted functions of one query. State: these, in the order in which they were met; equal calls are one."""

    def __init__(self) -> None:
        self._named: dict[tuple[Call, tuple[LogicalType, ...]], HostedFunction] = {}

    @property
    def found(self) -> tuple[HostedFunction, ...]:
        return tuple(self._named.values())

    def host(self, call: Call) -> tuple[HostedFunction, tuple[Expression, ...]]:
        """The call as a function of the columns that it reads, of which there is at least one, and these columns."""
        read: dict[Expression, InputRef] = {}

        def hosted(expression: Expression) -> Expression:
            if isinstance(expression, Call) and expression.function != OUTER:
                return expression.with_args(tuple(hosted(arg) for arg in expression.args))
            if isinstance(expression, Literal):
                return expression
            return read.setdefault(expression, InputRef(len(read), expression.type))

        made = hosted(call)
        assert isinstance(made, Call)
        # An engine asks for as many results as its arguments have rows.
        given = tuple(read) or (Literal(0, INT.not_null()),)
        types = tuple(argument.type for argument in given)
        name = f"ours{len(self._named)}"
        volatile = any(is_volatile(node) for node in walk(made))
        return self._named.setdefault((made, types), HostedFunction(name, made, types, volatile)), given


def is_volatile(node: Expression) -> bool:
    """Whether it has another value for each row. Functions of the clock have one for the whole query."""
    if not isinstance(node, Call):
        return False
    if node.ref is not None:
        return not node.ref.is_deterministic
    function = SCALAR_FUNCTIONS.get(node.function)
    return function is not None and not function.is_deterministic and node.function not in CLOCKS


class EngineDialect(Protocol):
    """How one engine writes types, constants, functions and windows in one session time zone.

    Each method returns a tree whose rows are exactly those of the stream, or raises UserError SS3301. Functions are
    `tree.call`, so that sqlglot renames nothing; the text is made once, by `relation.to_sql`. A tree may be given away several
    times: `sqlstream.planner.lower.tree` copies it. No method holds state but `functions`.
    """

    @property
    def title(self) -> str:
        """The engine's name in errors."""

    @property
    def sqlglot_name(self) -> str:
        """The dialect of sqlglot that writes the text."""

    @property
    def functions(self) -> HostedFunctions:
        """Collects what the stream's own evaluator computes."""

    @property
    def calls_python(self) -> bool:
        """Whether the engine runs functions of users."""

    @property
    def recurses(self) -> bool:
        """Whether the engine runs WITH RECURSIVE as the stream does."""

    @property
    def joins_by_functions(self) -> bool:
        """Whether the condition of an outer join may call a hosted function of both sides."""

    def type_(self, t: LogicalType) -> exp.DataType:
        """The type that holds all values of `t` within a query, and in its result."""

    def has_type(self, t: LogicalType) -> bool:
        """Whether the engine has a type for `t`."""

    def scanned(self, column: exp.Expr, t: LogicalType) -> exp.Expr:
        """A column as the engine's reader provides it (Arrow's type of `t`), as `type_(t)`."""

    def literal(self, literal: Literal) -> exp.Expr:
        """A constant with its type."""

    def native(self, call: Call, args: list[exp.Expr]) -> exp.Expr | None:
        """A call of `args`, the trees of `call.args`, as the engine's own; None where it is no part of the whitelist."""

    def failure(self, message: str, t: LogicalType) -> exp.Expr:
        """A value of `type_(t)` that stops the query with an error when it is computed, as the message says."""

    def aggregate(self, call: AggregateCall, input_schema: Schema) -> exp.Expr:
        """An aggregate over `tree.input_column(n)`, the columns of the relation `i`, which have `input_schema`."""

    def collected(self, call: AggregateCall) -> exp.Expr:
        """The values of ARRAY_AGG as an array in any order."""

    def element_numbers(self, array: exp.Expr, is_outer: bool) -> exp.Expr:
        """An item of SELECT that makes a row per element of an array, with its number from 1; `is_outer`: one row with NULL
        where there is none."""

    def last_known(self, value: exp.Expr, place: exp.Expr, keys: list[exp.Expr]) -> exp.Expr:
        """The value, of the rows that have the same keys, at the highest place; rows where `place` is NULL do not count."""

    def milliseconds(self, timestamp: exp.Expr) -> exp.Expr:
        """A TIMESTAMP(3) as milliseconds since 1970."""

    def timestamp(self, milliseconds: exp.Expr) -> exp.Expr:
        """The inverse."""

    def steps(self, count: int) -> exp.Expr:
        """An item of FROM with the alias STEPS: the numbers 0 … `count` - 1."""


STEPS = exp.TableAlias(this=exp.to_identifier("n"), columns=[exp.to_identifier("step")])


def refuse(engine: str, what: str, *, hint: str = "", span: Span | None = None) -> UserError:
    """SS3301, to be raised: `engine` cannot answer `what` exactly as the stream does."""
    return UserError("SS3301", f"{what} has no exact counterpart in {engine}", span=span, hint=hint)

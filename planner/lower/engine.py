"""What a batch engine must provide so that plans are lowered to its SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sqlglot import exp

from sqlstream.expressions import AggregateCall, Call, Literal
from sqlstream.planner.lower.hosting import Hosted
from sqlstream.schema import Schema
from sqlstream.types import LogicalType

if TYPE_CHECKING:
    from sqlstream.planner.relational.window_tvf import WindowTvf


class EngineDialect(Protocol):
    """How one engine writes types, constants, functions and windows in one session time zone.

    Each method returns a tree whose rows are exactly those of the stream, or raises UserError SS3301. Functions are
    `tree.call`, so that sqlglot renames nothing; the text is made once, by `relation.to_sql`. A tree may be given away several
    times: `sqlstream.planner.lower.tree` copies it. No method holds state.
    """

    @property
    def title(self) -> str:
        """The engine's name in errors."""

    @property
    def sqlglot_name(self) -> str:
        """The dialect of sqlglot that writes the text."""

    def type_(self, t: LogicalType) -> exp.DataType:
        """The type that holds all values of `t` within a query, and in its result."""

    def scanned(self, column: exp.Expr, t: LogicalType) -> exp.Expr:
        """A column as the engine's reader provides it (Arrow's type of `t`), as `type_(t)`."""

    def literal(self, literal: Literal) -> exp.Expr:
        """A constant with its type."""

    def call(self, call: Call, args: list[exp.Expr]) -> exp.Expr:
        """A scalar function, operator or cast of `args`, the trees of `call.args`. `type_(call.type)` is the result's type."""

    def has_type(self, t: LogicalType) -> bool:
        """Whether the engine has a type for `t`."""

    def hosted(self, call: Call) -> Hosted | None:
        """A call that the engine has the stream's own function compute; None where it cannot."""

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

    def window_tvf(self, node: WindowTvf, source: exp.Expr) -> exp.Expr:
        """The columns c0, c1, … of the query `source`, then window_start, window_end and window_time under the next
        numbers."""

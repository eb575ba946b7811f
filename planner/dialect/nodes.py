"""The syntax nodes that sqlglot has no exact class for, and the positions of all nodes."""

from __future__ import annotations

from typing import Any, TypeVar

from sqlglot import exp

from planner.dialect.statements import Option
from sqlstream.errors import Span
from sqlstream.types import LogicalType

Node = TypeVar("Node", bound=exp.Expr)


class FunctionCall(exp.Expression):
    """A call exactly as written: `this` is the upper-case name, `expressions` the arguments in order."""

    arg_types = {
        "this": True,
        "expressions": True,
        "is_distinct": False,
        "nulls": False,
        "order": False,
        "filter": False,
        "over": False,
    }


class OverClause(exp.Expression):
    """OVER (PARTITION BY … ORDER BY … frame). `name` is set until its WINDOW clause is read."""

    arg_types = {
        "partition_by": False,
        "order_by": False,
        "frame": False,
        "start": False,
        "end": False,
        "name": False,
    }


class FrameBound(exp.Expression):
    """One end of an OVER frame: `kind` is PRECEDING, FOLLOWING or CURRENT ROW; no `this` means UNBOUNDED."""

    arg_types = {"kind": True, "this": False}


class TypeName(exp.Expression):
    """The target of a CAST: `this` prints the type, `cast_type` returns it."""

    arg_types = {"this": True}


class IntervalLiteral(exp.Expression):
    """INTERVAL 'this' unit [TO to]; units are singular and upper case."""

    arg_types = {"this": True, "unit": True, "to": False, "is_negative": False}


class DateTimeLiteral(exp.Expression):
    """DATE | TIME | TIMESTAMP 'this'."""

    arg_types = {"this": True, "kind": True}


class Like(exp.Expression):
    """this LIKE expression [ESCAPE escape], or SIMILAR TO where `is_similar`."""

    arg_types = {"this": True, "expression": True, "escape": False, "is_similar": False}


class WindowTvf(exp.Expression):
    """A window table-valued function over the table `this`; its `kind` decides which sizes it has."""

    arg_types = {
        "this": True,
        "kind": True,
        "time_column": True,
        "partition_by": False,
        "size": False,
        "slide": False,
        "step": False,
        "gap": False,
        "offset": False,
        "alias": False,
    }


class SystemTime(exp.Expression):
    """FOR SYSTEM_TIME AS OF this, at a table."""

    arg_types = {"this": True}


class QueryHints(exp.Expression):
    """The hints of a SELECT; `lookup_hints` returns them."""

    arg_types = {}


def lookup_hints(select: exp.Expr) -> tuple[tuple[Option, ...], ...]:
    """The options of each LOOKUP hint of a SELECT."""
    hints = select.args.get("hint")
    found: tuple[tuple[Option, ...], ...] = () if hints is None else hints.meta_get("lookups", ())
    return found


def with_span(node: Node, start: int, end: int) -> Node:
    """`node`, marked with its position [start, end) in the script."""
    node.meta["span"] = Span(start, end)
    return node


def span_of(node: exp.Expr | None) -> Span | None:
    """A node's position in the script: its own mark, or else the range that its descendants cover."""
    if node is None:
        return None
    own: Any = node.meta_get("span")
    if isinstance(own, Span):
        return own
    spans = [s for child in node.iter_expressions() if (s := span_of(child)) is not None]
    if not spans:
        return None
    return Span(min(s.start for s in spans), max(s.end for s in spans))


def cast_type(node: exp.Expr) -> LogicalType:
    """The target type of an exp.Cast or exp.TryCast (or of a TypeName itself)."""
    target = node if isinstance(node, TypeName) else node.args["to"]
    logical_type: LogicalType = target.meta["logical_type"]
    return logical_type

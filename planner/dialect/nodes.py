"""The syntax nodes that sqlglot has no exact class for, and the positions of all nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from sqlglot import exp

from sqlstream.cancellation import check_not_given_up
from sqlstream.errors import Span, UserError
from sqlstream.planner.dialect.statements import Identifier, Option
from sqlstream.types import LogicalType

Node = TypeVar("Node", bound=exp.Expr)


class FunctionCall(exp.Expression):
    """A call exactly as written: `this` is the upper-case name, `expressions` the arguments in order. The catalog and database of
    a qualified name are in `node.meta["qualifier"]`."""

    arg_types = {
        "this": True,
        "expressions": True,
        "is_distinct": False,
        "nulls": False,
        "order": False,
        "filter": False,
        "over": False,
        "semantics": False,
    }


class MatchRecognize(exp.Expression):
    """MATCH_RECOGNIZE over `this`. `measures` and `define` are aliases; `rows` is ONE, ALL, ALL OMIT or ALL UNMATCHED; `after`,
    `pattern` and `subsets` are values of sqlstream.planner.dialect.match_recognize."""

    arg_types = {
        "this": True,
        "partition_by": False,
        "order_by": False,
        "measures": False,
        "rows": True,
        "after": True,
        "pattern": True,
        "within": False,
        "subsets": False,
        "define": True,
        "alias": False,
        "joins": False,
    }


class Unpivot(exp.Expression):
    """UNPIVOT over `this`: `values` are the identifiers of the columns that are made, `name` that of the column with names;
    `choices` are aliases of exp.Tuple with a column for each of `values`. `with_nulls`: rows without any value are kept."""

    arg_types = {
        "this": True,
        "values": True,
        "name": True,
        "choices": True,
        "with_nulls": False,
        "alias": False,
        "joins": False,
    }


class Pivot(exp.Expression):
    """PIVOT over `this`: `expressions` are aggregate calls or aliases of them, `choices` are aliases of exp.Tuple with a value
    for each of `columns`."""

    arg_types = {
        "this": True,
        "expressions": True,
        "columns": True,
        "choices": True,
        "group_by": False,
        "alias": False,
        "joins": False,
    }


class JsonCall(FunctionCall):
    """A call with clauses of SQL/JSON (`sqlstream.planner.dialect.json_functions`).

    JSON_ITEMS and JSON_MEMBERS are what JSON_ARRAYAGG and JSON_OBJECTAGG do with an ARRAY_AGG of JSON_ITEM and JSON_MEMBER.
    """

    arg_types = {
        **FunctionCall.arg_types,
        "returning": False,
        "wrapper": False,
        "on_empty": False,
        "default_on_empty": False,
        "on_error": False,
        "default_on_error": False,
        "on_null": False,
    }


class OrderedCall(FunctionCall):
    """ORDERED_LIST or ORDERED_ARRAY of an ARRAY_AGG of rows: the keys of WITHIN GROUP, the value, and of LISTAGG the separator.
    `keys` has two letters for each key: A or D for its direction, F or L for where NULLs are."""

    arg_types = {**FunctionCall.arg_types, "keys": True}


class OverClause(exp.Expression):
    """OVER (PARTITION BY … ORDER BY … frame). `name`, and `base` of a window that extends another, are set until the WINDOW
    clause is read."""

    arg_types = {
        "base": False,
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
    """The target of a CAST: `this` prints the type, `cast_type` returns it, `cast_unit` the unit of an interval."""

    arg_types = {"this": True}


class IntervalLiteral(exp.Expression):
    """INTERVAL 'this' unit [TO to]; units are singular and upper case."""

    arg_types = {"this": True, "unit": True, "to": False, "is_negative": False}


class DateTimeLiteral(exp.Expression):
    """DATE | TIME | TIMESTAMP 'this'."""

    arg_types = {"this": True, "kind": True}


class Overlaps(exp.Expression):
    """`(start, end or length) OVERLAPS (start, end or length)`: four expressions."""

    arg_types = {"expressions": True}


class Like(exp.Expression):
    """this LIKE expression [ESCAPE escape], or SIMILAR TO where `is_similar`."""

    arg_types = {"this": True, "expression": True, "escape": False, "is_similar": False}


class FilePath(exp.Expression):
    """FROM 'path': the files at a path, read with the columns that are inferred from them. `this` is the exp.Literal."""

    arg_types = {"this": True, "alias": False}


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


class ChangelogFunction(exp.Expression):
    """FROM_CHANGELOG or TO_CHANGELOG (its `kind`) over the table `this`: `op` names a column, `op_mapping` is a MAP."""

    arg_types = {
        "this": True,
        "kind": True,
        "partition_by": False,
        "op": False,
        "op_mapping": False,
        "invalid_op_handling": False,
        "alias": False,
    }


class SnapshotFunction(exp.Expression):
    """SNAPSHOT, which stands behind LATERAL, over the table `this`: `on_time` names a column."""

    arg_types = {
        "this": True,
        "on_time": False,
        "load_completed_time": False,
        "load_completed_idle_timeout": False,
        "state_ttl": False,
    }


class TableCall(exp.Expression):
    """A call with tables of a user's function: `this` is its upper-case name, as in a FunctionCall, and `expressions` are its
    CallArguments."""

    arg_types = {"this": True, "expressions": True, "alias": False}


class CallArgument(exp.Expression):
    """An argument of a TableCall: a `kind` of TABLE, DESCRIPTOR (of columns), MODEL, DEFAULT or VALUE. `name` is an
    Identifier, or there is none. A TABLE has `partition_by` and `order`, a DESCRIPTOR its columns as `expressions`."""

    arg_types = {
        "kind": True,
        "this": False,
        "name": False,
        "expressions": False,
        "partition_by": False,
        "order": False,
    }


class Quantified(exp.Expression):
    """ANY (…), SOME (…) or ALL (…) behind a comparison: `this` is a query, or there are `expressions`."""

    arg_types = {"this": False, "expressions": False, "is_all": True}


class SystemTime(exp.Expression):
    """FOR SYSTEM_TIME AS OF this, at a table."""

    arg_types = {"this": True}


class JoinedTables(exp.Expression):
    """Tables in parentheses, `(this JOIN …)`, which are joined before the others."""

    arg_types = {"this": True, "joins": True}


class QueryHints(exp.Expression):
    """The hints of a SELECT; `lookup_hints`, `state_ttl_hints` and `join_hints` return them."""

    arg_types = {}


def walk_level(node: exp.Expr) -> Iterator[exp.Expr]:
    """`node` and what is below it, without what is inside of subqueries; the queries themselves occur."""
    yield from node.walk(prune=is_query)


def is_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Select | exp.SetOperation | exp.Values | exp.Subquery)


def lookup_hints(select: exp.Expr) -> tuple[tuple[Option, ...], ...]:
    """The options of each LOOKUP hint of a SELECT."""
    hints = select.args.get("hint")
    found: tuple[tuple[Option, ...], ...] = () if hints is None else hints.meta_get("lookups", ())
    return found


class MutualRecursion(NamedTuple):
    """That the queries of a WITH may read each other, and after how many rounds they stop: with an error, or with the rows
    that there are. 0 is no limit."""

    rounds_max: int = 0
    is_error: bool = False


def mutual_recursion(clause: exp.Expr) -> MutualRecursion | None:
    """What WITH MUTUALLY RECURSIVE says; None for another WITH."""
    found: MutualRecursion | None = clause.meta_get("mutual")
    return found


def column_types(cte: exp.Expr) -> tuple[LogicalType, ...]:
    """The types of the columns that a query of WITH MUTUALLY RECURSIVE is declared to have."""
    types: tuple[LogicalType, ...] = cte.args["alias"].meta["types"]
    return types


def state_ttl_hints(select: exp.Expr) -> tuple[Option, ...]:
    """What the STATE_TTL hints of a SELECT say: names of tables, and for how long their rows are kept."""
    hints = select.args.get("hint")
    found: tuple[Option, ...] = () if hints is None else hints.meta_get("state_ttl", ())
    return found


def join_hints(select: exp.Expr) -> tuple[tuple[str, Identifier], ...]:
    """The hints of a SELECT how its joins are computed: the name of the hint, and a table."""
    hints = select.args.get("hint")
    found: tuple[tuple[str, Identifier], ...] = () if hints is None else hints.meta_get("joins", ())
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


def cast_unit(node: exp.Expr) -> str:
    """The last unit of the interval that is the target of an exp.Cast or exp.TryCast; empty for other types."""
    return str(node.args["to"].meta.get("unit", ""))


def difference_range(node: exp.Expr) -> str:
    """`DAY TO SECOND` for a cast that `(time - time) DAY TO SECOND` stands for; empty for every other."""
    return str(node.args["to"].meta.get("difference", ""))


# The final check of the grammar: a finished tree has only the nodes that the table in parser.py lists.


Checked = TypeVar("Checked", bound=exp.Expr)

_TAIL = ("order", "limit", "offset", "with_")
_ARGUMENTS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Column: ("this", "table", "db", "catalog"),
    exp.Identifier: ("this", "quoted"),
    exp.Literal: ("this", "is_string"),
    exp.Star: ("except_", "replace", "rename"),
    **dict.fromkeys((exp.Null, exp.Distinct), ()),
    **dict.fromkeys((exp.HexString, exp.Boolean, exp.Var, exp.Not, exp.Neg, exp.Exists), ("this",)),
    **dict.fromkeys(
        (
            *(exp.Dot, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.DPipe, exp.And, exp.Or, exp.Is),
            *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ),
        ),
        ("this", "expression"),
    ),
    **dict.fromkeys((exp.Cast, exp.TryCast), ("this", "to")),
    exp.Between: ("this", "low", "high", "symmetric"),
    exp.In: ("this", "expressions", "query"),
    exp.Bracket: ("this", "expressions"),
    exp.Case: ("this", "ifs", "default"),
    exp.If: ("this", "true"),
    exp.Select: (
        "hint",
        "expressions",
        "distinct",
        "from_",
        "joins",
        "where",
        "group",
        "having",
        "qualify",
        *_TAIL,
    ),
    exp.Subquery: ("this", "alias", *_TAIL),
    exp.Values: ("expressions", *_TAIL),
    exp.Union: ("this", "expression", "distinct", "by_name", *_TAIL),
    **dict.fromkeys((exp.Intersect, exp.Except), ("this", "expression", "distinct", *_TAIL)),
    **dict.fromkeys((exp.From, exp.Where, exp.Having, exp.Qualify), ("this",)),
    exp.Group: ("expressions", "all"),
    **dict.fromkeys((exp.Rollup, exp.Cube, exp.GroupingSets), ("expressions",)),
    **dict.fromkeys((exp.Tuple, exp.Order), ("expressions",)),
    exp.With: ("expressions", "recursive"),
    **dict.fromkeys((exp.Limit, exp.Offset), ("expression",)),
    exp.Ordered: ("this", "desc", "nulls_first"),
    **dict.fromkeys((exp.Alias, exp.CTE, exp.Lateral), ("this", "alias")),
    exp.TableAlias: ("this", "columns"),
    exp.Table: ("this", "db", "catalog", "version", "alias"),
    exp.Unnest: ("expressions", "offset", "alias"),
    exp.Join: ("this", "side", "kind", "on", "using", "method"),
    **{
        node: tuple(node.arg_types)
        for node in (
            *(
                FunctionCall,
                JsonCall,
                OrderedCall,
                OverClause,
                FrameBound,
                TypeName,
                Like,
                Overlaps,
            ),
            *(IntervalLiteral, DateTimeLiteral, WindowTvf, SystemTime),
            ChangelogFunction,
            SnapshotFunction,
            *(TableCall, CallArgument),
            Pivot,
            Unpivot,
            *(QueryHints, FilePath, Quantified, MatchRecognize, JoinedTables),
        )
    },
}


def checked(root: Checked) -> Checked:
    """The tree without its parentheses. SS1003 for syntax of sqlglot's that Flink does not have."""
    while isinstance(root, exp.Paren):
        root = root.this.pop()
    for node in list(root.walk()):
        check_not_given_up()
        if isinstance(node, exp.Paren):
            node.replace(node.this)
            continue
        allowed = _ARGUMENTS.get(type(node))
        if allowed is None or any(v and key not in allowed for key, v in node.args.items()):
            hint = "see the queries of Flink SQL"
            message = "this form is not part of Flink SQL"
            raise UserError("SS1003", message, span=span_of(node), hint=hint)
    return root

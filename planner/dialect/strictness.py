"""The final check of the grammar: a finished tree has only the nodes that the table in parser.py lists."""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp

from sqlstream.cancellation import check_not_given_up
from sqlstream.errors import UserError
from sqlstream.planner.dialect import nodes

Node = TypeVar("Node", bound=exp.Expr)

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
    **dict.fromkeys((exp.Tuple, exp.Order, exp.With), ("expressions",)),
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
                nodes.FunctionCall,
                nodes.JsonCall,
                nodes.OrderedCall,
                nodes.OverClause,
                nodes.FrameBound,
                nodes.TypeName,
                nodes.Like,
                nodes.Overlaps,
            ),
            *(nodes.IntervalLiteral, nodes.DateTimeLiteral, nodes.WindowTvf, nodes.SystemTime),
            nodes.ChangelogFunction,
            nodes.Pivot,
            nodes.Unpivot,
            *(nodes.QueryHints, nodes.FilePath, nodes.Quantified, nodes.MatchRecognize, nodes.JoinedTables),
        )
    },
}


def checked(root: Node) -> Node:
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
            raise UserError("SS1003", message, span=nodes.span_of(node), hint=hint)
    return root

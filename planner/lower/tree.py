"""Building blocks of sqlglot trees.

Functions are anonymous calls, so that sqlglot never replaces one by another, and operators carry their own parentheses. A
node may be given to several of these functions: it is copied when it already stands in a tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from sqlglot import exp

NodeT = TypeVar("NodeT", bound=exp.Expr)


def call(name: str, *args: exp.Expr) -> exp.Expr:
    """`name(args)`, exactly so.

    >>> call("epoch_ms", column("c0", "i")).sql(normalize_functions=False)
    'epoch_ms(i.c0)'
    """
    return exp.Anonymous(this=name, expressions=_owned(args))


def column(name: str, relation: str = "", *, is_quoted: bool = False) -> exp.Expr:
    """A column; names of users are quoted."""
    table = exp.Identifier(this=relation, quoted=False) if relation else None
    return exp.Column(this=exp.Identifier(this=name, quoted=is_quoted), table=table)


def input_column(index: int, relation: str = "i") -> exp.Expr:
    """Column `index` of the relation of this alias; the input of a node with one input is `i`."""
    return column(f"c{index}", relation)


def star() -> exp.Expr:
    """All columns."""
    return exp.Star()


def text(value: str) -> exp.Expr:
    return exp.Literal.string(value)


def number(value: int | str) -> exp.Expr:
    return exp.Literal(this=str(value), is_string=False)


def null() -> exp.Expr:
    return exp.Null()


def boolean(value: bool) -> exp.Expr:
    return exp.Boolean(this=value)


def cast(value: exp.Expr, type_: exp.DataType) -> exp.Expr:
    return exp.Cast(this=_own(value), to=type_.copy())


def try_cast(value: exp.Expr, type_: exp.DataType) -> exp.Expr:
    """NULL where the cast fails."""
    return exp.TryCast(this=_own(value), to=type_.copy())


def operate(operator: type[exp.Binary], *operands: exp.Expr) -> exp.Expr:
    """Operands joined from left to right.

    >>> operate(exp.Sub, number(7), number(2), number(1)).sql()
    '(7 - 2 - 1)'
    """
    first, *rest = _owned(operands)
    joined = first
    for operand in rest:
        joined = operator(this=joined, expression=operand)
    return exp.Paren(this=joined) if rest else first


def all_of(conditions: Sequence[exp.Expr]) -> exp.Expr:
    return operate(exp.And, *conditions)


def any_of(conditions: Sequence[exp.Expr]) -> exp.Expr:
    return operate(exp.Or, *conditions)


def negated(condition: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Not(this=_own(condition)))


def is_null(value: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Is(this=_own(value), expression=exp.Null()))


def is_not_null(value: exp.Expr) -> exp.Expr:
    return negated(is_null(value))


def is_between(value: exp.Expr, low: exp.Expr, high: exp.Expr) -> exp.Expr:
    """Both bounds are inclusive."""
    value, low, high = _owned((value, low, high))
    return exp.Paren(this=exp.Between(this=value, low=low, high=high))


def is_in(value: exp.Expr, choices: Iterable[exp.Expr]) -> exp.Expr:
    value, *rest = _owned((value, *choices))
    return exp.Paren(this=exp.In(this=value, expressions=rest))


def case(branches: Sequence[tuple[exp.Expr, exp.Expr]], otherwise: exp.Expr | None = None) -> exp.Expr:
    """CASE WHEN condition THEN value … [ELSE otherwise] END."""
    parts = _owned(part for branch in branches for part in branch)
    ifs = [exp.If(this=c, true=v) for c, v in zip(parts[::2], parts[1::2], strict=True)]
    return exp.Case(ifs=ifs, default=None if otherwise is None else _own(otherwise))


def alias(value: exp.Expr, name: str, *, is_quoted: bool = False) -> exp.Expr:
    return exp.Alias(this=_own(value), alias=exp.Identifier(this=name, quoted=is_quoted))


def raw(sql: str) -> exp.Expr:
    """Text of the caller's, left as it is: a relation's name or another item of FROM."""
    return exp.Var(this=sql)


def subquery(query: exp.Expr, name: str) -> exp.Expr:
    """`(query) AS name`."""
    return exp.Subquery(this=_own(query), alias=exp.TableAlias(this=exp.Identifier(this=name, quoted=False)))


def select(
    columns: Iterable[exp.Expr],
    source: exp.Expr | None,
    *,
    where: exp.Expr | None = None,
    group: Iterable[exp.Expr] = (),
    joins: Iterable[exp.Join] = (),
) -> exp.Select:
    """SELECT `columns` FROM `source`, an item of FROM."""
    made = exp.Select(expressions=_owned(columns))
    if source is not None:
        made.set("from_", exp.From(this=_own(source)))
    if joins := list(joins):
        made.set("joins", joins)
    if where is not None:
        made.set("where", exp.Where(this=_own(where)))
    if keys := _owned(group):
        made.set("group", exp.Group(expressions=keys))
    return made


def select_all(query: exp.Expr, name: str = "i", *, where: exp.Expr | None = None) -> exp.Select:
    """SELECT * FROM (query) AS name [WHERE where]."""
    return select([exp.Star()], subquery(query, name), where=where)


def over(
    function: exp.Expr, partition_by: Iterable[exp.Expr] = (), order_by: Iterable[exp.Expr] = ()
) -> exp.Expr:
    """`function OVER (PARTITION BY … ORDER BY …)`."""
    order = _owned(order_by)
    return exp.Window(
        this=_own(function),
        partition_by=_owned(partition_by),
        order=exp.Order(expressions=order) if order else None,
        over="OVER",
    )


def filtered(aggregate: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """`aggregate FILTER (WHERE condition)`."""
    if condition is None:
        return aggregate
    return exp.Filter(this=_own(aggregate), expression=exp.Where(this=_own(condition)))


def distinct(*args: exp.Expr) -> exp.Expr:
    """`DISTINCT args`, the argument of an aggregate function."""
    return exp.Distinct(expressions=_owned(args))


def size(node: exp.Expr) -> int:
    """The number of nodes of a tree."""
    return sum(1 for _ in node.walk())


def _own(node: NodeT) -> NodeT:
    return node.copy() if node.parent is not None else node


def _owned(nodes: Iterable[exp.Expr]) -> list[exp.Expr]:
    taken: set[int] = set()
    made = []
    for node in nodes:
        made.append(node.copy() if node.parent is not None or id(node) in taken else node)
        taken.add(id(node))
    return made


def rendered(node: exp.Expr, sqlglot_name: str) -> exp.Expr:
    """The text of a tree, which may stand where the tree could."""
    return exp.Var(this=node.sql(dialect=sqlglot_name, normalize_functions=False, comments=False))

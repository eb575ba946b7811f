"""A view's query with all names of tables written in full."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.planner.dialect.nodes import span_of
from sqlstream.planner.dialect.parser import parse_query
from sqlstream.planner.statements.quoting import quoted


def qualified(query: str, catalog: str, database: str) -> str:
    """The text of a query with the names of tables and views completed by a catalog and database; WITH queries keep theirs.

    >>> qualified("WITH a AS (SELECT * FROM a) SELECT * FROM a, d.b", "c", "e")
    'WITH a AS (SELECT * FROM `c`.`e`.`a`) SELECT * FROM a, `c`.`d`.`b`'
    """
    tables = [node for node in parse_query(query).walk() if isinstance(node, exp.Table)]
    places = []
    for node in tables:
        parts = tuple(str(part.name) for part in node.parts)
        if len(parts) < 3 and not (len(parts) == 1 and _is_with_query(node, parts[0])):
            first, last = span_of(node.parts[0]), span_of(node.parts[-1])
            assert first is not None
            assert last is not None
            full = (catalog, database)[: 3 - len(parts)] + parts
            places.append((first.start, last.end, ".".join(quoted(part) for part in full)))
    for start, end, name in sorted(places, reverse=True):
        query = query[:start] + name + query[end:]
    return query


def _is_with_query(node: exp.Expr, name: str) -> bool:
    """Whether the name is that of a WITH query around `node`; one inside WITH reads only those before its own."""
    inner: exp.Expr = node
    outer = node.parent
    while outer is not None:
        clause = outer.args.get("with_")
        if clause is not None:
            known = [str(cte.args["alias"].this.name) for cte in clause.expressions]
            if inner is not clause:
                if name in known:
                    return True
            elif name in known[: clause.expressions.index(_cte_of(node, clause))]:
                return True
        inner, outer = outer, outer.parent
    return False


def _cte_of(node: exp.Expr, clause: exp.Expr) -> exp.Expr:
    """The WITH query of `clause` that `node` belongs to."""
    while node.parent is not clause:
        assert node.parent is not None
        node = node.parent
    return node

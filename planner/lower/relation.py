"""The relational plan as one SQL query of a batch engine, whose answer a finished stream must equal.

Inner columns are named by position: c0, c1, …; the input of a node has the alias `i`, those of a join `l` and `r`. A plan may
be bound or optimised. What is read twice is written once, as a common table expression, so that the text grows with the plan
and not with its tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from sqlglot import exp

from sqlstream.errors import ErrorsAt
from sqlstream.planner.guards import refuse_depth
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.aggregates import collected_calls
from sqlstream.planner.lower.engine import EngineDialect
from sqlstream.planner.lower.joins_by_matches import join_by_matches
from sqlstream.planner.lower.lowering import Lowering, ordered
from sqlstream.planner.lower.nodes import lower_node
from sqlstream.planner.relational import nodes as plan
from sqlstream.planner.relational.correlation import is_correlated
from sqlstream.planner.relational.recursive_query import free_levels

Relations = Callable[[plan.TableScan], exp.Expr | str | None]
"""The relation that has a scan's rows: a tree, or the text of a name or of another item of FROM; None when there is none.

It has the table's physical columns under their names, and the metadata columns of the scan under their keys. The filters of
the scan may be applied already or not; its limit is a hint, and its watermark makes no column of the relation."""

HEIGHT_MAX = 6
"""Nested queries that stay a tree (see expression.HEIGHT_MAX)."""


@refuse_depth()
def lower(node: plan.RelationalNode, engine: EngineDialect, relations: Relations) -> exp.Expr:
    """One SELECT with the columns of `node`; rows in order when `node` sorts, or projects sorted rows.

    A batch has no late rows, and ties of ORDER BY may be in any order. UserError SS3301, at its place in the statement, for
    what the engine cannot answer exactly as the stream does. That holds also in columns that no consumer reads. The result has
    `engine.type_` of each column's type.
    """
    names = node.schema.names
    if isinstance(node, plan.Sink):
        node = node.input
    if not engine.joins_by_functions:
        node = plan.rewrite(node, lambda join: join_by_matches(join, engine))
    nodes = _nodes(node)
    found = {n: relations(n) for n in nodes if isinstance(n, plan.TableScan)}
    # What reads an outer query, or a recursive one around it, stays below it: a common table expression could not.
    has_apply = any(isinstance(n, plan.Apply) for n in nodes)
    shared = frozenset(
        n
        for n, readers in nodes.items()
        if readers > 1 and not _is_cheap(n) and not (has_apply and is_correlated(n)) and not free_levels(n)
    )
    relations_of = {
        scan: tree.raw(relation) if isinstance(relation, str) else relation
        for scan, relation in found.items()
    }
    return _Query(Lowering(engine, relations_of, collected_calls(nodes)), shared).root(node, names)


@refuse_depth()
def to_sql(query: exp.Expr, engine: EngineDialect) -> str:
    """The text of a lowered query."""
    return tree.rendered(query, engine.sqlglot_name).name


def lower_to_sql(node: plan.RelationalNode, engine: EngineDialect, tables: Mapping[str, str]) -> str:
    """The text of `lower`; `tables` has the text of a table's relation by its name."""
    return to_sql(lower(node, engine, lambda scan: tables.get(scan.table.path.name)), engine)


def _nodes(root: plan.RelationalNode) -> Counter[plan.RelationalNode]:
    """All nodes, equal ones being one, with the number of their readers."""
    readers: Counter[plan.RelationalNode] = Counter({root: 1})
    waiting = [root]
    while waiting:
        for input in waiting.pop().inputs:
            if input not in readers:
                waiting.append(input)
            readers[input] += 1
    return readers


def _is_cheap(node: plan.RelationalNode) -> bool:
    """Whether `node` is a scan with nothing but filters and projections on it, which engines better prune for each reader."""
    while isinstance(node, plan.Filter | plan.Project | plan.Watermark):
        node = node.input
    return isinstance(node, plan.TableScan | plan.Values)


class _Query:
    """Translates nodes to queries, inputs first. State: the common table expressions so far, each after those it reads."""

    def __init__(self, lowering: Lowering, shared: frozenset[plan.RelationalNode]) -> None:
        self._lowering = lowering
        self._shared = shared
        self._common: dict[plan.RelationalNode, exp.Expr] = {}
        texts = [found.sql().lower() for found in lowering.relations.values() if found is not None]
        self._prefix = "shared_"
        while any(self._prefix in text for text in texts):
            self._prefix += "_"

    def root(self, node: plan.RelationalNode, names: Iterable[str]) -> exp.Expr:
        """The whole query. The outermost SELECT has the order, since that of a subquery binds no engine; within
        it rows are sorted only to be cut off."""
        columns = [tree.input_column(i, "o") for i in range(len(node.schema))]
        inner = node
        if isinstance(node, plan.Project) and isinstance(node.input, plan.Sort):
            inner = node.input
            columns = [self._lowering.expression(e, "o") for e in node.expressions]
        # Qualified, since the user may have a column named "c1".
        named = [tree.alias(c, name, is_quoted=True) for c, name in zip(columns, names, strict=True)]
        is_cut = isinstance(inner, plan.Sort) and (inner.fetch >= 0 or inner.offset > 0)
        is_sorted_outside = isinstance(inner, plan.Sort) and not is_cut and inner not in self._shared
        query, _ = self._relation(inner.inputs[0] if is_sorted_outside else inner)
        made = tree.select(named, tree.subquery(query, "o"))
        if isinstance(inner, plan.Sort) and inner.order:
            made.set("order", exp.Order(expressions=ordered(inner.order, "o")))
        if self._common:
            ctes = [
                exp.CTE(this=query, alias=exp.TableAlias(this=exp.to_identifier(f"{self._prefix}{i}")))
                for i, query in enumerate(self._common.values())
            ]
            made.set("with_", exp.With(expressions=ctes))
        return made

    def _relation(self, node: plan.RelationalNode) -> tuple[exp.Expr, int]:
        """A query with columns c0, c1, …, and how many queries it nests; errors point at the node."""
        with ErrorsAt(node.span):
            if node not in self._shared:
                return self._flat(*self._query(node))
            if node not in self._common:
                query, _ = self._query(node)
                self._common[node] = query
            name = f"{self._prefix}{list(self._common).index(node)}"
        return tree.select([exp.Star()], exp.Table(this=exp.to_identifier(name))), 1

    def _flat(self, query: exp.Expr, height: int) -> tuple[exp.Expr, int]:
        if height < HEIGHT_MAX:
            return query, height
        return tree.rendered(query, self._lowering.engine.sqlglot_name), 0

    def _query(self, node: plan.RelationalNode) -> tuple[exp.Expr, int]:
        inputs = [self._relation(input) for input in node.inputs]
        height = 1 + max((height for _, height in inputs), default=0)
        return lower_node(node, self._lowering, [query for query, _ in inputs]), height

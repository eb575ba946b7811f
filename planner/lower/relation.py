"""The relational plan as one SQL query of a batch engine, whose answer a finished stream must equal.

Inner columns are named by position: c0, c1, …; the input of a node has the alias `i`, those of a join `l` and `r`. A plan may
be bound or optimised. What is read twice is written once, as a common table expression, so that the text grows with the plan
and not with its tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from sqlglot import exp

from planner.depth import refuse_depth
from planner.lower import tree
from planner.lower.engine import EngineDialect
from planner.lower.expression import lower_expression
from planner.lower.refusals import refuse
from planner.relational import nodes as plan
from sqlstream.errors import UserError
from sqlstream.expressions import Expression, Literal, SortKey, conjuncts
from sqlstream.types import BOOLEAN

Relations = Callable[[plan.TableScan], exp.Expr | str | None]
"""The relation that has a scan's rows: a tree, or the text of a name or of another item of FROM; None when there is none.

It has the table's physical columns under their names, and the metadata columns of the scan under their keys. The filters of
the scan may be applied already or not; its limit is a hint, and its watermark makes no column of the relation."""

HEIGHT_MAX = 6
"""Nested queries that stay a tree (see expression.HEIGHT_MAX)."""

_JOIN_SIDES = {
    plan.RelationalJoinKind.INNER: None,
    plan.RelationalJoinKind.LEFT: "LEFT",
    plan.RelationalJoinKind.RIGHT: "RIGHT",
    plan.RelationalJoinKind.FULL: "FULL",
}


@refuse_depth
def lower(node: plan.RelationalNode, engine: EngineDialect, relations: Relations) -> exp.Expr:
    """One SELECT with the columns of `node`; rows in order when `node` sorts, or projects sorted rows.

    A batch has no late rows, and ties of ORDER BY may be in any order. UserError SS3301, at its place in the statement, for
    what the engine cannot answer exactly as the stream does, also in columns that no consumer reads. The result has
    `engine.type_` of each column's type.
    """
    names = node.schema.names
    if isinstance(node, plan.Sink):
        node = node.input
    nodes = _nodes(node)
    found = {n: relations(n) for n in nodes if isinstance(n, plan.TableScan)}
    shared = frozenset(n for n, readers in nodes.items() if readers > 1 and not _is_cheap(n))
    return _Lowering(engine, found, shared).root(node, names)


@refuse_depth
def to_sql(query: exp.Expr, engine: EngineDialect) -> str:
    """The text of a lowered query."""
    return tree.rendered(query, engine.sqlglot_name).name


def ordered(keys: Iterable[SortKey], relation: str) -> list[exp.Expr]:
    """The items of ORDER BY over the columns of `relation`."""
    return [
        exp.Ordered(
            this=tree.input_column(k.column, relation), desc=k.is_descending, nulls_first=k.is_nulls_first
        )
        for k in keys
    ]


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


class _Lowering:
    """Translates nodes to queries, inputs first. State: the common table expressions so far, each after those it reads."""

    def __init__(
        self,
        engine: EngineDialect,
        relations: dict[plan.TableScan, exp.Expr | str | None],
        shared: frozenset[plan.RelationalNode],
    ) -> None:
        self._engine = engine
        self._relations = {
            scan: tree.raw(found) if isinstance(found, str) else found for scan, found in relations.items()
        }
        self._shared = shared
        self._common: dict[plan.RelationalNode, exp.Expr] = {}
        texts = [found.sql().lower() for found in self._relations.values() if found is not None]
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
            columns = [self._expression(e, "o") for e in node.expressions]
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
        try:
            if node not in self._shared:
                return self._flat(*self._query(node))
            if node not in self._common:
                query, _ = self._query(node)
                self._common[node] = query
            name = f"{self._prefix}{list(self._common).index(node)}"
        except UserError as error:
            raise error.at(node.span) from None
        return tree.select([exp.Star()], exp.Table(this=exp.to_identifier(name))), 1

    def _flat(self, query: exp.Expr, height: int) -> tuple[exp.Expr, int]:
        if height < HEIGHT_MAX:
            return query, height
        return tree.rendered(query, self._engine.sqlglot_name), 0

    def _query(self, node: plan.RelationalNode) -> tuple[exp.Expr, int]:
        inputs = [self._relation(input) for input in node.inputs]
        height = 1 + max((height for _, height in inputs), default=0)
        return self._over(node, [query for query, _ in inputs]), height

    def _over(self, node: plan.RelationalNode, inputs: list[exp.Expr]) -> exp.Expr:
        """`node` over the queries of its inputs."""
        match node:
            case plan.TableScan():
                return self._scan(node)
            case plan.Values():
                return self._values(node)
            case plan.Filter():
                return self._filter(node, *inputs)
            case plan.Project():
                columns = [self._expression(e) for e in node.expressions]
                return tree.select(_numbered(columns), tree.subquery(inputs[0], "i"))
            case plan.Watermark():
                return self._with_rowtime(node, *inputs)
            case plan.WindowTvf():
                return self._window_tvf(node, *inputs)
            case plan.Aggregate():
                return self._aggregate(node, *inputs)
            case plan.RowNumber() | plan.Rank():
                return self._ranked(node, *inputs)
            case plan.Sort():
                return _sorted(node, *inputs)
            case plan.Join():
                return self._join(node, *inputs)
            case plan.Union():
                return _union(inputs)
        raise refuse(self._engine.title, f"a {type(node).__name__}")

    def _expression(self, expression: Expression, relation: str = "i") -> exp.Expr:
        return lower_expression(expression, self._engine, lambda i: tree.input_column(i, relation))

    def _scan(self, node: plan.TableScan) -> exp.Expr:
        relation = self._relations[node]
        if relation is None:
            raise refuse(self._engine.title, f'table "{node.table.path.name}"')
        names = (*node.columns, *(field.name for field in node.metadata))
        repeated = [name for name, count in Counter(map(str.lower, names)).items() if count > 1]
        if repeated and node.metadata:
            raise refuse(self._engine.title, f'metadata column "{repeated[0]}", which is also a column')
        columns = [
            self._engine.scanned(tree.column(name, "s", is_quoted=True), t)
            for name, t in zip(names, node.schema.types, strict=False)
        ]
        made = tree.select(_numbered(columns), tree.alias(relation, "s"))
        if node.watermark is not None and node.watermark.adds_rowtime:
            rowtime = tree.alias(self._expression(node.watermark.rowtime), f"c{len(columns)}")
            made = tree.select([exp.Star(), rowtime], tree.subquery(made, "i"))
        if node.filters:
            condition = tree.all_of([self._expression(f) for f in node.filters])
            made = tree.select_all(made, where=condition)
        return made

    def _values(self, node: plan.Values) -> exp.Expr:
        types, width = node.schema.types, range(len(node.schema))
        rows = [
            exp.Tuple(
                expressions=[self._engine.literal(Literal(v, t)) for v, t in zip(row, types, strict=True)]
            )
            for row in node.rows or [(None,) * len(types)]
        ]
        names = exp.TableAlias(
            this=exp.to_identifier("v"), columns=[exp.to_identifier(f"c{i}") for i in width]
        )
        made = tree.select([exp.Star()], exp.Values(expressions=rows, alias=names))
        return made if node.rows else tree.select_all(made, where=tree.boolean(False))

    def _filter(self, node: plan.Filter, input: exp.Expr) -> exp.Expr:
        parts = conjuncts(node.condition)
        if isinstance(node.input, plan.TableScan):
            parts = tuple(part for part in parts if part not in node.input.filters)
        if not parts:
            return input
        return tree.select_all(input, where=tree.all_of([self._expression(part) for part in parts]))

    def _with_rowtime(self, node: plan.Watermark, input: exp.Expr) -> exp.Expr:
        """The rows, or an error where the row time is NULL, as in a stream."""
        field = node.input.schema.fields[node.column]
        if not field.type.nullable:
            return input
        fail = self._engine.failure(f'rowtime "{field.name}" is null', BOOLEAN)
        is_null = tree.is_null(tree.input_column(node.column))
        return tree.select_all(input, where=tree.case([(is_null, fail)], tree.boolean(True)))

    def _window_tvf(self, node: plan.WindowTvf, input: exp.Expr) -> exp.Expr:
        if not node.window.is_event_time:
            hint = "use a column with a watermark"
            raise refuse(self._engine.title, "a window of processing time", hint=hint, span=node.span)
        return self._engine.window_tvf(node, input)

    def _aggregate(self, node: plan.Aggregate, input: exp.Expr) -> exp.Expr:
        columns = [tree.input_column(k) for k in node.keys]
        columns += [self._engine.aggregate(call, node.input.schema) for call in node.calls]
        group = [tree.input_column(k) for k in node.keys]
        return tree.select(_numbered(columns), tree.subquery(input, "i"), group=group)

    def _ranked(self, node: plan.RowNumber | plan.Rank, input: exp.Expr) -> exp.Expr:
        width = len(node.input.schema)
        partition = [tree.input_column(k) for k in node.partition_keys]
        number = tree.over(tree.call("row_number"), partition, ordered(node.order, "i"))
        numbered = tree.select([exp.Star(), tree.alias(number, f"c{width}")], tree.subquery(input, "i"))
        if isinstance(node, plan.RowNumber):
            return numbered
        columns = [tree.input_column(i) for i in range(width + node.outputs_rank)]
        kept = tree.is_between(
            tree.input_column(width), tree.number(node.rank_start), tree.number(node.rank_end)
        )
        return tree.select(columns, tree.subquery(numbered, "i"), where=kept)

    def _join(self, node: plan.Join, left: exp.Expr, right: exp.Expr) -> exp.Expr:
        left_width = len(node.left.schema)

        def column(index: int) -> exp.Expr:
            return (
                tree.input_column(index, "l")
                if index < left_width
                else tree.input_column(index - left_width, "r")
            )

        condition = tree.boolean(True)
        if node.condition is not None:
            condition = lower_expression(node.condition, self._engine, column)
        if node.kind in (plan.RelationalJoinKind.SEMI, plan.RelationalJoinKind.ANTI):
            matches = tree.select([tree.number(1)], tree.subquery(right, "r"), where=condition)
            exists: exp.Expr = exp.Exists(this=matches)
            if node.kind is plan.RelationalJoinKind.ANTI:
                exists = tree.negated(exists)
            return tree.select_all(left, "l", where=exists)
        columns = _numbered(column(i) for i in range(len(node.schema)))
        join = exp.Join(this=tree.subquery(right, "r"), side=_JOIN_SIDES[node.kind], on=condition)
        return tree.select(columns, tree.subquery(left, "l"), joins=[join])


def _numbered(columns: Iterable[exp.Expr]) -> list[exp.Expr]:
    return [tree.alias(column, f"c{i}") for i, column in enumerate(columns)]


def _sorted(node: plan.Sort, input: exp.Expr) -> exp.Expr:
    made = tree.select_all(input)
    if node.order:
        made.set("order", exp.Order(expressions=ordered(node.order, "i")))
    if node.fetch >= 0:
        made.set("limit", exp.Limit(expression=tree.number(node.fetch)))
    if node.offset:
        made.set("offset", exp.Offset(expression=tree.number(node.offset)))
    return made


def _union(branches: list[exp.Expr]) -> exp.Expr:
    """UNION ALL. Each branch is a subquery, since it may have an order or a limit of its own."""
    if len(branches) == 1:
        return branches[0]
    made: exp.Expr = tree.select_all(branches[0])
    for branch in branches[1:]:
        made = exp.Union(this=made, expression=tree.select_all(branch), distinct=False)
    return made

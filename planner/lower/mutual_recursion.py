"""WITH MUTUALLY RECURSIVE in SQL: one recursive query whose rows are all rows of all queries, round by round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from sqlglot import exp

from sqlstream.planner.lower import tree
from sqlstream.planner.lower.engine import EngineDialect
from sqlstream.planner.relational.recursive_query import MutualIterate, free_levels
from sqlstream.types import BOOLEAN, INT

ROUNDS_MAX = 100_000
"""Behind so many rounds a query that names no limit stops with an error: the rows of all rounds are kept."""

_ROUND, _QUERY, _FIRST = 0, 1, 2
"""The columns of a row of the rounds: its round, its query, then those of all queries, where the ones of others are NULL."""
_NO_QUERY = -1
"""A round has one row of it, so that none is empty."""


def lower_mutual_iterate(
    node: MutualIterate,
    engine: EngineDialect,
    bodies: Sequence[exp.Expr],
    recursive: Sequence[exp.Identifier],
) -> exp.Expr:
    """`bodies` read the tables `recursive` for the rows of each query. A round is computed from the one before it, and is the
    last one when it would be the same; then it is the answer."""
    return _Rounds(node, engine, recursive).query(bodies)


class _Rounds:
    def __init__(
        self, node: MutualIterate, engine: EngineDialect, recursive: Sequence[exp.Identifier]
    ) -> None:
        self._node = node
        self._recursive = recursive
        self._types = [[engine.type_(f.type) for f in columns.fields] for columns in node.columns]
        self._firsts = [_FIRST, *accumulate((len(types) for types in self._types), initial=_FIRST)][1:]
        self._width = _FIRST + sum(map(len, self._types))
        self._engine = engine
        self._rounds, self._round = (
            exp.to_identifier(f"{name}_{node.level}") for name in ("rounds", "round")
        )

    def query(self, bodies: Sequence[exp.Expr]) -> exp.Expr:
        node, names = self._node, [exp.to_identifier(f"c{i}") for i in range(self._width)]
        begin = tree.select(self._row(_NO_QUERY, 0, []), None)
        rounds = exp.CTE(
            this=exp.Union(this=begin, expression=tree.select_all(self._step(bodies)), distinct=False),
            alias=exp.TableAlias(this=self._rounds, columns=names),
        )
        latest = tree.over(tree.call("max", tree.input_column(_ROUND)))
        numbered = tree.select([tree.star(), tree.alias(latest, "latest")], self._of(self._rounds))
        is_last = tree.operate(exp.EQ, tree.input_column(_ROUND), tree.column("latest", "i"))
        is_read = tree.is_in(tree.input_column(_QUERY), map(tree.number, node.read))
        columns = [
            tree.input_column(self._firsts[q] + i) for q in node.read for i in range(len(self._types[q]))
        ]
        if len(node.read) > 1:
            columns = [tree.input_column(_QUERY), *columns]
        named = [tree.alias(column, f"c{i}") for i, column in enumerate(columns)]
        made = tree.select(named, tree.subquery(numbered, "i"), where=tree.all_of([is_last, is_read]))
        made.set("with_", exp.With(expressions=[rounds], recursive=True))
        return made

    def _step(self, bodies: Sequence[exp.Expr]) -> exp.Expr:
        """The rows of the next round, and none when they are those of the last."""
        ctes, latest = [], []
        for number in range(len(bodies)):
            before = exp.to_identifier(f"before_{self._node.level + number}")
            own = range(self._firsts[number], self._firsts[number] + len(self._types[number]))
            columns = [tree.alias(tree.input_column(c), f"c{i}") for i, c in enumerate(own)]
            is_own = tree.operate(exp.EQ, tree.input_column(_QUERY), tree.number(number))
            ctes.append(_cte(before, tree.select(columns, self._of(self._rounds), where=is_own)))
            latest.append(before)
        for number, body in enumerate(bodies):
            after = exp.to_identifier(f"after_{self._node.level + number}")
            ctes.append(_cte(after, self._reading(number, body, latest)))
            latest[number] = after
        ctes.append(_cte(self._round, self._together(latest)))
        made = tree.select(
            [tree.alias(self._next(), f"c{_ROUND}"), *self._rest()],
            self._of(self._round),
            where=self._goes_on(),
        )
        made.set("with_", exp.With(expressions=ctes))
        return made

    def _reading(self, number: int, body: exp.Expr, latest: Sequence[exp.Identifier]) -> exp.Expr:
        """A query over what the others have by now."""
        typed = [tree.cast(tree.input_column(i), t) for i, t in enumerate(self._types[number])]
        named = [tree.alias(column, f"c{i}") for i, column in enumerate(typed)]
        made = tree.select(named, tree.subquery(body, "i"))
        levels = self._node.levels
        read = [
            level - levels.start for level in sorted(free_levels(self._node.bodies[number]) & set(levels))
        ]
        if read:
            ctes = [_cte(self._recursive[q], tree.select([tree.star()], self._of(latest[q]))) for q in read]
            made.set("with_", exp.With(expressions=ctes))
        return made

    def _together(self, queries: Sequence[exp.Identifier]) -> exp.Expr:
        made: exp.Expr = tree.select(self._row(_NO_QUERY, None, []), None)
        for number, query in enumerate(queries):
            own = [tree.input_column(i) for i in range(len(self._types[number]))]
            rows = tree.select(self._row(number, None, own), self._of(query))
            made = exp.Union(this=made, expression=rows, distinct=False)
        return made

    def _row(self, query: int, number: int | None, own: list[exp.Expr]) -> Iterator[exp.Expr]:
        if number is not None:
            yield tree.alias(tree.cast(tree.number(number), self._engine.type_(INT)), f"c{_ROUND}")
        yield tree.alias(tree.cast(tree.number(query), self._engine.type_(INT)), f"c{_QUERY}")
        for each, types in enumerate(self._types):
            for i, t in enumerate(types):
                value = own[i] if own and each == query else tree.cast(tree.null(), t)
                yield tree.alias(value, f"c{self._firsts[each] + i}")

    def _goes_on(self) -> exp.Expr:
        """Whether the next round is another one, and whether it may be."""
        this, last = (tree.select(self._rest(), self._of(name)) for name in (self._round, self._rounds))
        pairs = ((this, last), (last, this))
        differ = [
            exp.Exists(this=exp.Except(this=a.copy(), expression=b.copy(), distinct=False)) for a, b in pairs
        ]
        is_other = exp.Paren(this=tree.any_of(differ))
        limit = self._node.rounds_max
        is_within = tree.operate(exp.LT, self._last(), tree.number(limit or ROUNDS_MAX))
        if limit and not self._node.is_error:
            return tree.all_of([is_other, is_within])
        message = f"WITH MUTUALLY RECURSIVE still changes after {limit or ROUNDS_MAX:,} rounds"
        failure = self._engine.failure(message, BOOLEAN)
        return tree.case(
            [(tree.negated(is_other), tree.boolean(False)), (is_within, tree.boolean(True))], failure
        )

    def _rest(self) -> list[exp.Expr]:
        return [tree.input_column(i) for i in range(_QUERY, self._width)]

    def _last(self) -> exp.Expr:
        latest = tree.call("max", tree.input_column(_ROUND))
        return exp.Subquery(this=tree.select([latest], self._of(self._rounds)))

    def _next(self) -> exp.Expr:
        return tree.cast(tree.operate(exp.Add, self._last(), tree.number(1)), self._engine.type_(INT))

    def _of(self, name: exp.Identifier) -> exp.Expr:
        return exp.Table(this=name.copy(), alias=exp.TableAlias(this=exp.to_identifier("i")))


def _cte(name: exp.Identifier, query: exp.Expr) -> exp.CTE:
    return exp.CTE(this=query, alias=exp.TableAlias(this=name.copy()))

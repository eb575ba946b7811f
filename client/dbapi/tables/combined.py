"""Methods of tables that combine them with others, or with what functions make of their rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal, Self, TypeAlias

from sqlstream.client.dbapi.errors import ProgrammingError
from sqlstream.client.dbapi.places import Place
from sqlstream.client.dbapi.tables.expressions import (
    ColumnLike,
    Expression,
    Value,
    Written,
    column,
    lit,
    many,
)
from sqlstream.client.dbapi.tables.query import (
    Block,
    CalledTable,
    Iteration,
    NamedTable,
    Rows,
    SetOperation,
    Side,
    Star,
    names_of,
)
from sqlstream.client.dbapi.tables.relation import Relation, next_id
from sqlstream.client.dbapi.tables.text import Duration, interval, path_text, quoted, word
from sqlstream.client.dbapi.tables.user_functions import Function
from sqlstream.function_ref import FunctionKind

How: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti", "cross"]
_JOINS: dict[str, str] = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
    "cross": "CROSS JOIN",
}
_ITERATIONS: ContextVar[int] = ContextVar("iterations", default=0)
"""How many steps of iterations are being written."""


class Combined(Relation):
    """A relation that is joined and united with others, and iterated."""

    def join(
        self, other: Self, on: Expression | str | Sequence[str] | None = None, how: How = "inner"
    ) -> Self:
        """Rows of both tables for which a condition holds, or that are equal in the columns of these names.

        `how`: `left`, `right` and `full` also keep rows without a partner; `semi` gives the rows of this table with a partner,
        and `anti` those without one; `cross` has no condition.
        """
        if how not in _JOINS:
            raise ProgrammingError(
                f'"{how}" is no join', code="SS3447", hint=f"choose one of {', '.join(_JOINS)}"
            )
        if (on is None) != (how == "cross"):
            said = "needs a condition" if on is None else "takes no condition"
            raise ProgrammingError(f"a join of kind {how} {said}", code="SS3447")
        self._refuse_foreign(other)
        condition = on if on is None or isinstance(on, Expression) else many(on)
        side = dataclasses.replace(other._side(_JOINS[how]), on=condition, place=Place.here())
        return self._joined(side)

    def _joined(self, side: Side) -> Self:
        body = self._body
        if not isinstance(body, Block) or not body.is_from_alone or len(body.sides) == 1:
            body = Block((self._side(""),), frozenset())
        return self._made(body, sides=(*body.sides, side))

    def as_of(self, time: ColumnLike) -> Self:
        """The table as it is, or was, at the time of each row of the table that is joined with it:
        `orders.join(rates.as_of(orders.ts), orders.currency == rates.currency)`."""
        side = self._side("")
        if not isinstance(side.source, NamedTable):
            raise ProgrammingError(
                "as_of takes a table or view as it is in the catalog",
                code="SS3447",
                hint="make a view of it: table.create_view(name)",
            )
        versioned = dataclasses.replace(side.source, version=column(time), place=Place.here())
        return self._of(dataclasses.replace(side, source=versioned))

    def snapshot(
        self,
        on_time: ColumnLike | None = None,
        *,
        load_completed_time: Value | None = None,
        load_completed_idle_timeout: Duration | None = None,
        state_ttl: Duration | None = None,
    ) -> Self:
        """What the table holds when each row of the table that is joined with it is processed."""
        arguments: list[str | Written] = []
        if on_time is not None:
            arguments.append(f", on_time => DESCRIPTOR({names_of(column(on_time))})")
        if load_completed_time is not None:
            arguments += [", load_completed_time => ", lit(load_completed_time)]
        if load_completed_idle_timeout is not None:
            arguments.append(f", load_completed_idle_timeout => {interval(load_completed_idle_timeout)}")
        if state_ttl is not None:
            arguments.append(f", state_ttl => {interval(state_ttl)}")
        side = self._side("")
        head = "LATERAL SNAPSHOT(input => TABLE "
        source = CalledTable(head, self._plain_source(), tuple(arguments), Place.here())
        return self._of(dataclasses.replace(side, source=source, columns=()))

    def table_function(
        self,
        name: str,
        columns: ColumnLike | Sequence[ColumnLike] = (),
        *values: Value,
        partition_by: ColumnLike | Sequence[ColumnLike] = (),
    ) -> Self:
        """What a table function of SQL makes of the table: `edges.table_function("CONNECTED_COMPONENTS", ["a", "b"])` is
        CONNECTED_COMPONENTS(TABLE edges, DESCRIPTOR(a, b))."""
        keys, described = (", ".join(names_of(column(k)) for k in many(c)) for c in (partition_by, columns))
        arguments: list[str | Written] = [f" PARTITION BY ({keys})"] if keys else []
        if described:
            arguments.append(f", DESCRIPTOR({described})")
        for value in values:
            arguments += [", ", lit(value)]
        source = CalledTable(f"{word(name)}(TABLE ", self._plain_source(), tuple(arguments), Place.here())
        return self._of(Side(source))

    def predict(
        self,
        model: str | tuple[str, ...],
        *columns: ColumnLike,
        config: Mapping[str, str] | None = None,
    ) -> Self:
        """The rows with the outputs of a model, of its inputs in these columns: ML_PREDICT."""
        described = ", ".join(names_of(column(key)) for key in columns)
        arguments: list[str | Written] = [f", MODEL {path_text(model)}, DESCRIPTOR({described})"]
        if config:
            arguments += [", ", lit(dict(config))]
        source = CalledTable("ML_PREDICT(TABLE ", self._plain_source(), tuple(arguments), Place.here())
        return self._of(Side(source))

    def join_rows(
        self,
        call: Expression,
        names: Sequence[str] = (),
        *,
        alias: str = "",
        how: Literal["inner", "left"] = "inner",
    ) -> Self:
        """Each row with each of those that a table function makes of it: `t.join_rows(call("words", t.text), ["word", "size"])`.
        `left` keeps rows of which it makes none."""
        return self._with_rows(Rows("LATERAL TABLE(", call, ")", "rows"), names, alias, how)

    def map_batches(self, function: Any, **arguments: Value) -> Self:
        """The rows that a table function makes of this table, batch by batch: of `@udtf(func_type="arrow")`, or row by row. Its
        parameters are the columns of their names, or what `arguments` say. It is made a function of the session if it is none."""
        made = self._function(function)
        if made.declared.kind is not FunctionKind.TABLE or made.declared.is_variadic:
            raise ProgrammingError(
                "map_batches takes a table function with named parameters",
                code="SS3447",
                hint='declare it by @udtf(func_type="arrow", result_types="ROW<…>"), and call others in select',
            )
        if unknown := [name for name in arguments if name not in made.declared.parameters]:
            raise ProgrammingError(f'the function has no parameter "{unknown[0]}"', code="SS3447")
        call = made(*(arguments.get(name, self[name]) for name in made.declared.parameters))
        id_ = next_id()
        side = Side(
            Rows("LATERAL TABLE(", call, ")", "made"),
            id_,
            frozenset((id_,)),
            join="CROSS JOIN",
            place=Place.here(),
        )
        rows = Relation(self._connection, Block((side,), frozenset((id_,))), id_)
        joined = self._joined(side)
        return joined._made(joined._block(lambda block: True), items=(Star(rows),))

    def _function(self, given: Any) -> Function:
        """A function of the session, which is made of an object of Python once."""
        if isinstance(given, Function):
            return given
        made = self._connection.functions
        if given not in made:
            made[given] = self._connection.create_function(given)
        return made[given]

    def unnest(
        self,
        array: ColumnLike,
        names: Sequence[str] = (),
        *,
        alias: str = "",
        how: Literal["inner", "left"] = "inner",
        with_ordinality: bool = False,
    ) -> Self:
        """Each row with each element of its array, map or multiset, and the number of the element `with_ordinality`."""
        after = ") WITH ORDINALITY" if with_ordinality else ")"
        return self._with_rows(Rows("UNNEST(", column(array), after, "elements"), names, alias, how)

    def _with_rows(self, rows: Rows, names: Sequence[str], alias: str, how: str) -> Self:
        if how not in ("inner", "left"):
            raise ProgrammingError(f'"{how}" is none of inner and left', code="SS3447")
        on = lit(True) if how == "left" else None
        join = "LEFT JOIN" if how == "left" else "CROSS JOIN"
        side = Side(rows, alias=alias, columns=tuple(names), join=join, on=on, place=Place.here())
        return self._joined(side)

    def union(self, *others: Self, all: bool = False, by_name: bool = False) -> Self:
        """The rows of several tables, each once, or (`all`) as often as it comes. Columns are matched by place, or by name."""
        return self._combined("UNION", others, all, " BY NAME" if by_name else "")

    def intersect(self, *others: Self, all: bool = False) -> Self:
        """The rows that all tables have."""
        return self._combined("INTERSECT", others, all)

    def except_(self, *others: Self, all: bool = False) -> Self:
        """The rows that the others do not have."""
        return self._combined("EXCEPT", others, all)

    def _combined(self, word: str, others: Sequence[Self], all_: bool, suffix: str = "") -> Self:
        self._refuse_foreign(*others)
        for table in (self, *others):
            table._refuse_order()
        id_ = next_id()
        own = frozenset().union((id_,), self._lineage)
        operator = f"{word}{' ALL' if all_ else ''}{suffix}"
        return self._kind(self._connection, SetOperation(operator, (self, *others), own, Place.here()), id_)

    def iterate(self, step: Callable[[Self], Self], *, all: bool = False, name: str = "") -> Self:
        """The rows of this table, and those that `step` makes of them, of these and so on, until a round makes none: WITH
        RECURSIVE. `step` is called once, with the table of the rows of a round, and returns that of the next one. A row counts
        once, or (`all`) as often as it is made."""
        depth = _ITERATIONS.get()
        named = name or f"iterated{depth + 1 if depth else ''}"
        id_ = next_id()
        source = NamedTable((named,), is_of_catalog=False)
        block = Block((Side(source),), frozenset((id_,)), place=Place.here())
        token = _ITERATIONS.set(depth + 1)
        try:
            made = step(self._kind(self._connection, block, id_))
        finally:
            _ITERATIONS.reset(token)
        if not isinstance(made, type(self)):
            raise ProgrammingError("the step of an iteration returns a table", code="SS3447")
        self._refuse_foreign(made)
        for table in (self, made):
            table._refuse_order()
        id_ = next_id()
        own = frozenset((id_,)) | self._lineage
        body = Iteration(named, self, made, "UNION ALL" if all else "UNION", own, Place.here())
        return self._kind(self._connection, body, id_)

    def alias(self, name: str) -> Self:
        """The table under another name, so that it can be joined with itself: columns of one are none of the other."""
        quoted(name)
        return self._of(dataclasses.replace(self._side(""), alias=name), keeps_lineage=False)

"""Random recursive queries over the relations of random queries, and what other shapes make of their rows."""

from __future__ import annotations

from differential.random_query import RandomQuery
from differential.random_vocabulary import Relation

TYPES = {"small": "INT", "int": "INT", "big": "BIGINT", "str": "STRING", "date": "DATE", "bool": "BOOLEAN"}
DEPTH_MAX = 3
STEPS = ("joined", "joined", "outer", "exists", "alone", "counted", "found", "grouped", "first", "twice")

Columns = tuple[tuple[str, str], ...]


class RandomRecursiveQuery(RandomQuery):
    """A step ends: its rows have a depth, which is the last column, or no values but those of its tables, each row once.
    State: the recursive relation, until a shape has read it."""

    _made: Relation | None = None

    def _script(self) -> str:
        made = self._recursion()
        self._made = made
        script = super()._script()
        if self._made is None:
            return script
        self._made = None
        return f"SELECT {', '.join(name for name, _ in made.columns)} FROM {made.sql}"

    def _relation(self, depth: int) -> Relation:
        made = self._made
        if made is None or depth > 1 or self._random.random() < 0.2:
            return super()._relation(depth)
        self._made = None
        return made

    def _recursion(self) -> Relation:
        depths = self._random.choice((0, 0, 1)), self._random.choice((0, 0, 1))
        name, (first, table) = self._name(), (self._named(self._relation(depth)) for depth in depths)
        known = [kind for _, kind in table.columns if kind in TYPES] or ["int"]
        kinds = self._random.choices(known, k=self._random.randrange(1, 4))
        columns = tuple((self._name(), "int" if kind == "small" else kind) for kind in kinds)
        number = ((self._name(), "int"),) if self._random.random() < 0.6 else ()
        start = [*self._row(columns, first.columns, computes=True), *("0" for _ in number)]
        union = " UNION " if not number or self._random.random() < 0.5 else " UNION ALL "
        parts = [f"SELECT {', '.join(start)} FROM {first.sql}{self._where(first.columns)}"]
        parts += [self._step(name, columns, number, table) for _ in range(self._random.choice((1, 1, 2)))]
        shown = ", ".join(column for column, _ in columns + number)
        query = f"WITH RECURSIVE {name} ({shown}) AS ({union.join(parts)}) SELECT {shown} FROM {name}"
        return Relation(f"({query}) AS {self._name()}", columns + number, 60)

    def _step(self, name: str, columns: Columns, number: Columns, table: Relation) -> str:
        own = tuple((f"{name}.{column}", kind) for column, kind in columns)
        depth = [f"{name}.{column}" for column, _ in number]
        bound = f" WHERE {depth[0]} < {DEPTH_MAX}" if depth else " WHERE TRUE"
        if self._random.random() < 0.2:
            bound += f" AND {self._condition(own)}"
        pairs = [(a, b) for a, k in own for b, m in table.columns if k == m or {k, m} == {"int", "small"}]
        form, further = (
            self._random.choice(STEPS) if pairs else "alone",
            [f"{column} + 1" for column in depth],
        )
        on = " = ".join(self._random.choice(pairs)) if pairs else ""
        if form == "found" and not depth:
            a, b = self._random.choice(pairs)
            row = self._row(columns, table.columns, computes=False)
            return f"SELECT {', '.join(row)} FROM {table.sql} WHERE {b} IN (SELECT {a} FROM {name})"
        if form in ("alone", "exists", "counted", "twice"):
            row = [*self._row(columns, own, computes=bool(depth)), *further]
            return f"SELECT {', '.join(row)} FROM {self._of_itself(form, name, columns, table, on, bound)}"
        rest = f"{name} {'LEFT ' if form == 'outer' else ''}JOIN {table.sql} ON {on}{bound}"
        if form == "grouped":
            row = [*self._row(columns, own, computes=False), *further]
            keys = ", ".join([*(column for column, _ in own), *depth])
            return f"SELECT {', '.join(row)} FROM {rest} GROUP BY {keys} HAVING COUNT(*) < 3"
        row = [*self._row(columns, own + table.columns, computes=bool(depth)), *further]
        return self._first_rows(row, rest) if form == "first" else f"SELECT {', '.join(row)} FROM {rest}"

    def _of_itself(self, form: str, name: str, columns: Columns, table: Relation, on: str, bound: str) -> str:
        """What stands behind FROM, where the values are those of the last round."""
        is_not, least, other = self._random.choice(("", "NOT ")), self._random.choice((0, 1, 5)), self._name()
        same = next(f"{name}.{c} = {other}.{d}" for c, k in columns for d, m in columns[::-1] if k == m)
        return {
            "alone": f"{name}{bound}",
            "exists": f"{name}{bound} AND {is_not}EXISTS (SELECT 1 FROM {table.sql} WHERE {on})",
            "counted": f"{name}{bound} AND (SELECT COUNT(*) FROM {table.sql}) > {least}",
            "twice": f"{name} JOIN {name} AS {other} ON {same}{bound.replace(f'< {DEPTH_MAX}', '< 1', 1)}",
        }[form]

    def _first_rows(self, row: list[str], rest: str) -> str:
        """Two rows of each value of the first column, in the order of all."""
        names, number = [self._name() for _ in row], self._name()
        made = ", ".join(f"{text} AS {name}" for text, name in zip(row, names, strict=True))
        order = f"PARTITION BY {names[0]} ORDER BY {', '.join(names)}"
        numbered = f"SELECT *, ROW_NUMBER() OVER ({order}) AS {number} FROM (SELECT {made} FROM {rest}) AS {self._name()}"
        return f"SELECT {', '.join(names)} FROM ({numbered}) AS {self._name()} WHERE {number} <= 2"

    def _row(self, columns: Columns, given: Columns, *, computes: bool) -> list[str]:
        """A value for each column, of the columns that are given, or computed of them."""
        row = []
        for _, kind in columns:
            own = [name for name, k in given if k == kind or {k, kind} == {"int", "small"}]
            if own and not (computes and self._random.random() < 0.2):
                value = self._random.choice(own)
            else:
                value = self._expression(kind, given, 1) if computes else "NULL"
            row.append(f"CAST({value} AS {TYPES[kind]})")
        return row

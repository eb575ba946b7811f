"""Random well-typed queries, the same for the same seed, that DuckDB can answer exactly as a finished stream must.

Tables are appended to (`t`, `u`) or changed (`w`). What DuckDB has not itself (JSON, bitmaps, Python) the stream's functions
compute for it: these prove the plans around them.

Left out, because the answer is not fixed or DuckDB's is another: orders with ties that show, FIRST_VALUE and LISTAGG (the
order of rows), whole numbers that may overflow (Java wraps), `NaN` and `-0.0` as keys, division by what may be zero,
TO_TIMESTAMP of text with fractions, group numbers that a regular expression lacks, indices below 1 of an ARRAY.
"""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

from differential.random_stream_only import StreamOnlyShapes, written
from differential.random_vocabulary import (
    AGGREGATES,
    BASE,
    BASE_COLUMNS,
    BEYOND_ENGINES,
    CACHES,
    CHANGED,
    CHANGED_COLUMNS,
    COMPARISONS,
    EXPRESSIONS,
    FRAMES,
    FUNCTIONS,
    HALF_JOINS,
    JOINS,
    KEY_KINDS,
    KINDS,
    LITERALS,
    LOOKED_UP,
    MOMENTS,
    OF_ANY_KIND,
    OTHER,
    OTHER_COLUMNS,
    RANKS,
    SECOND,
    SETTINGS,
    SHAPES,
    STREAM_ONLY,
    TIMES,
    WORDS,
    ZONES,
    Relation,
)
from oracle import ChangedRows, LookedUpRows, Row, Tables


def function_statements(sql: str) -> list[str]:
    """What makes the Python functions that a query calls."""
    module = Path(__file__).parents[1] / "python_functions.py"
    called = [(name, f) for name, f in FUNCTIONS if name in sql]
    made = [f"CREATE FUNCTION {name} AS 'python_functions.{f}' LANGUAGE PYTHON" for name, f in called]
    return [f"SET 'python.files' = '{module}'", *made] if made else []


_TYPES = {"int": "INT", "str": "STRING", "ltz": "TIMESTAMP_LTZ(3)", "dec": "DECIMAL(30, 6)"}


class RandomQuery(StreamOnlyShapes):
    """One query over tables `t`, `u`, `w` and `l`: `sql`, which a stream answers, and `batch_sql`, a statement with the same rows
    that batch engines answer too. State: the random numbers, and how many names are taken."""

    def __init__(
        self, seed: int, *, is_plain: bool = False, is_for_both: bool = False, is_keyed: bool = False
    ) -> None:
        """`is_plain`: with functions of every batch engine; `is_for_both`: `sql` itself may run as a batch; `is_keyed`: `keys`
        are the columns that tell the rows apart, and are never NULL."""
        self._random = random.Random(seed)
        self._is_plain = is_plain
        self._shapes = SHAPES if is_for_both else {**SHAPES, **STREAM_ONLY}
        self._names = 0
        self._start = self._random.choice(TIMES)
        self._is_in_order = self._random.random() < 0.5
        self._views: list[str] = []
        self._cache = self._random.choice(CACHES)
        self.keys: tuple[str, ...] = ()
        script = self._keyed() if is_keyed else self._script()
        self.sql = ";\n".join((*self._settings(), *self._views, written(script, 1)))
        self.batch_sql = written(script, 2)
        self.tables = self._tables()

    # -- rows --------------------------------------------------------------------------------------

    def _tables(self) -> Tables:
        delay = "0.001' SECOND" if self._is_in_order else "1' HOUR"
        watermark = f", WATERMARK FOR ts AS ts - INTERVAL '{delay}"
        return {
            "t": (BASE + watermark, self._rows(self._base_row, self._random.randrange(18))),
            "u": (OTHER + watermark, self._rows(self._other_row, self._random.randrange(12))),
            **({"w": self._changes()} if re.search(r"\bw\b", self.sql) else {}),
            **({"l": self._looked_up_rows()} if re.search(r"\bl\b", self.sql) else {}),
        }

    def _changes(self) -> tuple[str, list[Row]]:
        """A table of changes: rows that come, are replaced and go, each while others do."""
        mode = self._random.choice(("retract", "retract", "upsert"))
        columns = CHANGED + (", PRIMARY KEY (id) NOT ENFORCED" if mode == "upsert" else "")
        told: list[Row] = []
        present: dict[int, Row] = {}
        for _ in range(self._random.randrange(30)):
            id = self._random.randrange(9)
            row = (
                id,
                *self._other_row()[:2],
                *self._other_row()[3:5],
                self._random.choice((True, False, None)),
            )
            old = present.get(id)
            if old is None:
                told.append(("+I", *row))
            elif self._random.random() < 0.4:
                told.append(("-D", *old))
                del present[id]
                continue
            else:
                told += [("-U", *old), ("+U", *row)]
            present[id] = row
        return columns, ChangedRows(told, mode)

    def _looked_up_rows(self) -> tuple[str, list[Row]]:
        """A table that rows look up, whose keys are sometimes several rows'."""
        pick = self._random.choice
        rows = [
            (
                pick((0, 1, 2, -5, None)),
                pick((0, 2, 4, 100000, None)),
                pick((*WORDS[:5], None)),
                pick((None, Decimal("1.25"), Decimal("0.5"))),
            )
            for _ in range(self._random.randrange(12))
        ]
        return LOOKED_UP, LookedUpRows(rows, self._cache)

    def _rows(self, make: Callable[[], Row], count: int) -> list[Row]:
        rows = [make() for _ in range(count)]
        rows += [self._random.choice(rows) for _ in range(count // 5)]
        return sorted(rows, key=lambda row: row[-1]) if self._is_in_order else rows

    def _base_row(self) -> Row:
        pick, whole = self._random.choice, self._random.randrange
        values = (
            pick((0, 1, 1, -3, 127, -127)),
            pick((0, 1, 2, 2, -5, 100000)),
            pick((0, 2, -7, 10**12, 4)),
            Decimal(pick((0, 50, 125, 125, -333, 99999999, whole(-1000, 1000)))) / 100,
            pick((0.0, 0.5, -2.25, 1024.0, 0.5)),
            pick(WORDS),
            pick((True, False)),
            datetime.date(1970, 1, 1) + datetime.timedelta(days=pick((0, -1, 19782, whole(-9999, 19999)))),
            pick(MOMENTS),
        )
        return (*(None if self._random.random() < 0.2 else v for v in values), self._time())

    def _other_row(self) -> Row:
        pick, whole = self._random.choice, self._random.randrange
        values = (
            pick((0, 1, 2, 127, -3, 32767)),
            pick((0, 1, 2, 4, 100000)),
            Decimal(pick((0, 12500, 5000, whole(-10000, 10000)))) / 10000,
            pick(WORDS)[:3],
            pick(("a ", "  ", "ab", "ä ")),
            pick(MOMENTS),
        )
        a, h, p, v, w, z = (None if self._random.random() < 0.2 else x for x in values)
        return a, h, pick((0, 1, 2, -5, 7)), p, v, w, z, self._time()

    def _time(self) -> datetime.datetime:
        whole = self._random.randrange
        milliseconds = self._random.choice((whole(60) * 1000, whole(60_000), 10_000 * whole(7)))
        return self._start + datetime.timedelta(milliseconds=milliseconds)

    # -- expressions -------------------------------------------------------------------------------

    def _expression(self, kind: str, columns: tuple[tuple[str, str], ...], depth: int) -> str:
        own = [name for name, k in columns if k == kind]
        if depth <= 0 or self._random.random() < 0.3:
            return self._random.choice(own if own and self._random.random() < 0.85 else LITERALS[kind])
        if self._random.random() < 0.15:
            template = self._random.choice(OF_ANY_KIND).replace("{k}", f"{{{kind}}}")
        else:
            templates = EXPRESSIONS[kind]
            if not self._is_plain and kind in BEYOND_ENGINES and self._random.random() < 0.08:
                templates = BEYOND_ENGINES[kind]
            template = self._random.choice(templates)

        def fill(match: re.Match[str]) -> str:
            if match[1] == "cmp":
                return self._random.choice(COMPARISONS)
            return self._expression(match[1], columns, depth - 1)

        return re.sub(r"\{(\w+)\}", fill, template)

    def _condition(self, columns: tuple[tuple[str, str], ...]) -> str:
        return self._expression("bool", columns, 2)

    def _name(self) -> str:
        self._names += 1
        return f"n{self._names}"

    # -- relations ---------------------------------------------------------------------------------

    def _script(self) -> str:
        relation = self._relation(2)
        shown = ", ".join(name for name, _ in relation.columns)
        query = f"SELECT {shown} FROM {relation.sql}"
        if self._random.random() < 0.3 and all(kind != "approximate" for _, kind in relation.columns):
            keys = [f"{name}{self._direction()}" for name, _ in relation.columns]
            self._random.shuffle(keys)
            query += f" ORDER BY {', '.join(keys)}"
            if self._random.random() < 0.7:
                query += f" LIMIT {self._random.randrange(1, 8)} OFFSET {self._random.randrange(4)}"
        return query

    def _keyed(self) -> str:
        """A row for each key, whose other values change."""
        while not (keys := self._keys((source := self._relation(2)).columns)):
            pass
        calls = [c for c in self._calls(source.columns) if c[1] != "approximate"]
        by = ", ".join(name for name, _ in keys)
        relation = self._select(
            [*keys, *calls], f"{source.sql}{self._where(source.columns)} GROUP BY {by}", 20
        )
        names = [name for name, _ in relation.columns]
        self.keys = tuple(names[: len(keys)])
        present = " AND ".join(f"{key} IS NOT NULL" for key in self.keys)
        return f"SELECT {', '.join(names)} FROM {relation.sql} WHERE {present}"

    def _settings(self) -> list[str]:
        """Settings that leave the rows as they are."""
        zones = [("table.local-time-zone", zone) for zone in ZONES] if not self._is_plain else []
        return [
            f"SET '{key}' = '{value}'" for key, value in (*SETTINGS, *zones) if self._random.random() < 0.1
        ]

    def _direction(self) -> str:
        return self._random.choice(("", " ASC", " DESC", " DESC NULLS LAST", " NULLS FIRST", " NULLS LAST"))

    def _relation(self, depth: int) -> Relation:
        shape = "table" if depth <= 0 else self._random.choices([*self._shapes], [*self._shapes.values()])[0]
        return getattr(self, f"_{shape}")(depth)  # type: ignore[no-any-return]

    def _listed(self, depth: int) -> Relation:
        """A few rows as VALUES, of which the first says the types."""
        kinds = self._random.sample(KEY_KINDS, self._random.randrange(1, 4))
        rows = [
            [self._random.choice(LITERALS[kind]) for kind in kinds]
            for _ in range(self._random.randrange(1, 5))
        ]
        names = [self._name() for _ in kinds]
        values = ", ".join(f"({', '.join(row)})" for row in rows)
        return Relation(
            f"(SELECT * FROM (VALUES {values}) AS {self._name()} ({', '.join(names)})) AS {self._name()}",
            tuple(zip(names, kinds, strict=True)),
            len(rows),
        )

    def _table(self, depth: int) -> Relation:
        tables = [("t", BASE_COLUMNS), ("u", OTHER_COLUMNS), ("w", CHANGED_COLUMNS)]
        name, columns = self._random.choice(tables)
        return Relation(name, columns, 20)

    def _select(self, items: list[tuple[str, str]], rest: str, size: int, head: str = "SELECT") -> Relation:
        """A subquery of (expression, kind) items, which get names."""
        named = [(self._name(), text, kind) for text, kind in items]
        shown = ", ".join(f"{text} AS {name}" for name, text, _ in named)
        sql = f"({head} {shown} FROM {rest}) AS {self._name()}"
        return Relation(sql, tuple((name, kind) for name, _, kind in named), size)

    def _items(self, columns: tuple[tuple[str, str], ...], count: int) -> list[tuple[str, str]]:
        kinds = self._random.choices(KINDS, k=count)
        return [(self._expression(kind, columns, 2), kind) for kind in kinds]

    def _where(self, columns: tuple[tuple[str, str], ...]) -> str:
        return f" WHERE {self._condition(columns)}" if self._random.random() < 0.4 else ""

    def _projected(self, depth: int) -> Relation:
        source = self._relation(depth - 1)
        items = self._items(source.columns, self._random.randrange(2, 5))
        return self._select(items, source.sql + self._where(source.columns), source.size)

    def _distinct(self, depth: int) -> Relation:
        source = self._relation(depth - 1)
        items = [(n, k) for n, k in source.columns if k in KEY_KINDS][: self._random.randrange(1, 4)]
        items = items or [("1", "int")]
        return self._select(items, source.sql + self._where(source.columns), source.size, "SELECT DISTINCT")

    def _keys(self, columns: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
        found = [c for c in columns if c[1] in KEY_KINDS]
        return self._random.sample(found, min(len(found), self._random.choice((0, 1, 1, 1, 2, 3))))

    def _calls(self, columns: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
        calls = [("COUNT(*)", "big")]
        for _ in range(self._random.randrange(4)):
            name, kind = self._random.choice(columns)
            if kind == "approximate":
                continue
            extremes = () if kind == "bool" else (("MIN({c})", kind), ("MAX({c})", kind))
            template, result = self._random.choice((*AGGREGATES.get(kind, ()), *extremes))
            call = template.format(c=name)
            if self._random.random() < 0.25:
                call += f" FILTER (WHERE {self._expression('bool', columns, 1)})"
            calls.append((call, result))
        texts = [n for n, k in columns if k == "str"]
        numbers = [n for n, k in columns if k in ("int", "small")]
        if not self._is_plain and texts and self._random.random() < 0.1:
            text = self._random.choice(texts)
            direction = self._random.choice(("", " DESC"))
            calls.append((f"LISTAGG({text}, '/') WITHIN GROUP (ORDER BY {text}{direction})", "str"))
        if not self._is_plain and numbers and self._random.random() < 0.1:
            number = self._random.choice(numbers)
            calls.append((f"PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY {number})", "approximate"))
        return calls

    def _having(self, calls: list[tuple[str, str]]) -> str:
        if self._random.random() < 0.7:
            return ""
        exact = tuple(c for c in calls if c[1] != "approximate")
        return f" HAVING {self._expression('bool', exact, 1)}"

    def _grouped(self, depth: int) -> Relation:
        source = self._relation(depth - 1)
        keys, calls = self._keys(source.columns), self._calls(source.columns)
        if keys and self._random.random() < 0.2:
            calls = calls[1:]
        written, sets = self._sets([k for k, _ in keys])
        by = f" GROUP BY {written}" if keys else ""
        if sets > 1 and self._random.random() < 0.5:
            calls.append((f"GROUPING({', '.join(k for k, _ in keys)})", "big"))
        rest = source.sql + self._where(source.columns) + by + (self._having([*keys, *calls]) if keys else "")
        head = self._head(by, source) if sets == 1 else "SELECT"
        return self._select([*keys, *calls], rest, source.size * sets, head)

    def _head(self, by: str, *sources: Relation) -> str:
        """SELECT, with a hint that keeps state for long enough, about relations by their aliases. Where two times are in `by`, it
        may be a window or an interval join, whose state the watermark drops."""
        if self._random.random() < 0.8:
            return "SELECT"
        times = ", ".join(
            f"'{source.sql.rsplit(' ', 1)[-1]}' = '{self._random.choice(('1 d', '0 s'))}'"
            for source in sources
        )
        is_timed = sum(kind == "ts" and name in by for source in sources for name, kind in source.columns) > 1
        return "SELECT" if is_timed else f"SELECT /*+ STATE_TTL({times}) */"

    def _sets(self, keys: list[str]) -> tuple[str, int]:
        """The keys of a GROUP BY as they are or in several sets, and the number of these."""
        if not keys or self._random.random() < 0.75:
            return ", ".join(keys), 1
        whole, count = ", ".join(keys), len(keys)
        forms = [
            (f"ROLLUP ({whole})", count + 1),
            (f"GROUPING SETS (({whole}), ({self._random.choice(keys)}), ())", 3),
            (f"{keys[0]}, CUBE ({', '.join(keys)})", 2**count),
        ]
        return self._random.choice(forms[: 3 if count < 4 else 2])

    def _joined(self, depth: int) -> Relation:
        left, right = self._named(self._relation(depth - 1)), self._named(self._relation(depth - 2))
        parts = []
        pairs = [
            (f"{a} = {b}")
            for a, k in left.columns
            for b, m in right.columns
            if k in KEY_KINDS and (k == m or {k, m} <= {"small", "int", "big", "dec"})
        ]
        if pairs and (left.size * right.size > 500 or self._random.random() < 0.85):
            parts += self._random.sample(pairs, min(len(pairs), self._random.choice((1, 1, 1, 2))))
        both = left.columns + right.columns
        if self._random.random() < 0.4 or not parts:
            parts.append(self._condition(both))
        if self._random.random() < 0.1:
            parts.append(self._random.choice(("1 = 1", "1 = 0", "TRUE", "CAST(NULL AS BOOLEAN)")))
        kind = self._random.choice(JOINS)
        if kind in HALF_JOINS:
            both = left.columns
        by = f"{' AND '.join(parts)}{self._where(both)}"
        shown = self._random.sample(both, min(len(both), self._random.randrange(2, 6)))
        rest = f"{left.sql} {kind} {right.sql} ON {by}"
        return self._select(shown, rest, left.size * right.size // 5, self._head(by, left, right))

    def _compared(self, depth: int) -> Relation:
        """The rows for which conditions over subqueries hold, and what others are."""
        source = self._named(self._relation(depth - 1))
        items = [*source.columns[:3], (self._quantified(source, depth), "bool")]
        rest = source.sql
        if self._random.random() < 0.7:
            parts = [self._quantified(source, depth) for _ in range(self._random.choice((1, 1, 2)))]
            rest += f" WHERE {self._random.choice((' AND ', ' OR ')).join(parts)}"
        return self._select(items, rest, source.size)

    def _quantified(self, outer: Relation, depth: int) -> str:
        """A condition over the columns of `outer` and a subquery, which may read them."""
        inner = self._named(self._relation(min(depth - 1, 1) if outer.size < 100 else 0))
        pick = self._random.choice
        kinds = [k for _, k in inner.columns if k in KEY_KINDS] or ["int"]
        kind = pick(kinds)
        own = pick([n for n, k in inner.columns if k == kind] or ["1"])
        value = pick([n for n, k in outer.columns if k == kind] or LITERALS[kind])
        where = f" WHERE {self._correlation(outer, inner)}" if self._random.random() < 0.7 else ""
        query = f"SELECT {own} FROM {inner.sql}{where}"
        comparison = pick(("=", "<>", "<", "<=", ">", ">="))
        forms = [
            f"EXISTS ({query})",
            f"{value} IN ({query})",
            f"{value} NOT IN ({query})",
            f"({value}, 1) IN (SELECT {own}, 1 FROM {inner.sql}{where})",
            f"{value} {comparison} (SELECT {pick(('MIN', 'MAX'))}({own}) FROM {inner.sql}{where})",
            f"(SELECT COUNT(*) FROM {inner.sql}{where}) {comparison} {pick((0, 1, 2))}",
            f"{value} {comparison} {pick(('ANY', 'ALL'))} ({query})",
        ]
        found = pick(forms)
        return f"NOT {found}" if found.startswith("EXISTS") and self._random.random() < 0.4 else found

    def _correlation(self, outer: Relation, inner: Relation) -> str:
        pairs = [
            f"{a} = {b}" for a, k in outer.columns for b, m in inner.columns if k == m and k in KEY_KINDS
        ]
        if not pairs or self._random.random() < 0.3:
            return self._condition(outer.columns + inner.columns)
        found = self._random.choice(pairs)
        return found if self._random.random() < 0.7 else f"{found} AND {self._condition(inner.columns)}"

    def _counted(self, depth: int) -> Relation:
        """INTERSECT or EXCEPT of some columns of two relations."""
        left, right = self._relation(depth - 1), self._relation(depth - 2)
        kinds = [k for k in KEY_KINDS if any(c[1] == k for c in left.columns)]
        kinds = [k for k in kinds if any(c[1] == k for c in right.columns)][:2] or ["int"]
        sides = []
        for side in (left, right):
            shown = [next((n for n, k in side.columns if k == kind), "1") for kind in kinds]
            sides.append((shown, side.sql))
        names = [self._name() for _ in kinds]
        first = ", ".join(f"{e} AS {n}" for e, n in zip(sides[0][0], names, strict=True))
        operator = self._random.choice(("INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"))
        sql = (
            f"SELECT {first} FROM {sides[0][1]} {operator} SELECT {', '.join(sides[1][0])} FROM {sides[1][1]}"
        )
        return Relation(f"({sql}) AS {self._name()}", tuple(zip(names, kinds, strict=True)), left.size)

    def _unnested(self, depth: int) -> Relation:
        """The rows with the elements of an array, or the entries of a map, of two."""
        source = self._named(self._relation(depth - 1))
        kind = self._random.choice(("int", "str", "big", "date"))
        first, second = (self._expression(kind, source.columns, 1) for _ in range(2))
        element, number = self._name(), self._name()
        own = [(element, kind)]
        if self._random.random() < 0.4:
            values = f"MAP['a', {first}, 'b', {second}]"
            own.insert(0, (self._name(), "str"))
        else:
            values = f"ARRAY[{first}, {second}]"
        if self._random.random() < 0.3:
            values = f"CASE WHEN {self._expression('bool', source.columns, 1)} THEN {values} END"
        own.append((number, "int"))
        columns = (*source.columns, *own)
        join, on = self._random.choice(
            (("CROSS JOIN", ""), ("LEFT JOIN", " ON TRUE"), ("JOIN", f" ON {number} > 1"))
        )
        names = ", ".join(name for name, _ in own)
        rest = (
            f"{source.sql} {join} UNNEST({values}) WITH ORDINALITY AS {self._name()} ({names}){on}"
            f"{self._where(columns)}"
        )
        shown = [*self._random.sample(source.columns, min(len(source.columns), 3)), *own]
        return self._select(shown, rest, 2 * source.size)

    def _named(self, relation: Relation) -> Relation:
        """With an alias of its own, and columns qualified by it."""
        alias = self._name()
        inner = relation.sql if relation.sql.startswith("(") else f"{relation.sql} AS {alias}"
        alias = inner.rsplit(" ", 1)[1]
        return Relation(inner, tuple((f"{alias}.{n}", k) for n, k in relation.columns), relation.size)

    def _united(self, depth: int) -> Relation:
        kinds = self._random.choices(KEY_KINDS, k=self._random.randrange(1, 4))
        branches = []
        for _ in range(2):
            source = self._relation(depth - 1)
            shown = ", ".join(
                f"{self._expression(kind, source.columns, 1)} AS n{i}" for i, kind in enumerate(kinds)
            )
            branches.append(f"SELECT {shown} FROM {source.sql}{self._where(source.columns)}")
        both = self._random.choice((" UNION ALL ", " UNION ALL ", " UNION ")).join(branches)
        united = [(f"n{i}", kind) for i, kind in enumerate(kinds)]
        return self._select(united, f"({both}) AS {self._name()}", 40)

    def _top(self, depth: int) -> Relation:
        """The best n rows per key; of rows that tie, only columns that are equal in all of them are selected."""
        source = self._relation(depth - 1)
        exact = [c for c in source.columns if c[1] in KEY_KINDS] or [("1", "int")]
        order = self._random.sample(exact, min(len(exact), self._random.randrange(1, 3)))
        if order == [("1", "int")]:
            return source
        keys = [k for k in self._keys(source.columns) if k not in order]
        partition = f"PARTITION BY {', '.join(k for k, _ in keys)} " if keys else ""
        by = ", ".join(f"{name}{self._direction()}" for name, _ in order)
        number = self._name()
        function = self._random.choice(("ROW_NUMBER", "ROW_NUMBER", "RANK", "DENSE_RANK"))
        inner = f"(SELECT *, {function}() OVER ({partition}ORDER BY {by}) AS {number} FROM {source.sql})"
        limit = self._random.choice(("<= 1", "<= 3", "= 1", "= 2", "BETWEEN 2 AND 3", "< 3"))
        shown = [*keys, *order] + ([(number, "big")] if self._random.random() < 0.5 else [])
        return self._select(shown, f"{inner} WHERE {number} {limit}", source.size)

    def _last(self, depth: int) -> Relation:
        """Deduplication by time: which of several rows at the same time is kept does not show."""
        name, columns = self._random.choice((("t", BASE_COLUMNS), ("u", OTHER_COLUMNS)))
        keys = self._keys(columns[:-1]) or [columns[0]]
        direction = self._random.choice(("ASC", "DESC", ""))
        number = self._name()
        partition = ", ".join(k for k, _ in keys)
        inner = f"(SELECT *, ROW_NUMBER() OVER (PARTITION BY {partition} ORDER BY ts {direction}) AS {number} FROM {name})"
        return self._select([*keys, ("ts", "ts")], f"{inner} WHERE {number} = 1", 20)

    def _qualified(self, depth: int) -> Relation:
        """Rows by their place among others, as QUALIFY selects them; all columns of the order show."""
        source = self._relation(depth - 1)
        shown = [c for c in source.columns if c[1] in KEY_KINDS][:3]
        if not shown:
            return source
        keys = [k for k in self._keys(tuple(shown)) if self._random.random() < 0.5]
        partition = f"PARTITION BY {', '.join(k for k, _ in keys)} " if keys else ""
        order = ", ".join(f"{name}{self._direction()}" for name, _ in shown)
        call = self._random.choice(("ROW_NUMBER()", "RANK()", "COUNT(*)"))
        condition = f"{call} OVER ({partition}ORDER BY {order}) {self._random.choice(('<= 2', '= 1', '> 1'))}"
        return self._select(
            shown, f"{source.sql}{self._where(source.columns)} QUALIFY {condition}", source.size
        )

    def _pivoted(self, depth: int) -> Relation:
        """A column for each of two values."""
        source = self._relation(depth - 1)
        kinds = dict(source.columns)
        keys = [n for n, k in source.columns if k in ("int", "str", "bool")]
        if not keys or len(source.columns) < 3:
            return source
        key = self._random.choice(keys)
        values = {"int": ("1", "2"), "str": ("'a'", "'ab'"), "bool": ("TRUE", "FALSE")}[kinds[key]]
        others = [n for n, k in source.columns if n != key and k in KEY_KINDS]
        if not others:
            return source
        group = self._random.choice(others)
        first, second = self._name(), self._name()
        named = f"(SELECT {group}, {key} FROM {source.sql}) AS {self._name()}"
        rest = f"{named} PIVOT (COUNT(*) FOR {key} IN ({values[0]} AS {first}, {values[1]} AS {second}))"
        items = [(group, kinds[group]), (first, "big"), (second, "big")]
        return self._select(items, rest, source.size)

    def _unpivoted(self, depth: int) -> Relation:
        """A row for each of two columns of one kind."""
        source = self._relation(depth - 1)
        by_kind = [[n for n, k in source.columns if k == kind] for kind in KEY_KINDS]
        same = [(kind, names) for kind, names in zip(KEY_KINDS, by_kind, strict=True) if len(names) > 1]
        if not same:
            return source
        kind, names = self._random.choice(same)
        first, second = self._random.sample(names, 2)
        value, name = self._name(), self._name()
        included = self._random.choice(("", " INCLUDE NULLS"))
        rest = f"{source.sql} UNPIVOT{included} ({value} FOR {name} IN ({first}, {second} AS 'other'))"
        left = [c for c in source.columns if c[0] not in (first, second)][:2]
        return self._select([*left, (value, kind), (name, "str")], rest, 2 * source.size)

    def _lateral(self, depth: int) -> Relation:
        """The rows with what a subquery that reads them finds, in FROM or in SELECT."""
        outer = self._named(self._relation(depth - 1))
        inner = self._named(self._table(0))
        where = self._correlation(outer, inner)
        name, kind = self._random.choice([c for c in inner.columns if c[1] not in ("bool", "double")])
        shown = list(outer.columns[:3])
        found = f"(SELECT {self._random.choice(('MIN', 'MAX'))}({name}) AS m, COUNT(*) AS c FROM {inner.sql} WHERE {where})"
        if self._random.random() < 0.5:
            alias = self._name()
            join, on = self._random.choice((("CROSS JOIN", ""), ("LEFT JOIN", " ON TRUE")))
            rest = f"{outer.sql} {join} LATERAL {found} AS {alias}{on}"
            return self._select([*shown, (f"{alias}.m", kind), (f"{alias}.c", "big")], rest, outer.size)
        value = f"(SELECT MAX({name}) FROM {inner.sql} WHERE {where})"
        return self._select([*shown, (value, kind)], outer.sql, outer.size)

    def _natural(self, depth: int) -> Relation:
        """A join by the names that two relations share."""
        left, right = self._relation(depth - 1), self._relation(0)
        kinds = [k for k in KEY_KINDS if all(any(c[1] == k for c in s.columns) for s in (left, right))]
        if not kinds:
            return left
        kind, key = self._random.choice(kinds), self._name()
        sides, items = [], [(key, kind)]
        for side in (left, right):
            own = next(n for n, k in side.columns if k == kind)
            other, other_kind = self._random.choice(side.columns)
            name = self._name()
            items.append((name, other_kind))
            sides.append(f"(SELECT {own} AS {key}, {other} AS {name} FROM {side.sql}) AS {self._name()}")
        join = self._random.choice(("NATURAL JOIN", "NATURAL LEFT JOIN", "JOIN", "LEFT JOIN", "FULL JOIN"))
        using = "" if join.startswith("NATURAL") else f" USING ({key})"
        return self._select(items, f"{sides[0]} {join} {sides[1]}{using}", left.size * 4)

    def _versioned(self, depth: int) -> Relation:
        """Rows with the version of another that was there at their time; of versions at one time only what is equal shows."""
        view, number = self._name(), self._name()
        self._views.append(
            f"CREATE VIEW {view} AS SELECT h, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY h ORDER BY ts DESC) AS {number}"
            f" FROM u) WHERE {number} = 1"
        )
        join = self._random.choice(("JOIN", "LEFT JOIN"))
        right = self._name()
        rest = f"t {join} {view} FOR SYSTEM_TIME AS OF t.ts AS {right} ON t.c = {right}.h"
        return self._select([("t.c", "big"), ("t.b", "int"), ("t.ts", "ts"), (f"{right}.ts", "ts")], rest, 20)

    # -- nested keys -------------------------------------------------------------------------------

    def _with_key(self, depth: int) -> tuple[str, str, list[tuple[str, str]], tuple[str, str]] | None:
        """A relation with a nested column beside another: its text, the name of the column, its parts, and the other column."""
        source = self._relation(depth)
        exact = [c for c in source.columns if c[1] in KEY_KINDS]
        if not exact:
            return None
        key, other = self._name(), self._name()
        (first, kind), (last, last_kind), (shown, shown_kind) = (self._random.choice(exact) for _ in range(3))
        second = self._random.choice([n for n, k in exact if k == kind])
        value, parts = self._random.choice(
            (
                (f"ARRAY[{first}, {second}]", [(f"{key}[1]", kind), (f"{key}[2]", kind)]),
                (f"ARRAY[{first}]", [(f"{key}[1]", kind), (f"CARDINALITY({key})", "int")]),
                (f"ROW({first}, {last})", [(f"{key}.`EXPR$0`", kind), (f"{key}.`EXPR$1`", last_kind)]),
                (
                    f"ARRAY[ROW({first}, {last})]",
                    [(f"{key}[1].`EXPR$0`", kind), (f"{key}[1].`EXPR$1`", last_kind)],
                ),
            )
        )
        where = self._where(source.columns)
        sql = f"(SELECT {value} AS {key}, {shown} AS {other} FROM {source.sql}{where}) AS {self._name()}"
        return sql, key, parts, (other, shown_kind)

    def _nested_keys(self, depth: int) -> Relation:
        """Groups, distinct values or numbered rows by an array or a row."""
        made = self._with_key(depth - 1)
        if made is None:
            return self._table(depth)
        sql, key, parts, (other, kind) = made
        form = self._random.choice(("group", "distinct", "top"))
        if form == "distinct":
            return self._select(parts, f"(SELECT DISTINCT {key} FROM {sql}) AS {self._name()}", 20)
        if form == "group" or kind == "bool":
            calls = [("COUNT(*)", "big"), (f"COUNT(DISTINCT {other})", "big")]
            return self._select([*parts, *calls], f"{sql} GROUP BY {key}", 20)
        number = f"ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY {other}{self._direction()})"
        return self._select([*parts, (other, kind)], f"{sql} QUALIFY {number} <= 2", 20)

    def _nested_join(self, depth: int) -> Relation:
        """A join by arrays or rows of one type."""
        left, right = self._name(), self._name()
        kind = self._random.choice(("int", "str", "ltz", "dec"))
        sides = []
        for name, (table, columns) in zip(
            (left, right), (("t", BASE_COLUMNS), ("u", OTHER_COLUMNS)), strict=True
        ):
            first, second = (self._expression(kind, columns, 1) for _ in range(2))
            sides.append(
                f"(SELECT CAST(ARRAY[{first}, {second}] AS ARRAY<{_TYPES[kind]}>) AS {name}_k, ts FROM {table}) AS {name}"
            )
        operator = self._random.choice(("=", "IS NOT DISTINCT FROM"))
        join = self._random.choice(JOINS)
        shown = [(f"{left}_k[1]", kind), (f"{left}.ts", "ts")]
        if join not in HALF_JOINS:
            shown += [(f"{right}_k[2]", kind), (f"{right}.ts", "ts")]
        return self._select(shown, f"{sides[0]} {join} {sides[1]} ON {left}_k {operator} {right}_k", 60)

    # -- windows -----------------------------------------------------------------------------------

    def _window(self, source: str, keys: list[tuple[str, str]], *, is_aligned: bool = False) -> str:
        """A window table-valued function over `source` by its column ts."""
        pick = self._random.choice
        offset = f", {SECOND.format(pick((1, 3, 7)))}" if self._random.random() < 0.3 else ""
        kind = pick(("TUMBLE", "HOP", "CUMULATE") if is_aligned else ("TUMBLE", "HOP", "CUMULATE", "SESSION"))
        if kind == "SESSION":
            partition = f" PARTITION BY {', '.join(k for k, _ in keys)}" if keys else ""
            return f"SESSION(TABLE {source}{partition}, DESCRIPTOR(ts), {SECOND.format(pick((1, 3, 5, 10)))})"
        sizes = (pick((1, 7, 10, 30)),) if kind == "TUMBLE" else pick(((5, 10), (4, 12), (1, 3), (10, 10)))
        return f"{kind}(TABLE {source}, DESCRIPTOR(ts), {', '.join(map(SECOND.format, sizes))}{offset})"

    def _timed(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """A table, or a view that filters one or computes columns, keeping its time."""
        name, columns = self._random.choice((("t", BASE_COLUMNS), ("u", OTHER_COLUMNS)))
        if self._random.random() < 0.6:
            return name, columns
        view = self._name()
        items = [(self._name(), *item) for item in self._items(columns, 3)]
        shown = ", ".join(f"{text} AS {n}" for n, text, _ in items)
        where = self._where(columns)
        self._views.append(f"CREATE VIEW {view} AS SELECT {shown}, ts FROM {name}{where}")
        return view, (*((n, kind) for n, _, kind in items), ("ts", "ts"))

    def _windowed(self, depth: int) -> Relation:
        source, columns = self._timed()
        keys = self._keys(columns[:-1])
        window, calls = self._window(source, keys), self._calls(columns)
        bounds = [("window_start", "ts"), ("window_end", "ts")]
        is_session = window.startswith("SESSION")
        written = [k for k, _ in keys]
        own = ", ".join(written) if is_session else self._sets(written)[0]
        by = ", ".join(part for part in (*(k for k, _ in bounds), own) if part)
        where = "" if is_session else self._where(columns)
        rest = f"TABLE({window}){where} GROUP BY {by}{self._having([*keys, *calls])}"
        return self._select([*keys, *bounds, *calls], rest, 60)

    def _group_windowed(self, depth: int) -> Relation:
        """GROUP BY TUMBLE, HOP or SESSION, the windows of old."""
        source, columns = self._timed()
        pick = self._random.choice
        kind = pick(("TUMBLE", "HOP", "SESSION"))
        sizes = {
            "TUMBLE": (pick((1, 7, 30)),),
            "HOP": pick(((5, 10), (4, 12))),
            "SESSION": (pick((1, 5, 10)),),
        }[kind]
        window = f"(ts, {', '.join(map(SECOND.format, sizes))})"
        keys, calls = self._keys(columns[:-1]), self._calls(columns)
        bounds = [(f"{kind}_{part}{window}", "ts") for part in ("START", "END", "ROWTIME")[: pick((1, 2, 3))]]
        by = ", ".join((*(k for k, _ in keys), f"{kind}{window}"))
        rest = f"{source}{self._where(columns)} GROUP BY {by}{self._having([*keys, *calls])}"
        return self._select([*keys, *bounds, *calls], rest, 60)

    def _window_top(self, depth: int) -> Relation:
        source, columns = self._timed()
        exact = [c for c in columns if c[1] in KEY_KINDS]
        order = self._random.sample(exact, 1)
        keys = [
            ("window_start", "ts"),
            ("window_end", "ts"),
            *(k for k in self._keys(columns) if k not in order),
        ]
        number = self._name()
        over = f"PARTITION BY {', '.join(k for k, _ in keys)} ORDER BY {order[0][0]}{self._direction()}"
        inner = f"(SELECT *, ROW_NUMBER() OVER ({over}) AS {number} FROM TABLE({self._window(source, [], is_aligned=True)}))"
        limit = self._random.choice(("<= 1", "<= 2", "= 1"))
        return self._select([*keys, *order, (number, "big")], f"{inner} WHERE {number} {limit}", 60)

    def _over(self, depth: int) -> Relation:
        """Rows with functions of their neighbours. The order has all columns that show, so that rows which tie are equal."""
        is_timed = self._random.random() < 0.5
        if is_timed:
            rows, columns = self._timed()
            columns = columns[:-1]
        else:
            source = self._relation(depth - 1)
            rows, columns = source.sql, source.columns
        exact = [c for c in columns if c[1] in KEY_KINDS]
        shown = tuple(self._random.sample(exact, min(len(exact), self._random.randrange(1, 4))))
        if not shown:
            return Relation(rows, columns, 20)
        keys = [k for k in self._keys(shown) if self._random.random() < 0.7]
        order = [f"{name}{self._direction()}" for name, _ in shown]
        self._random.shuffle(order)
        if is_timed:
            order.insert(0, f"ts{self._random.choice(('', '', ' ASC', ' DESC'))}")
        partition = f"PARTITION BY {', '.join(k for k, _ in keys)} " if keys else ""
        over, named = f"{partition}ORDER BY {', '.join(order)}", ""
        if self._random.random() < 0.3:
            window = self._name()
            over, named = window, f" WINDOW {window} AS ({over})"
        plain = [call for call in self._calls(shown) if "WITHIN GROUP" not in call[0]]
        calls = [(self._framed(call, over), kind) for call, kind in plain]
        for _ in range(self._random.randrange(3)):
            template, kind = self._random.choice(RANKS)
            name, own = self._random.choice(shown)
            calls.append((f"{template.format(c=name)} OVER ({over})", kind or own))
        if is_timed and self._random.random() < 0.5:
            interval = SECOND.format(self._random.choice((1, 5, 20)))
            frame = self._random.choice(
                (f"{interval} PRECEDING", f"BETWEEN {interval} PRECEDING AND {interval} FOLLOWING")
            )
            calls.append((f"COUNT(*) OVER ({partition}ORDER BY ts RANGE {frame})", "big"))
        return self._select([*shown, *calls], rows + named, 40)

    def _framed(self, call: str, over: str) -> str:
        frame = self._random.choice(FRAMES)
        return f"{call} OVER ({over}{frame})"

    def _window_joined(self, depth: int) -> Relation:
        pick = self._random.choice
        window = self._window("t", [], is_aligned=True)
        left, right = self._name(), self._name()
        pair = pick((("a", "g"), ("b", "h"), ("d", "p"), ("s", "v")))
        condition = " AND ".join(
            f"{left}.{a} = {right}.{b}"
            for a, b in (pair, ("window_start", "window_start"), ("window_end", "window_end"))
        )
        if self._random.random() < 0.3:
            condition += f" AND {left}.ts <= {right}.ts"
        kind = pick(JOINS)
        shown = [(f"{left}.b", "int"), (f"{left}.window_start", "ts")]
        if kind not in HALF_JOINS:
            shown += [(f"{right}.m", "int"), (f"{right}.ts", "ts")]
        rest = (
            f"(SELECT * FROM TABLE({window})) AS {left} {kind}"
            f" (SELECT * FROM TABLE({window.replace('TABLE t', 'TABLE u')})) AS {right} ON {condition}"
        )
        return self._select(shown, rest, 60)

    def _interval_joined(self, depth: int) -> Relation:
        pick = self._random.choice
        low, high = SECOND.format(pick((0, 1, 5))), SECOND.format(pick((0, 3, 10)))
        pair = pick(("t.a = u.g", "t.b = u.h", "t.d = u.p", "t.s = u.v", "t.b = u.m AND t.o"))
        bounds = pick(
            (f"u.ts BETWEEN t.ts - {low} AND t.ts + {high}", f"u.ts > t.ts - {low} AND u.ts < t.ts + {high}")
        )
        kind = pick(JOINS)
        shown = [("t.b", "int"), ("t.ts", "ts"), ("t.s", "str")]
        if kind not in HALF_JOINS:
            shown += [("u.m", "int"), ("u.ts", "ts")]
        return self._select(shown, f"t {kind} u ON {pair} AND {bounds}", 60)

    def _twice(self, depth: int) -> Relation:
        """A common table expression that is read two times."""
        source = self._relation(depth - 1)
        cte, left, right = self._name(), self._name(), self._name()
        exact = [n for n, k in source.columns if k in KEY_KINDS]
        if not exact or source.size > 60:
            return source
        key = self._random.choice(exact)
        shown = [(f"{left}.{n}", k) for n, k in source.columns[:3]] + [
            (f"{right}.{key}", dict(source.columns)[key])
        ]
        named = [(self._name(), text, kind) for text, kind in shown]
        items = ", ".join(f"{text} AS {name}" for name, text, _ in named)
        columns = ", ".join(n for n, _ in source.columns)
        sql = (
            f"(WITH {cte} AS (SELECT {columns} FROM {source.sql}) SELECT {items} FROM {cte} AS {left} LEFT JOIN {cte} AS {right}"
            f" ON {left}.{key} = {right}.{key}) AS {self._name()}"
        )
        return Relation(sql, tuple((name, kind) for name, _, kind in named), source.size * 3)

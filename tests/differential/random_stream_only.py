"""Shapes of random queries that no batch engine has, each with a text that says the same in words that these have.

A relation holds both texts, between marks, until `written` takes one of them. MATCH_RECOGNIZE is said by LEAD and by the numbers
of rows, FROM_CHANGELOG of TO_CHANGELOG by its input, a lookup join by a join, and a multiset by its elements.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from differential.random_vocabulary import KEY_KINDS, LOOKED_UP_COLUMNS, SECOND, Relation

Columns = Sequence[tuple[str, str]]

_BEGIN, _BETWEEN, _END = "\ue000", "\ue001", "\ue002"
_BOTH = re.compile(f"{_BEGIN}([^{_BEGIN}-{_END}]*){_BETWEEN}([^{_BEGIN}-{_END}]*){_END}")

PATTERNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("A B", ("AB",)),
    ("A B C", ("ABC",)),
    ("A{2} B", ("AAB",)),
    ("A X B", ("AXB",)),
    ("A B?", ("AB", "A")),
    ("A B??", ("A",)),
    ("A (B | C)", ("AB", "AC")),
    ("(A B) | C", ("AB", "C")),
    ("A (B | C)? B", ("ABB", "ACB", "AB")),
    ("PERMUTE(A, B)", ("AB", "BA")),
)
"""A pattern and the ways to match it, the preferred first. X is not defined: it is any row."""
RUNS = (
    ("A+", 1, 0),
    ("A A*", 1, 0),
    ("(A | A)+", 1, 0),
    ("A{2,}", 2, 0),
    ("A+ A", 2, 0),
    ("A{1,2}", 1, 2),
    ("A A?", 1, 2),
)
"""Patterns of one variable, with the least and the most rows of a match; 0 is no end."""


def both(stream: str, batch: str) -> str:
    """A piece of a query that a stream and a batch write differently; either may have such pieces."""
    return f"{_BEGIN}{stream}{_BETWEEN}{batch}{_END}"


def written(text: str, which: int) -> str:
    """The text for the stream (1) or the batch (2)."""
    while (made := _BOTH.sub(lambda found: found[which], text)) != text:
        text = made
    return text


class StreamOnlyShapes:
    """The shapes of RandomQuery whose two texts differ. No state of its own."""

    # -- MATCH_RECOGNIZE ---------------------------------------------------------------------------

    def _matched(self, depth: int) -> Relation:
        """Matches among rows in order of their time. Conditions and measures read only columns of the order, so that rows which
        tie are equal."""
        source, columns = self._timed()
        exact = [c for c in columns[:-1] if c[1] in KEY_KINDS and c[1] != "bool"]
        if not exact:
            return Relation(source, columns, 20)
        shown = self._random.sample(exact, min(len(exact), self._random.randrange(1, 4)))
        keys = [c for c in shown if self._random.random() < 0.4]
        order = ["ts", *(f"{name}{self._direction()}" for name, _ in shown)]
        partition = f"PARTITION BY {', '.join(k for k, _ in keys)} " if keys else ""
        over = f"{partition}ORDER BY {', '.join(order)}"
        make = self._random.choice((self._sequence, self._sequence, self._run))
        return make(source, shown, keys, over)

    def _sequence(self, source: str, shown: Columns, keys: Columns, over: str) -> Relation:
        """Matches of up to three rows that begin at every row, each the first way that fits."""
        pick = self._random.choice
        pattern, ways = pick(PATTERNS)
        variables = sorted(set("".join(ways)) - {"X"})
        conditions = {v: self._expression("bool", tuple(shown), 1) for v in variables}
        compared = pick(shown)[0] if self._random.random() < 0.5 else ""
        comparison, within = pick(("=", "<>", "<=", ">")), pick((0, 0, 5, 20))
        if len({len(way) for way in ways}) > 1:
            within = 0
        defined = dict(conditions)
        if compared:
            defined["B"] = f"{conditions.get('B', 'TRUE')} AND {compared} {comparison} LAST(A.{compared})"
        if pattern == "A B??":
            # B is there to be left out.
            defined["B"] = "TRUE"
        names = [name for name, _ in shown]

        def at(name: str, row: int) -> str:
            return f"{name}_{row}"

        def fits(way: str) -> str:
            parts = [f"{at('e', len(way) - 1)} = 1"]
            for row, variable in enumerate(way):
                if variable == "X":
                    continue
                parts.append(f"{at('q' + variable, row)}")
                if variable == "B" and compared:
                    before = way[:row].rfind("A")
                    parts.append(
                        f"{at(compared, row)} {comparison} {at(compared, before)}" if before >= 0 else "FALSE"
                    )
            if within:
                parts.append(f"ts_{len(way) - 1} < ts_0 + {SECOND.format(within)}")
            return f"({' AND '.join(parts)})"

        def by_way(value: dict[str, str]) -> str:
            whens = " ".join(
                f"WHEN way = {n} THEN {value[way]}" for n, way in enumerate(ways) if way in value
            )
            return f"CASE {whens} END"

        counts, names_of_last = (
            {w: f"CAST({len(w)} AS BIGINT)" for w in ways},
            {w: f"'{w[-1]}'" for w in ways},
        )
        measures = [(self._name(), "COUNT(*)", by_way(counts), "big")]
        measures.append((self._name(), "CLASSIFIER()", f"CAST({by_way(names_of_last)} AS STRING)", "str"))
        measures.append(
            (self._name(), "MATCH_ROWTIME()", by_way({w: f"ts_{len(w) - 1}" for w in ways}), "ts")
        )
        for _ in range(self._random.randrange(1, 4)):
            name, kind = pick((*shown, ("ts", "ts")))
            variable, function = pick(variables), pick(("FIRST", "LAST"))
            rows = {way: way.find(variable) if function == "FIRST" else way.rfind(variable) for way in ways}
            found = {way: at(name, row) for way, row in rows.items() if row >= 0}
            measures.append((self._name(), f"{function}({variable}.{name})", by_way(found), kind))
        moment = f" WITHIN {SECOND.format(within)}" if within else ""
        stream = self._recognized(
            source, over, measures, f"PATTERN ({pattern}){moment}", defined, "TO NEXT ROW"
        )
        tests = {f"q{v}": condition for v, condition in conditions.items()}
        inner = ", ".join((*names, "ts", "1 AS e", *(f"({c}) AS {q}" for q, c in tests.items())))
        ahead = [
            f"LEAD({name}, {row}) OVER ({over}) AS {at(name, row)}" if row else f"{name} AS {at(name, 0)}"
            for name, row in itertools.product((*names, "ts", "e", *tests), range(3))
        ]
        way = " ".join(f"WHEN {fits(way)} THEN {n}" for n, way in enumerate(ways))
        found = f"(SELECT *, CASE {way} END AS way FROM (SELECT {', '.join(ahead)} FROM (SELECT {inner} FROM {source})))"
        items = [f"{at(key, 0)} AS {key}" for key, _ in keys] + [f"{m} AS {n}" for n, _, m, _ in measures]
        batch = f"(SELECT {', '.join(items)} FROM {found} WHERE way IS NOT NULL)"
        return self._select(
            [*keys, *((n, kind) for n, _, _, kind in measures)],
            f"{both(stream, batch)} AS {self._name()}",
            20,
        )

    def _run(self, source: str, shown: Columns, keys: Columns, over: str) -> Relation:
        """Matches of the rows that follow each other and have one condition."""
        pick = self._random.choice
        (pattern, least, most), condition = pick(RUNS), self._expression("bool", tuple(shown), 2)
        own = "".join(f"{key}, " for key, _ in keys)
        order = over[over.index("ORDER BY") :]
        numbered = (
            f"SELECT *, ROW_NUMBER() OVER ({over}) - ROW_NUMBER() OVER (PARTITION BY {own}fits {order}) AS run FROM"
            f" (SELECT {', '.join(n for n, _ in shown)}, ts, ({condition}) IS TRUE AS fits FROM {source})"
        )
        placed = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY {own}run {order}) - 1 AS place FROM ({numbered}) WHERE fits"
        match = f"{own}run, part"
        part = f"place / {most}" if most else "0"
        whole = f"OVER (PARTITION BY {match} ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"
        parted = f"SELECT *, {part} AS part FROM ({placed})"
        bounds = f"SELECT *, MIN(place) {whole} AS lowest, MAX(place) {whole} AS highest FROM ({parted})"
        (name, kind), (other, other_kind) = pick((*shown, ("ts", "ts"))), pick(shown)
        first, last = (f"MIN(CASE WHEN place = {at} THEN {name} END)" for at in ("lowest", "highest"))
        is_all = self._random.random() < 0.3
        over_match, final = (f" {whole}", "FINAL ") if is_all else ("", "")
        count = "place - lowest + 1" if is_all else "COUNT(*)"
        measures = [
            (self._name(), "COUNT(*)", count, "big"),
            (self._name(), f"FIRST(A.{name})", first + over_match, kind),
            (self._name(), f"{final}LAST(A.{name})", last + over_match, kind),
            (self._name(), f"{final}MIN(A.{other})", f"MIN({other}){over_match}", other_kind),
        ]
        rows = "ALL ROWS" if is_all else "ONE ROW"
        stream = self._recognized(
            source, over, measures, f"PATTERN ({pattern})", {"A": condition}, "PAST LAST ROW", rows
        )
        columns = [*shown, ("ts", "ts")] if is_all else keys
        items = ", ".join((*(n for n, _ in columns), *(f"{m} AS {n}" for n, _, m, _ in measures)))
        end = (
            f"WHERE highest - lowest >= {least - 1}"
            if is_all
            else f"GROUP BY {match} HAVING COUNT(*) >= {least}"
        )
        batch = f"(SELECT {items} FROM ({bounds}) {end})"
        return self._select(
            [*columns, *((n, kind) for n, _, _, kind in measures)],
            f"{both(stream, batch)} AS {self._name()}",
            20,
        )

    def _recognized(
        self,
        source: str,
        over: str,
        measures: Sequence[tuple[str, str, str, str]],
        pattern: str,
        defined: dict[str, str],
        skip: str,
        rows: str = "ONE ROW",
    ) -> str:
        measured = ", ".join(f"{text} AS {name}" for name, text, _, _ in measures)
        definitions = ", ".join(f"{variable} AS {condition}" for variable, condition in defined.items())
        return (
            f"{source} MATCH_RECOGNIZE ({over} MEASURES {measured} {rows} PER MATCH AFTER MATCH SKIP {skip}"
            f" {pattern} DEFINE {definitions})"
        )

    # -- changelogs --------------------------------------------------------------------------------

    def _logged(self, depth: int) -> Relation:
        """What the changes of a relation leave: as a relation again, or added up."""
        form = self._random.choice(("again", "again", "added", "by key"))
        if form == "by key":
            return self._logged_by_key()
        source = self._relation(depth - 1)
        columns = [c for c in source.columns if c[1] in KEY_KINDS or form == "again"][:4]
        if not columns:
            return source
        names = ", ".join(name for name, _ in columns)
        log = f"TO_CHANGELOG(input => (SELECT {names} FROM {source.sql}))"
        if form == "again":
            mapped = self._random.choice(
                (
                    ("", ""),
                    (
                        ", op_mapping => MAP['INSERT, UPDATE_AFTER', 'add', 'UPDATE_BEFORE, DELETE', 'take']",
                        ", op_mapping => MAP['add', 'INSERT', 'take', 'DELETE']",
                    ),
                )
            )
            log = f"{log[:-1]}{mapped[0]})"
            stream = f"FROM_CHANGELOG(input => (SELECT * FROM {log}), op => DESCRIPTOR(op){mapped[1]})"
            rest = f"{both(stream, f'(SELECT {names} FROM {source.sql})')} AS {self._name()}"
            return self._select(columns, rest, source.size)
        count = "SUM(CASE WHEN op IN ('INSERT', 'UPDATE_AFTER') THEN 1 ELSE -1 END)"
        stream = f"(SELECT {names}, {count} AS many FROM {log} GROUP BY {names} HAVING {count} <> 0)"
        batch = f"(SELECT {names}, CAST(COUNT(*) AS INT) AS many FROM {source.sql} GROUP BY {names})"
        rest = f"{both(stream, batch)} AS {self._name()}"
        return self._select([*columns, ("many", "int")], rest, source.size)

    def _logged_by_key(self) -> Relation:
        """The last row of each key of the table of changes."""
        log = "TO_CHANGELOG(input => TABLE w, op_mapping => MAP['INSERT, UPDATE_AFTER', 'U', 'DELETE', 'D'])"
        stream = (
            f"FROM_CHANGELOG(input => (SELECT * FROM {log}) PARTITION BY id, op => DESCRIPTOR(op),"
            " op_mapping => MAP['U', 'UPDATE_AFTER', 'D', 'DELETE'])"
        )
        columns = [("id", "int"), ("g", "small"), ("p", "dec"), ("v", "str")]
        return self._select(columns, f"{both(stream, 'w')} AS {self._name()}", 10)

    # -- lookups -----------------------------------------------------------------------------------

    def _looked_up(self, depth: int) -> Relation:
        """A relation with the rows of `l` that have its keys; without a full cache its rows must not change."""
        if self._cache == "FULL":
            source = self._relation(depth - 1)
        else:
            name, columns = self._timed()
            source = Relation(name, columns, 20)
        pairs = [
            (a, b)
            for a, k in source.columns
            for b, m in LOOKED_UP_COLUMNS
            if k == m and k in ("int", "big", "str")
        ]
        if not pairs:
            return source
        left, right = self._name(), self._name()
        used = self._random.sample(pairs, min(len(pairs), self._random.choice((1, 1, 2))))
        parts = [f"{left}.{a} = {right}.{b}" for a, b in used]
        outer = [(f"{left}.{n}", k) for n, k in source.columns]
        inner = [(f"{right}.{n}", k) for n, k in LOOKED_UP_COLUMNS]
        if self._random.random() < 0.4:
            own = inner if self._random.random() < 0.5 else [*outer, *inner]
            parts.append(self._expression("bool", tuple(own), 1))
        names = ", ".join(name for name, _ in source.columns)
        timed = f"(SELECT {names}, PROCTIME() AS proctime FROM {source.sql}) AS {left}"
        join = self._random.choice(("JOIN", "LEFT JOIN"))
        as_of = both(f" FOR SYSTEM_TIME AS OF {left}.proctime", "")
        outer_rows = both(timed, f"(SELECT {names} FROM {source.sql}) AS {left}")
        rest = f"{outer_rows} {join} l{as_of} AS {right} ON {' AND '.join(parts)}"
        shown = self._random.sample(outer, min(3, len(outer))) + self._random.sample(inner, 2)
        return self._select(shown, rest, 2 * source.size)

    # -- multisets ---------------------------------------------------------------------------------

    def _collected(self, depth: int) -> Relation:
        """The elements of a multiset per key, whose order is not fixed."""
        source = self._relation(depth - 1)
        exact = [c for c in source.columns if c[1] in KEY_KINDS]
        if len(exact) < 2:
            return source
        key, (name, kind) = self._random.sample(exact, 2)
        bag, element, number = self._name(), self._name(), self._name()
        distinct = self._random.choice(("", "DISTINCT "))
        where = self._where(source.columns)
        read = f"FROM {source.sql}{where}"
        grouped = f"(SELECT {key[0]}, COLLECT({distinct}{name}) AS {bag} {read} GROUP BY {key[0]}) AS {self._name()}"
        is_left = self._random.random() < 0.4
        counted = self._random.choice(("", " WITH ORDINALITY"))
        names = f"{element}, {number}" if counted else element
        join, on = ("LEFT JOIN", " ON TRUE") if is_left else ("CROSS JOIN", "")
        stream = f"{grouped} {join} UNNEST({bag}){counted} AS {self._name()} ({names}){on}"
        rows = f"(SELECT {key[0]}, {name} {read}) AS {self._name()}"
        batch = f"SELECT {distinct}{key[0]}, {name} AS {element} FROM {rows} WHERE {name} IS NOT NULL"
        if is_left:
            without = f"GROUP BY {key[0]} HAVING COUNT({name}) = 0"
            batch += f" UNION ALL SELECT {key[0]}, MIN({name}) AS {element} FROM {rows} {without}"
        rest = both(stream, f"({batch}) AS {self._name()}")
        return self._select([key, (element, kind)], rest, source.size)

    # -- JSON and maps -----------------------------------------------------------------------------

    def _in_json(self, depth: int) -> Relation:
        """Groups as JSON: of one value each, whose order is fixed, or how many values there are."""
        source = self._relation(depth - 1)
        keys = [c for c in source.columns if c[1] in KEY_KINDS]
        numbers = [n for n, k in source.columns if k in ("small", "int", "big")]
        if not keys or not numbers:
            return source
        (key, kind), number, name = self._random.choice(keys), self._random.choice(numbers), self._name()
        keeps, where = self._random.random() < 0.5, self._where(source.columns)
        on_null = "NULL ON NULL" if keeps else "ABSENT ON NULL"
        if self._random.random() < 0.4:
            stream = f"CAST(JSON_LENGTH(JSON_ARRAYAGG({number} {on_null})) AS BIGINT)"
            counted = both(stream, "COUNT(*)" if keeps else f"COUNT({number})")
            return self._select(
                [(key, kind), (counted, "big")], f"{source.sql}{where} GROUP BY {key}", source.size
            )
        inner = f"(SELECT {key}, MAX({number}) AS {name} FROM {source.sql}{where} GROUP BY {key}) AS {self._name()}"
        form, begin, end = self._random.choice(
            (
                (f"JSON_OBJECTAGG(KEY 'n' VALUE {name} {on_null})", '{"n":', "}"),
                (f"JSON_ARRAYAGG({name} {on_null})", "[", "]"),
            )
        )
        empty = f"{begin}null{end}" if keeps else begin[0] + end
        text = (
            f"CASE WHEN {name} IS NULL THEN '{empty}' ELSE '{begin}' || CAST({name} AS STRING) || '{end}' END"
        )
        stream, batch = (
            f"(SELECT {key}, {value} AS json FROM {inner}{by})"
            for value, by in ((form, f" GROUP BY {key}"), (text, ""))
        )
        return self._select(
            [(key, kind), ("json", "str")], f"{both(stream, batch)} AS {self._name()}", source.size
        )

    def _mapped(self, depth: int) -> Relation:
        """A join by maps, which are equal where their values are, or both NULL."""
        left, right = self._named(self._relation(depth - 1)), self._named(self._relation(0))
        pairs = [(a, b, k) for a, k in left.columns for b, m in right.columns if k == m and k in KEY_KINDS]
        if not pairs:
            return left
        a, b, kind = self._random.choice(pairs)
        first, second = self._random.sample(["'x'", "'y'"], 2)
        entries = (f"MAP[{first}, {a}, {second}, {a}]", f"MAP['x', {b}, 'y', {b}]")
        condition = both(" = ".join(entries), f"{a} IS NOT DISTINCT FROM {b}")
        join = self._random.choice(("JOIN", "LEFT JOIN", "FULL JOIN"))
        rest = f"{left.sql} {join} {right.sql} ON {condition}"
        return self._select([(a, kind), *left.columns[:2], (b, kind)], rest, left.size * 4)

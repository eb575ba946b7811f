"""MATCH_RECOGNIZE by its definition, one row at a time: random statements as text, and their matches by recursion."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

Value = int | None
Mapped = tuple[tuple[int, str, bool], ...]
"""Rows of a match: position, variable, whether it is inside of {- -}."""
VARIABLES = ("A", "B", "C")


class SkipFailed(Exception):
    """AFTER MATCH SKIP TO a row that is not there, or the first of the match."""


@dataclasses.dataclass(frozen=True)
class Node:
    """`kind` is a variable, "cat", "alt", "perm", "excl" or "times"."""

    kind: str
    parts: tuple[Node, ...] = ()
    least: int = 0
    most: int | None = None
    is_reluctant: bool = False

    def __str__(self) -> str:
        texts = [str(p) for p in self.parts]
        match self.kind:
            case "cat":
                return " ".join(
                    f"({t})" if p.kind == "alt" else t for p, t in zip(self.parts, texts, strict=True)
                )
            case "alt":
                return " | ".join(texts)
            case "perm":
                return f"PERMUTE({', '.join(texts)})"
            case "excl":
                return f"{{- {texts[0]} -}}"
            case "times":
                return f"({texts[0]}){self._sign()}{'?' if self.is_reluctant else ''}"
        return self.kind

    def _sign(self) -> str:
        signs = {(0, None): "*", (1, None): "+", (0, 1): "?"}
        found = signs.get((self.least, self.most))
        if found is not None:
            return found
        if self.least == self.most:
            return f"{{{self.least}}}"
        return f"{{{self.least or ''},{'' if self.most is None else self.most}}}"


def random_pattern(fate: random.Random, depth: int = 0) -> Node:
    kind = fate.choice(
        ["var", "cat", "cat", "times", "times", "alt", "perm", "excl"] if depth < 3 else ["var"]
    )
    if kind == "var":
        return Node(fate.choice(VARIABLES))
    if kind == "excl":
        return Node("excl", (random_pattern(fate, depth + 1),))
    if kind == "times":
        least, most = fate.choice([(0, None), (1, None), (0, 1), (2, 2), (1, 3), (2, None), (0, 2)])
        return Node("times", (random_pattern(fate, depth + 1),), least, most, fate.random() < 0.4)
    parts = tuple(random_pattern(fate, depth + 1) for _ in range(fate.randint(2, 3)))
    return Node(
        kind, parts if kind != "perm" else tuple(Node(p.kind) if not p.parts else Node("A") for p in parts)
    )


@dataclasses.dataclass(frozen=True)
class View:
    """The rows of a partition, and what is mapped of them."""

    rows: list[tuple[Value, int]]
    mapped: Mapped

    def nth(self, names: str, offset: int = 0, *, is_first: bool = False, shift: int = 0) -> Value:
        places = [p for p, v, _ in self.mapped if not names or v in names]
        index = offset if is_first else len(places) - 1 - offset
        if not 0 <= index < len(places):
            return None
        place = places[index] + shift
        return self.rows[place][0] if 0 <= place < len(self.rows) else None

    def values(self, names: str) -> list[int]:
        found = [self.rows[p][0] for p, v, _ in self.mapped if not names or v in names]
        return [v for v in found if v is not None]

    def count(self, names: str) -> int:
        return sum(not names or v in names for _, v, _ in self.mapped)


Condition = tuple[str, Callable[[View, str, str], bool]]
"""SQL with X for the own variable and Y for another, and whether it is TRUE."""


def _lt(a: Value, b: Value) -> bool:
    return a is not None and b is not None and a < b


CONDITIONS: tuple[Condition, ...] = (
    ("X.v > 3", lambda s, x, y: _lt(3, s.nth(""))),
    ("v <= 5", lambda s, x, y: _lt(s.nth(""), 6)),
    ("X.v > PREV(X.v)", lambda s, x, y: _lt(s.nth("", shift=-1), s.nth(""))),
    ("v < NEXT(v)", lambda s, x, y: _lt(s.nth(""), s.nth("", shift=1))),
    ("X.v > LAST(Y.v)", lambda s, x, y: _lt(s.nth(y), s.nth(""))),
    (
        "X.v >= LAST(X.v, 1) OR LAST(X.v, 1) IS NULL",
        lambda s, x, y: s.nth(x, 1) is None or (s.nth("") is not None and not _lt(s.nth(""), s.nth(x, 1))),
    ),
    (
        "NOT (FIRST(Y.v) = v)",
        lambda s, x, y: (
            None not in (s.nth(y, is_first=True), s.nth("")) and s.nth(y, is_first=True) != s.nth("")
        ),
    ),
    (
        "PREV(LAST(Y.v), 1) < X.v AND v <> 0",
        lambda s, x, y: _lt(s.nth(y, shift=-1), s.nth("")) and s.nth("") != 0,
    ),
    ("SUM(X.v) < 9", lambda s, x, y: bool(s.values(x)) and sum(s.values(x)) < 9),
    ("COUNT(Y.*) <= 1 AND COUNT(*) < 5", lambda s, x, y: s.count(y) <= 1 and s.count("") < 5),
    (
        "X.v - LAST(Y.v) > 1",
        lambda s, x, y: _lt(1, (s.nth("") or 0) - (s.nth(y) or 0)) and None not in (s.nth(""), s.nth(y)),
    ),
    (
        "LAST(U.v, 1) < v OR COUNT(U.*) = 1",
        lambda s, x, y: _lt(s.nth("AB", 1), s.nth("")) or s.count("AB") == 1,
    ),
)
MEASURES: tuple[tuple[str, Callable[[View, View], Any]], ...] = (
    ("FIRST(v)", lambda s, f: s.nth("", is_first=True)),
    ("LAST(A.v, 1)", lambda s, f: s.nth("A", 1)),
    ("COUNT(*)", lambda s, f: s.count("")),
    ("SUM(U.v)", lambda s, f: sum(s.values("AB")) if s.values("AB") else None),
    ("CLASSIFIER()", lambda s, f: s.mapped[-1][1] if s.mapped else None),
    ("PREV(LAST(B.v))", lambda s, f: s.nth("B", shift=-1)),
    ("NEXT(v)", lambda s, f: s.nth("", shift=1)),
    ("FINAL LAST(B.v)", lambda s, f: f.nth("B")),
    ("FINAL MAX(C.v)", lambda s, f: max(f.values("C"), default=None)),
    ("CLASSIFIER(U)", lambda s, f: next((v for _, v, _ in reversed(s.mapped) if v in "AB"), None)),
)


def _named(condition: str, own: str, other: str) -> str:
    return re.sub(r"\bX\b", own, re.sub(r"\bY\b", other, condition))


@dataclasses.dataclass(frozen=True)
class Statement:
    pattern: Node
    conditions: dict[str, tuple[Condition, str]]
    rows: str
    after: str
    within_s: int
    looks_ahead: bool = True

    @property
    def names(self) -> list[str]:
        text = str(self.pattern).replace("PERMUTE", "")
        return [v for v in VARIABLES if v in text]

    def sql(self) -> str:
        measures = ", ".join(f"{sql} AS m{i}" for i, (sql, _) in enumerate(self._measures()))
        within = f"WITHIN INTERVAL '{self.within_s}' SECOND" if self.within_s else ""
        subset = f"SUBSET U = ({', '.join(v for v in self.names if v in 'AB')})"
        define = ", ".join(f"{x} AS {_named(sql, x, y)}" for x, ((sql, _), y) in self.conditions.items())
        return (
            f"SELECT * FROM line MATCH_RECOGNIZE (PARTITION BY k ORDER BY rt MEASURES {measures}, MATCH_NUMBER() AS n"
            f" {self.rows} {self.after} PATTERN ({self.pattern}) {within} {subset} DEFINE {define})"
        )

    def _measures(self) -> list[tuple[str, Callable[[View, View], Any]]]:
        known = [m for m in MEASURES if all(f"{v}." not in m[0] or v in self.names for v in VARIABLES)]
        return [m for m in known if self.looks_ahead or "NEXT" not in m[0]]

    def expected(self, key: str, rows: list[tuple[Value, int]]) -> list[tuple[Any, ...]]:
        """Output rows of one partition with rows (v, time): columns k, v, rt of ALL ROWS or k of ONE, then the measures."""
        out: list[tuple[Any, ...]] = []
        start, covered, number = 0, 0, 0
        while start < len(rows):
            mapped = next(self._matches(rows, start), None)
            if mapped is None:
                if "UNMATCHED" in self.rows and start >= covered:
                    out.append((key, *rows[start], *(None for _ in self._measures()), None))
                start += 1
                continue
            number += 1
            out += self._output(key, rows, start, mapped, number)
            covered = max(covered, start + len(mapped))
            start = self._following(start, mapped)
        return out

    def _following(self, start: int, mapped: Mapped) -> int:
        if not mapped or "NEXT ROW" in self.after:
            return start + 1
        if "TO" not in self.after:
            return start + len(mapped)
        variable = self.after.split()[-1]
        found = [p for p, v, _ in mapped if v == variable]
        if not found or (target := found[0 if "FIRST" in self.after else -1]) == start:
            raise SkipFailed
        return target

    def _output(
        self, key: str, rows: list[tuple[Value, int]], start: int, mapped: Mapped, number: int
    ) -> Iterator[tuple[Any, ...]]:
        final = View(rows, mapped)

        def measured(view: View) -> tuple[Any, ...]:
            return (*(compute(view, final) for _, compute in self._measures()), number)

        if self.rows.startswith("ONE"):
            yield (key, *measured(final))
            return
        if not mapped and "OMIT" not in self.rows:
            yield (key, *rows[start], *measured(final))
        for end, (place, _, is_excluded) in enumerate(mapped):
            if not is_excluded:
                yield (key, *rows[place], *measured(View(rows, mapped[: end + 1])))

    def _matches(self, rows: list[tuple[Value, int]], start: int) -> Iterator[Mapped]:
        """All matches from a row on, the preferred first."""

        def run(node: Node, mapped: Mapped, is_excluded: bool) -> Iterator[Mapped]:
            match node.kind:
                case "cat":
                    yield from sequence(node.parts, mapped, is_excluded)
                case "alt":
                    for part in node.parts:
                        yield from run(part, mapped, is_excluded)
                case "perm":
                    for order in permutations(node.parts):
                        yield from sequence(order, mapped, is_excluded)
                case "excl":
                    yield from run(node.parts[0], mapped, True)
                case "times":
                    yield from times(node, 0, mapped, is_excluded)
                case name:
                    place = start + len(mapped)
                    if place == len(rows):
                        return
                    if self.within_s and rows[place][1] - rows[start][1] >= self.within_s * 1_000:
                        return
                    longer = (*mapped, (place, name, is_excluded))
                    if self._holds(name, View(rows, longer)):
                        yield longer

        def sequence(parts: tuple[Node, ...], mapped: Mapped, is_excluded: bool) -> Iterator[Mapped]:
            if not parts:
                yield mapped
                return
            for longer in run(parts[0], mapped, is_excluded):
                yield from sequence(parts[1:], longer, is_excluded)

        def times(node: Node, turn: int, mapped: Mapped, is_excluded: bool) -> Iterator[Mapped]:
            is_enough = turn >= node.least
            if is_enough and node.is_reluctant:
                yield mapped
            if node.most is None or turn < node.most:
                for longer in run(node.parts[0], mapped, is_excluded):
                    if not is_enough or len(longer) > len(mapped):
                        yield from times(node, turn + 1, longer, is_excluded)
            if is_enough and not node.is_reluctant:
                yield mapped

        yield from run(self.pattern, (), False)

    def _holds(self, name: str, view: View) -> bool:
        if name not in self.conditions:
            return True
        (_, holds), other = self.conditions[name]
        return holds(view, name, other)


def permutations(parts: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
    """Orders of the parts, by place: those that begin with the first come first."""
    if not parts:
        yield ()
    for i, part in enumerate(parts):
        for rest in permutations(parts[:i] + parts[i + 1 :]):
            yield (part, *rest)


def random_statement(fate: random.Random) -> Statement:
    while True:
        pattern = random_pattern(fate)
        bare = Statement(pattern, {}, "", "", 0).names
        # SUBSET U has one of A and B at least.
        if {"A", "B"} & set(bare):
            break
    defined = [v for v in bare if fate.random() < 0.8] or bare[:1]
    conditions = {v: (fate.choice(CONDITIONS), fate.choice(bare)) for v in defined}
    rows = fate.choice(
        [
            "ONE ROW PER MATCH",
            "ALL ROWS PER MATCH",
            "ALL ROWS PER MATCH OMIT EMPTY MATCHES",
            "ALL ROWS PER MATCH WITH UNMATCHED ROWS",
        ]
    )
    skips = [
        "",
        "SKIP PAST LAST ROW",
        "SKIP TO NEXT ROW",
        f"SKIP TO LAST {fate.choice(bare)}",
        f"SKIP TO FIRST {fate.choice(bare)}",
    ]
    skip = fate.choice(skips)
    after = f"AFTER MATCH {skip}" if skip else ""
    return Statement(pattern, conditions, rows, after, fate.choice([0, 0, 2, 4]))


def random_long_statement(fate: random.Random) -> Statement:
    """One whose matches may take many rows, and which reads no row behind the current one."""
    found = random_statement(fate)
    loop = Node("times", (found.pattern,), 1, None, False)
    pattern = fate.choice(
        [found.pattern, loop, Node("times", (Node(fate.choice(found.names)),), 2, None), loop]
    )
    names = Statement(pattern, {}, "", "", 0).names
    if not {"A", "B"} & set(names) or "TO LAST" in found.after or "TO FIRST" in found.after:
        return random_long_statement(fate)
    lasting = [
        c for c in CONDITIONS if any(t in c[0] for t in ("<= 5", "LAST(X.v, 1)", "PREV(X.v)", "LAST(U"))
    ]
    usual = [c for c in CONDITIONS if "NEXT" not in c[0]]
    conditions = {
        v: (fate.choice(lasting if fate.random() < 0.7 else usual), fate.choice(names))
        for v in names
        if fate.random() < 0.8
    }
    conditions = conditions or {names[0]: (lasting[0], names[0])}
    return dataclasses.replace(found, pattern=pattern, conditions=conditions, looks_ahead=False)

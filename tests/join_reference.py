"""What a join of any kind outputs, by nested loops: the reference of every join operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from sqlstream.schema import Schema
from sqlstream.specs import JoinKind

Row = tuple[Any, ...]


def output_schema(kind: JoinKind, left: Schema, right: Schema) -> Schema:
    return left if kind.is_left_only else left.concat(right)


def nested_loops(
    kind: JoinKind,
    left: list[Row],
    right: list[Row],
    is_match: Callable[[Row, Row], bool],
    widths: tuple[int, int],
) -> Counter[Row]:
    """The rows that a join of these rows outputs; `widths` are the numbers of columns of both sides."""
    pairs = [(i, j) for i, a in enumerate(left) for j, b in enumerate(right) if is_match(a, b)]
    met = ({i for i, _ in pairs}, {j for _, j in pairs})
    if kind is JoinKind.SEMI:
        return Counter(left[i] for i in met[0])
    alone = [row for i, row in enumerate(left) if i not in met[0]]
    if kind is JoinKind.ANTI:
        return Counter(alone)
    result = Counter(left[i] + right[j] for i, j in pairs)
    if kind in (JoinKind.LEFT, JoinKind.FULL):
        result.update(row + (None,) * widths[1] for row in alone)
    if kind in (JoinKind.RIGHT, JoinKind.FULL):
        result.update((None,) * widths[0] + row for j, row in enumerate(right) if j not in met[1])
    return result

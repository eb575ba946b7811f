"""Parts of the text by which EXPLAIN describes a node; columns of an input are written $0, $1, … as in Flink."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from sqlstream.expressions import SortKey
from sqlstream.planner.relational.node import RelationalNode


def columns_text(indexes: Iterable[int]) -> str:
    return ", ".join(f"${i}" for i in indexes)


def order_text(keys: tuple[SortKey, ...]) -> str:
    return ", ".join(f"{k} NULLS {'FIRST' if k.is_nulls_first else 'LAST'}" for k in keys)


def join_parts(*parts: str) -> str:
    return ", ".join(p for p in parts if p)


# The relational plan as text: one line per node, inputs below and indented.


LINES_MAX = 10_000


def explain_relation(node: RelationalNode) -> str:
    """The plan as a tree; columns of a node's input are written $0, $1, … as in Flink. A node is printed below each of its
    readers, so the tree can be exponentially larger than the plan: it ends after LINES_MAX lines."""
    lines = list(itertools.islice(_lines(node, "", ""), LINES_MAX + 1))
    if len(lines) > LINES_MAX:
        lines[LINES_MAX:] = [f"… and more than these {LINES_MAX} lines"]
    return "\n".join(lines)


def _lines(node: RelationalNode, first: str, rest: str) -> Iterator[str]:
    """The lines of a node: `first` is the prefix of its own line, `rest` that of its inputs' lines."""
    yield f"{first}{type(node).__name__}({node.describe()})"
    for position, child in enumerate(node.inputs):
        is_last = position == len(node.inputs) - 1
        yield from _lines(child, rest + ("+- " if is_last else ":- "), rest + ("   " if is_last else ":  "))

"""Inputs for tests of stateful operators: changelogs, cut into batches anywhere, and state moved to other subtasks midway."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from operator_harness import Collected, Row, column_of, feed, finish, restored

from sqlstream.arrow import to_arrow_type
from sqlstream.elements import Watermark
from sqlstream.runtime.kernels.keys.hashing import hash_columns, key_groups
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.schema import Schema
from sqlstream.specs.spec import OperatorSpec

Item = tuple[int, Any]
"""(input index, element)."""

cuts_strategy = st.lists(st.integers(1, 40), max_size=6)


@st.composite
def changelogs(draw: st.DrawFn, rows: st.SearchStrategy[Row], max_size: int = 25) -> list[Row]:
    """Rows that are inserted, some of them retracted later and some of those replaced."""
    log: list[Row] = []
    live: list[Row] = []
    for row in draw(st.lists(rows, max_size=max_size)):
        log.append(("+I", *row))
        live.append(row)
        match draw(st.integers(0, 4)):
            case 0 | 1:
                log.append(("-D", *live.pop(draw(st.integers(0, len(live) - 1)))))
            case 2:
                log.append(("-U", *live.pop(draw(st.integers(0, len(live) - 1)))))
                live.append(draw(rows))
                log.append(("+U", *live[-1]))
    return log


def final_rows(log: Sequence[Row]) -> list[Row]:
    """The multiset of rows that remain after a changelog."""
    live: list[Row] = []
    for kind, *row in log:
        live.append(tuple(row)) if kind in ("+I", "+U") else live.remove(tuple(row))
    return live


def cut(rows: Sequence[Row], cuts: Sequence[int]) -> list[list[Row]]:
    """The rows in order, in batches."""
    places = [0, *sorted({c for c in cuts if c < len(rows)}), len(rows)]
    return [list(rows[a:b]) for a, b in itertools.pairwise(places) if a < b]


def interleaved(left: Sequence[Any], right: Sequence[Any], turns: Sequence[bool]) -> list[Item]:
    """The items of two inputs in one sequence: each input keeps its order, and `turns` decides which comes next (True: left)."""
    left, right, items = list(left), list(right), []
    for is_left in [*turns, *[True] * len(left), *[False] * len(right)]:
        side = left if is_left else right
        if side:
            items.append((0 if is_left else 1, side.pop(0)))
    return items


def owner(schema: Schema, row: Row, keys: Sequence[int], parallelism: int) -> int:
    """The subtask that a hash exchange on `keys` sends the row to; without keys the first."""
    if not keys:
        return 0
    columns = [column_of([row[k]], to_arrow_type(schema.types[k])) for k in keys]
    return int(key_groups(hash_columns(columns), 128)[0]) * parallelism // 128


def run_moved(
    spec: OperatorSpec,
    context: OperatorContext,
    items: Sequence[Any],
    at: int,
    keys: Sequence[Sequence[int]],
    parallelism: int = 3,
) -> Collected:
    """One subtask takes the first `at` items, then `parallelism` subtasks restored from its snapshot take the rest: rows by
    the hash of each input's `keys`, everything else to all."""
    first, output = make_operator(spec, context), Collected()
    feed(first, items[:at], output)
    snapshot = first.context.state.snapshot()
    # The snapshot is a copy: what the operator does afterwards leaves no trace in it.
    feed(first, items[at:], Collected())
    for subtask in range(parallelism):
        operator = restored(spec, context, [snapshot], subtask, parallelism)
        feed(operator, _share(context, items[at:], subtask, keys, parallelism), output)
        finish(operator, output)
    return output


def run_handed_over(
    spec: OperatorSpec,
    context: OperatorContext,
    parts: Sequence[list[Row]],
    keys: Sequence[int],
    early: set[int],
    moved: int,
    over: int,
) -> Collected:
    """The rows of an operator that holds them until histories have ended, which is after `moved` and `over` parts.

    The state moves from three subtasks to two behind `moved` parts, where the end has come to those of `early` already."""
    output, snapshots = Collected(), []
    for subtask in range(3):
        first, held = restored(spec, context, [], subtask, 3), len(output.batches)
        feed(first, _share(context, parts[:moved], subtask, [keys], 3), output)
        assert len(output.batches) == held
        if subtask in early:
            first.on_hand_over(output)
        snapshots.append(first.context.state.snapshot())
    for subtask in range(2):
        operator = restored(spec, context, snapshots, subtask, 2)
        feed(operator, _share(context, parts[moved : moved + over], subtask, [keys], 2), output)
        operator.on_hand_over(output)
        emitted = len(output.batches)
        feed(operator, [Watermark(1)], output)
        assert len(output.batches) == emitted
        feed(operator, _share(context, parts[moved + over :], subtask, [keys], 2), output)
        finish(operator, output)
    return output


def _share(
    context: OperatorContext,
    items: Sequence[Any],
    subtask: int,
    keys: Sequence[Sequence[int]],
    parallelism: int,
) -> list[Item]:
    share = []
    for item in items:
        index, element = item if isinstance(item, tuple) else (0, item)
        if isinstance(element, list):
            skipped = 0 if context.input_modes[index].is_insert_only else 1
            schema = context.input_schemas[index]
            element = [r for r in element if owner(schema, r[skipped:], keys[index], parallelism) == subtask]
            if not element:
                continue
        share.append((index, element))
    return share

"""Declared state: who saves, restores, expires and measures it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest
from operator_harness import ManualClock, operator_context, restore

from sqlstream.errors import InternalError
from sqlstream.runtime.operators.operator import Operator
from sqlstream.runtime.state.broadcast import Broadcast
from sqlstream.runtime.state.operator_state import EXPIRED, OperatorState, SavedWhole, StateScope
from sqlstream.runtime.state.snapshots.snapshot import KEY_GROUP_COLUMN, SavedTables
from sqlstream.runtime.taskmanager.mailbox import ProcessingTimers
from sqlstream.schema import Schema


class Entries(SavedWhole):
    """A table of numbers that expire at their own value."""

    def __init__(self, name: str, scope: StateScope, *numbers: int) -> None:
        self.name, self.scope, self.numbers = name, scope, list(numbers)

    def save_later(self) -> Callable[[], SavedTables]:
        groups = pa.array([0] * len(self.numbers), pa.int32())
        table = pa.table({KEY_GROUP_COLUMN: groups, "number": pa.array(self.numbers, pa.int64())})
        return lambda: SavedTables(keyed={self.name: table, f"{self.name}.part": table})

    def load(self, saved: SavedTables) -> None:
        assert all(name.partition(".")[0] == self.name for name in saved.keyed)
        self.numbers = saved.keyed[self.name].column("number").to_pylist()

    def nbytes(self) -> int:
        return 8 * len(self.numbers)

    @property
    def next_sweep_ms(self) -> int | None:
        return min(self.numbers, default=None)

    def expire(self) -> int:
        before = len(self.numbers)
        self.numbers = [n for n in self.numbers if n > self.scope.now_ms()]
        return before - len(self.numbers)


class Holder(Operator[Any]):
    """An operator that declares two tables and a value, and counts how often it was restored."""

    def __init__(self, context: Any, left: Iterable[int] = (), right: Iterable[int] = ()) -> None:
        super().__init__(None, context)
        self.left = context.state.add(Entries("left", context.state.scope, *left))
        self.right = context.state.add(Entries("right", context.state.scope, *right))
        self.is_open = context.state.add(Broadcast("is_open", False, any))
        self.restored_with: list[int] = []

    def on_restored(self) -> None:
        self.restored_with = [*self.left.numbers, *self.right.numbers]


def context(**others: Any) -> Any:
    return operator_context([Schema(())], Schema(()), **others)


def test_a_restored_operator_has_what_every_table_saved_and_is_told() -> None:
    first = Holder(context(), [3, 4], [5])
    first.is_open.value = True
    second = Holder(context())
    restore(second, first.context.state.snapshot())
    assert (second.restored_with, second.is_open.value) == ([3, 4, 5], True)
    assert second.context.state.nbytes() == first.context.state.nbytes() == 24


def test_a_table_is_not_given_the_parts_of_one_whose_name_begins_like_its_own() -> None:
    state = OperatorState(StateScope())
    state.add(Entries("side", state.scope, 1))
    state.add(Entries("side2", state.scope, 2))
    restored = OperatorState(StateScope())
    tables = [restored.add(Entries(name, restored.scope)) for name in ("side", "side2")]
    restored.restore(state.snapshot())
    assert [table.numbers for table in tables] == [[1], [2]]


@pytest.mark.parametrize("name", ["left", "left.part"])
def test_a_name_that_could_mean_two_tables_is_refused(name: str) -> None:
    state = OperatorState(StateScope())
    state.add(Entries("left", state.scope))
    with pytest.raises(InternalError, match="left"):
        state.add(Entries(name, state.scope))


def test_a_task_wakes_when_an_entry_expires_and_counts_what_is_forgotten() -> None:
    clock, counted = ManualClock(100), []
    operator = Holder(
        context(now_ms=clock, count=lambda name, n: counted.append((name, n))), [150, 160], [170]
    )
    timers = ProcessingTimers(clock)
    timers.add(operator, lambda now_ms: operator.context.state.expire())
    assert timers.next_ms() == 150
    clock.now_ms = 160
    timers.fire_due()
    assert (operator.left.numbers, operator.right.numbers, counted) == ([], [170], [(EXPIRED, 2)])
    timers.fire_due()
    assert (timers.next_ms(), counted) == (170, [(EXPIRED, 2)])


@pytest.mark.parametrize(
    ("merge", "values", "merged"), [(min, (3, 1, 2), 1), (max, (3, 1, 2), 3), (any, (False, True), True)]
)
def test_the_values_of_several_subtasks_become_one(
    merge: Callable[[Iterable[int]], int], values: tuple[int, ...], merged: int
) -> None:
    saved = [Broadcast("v", value, merge).save().shared["v"] for value in values]
    restored = Broadcast("v", 7, merge)
    restored.load(SavedTables())
    assert restored.value == 7
    restored.load(SavedTables(shared={"v": pa.concat_tables(saved)}))
    assert restored.value == merged


def test_each_operator_has_state_of_its_own() -> None:
    from sqlstream.runtime.operators import make_operator
    from sqlstream.specs import LimitSpec

    shared = context()
    operators = [make_operator(LimitSpec(fetch=1), shared) for _ in range(2)]
    assert operators[0].context.state is not operators[1].context.state
    assert shared.state.tables == []

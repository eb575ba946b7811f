"""Traits after projections and joins: literal columns in, literal columns out."""

from __future__ import annotations

from sqlstream.planner.physical.node import Traits, WindowTrait
from sqlstream.specs.window import WindowKind, WindowSpec

WINDOW = WindowSpec(WindowKind.TUMBLE, 1_000)


def columns(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


def test_a_key_holds_while_all_its_columns_are_copied() -> None:
    traits = Traits(keys=frozenset({columns(0), columns(1, 2), columns()}))
    assert traits.projected({0: columns(4, 3)}).keys == {columns(3), columns()}
    assert traits.projected({1: columns(0), 2: columns(1)}).keys == {columns(0, 1), columns()}
    assert traits.projected({1: columns(0), 2: columns()}).keys == {columns()}


def test_windows_and_times_go_where_their_columns_go() -> None:
    window = WindowTrait(WINDOW, columns(1), columns(2), columns(3), is_closed=True)
    traits = Traits(
        windows=(window,), times=columns(2, 3), row_watermark_column=4, is_single_row_per_window=True
    )
    moved = traits.projected({2: columns(0, 5), 4: columns(7, 6)})
    assert moved.windows == (WindowTrait(WINDOW, columns(), columns(0, 5), columns(), is_closed=True),)
    assert (moved.times, moved.row_watermark_column, moved.is_single_row_per_window) == (
        columns(0, 5),
        6,
        True,
    )
    gone = traits.projected({0: columns(0)})
    assert (gone.windows, gone.times, gone.row_watermark_column) == ((), columns(), -1)
    assert Traits().projected({0: columns(0)}).row_watermark_column == -1
    assert window.columns == columns(1, 2, 3)


def test_the_right_side_of_a_join_begins_behind_the_left_one() -> None:
    window = WindowTrait(WINDOW, columns(0), columns(6))
    traits = Traits(keys=frozenset({columns(1, 5)}), windows=(window,), times=columns(4))
    shifted = traits.shifted(10)
    assert shifted.keys == {columns(11, 15)}
    assert shifted.windows == (WindowTrait(WINDOW, columns(10), columns(16)),)
    assert shifted.times == columns(14)
    assert Traits(times=columns(9)).shifted(1).times == columns(10)
    assert Traits(keys=frozenset({columns(0)})).shifted(2).keys == {columns(2)}
    assert Traits(keys=frozenset({columns()})).shifted(2).keys == {columns()}


def test_a_key_of_updated_rows_holds_with_the_columns_that_distribute_them_alone() -> None:
    updated = Traits(is_insert_only=False, keys=frozenset({columns(0)}))
    moved = updated.distributed((1,))
    assert (moved.keys, moved.moving_keys) == ({columns(0, 1)}, {columns(0)})
    assert moved.distributed((0, 1)).keys == {columns(0, 1)}
    assert (updated.distributed(()), updated.distributed((0,))) == (updated, updated)
    assert Traits(keys=frozenset({columns(0)})).distributed((1,)).keys == {columns(0)}
    assert moved.projected({0: columns(3)}).moving_keys == {columns(3)}
    assert moved.projected({0: columns(3)}).keys == frozenset()

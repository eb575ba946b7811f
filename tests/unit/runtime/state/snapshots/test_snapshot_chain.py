"""How much is copied to follow a table from snapshot to snapshot."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sqlstream.runtime.state.snapshots.changes import Link, SnapshotChain

LARGE, SMALL = 20_000, 100


@dataclasses.dataclass
class Copied:
    rows: int

    def give_up(self) -> None: ...


class Table:
    """Rows by number with the snapshot after which each was last written. State: its chain, and what each snapshot copied."""

    def __init__(self, rows: int, written: int) -> None:
        self.epochs = np.zeros(rows, dtype=np.int64)
        self.is_there = np.zeros(rows, dtype=bool)
        self.is_there[:written] = True
        self.chain: SnapshotChain[int] = SnapshotChain()
        self.copied: list[int] = []
        self.wholes = 0

    def write(self, rows: slice | np.ndarray) -> None:
        self.epochs[rows] = len(self.copied)
        self.is_there[rows] = True

    def snapshot(self) -> None:
        now, live = len(self.copied), int(self.is_there.sum())
        link = self.chain.begin(now + 1, now, live, is_full=False)
        if link.before:
            rows = int(np.count_nonzero(self.is_there & (self.epochs > link.before[-1].mark)))
        else:
            self.wholes, rows = self.wholes + 1, live
        link.collected = Copied(rows)
        self.chain.completed(now + 1)
        self.copied.append(rows)

    @property
    def saved_rows(self) -> int:
        return sum(link.rows for link in self.chain.links)


@pytest.mark.parametrize("each", [SMALL, LARGE])
def test_rows_that_are_only_added_are_copied_three_times_and_never_as_a_whole(each: int) -> None:
    table = Table(255 * each, 0)
    for n in range(255):
        table.write(slice(n * each, (n + 1) * each))
        table.snapshot()
        assert table.saved_rows == table.is_there.sum()
    assert table.wholes == 1
    assert len(table.chain.links) <= 40
    # Small increments are put together as long as they are small.
    assert sum(table.copied) <= (3 if each == LARGE else 6) * 255 * each


def test_small_increments_are_few() -> None:
    table = Table(1_000_000, 1_000_000)
    table.snapshot()
    for n in range(100):
        table.write(slice(n * SMALL, (n + 1) * SMALL))
        table.snapshot()
        assert len(table.chain.links) <= 8


def test_rows_that_change_again_and_again_do_not_make_the_whole_table_be_copied() -> None:
    table = Table(20 * LARGE, 20 * LARGE)
    table.snapshot()
    for _ in range(200):
        table.write(slice(0, LARGE))
        table.snapshot()
    assert table.wholes == 1
    assert table.copied[1:] == [LARGE] * 200
    assert table.saved_rows <= 2 * 20 * LARGE


def test_a_chain_has_at_most_twice_the_rows_of_its_table() -> None:
    random = np.random.default_rng(1)
    for part in (0.1, 0.5, 1.0):
        rows = 5 * LARGE
        table = Table(rows, rows)
        for _ in range(60):
            table.write(random.random(rows) < part)
            table.snapshot()
            assert table.saved_rows <= 2.1 * rows
        assert table.wholes > 1
    assert table.copied == [rows] * 60


def test_a_table_that_shrinks_is_copied_anew() -> None:
    table = Table(10 * LARGE, 10 * LARGE)
    table.snapshot()
    table.is_there[SMALL:] = False
    table.snapshot()
    assert (table.wholes, table.copied) == (2, [10 * LARGE, SMALL])


@pytest.mark.parametrize(
    ("rows", "is_whole"),
    # Of the whole copy, of the increments put together, and of the last one; the table has 100.
    [((100, 60, 50), True), ((100, 50, 60), False), ((100, 110), True)],
)
def test_a_chain_that_is_too_long_is_put_together_once_before_the_table_is_copied(
    rows: tuple[int, ...], is_whole: bool
) -> None:
    chain: SnapshotChain[int] = SnapshotChain()
    chain.links = tuple(Link(i, i, min(i, 1), (), rows=count) for i, count in enumerate(rows))
    link = chain.begin(len(rows), 0, 100, is_full=False)
    assert (link.before, link.weight) == (((), 0) if is_whole else (chain.links[:1], len(rows)))

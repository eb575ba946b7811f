"""A snapshot holds the state as it was when it began, whatever is written while it is collected; with those that it follows,
all of the state, at any parallelism."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from operator_harness import ManualClock, share_of

from sqlstream import types as sql
from sqlstream.arrow import ROW_KIND_COLUMN
from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates.accumulator import NO_WEIGHTS
from sqlstream.runtime.aggregates.accumulator_set import AccumulatorSet
from sqlstream.runtime.aggregates.value_counts import ValueCounts
from sqlstream.runtime.aggregates.value_sets import ValueSets
from sqlstream.runtime.kernels.buffers import view_values
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.operators.order.sort import RowList
from sqlstream.runtime.operators.rank.top_lists import RowLists
from sqlstream.runtime.state.logs.row_log import RowLog, Spread
from sqlstream.runtime.state.logs.slice_log import SliceColumns, SliceLog
from sqlstream.runtime.state.operator_state import PendingTables, StateScope
from sqlstream.runtime.state.snapshots.changes import CollectedTables
from sqlstream.runtime.state.snapshots.snapshot import OperatorSnapshot, SavedTables, SnapshotAborted
from sqlstream.runtime.state.storage.columns import VarColumn
from sqlstream.runtime.state.storage.slot_columns import NumberColumn, RowColumn
from sqlstream.runtime.state.tables.keyed_multiset import KeyedMultiset
from sqlstream.runtime.state.tables.keyed_rows import KeyedRows
from sqlstream.runtime.state.tables.keyed_table import KeyedTable
from sqlstream.runtime.state.tables.row_multiset import RowMultiset

SEEDS = 4
STEPS = 100
KEY = pa.schema([("k", pa.string())])
ROW = pa.schema([("k", pa.string()), ("n", pa.int64())])
MAX_PARALLELISM = 16
Rows = list[tuple[Any, ...]]
Segments = dict[str, list[tuple[int, pa.Table]]]
"""Of each table, those that hold it, with the ids of their checkpoints."""


class Texts:
    """A column of lists of strings by slot: a type that no record has."""

    def __init__(self) -> None:
        self.fields = [pa.field("texts", pa.list_(pa.string()))]
        self.values = VarColumn(self.fields[0].type)

    def resize(self, slots: int) -> None:
        return None

    def columns(self, slots: np.ndarray) -> list[pa.Array]:
        return [self.values.gather(slots)]

    def load(self, slots: np.ndarray, columns: list[pa.Array]) -> None:
        self.values.put(slots, columns[0])

    def reset(self, slots: np.ndarray) -> None:
        self.values.delete(slots)

    def nbytes(self) -> int:
        return int(self.values.nbytes)


class Driver:
    """Random batches of writes on one kind of table, whose entries expire after `ttl_ms`."""

    def __init__(self, clock: ManualClock, fate: random.Random, ttl_ms: int) -> None:
        self.scope = StateScope(max_parallelism=MAX_PARALLELISM, now_ms=clock)
        self.fate = fate
        self.ttl_ms = ttl_ms
        self.table: Any = self.fresh()

    def fresh(self) -> Any:
        raise NotImplementedError

    def write(self) -> None:
        raise NotImplementedError

    def other(self) -> Driver:
        """A driver of an empty table of this kind."""
        return type(self)(self.scope.now_ms, self.fate, self.ttl_ms)  # type: ignore[arg-type]

    def some_keys(self) -> list[str | None]:
        names = [None, *("key with a long name " * (n % 3) + str(n) for n in range(30))]
        return self.fate.sample(names, self.fate.randint(1, 6))

    def some_rows(self) -> Rows:
        return [(key, self.fate.randint(0, 3)) for key in self.some_keys() * 2]


def batch_of(rows: Rows, kinds: list[int] | None = None) -> pa.RecordBatch:
    columns = [
        pa.array([row[0] for row in rows], pa.string()),
        pa.array([row[1] for row in rows], pa.int64()),
    ]
    if kinds is None:
        return pa.RecordBatch.from_arrays(columns, schema=ROW)
    schema = ROW.append(pa.field(ROW_KIND_COLUMN, pa.int8()))
    return pa.RecordBatch.from_arrays([*columns, pa.array(kinds, pa.int8())], schema=schema)


class Entries(Driver):
    """Numbers, rows, lists and counted values by key."""

    def fresh(self) -> KeyedTable:
        self.numbers, self.rows = NumberColumn("total", pa.int64()), RowColumn(ROW)
        self.texts, self.counts = Texts(), ValueCounts(pa.string())
        columns = [self.numbers, self.rows, self.texts, Dropping(self.counts)]
        return KeyedTable("t", KEY, columns, self.scope, ttl_ms=self.ttl_ms, parts={"values": self.counts})

    def write(self) -> None:
        keys = self.some_keys()
        slots, _ = self.table.get_or_create([pa.array(keys, pa.string())])
        self.table.writing(slots)
        self.numbers.values[slots] += 1 + np.arange(len(slots))
        numbers = [self.fate.randint(0, 9) for _ in keys]
        self.rows.put(slots, batch_of(list(zip(keys, numbers, strict=True))))
        self.texts.values.put(slots, pa.array([[f"{n}"] * n for n in numbers], self.texts.fields[0].type))
        repeated = np.repeat(slots, 3)
        values = pa.array([f"value {self.fate.randint(0, 4)} that is long" for _ in repeated])
        weights = np.array([self.fate.choice([1, 1, -1]) for _ in repeated], dtype=np.int8)
        self.counts.add(repeated, values, weights)
        if self.fate.random() < 0.3:
            self.table.forget(np.array(self.fate.sample(slots.tolist(), 1)))


class Dropping:
    """The column that a part belongs to: without values of its own."""

    def __init__(self, part: ValueCounts | ValueSets) -> None:
        self.fields: list[pa.Field] = []
        self._part = part

    def resize(self, slots: int) -> None:
        return None

    def columns(self, slots: np.ndarray) -> list[pa.Array]:
        return []

    def load(self, slots: np.ndarray, columns: list[pa.Array]) -> None:
        return None

    def reset(self, slots: np.ndarray) -> None:
        self._part.drop(slots)

    def nbytes(self) -> int:
        return self._part.nbytes()


class OnlyEntry(Entries):
    """The same without keys."""

    def fresh(self) -> KeyedTable:
        self.numbers, self.counts = NumberColumn("total", pa.int64()), ValueCounts(pa.int64())
        columns = [self.numbers, Dropping(self.counts)]
        return KeyedTable("t", pa.schema([]), columns, self.scope, parts={"values": self.counts})

    def write(self) -> None:
        slots, _ = self.table.get_or_create([])
        self.table.writing(slots)
        self.numbers.values[slots] += 1
        values = pa.array([self.fate.randint(0, 50) for _ in range(5)])
        self.counts.add(np.repeat(slots, 5), values, NO_WEIGHTS)


class Sets(Entries):
    """Sets of values of two users, by key."""

    def fresh(self) -> KeyedTable:
        self.sets = ValueSets(pa.int64(), users=2)
        return KeyedTable(
            "t", KEY, [Dropping(self.sets)], self.scope, ttl_ms=self.ttl_ms, parts={"values": self.sets}
        )

    def write(self) -> None:
        slots, _ = self.table.get_or_create([pa.array(self.some_keys(), pa.string())])
        self.table.writing(slots)
        repeated = np.repeat(slots, 3)
        values = pa.array([self.fate.randint(0, 20) for _ in repeated])
        second = np.array([self.fate.randint(0, 1) for _ in repeated], dtype=np.int8)
        self.sets.add_each(repeated, values, [NO_WEIGHTS, second])
        if self.fate.random() < 0.3:
            self.table.forget(np.array(self.fate.sample(slots.tolist(), 1)))


class JoinRows(Driver):
    """Rows by key, each once however often it came, with numbers of matches."""

    is_retracting = False

    def fresh(self) -> KeyedRows:
        return KeyedRows(
            "t", ROW, (0,), self.scope,
            is_retracting=self.is_retracting, counts_matches=True, ttl_ms=self.ttl_ms,
        )  # fmt: skip

    def write(self) -> None:
        rows = self.some_rows()
        signs = [self.fate.choice([1, 1, -1]) if self.is_retracting else 1 for _ in rows]
        matches = np.array([self.fate.randint(0, 2) for _ in rows])
        self.table.apply(batch_of(rows), np.array(signs), matches)
        keys = self.some_keys()
        slots = self.table.find([pa.array(keys, pa.string())], len(keys))
        _, row_ids = self.table.match(slots)
        self.table.add_matches(row_ids, np.ones(len(row_ids), dtype=np.int64))


class RetractingJoinRows(JoinRows):
    is_retracting = True


class Multiset(Driver):
    """A changelog of rows, by key."""

    def fresh(self) -> KeyedMultiset:
        return KeyedMultiset("t", ROW, (0,), self.scope, list_length=1, ttl_ms=self.ttl_ms)

    def write(self) -> None:
        rows = self.some_rows()
        kinds = [self.fate.choice([0, 0, 3]) for _ in rows]
        keys, row_slots = self.table.apply(batch_of(rows, kinds))
        self.table.writing(np.unique(keys))
        self.table.sweep(row_slots)


class Changelog(Driver):
    """A changelog of rows without a key."""

    def fresh(self) -> RowMultiset:
        return RowMultiset(ROW, "t")

    def write(self) -> None:
        rows = self.some_rows()
        slots, _ = self.table.apply(batch_of(rows, [self.fate.choice([0, 0, 3]) for _ in rows]))
        self.table.sweep(slots)


class Lists(Driver):
    """The three rows with the least number of each key."""

    def fresh(self) -> RowLists:
        return RowLists("t", ROW, (0,), 3, self.ttl_ms, self.scope)

    def write(self) -> None:
        batch = batch_of(self.some_rows())
        slots = self.table.slots_of(batch)
        touched = np.unique(slots)
        self.table.writing(touched)
        before, first_row = self.table.lists.lists(touched), self.table.rows.id_count
        self.table.lists.insert(slots, view_values(batch.column(1), np.int64), first_row)
        after = self.table.lists.lists(touched)
        before = np.pad(before, ((0, 0), (0, after.shape[1] - before.shape[1])), constant_values=-1)
        after = self.table.enter(batch, touched, after, first_row)
        self.table.drop_removed(before, after)


class Slices(Driver):
    """Rows of slices, which are forgotten slice by slice."""

    def fresh(self) -> SliceLog:
        self.end = 0
        return SliceLog("t", SliceColumns(("k", "n"), keys=(0,), end=1), self.scope)

    def write(self) -> None:
        ends = sorted(self.end + n for _, n in self.some_rows())
        self.table.append(
            batch_of([(key, end) for key, end in zip(self.some_keys() * 9, ends, strict=False)]).columns
        )
        if self.fate.random() < 0.3:
            self.end += self.fate.randint(0, 2)
            self.table.take_until(self.end)


class Logged(Driver):
    """Rows of a join with times, some of which match."""

    spread = Spread.BY_KEY

    def fresh(self) -> RowLog:
        self.end = 0
        return RowLog("t", ROW, self.scope, (0,), self.spread)

    def write(self) -> None:
        batch = batch_of(self.some_rows())
        self.table.append(batch, self.end + view_values(batch.column(1), np.int64))
        for chunk in self.table.chunks:
            if self.fate.random() < 0.2:
                chunk.is_matched[self.fate.randrange(len(chunk.times))] = True
        if self.fate.random() < 0.3:
            self.end += self.fate.randint(0, 2)
            self.table.take_until(self.end)


class LoggedAnywhere(Logged):
    spread = Spread.ANYWHERE


class Sorted(Driver):
    """The rows of a sort."""

    def fresh(self) -> RowList:
        return RowList("t", ROW)

    def write(self) -> None:
        self.table.append(batch_of(self.some_rows()))
        if self.fate.random() < 0.1:
            self.table.replace([self.table.collected().slice(0, 9)])


def content_of_log(table: Any) -> Counter[Any]:
    """The rows of each key, in their order."""
    rows: dict[Any, list[Any]] = {}
    if isinstance(table, RowList):
        for row in zip(*(c.to_pylist() for c in table.collected().columns), strict=True):
            rows.setdefault("all", []).append(row)
    for chunk in getattr(table, "chunks", []):
        columns = chunk.columns if isinstance(table, SliceLog) else chunk.batch.columns
        of_row = [c.to_pylist() for c in columns]
        if isinstance(table, RowLog):
            of_row += [chunk.times.tolist(), chunk.is_matched.tolist()]
        for row in zip(*of_row, strict=True):
            rows.setdefault(row[0], []).append(row)
    if getattr(table, "_spread", None) is Spread.ANYWHERE:
        return Counter(row for of_key in rows.values() for row in of_key)
    return Counter(map(repr, rows.items()))


def content(table: Any) -> Counter[Any]:
    """All entries, read from the table itself, with what its parts hold of them."""
    if isinstance(table, SliceLog | RowLog | RowList):
        return content_of_log(table)
    slots = np.arange(table.slot_count)
    slots = slots[table.is_live(slots)]
    owners, columns = table.saved(slots)
    # The last touch of a key is that of its rows only as long as they do not change.
    first = 1 if isinstance(table, KeyedMultiset) else 0
    rows: dict[int, list[Any]] = {slot: [] for slot in slots.tolist()}
    for owner, *values in zip(owners.tolist(), *(c.to_pylist() for c in columns[first:]), strict=True):
        rows[owner].append(tuple(map(repr, values)))
    found = {slot: [tuple(of_slot)] for slot, of_slot in rows.items()}
    for part in getattr(table, "_parts", {}).values():
        entries = np.arange(part.slot_count)
        _, columns = part.saved(entries[part.is_live(entries)])
        for owner, *values in zip(*(c.to_pylist() for c in columns), strict=True):
            found[owner].append(tuple(values))
    return Counter(repr((of_slot[0], sorted(of_slot[1:]))) for of_slot in found.values())


class Checkpoints:
    """What a task and a JobMaster do: checkpoints of a driver's table that are collected, completed or aborted in any order of
    their steps, and restored. `chain` are the segments of the last completed one, by table, each with its id."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.pending: dict[int, tuple[PendingTables, Counter[Any], Segments]] = {}
        self.collected: dict[int, Segments] = {}
        self.chain: Segments = {}
        self.checked = self.increments = 0
        self._last_id = 0

    def begin(self, *, is_full: bool = False) -> None:
        self._last_id += 1
        expected = content(self.driver.table)
        snapshot = self.driver.table.begin(self._last_id, is_full=is_full)
        self.pending[self._last_id] = snapshot, expected, self.chain

    def read_some(self, pieces: int) -> None:
        for snapshot, *_ in self.pending.values():
            if not isinstance(snapshot, CollectedTables):
                continue
            for collection in snapshot.collections.values():
                for _ in range(pieces):
                    collection._read_piece()

    def collect(self, checkpoint_id: int) -> None:
        snapshot, expected, chain = self.pending.pop(checkpoint_id)
        saved = snapshot.collect()
        self.increments += bool(saved.increments)
        segments: Segments = {}
        for name in {*saved.keyed}:
            table = saved.keyed[name]
            base = saved.increments.get(name, 0)
            assert base == 0 or base in [number for number, _ in chain[name]]
            kept = [segment for segment in chain.get(name, []) if segment[0] <= base]
            segments[name] = [*kept, (checkpoint_id, table)]
        self.check(segments, expected)
        self.collected[checkpoint_id] = segments

    def check(self, segments: Segments, expected: Counter[Any]) -> None:
        keyed = {name: pa.concat_tables([t for _, t in parts]) for name, parts in segments.items()}
        parallelism = self.driver.fate.choice([1, 1, 2, 3])
        found: Counter[Any] = Counter()
        for subtask in range(parallelism):
            share = share_of([OperatorSnapshot(keyed)], subtask, parallelism, MAX_PARALLELISM)
            restored = self.driver.other().table
            restored.load(share)
            found += content(restored)
        assert found == expected
        self.checked += 1

    def complete(self, checkpoint_id: int) -> None:
        """It subsumes those that are older."""
        for older in [n for n in (*self.pending, *self.collected) if n < checkpoint_id]:
            self.abort(older)
        self.chain = self.collected.pop(checkpoint_id)
        self.driver.table.completed(checkpoint_id)

    def abort(self, checkpoint_id: int) -> None:
        self.driver.table.aborted(checkpoint_id)
        self.collected.pop(checkpoint_id, None)
        if checkpoint_id in self.pending:
            snapshot, *_ = self.pending.pop(checkpoint_id)
            with contextlib.suppress(SnapshotAborted):
                snapshot.collect()


STEP_WEIGHTS = {
    "write": 6,
    "tick": 1,
    "begin": 4,
    "savepoint": 1,
    "read": 3,
    "collect": 4,
    "complete": 4,
    "abort": 1,
}


def one_step(driver: Driver, checkpoints: Checkpoints, clock: ManualClock) -> None:
    fate = driver.fate
    under_way = [*checkpoints.pending, *checkpoints.collected]
    match fate.choices([*STEP_WEIGHTS], [*STEP_WEIGHTS.values()])[0]:
        case "write":
            driver.table.expire()
            driver.write()
        case "tick":
            clock.now_ms += fate.choice([1, 10, 60])
            driver.table.expire()
        case "begin" if len(under_way) < 4:
            checkpoints.begin()
        case "savepoint" if len(under_way) < 5:
            checkpoints.begin(is_full=True)
        case "read":
            checkpoints.read_some(fate.randint(1, 3))
        case "collect" if checkpoints.pending:
            checkpoints.collect(fate.choice([*checkpoints.pending]))
        case "complete" if checkpoints.collected:
            checkpoints.complete(fate.choice([*checkpoints.collected]))
        case "abort" if under_way:
            checkpoints.abort(fate.choice(under_way))


BY_SLOT: list[type[Driver]] = [
    Entries,
    OnlyEntry,
    Sets,
    JoinRows,
    RetractingJoinRows,
    Multiset,
    Changelog,
    Lists,
]
LOGS: list[type[Driver]] = [Slices, Logged, LoggedAnywhere, Sorted]


@pytest.mark.parametrize(
    ("kind", "ttl_ms"),
    [*((kind, ttl_ms) for kind in BY_SLOT for ttl_ms in (0, 100)), *((kind, 0) for kind in LOGS)],
)
def test_a_snapshot_is_the_state_at_its_begin(
    kind: type[Driver], ttl_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqlstream.runtime.state.snapshots.collection._SLOTS_MAX", 3)
    monkeypatch.setattr("sqlstream.runtime.state.snapshots.collection._SCANNED_SLOTS", 7)
    monkeypatch.setattr("sqlstream.runtime.state.snapshots.collection._PAUSE_S", 0)
    monkeypatch.setattr("sqlstream.runtime.state.logs.slice_log._SMALL_CHUNKS_MAX", 6)
    monkeypatch.setattr("sqlstream.runtime.state.logs.row_log._SMALL_CHUNKS_MAX", 6)
    if ttl_ms:
        monkeypatch.setattr("sqlstream.runtime.state.snapshots.changes._GONE_SPARE", 20)
    checked = increments = 0
    for seed in range(SEEDS):
        clock = ManualClock(1_000)
        driver = kind(clock, random.Random(seed), ttl_ms)
        checkpoints = Checkpoints(driver)
        for _ in range(STEPS):
            one_step(driver, checkpoints, clock)
        checked += checkpoints.checked
        increments += checkpoints.increments
    assert checked > 2 * SEEDS
    assert increments > 0 or kind in (OnlyEntry, LoggedAnywhere)


@pytest.mark.parametrize("is_completed", [True, False])
def test_forgotten_entries_take_bounded_memory_between_two_snapshots(
    monkeypatch: pytest.MonkeyPatch, is_completed: bool
) -> None:
    """Also while the first one is being written for long."""
    monkeypatch.setattr("sqlstream.runtime.state.snapshots.changes._GONE_SPARE", 100)
    table = KeyedTable("t", KEY, [], StateScope(max_parallelism=MAX_PARALLELISM))

    def write(first: int) -> np.ndarray:
        slots, _ = table.get_or_create([pa.array([f"{n}" for n in range(first, first + 10)])])
        table.writing(slots)
        return slots

    write(0)
    pending = table.begin(1, is_full=False)
    if is_completed:
        pending.collect()
        table.completed(1)
    held = []
    for round_ in range(1, 100):
        table.forget(write(10 * round_))
        held.append(table._changes.nbytes)
    assert max(held[50:]) <= max(held[:50])
    if not is_completed:
        assert pending.collect().keyed["t"].num_rows == 10
        table.completed(1)
    write(5_000)
    saved = table.begin(2, is_full=False).collect()
    assert not saved.increments
    assert saved.keyed["t"].num_rows == 20


def test_an_aborted_snapshot_of_a_chain_that_was_forgotten_meanwhile_copies_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sqlstream.runtime.state.snapshots.changes._GONE_SPARE", 0)
    table = KeyedTable("t", KEY, [], StateScope(max_parallelism=MAX_PARALLELISM))
    slots, _ = table.get_or_create([pa.array(["a"])])
    table.begin(1, is_full=False).collect()
    table.completed(1)
    pending = table.begin(2, is_full=False)
    for gone in ("b", "c"):
        table.forget(table.get_or_create([pa.array([gone])])[0])
    table.aborted(2)
    with pytest.raises(SnapshotAborted):
        pending.collect()
    table.writing(slots)
    assert table._changes._collection is None


@pytest.mark.parametrize("kind", [Entries, Sets, RetractingJoinRows, Lists])
def test_another_thread_collects_while_the_operator_writes(
    kind: type[Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the test before it, with the interleaving that two threads have."""
    monkeypatch.setattr("sqlstream.runtime.state.snapshots.collection._SLOTS_MAX", 3)
    monkeypatch.setattr("sqlstream.runtime.state.snapshots.collection._SCANNED_SLOTS", 7)
    clock = ManualClock(1_000)
    driver = kind(clock, random.Random(1), 1_000)
    checkpoints = Checkpoints(driver)
    collected_while_writing = 0
    with ThreadPoolExecutor(1) as writing_thread:
        for _ in range(12):
            for _ in range(5):
                driver.write()
            checkpoints.begin()
            (checkpoint_id,) = checkpoints.pending
            snapshot, expected, chain = checkpoints.pending[checkpoint_id]
            collecting = writing_thread.submit(snapshot.collect)
            while not collecting.done():
                clock.now_ms += 10
                driver.table.expire()
                driver.write()
                collected_while_writing += 1
            checkpoints.pending[checkpoint_id] = Done(collecting.result(60)), expected, chain
            checkpoints.collect(checkpoint_id)
            checkpoints.complete(checkpoint_id)
    assert collected_while_writing > 12
    assert checkpoints.increments


@dataclasses.dataclass
class Done:
    """What a snapshot collected."""

    saved: SavedTables

    def collect(self) -> SavedTables:
        return self.saved


CALLS: dict[str, tuple[AggregateCall, bool, Callable[[Any], GrowingArray]]] = {
    "LISTAGG": (
        AggregateCall("LISTAGG", (0,), sql.STRING),
        False,
        lambda texts: texts._texts._chunks._chains._links,  # type: ignore[no-any-return]
    ),
    "ARRAY_AGG": (
        AggregateCall("ARRAY_AGG", (0,), sql.array(sql.STRING)),
        False,
        lambda lists: lists._arrays._chunks._chains._links,  # type: ignore[no-any-return]
    ),
    "LAST_VALUE": (
        AggregateCall("LAST_VALUE", (0,), sql.STRING),
        True,
        lambda kept: kept._of_slot._links,  # type: ignore[no-any-return]
    ),
}
"""By function: whether its input retracts, and an array that another thread reads."""
BLOCKED_S = 0.05
"""A thread that has not gone on for so long waits for a lock."""


@pytest.mark.parametrize("function", CALLS)
def test_another_thread_reads_no_array_that_grows(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An array is moved in the system's page tables as it grows, and has no items meanwhile."""
    monkeypatch.setattr("sqlstream.runtime.state.storage.growing_lists._OPEN_BYTES_MAX", 0)
    call, is_retracting, read_of = CALLS[function]
    values = AccumulatorSet((call,), ((sql.STRING,),), is_retracting, ["value"])
    table = KeyedTable("t", KEY, [values], StateScope(max_parallelism=MAX_PARALLELISM), parts=values.parts)

    def write(first: int, end: int) -> None:
        names = pa.array([f"{n}" for n in range(first, end)], pa.string())
        slots, _ = table.get_or_create([names])
        table.writing(slots)
        values.accumulate(slots, pa.RecordBatch.from_arrays([names], names=["text"]))

    write(0, 40)
    write(0, 40)
    expected = content(table)
    snapshot = table.begin(1, is_full=True)
    collecting: list[Future[SavedTables]] = []
    grow, has_begun = GrowingArray._grow, threading.Event()

    def collect() -> SavedTables:
        has_begun.set()
        return snapshot.collect()

    def grow_slowly(array: GrowingArray, capacity: int) -> None:
        if array is read_of(values.accumulators[0]):
            held, array.values = array.values, np.full_like(array.values, -1)
            if not collecting:
                collecting.append(writing_thread.submit(collect))
                assert has_begun.wait(60)
            wait(collecting, BLOCKED_S)
            array.values = held
        grow(array, capacity)

    with ThreadPoolExecutor(1) as writing_thread:
        monkeypatch.setattr(GrowingArray, "_grow", grow_slowly)
        write(40, 400)
        saved = collecting[0].result(60)
    other = AccumulatorSet((call,), ((sql.STRING,),), is_retracting, ["value"])
    restored = KeyedTable("t", KEY, [other], StateScope(max_parallelism=MAX_PARALLELISM), parts=other.parts)
    restored.load(saved)
    assert content(restored) == expected


def test_a_log_is_measured_while_another_thread_collects_it() -> None:
    log = SliceLog("t", SliceColumns(("k", "n"), keys=(0,), end=1), StateScope())
    changes = log._changes
    log.append(batch_of([("a", 1)]).columns)

    class Measured(dict[Any, Any]):
        def values(self) -> Any:
            for value in super().values():
                wait([collecting_thread.submit(pending.collect)], BLOCKED_S)
                yield value

    with ThreadPoolExecutor(1) as collecting_thread:
        log.begin(1, is_full=True).collect()
        changes._key_groups = Measured(changes._key_groups)
        log.append(batch_of([("b", 1)]).columns)
        pending = log.begin(2, is_full=True)
        assert log.nbytes() > 0

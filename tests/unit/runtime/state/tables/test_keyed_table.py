"""Tables of one entry per key, against a dict."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import ManualClock

from sqlstream.runtime.aggregates.accumulator import NO_WEIGHTS
from sqlstream.runtime.aggregates.value_counts import ValueCounts
from sqlstream.runtime.kernels.buffers import view_values
from sqlstream.runtime.kernels.keys.hashing import hash_columns, key_groups
from sqlstream.runtime.state.operator_state import StateScope
from sqlstream.runtime.state.snapshots.current_rows import SLOT_COLUMN, VERSION_COLUMN
from sqlstream.runtime.state.snapshots.snapshot import KEY_GROUP_COLUMN, SavedTables
from sqlstream.runtime.state.storage.arrays import unique_names
from sqlstream.runtime.state.storage.slot_columns import NumberColumn, RowColumn
from sqlstream.runtime.state.tables.keyed_table import KeyedTable

KEYS = pa.schema([("name", pa.string()), ("day", pa.date32())])
ROW = pa.schema([("text", pa.string()), ("amount", pa.int32())])
NAMES, DAYS = ["", "a", "long enough to be in the arena", None], [0, 1, None]
Key = tuple[Any, ...]

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["write", "forget", "restore", "tick"]),
        st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(DAYS)), max_size=6, unique=True),
        st.integers(0, 60),
    ),
    max_size=12,
)


class Model:
    """A table of a number and a row per key, which expire after 100 ms, and the same as a dict."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_000)
        self.table = self.fresh()
        self.entries: dict[Key, tuple[int, int]] = {}

    def fresh(self) -> Any:
        scope = StateScope(now_ms=self.clock)
        self.numbers, self.rows = NumberColumn("best", pa.int64(), fill=-1), RowColumn(ROW)
        return KeyedTable("entries", KEYS, [self.numbers, self.rows], scope, ttl_ms=100)

    def write(self, keys: list[Key], amount: int) -> None:
        slots, is_new = self.table.get_or_create(columns(keys))
        self.table.writing(slots)
        assert is_new.tolist() == [key not in self.entries for key in keys]
        assert self.numbers.values[slots].tolist() == [self.entries.get(k, (-1,))[0] for k in keys]
        self.numbers.values[slots] = amount
        texts = pa.array([f"{key}" for key in keys], pa.string())
        self.rows.put(
            slots,
            pa.RecordBatch.from_arrays([texts, pa.array([amount] * len(keys), pa.int32())], schema=ROW),
        )
        self.entries |= dict.fromkeys(keys, (amount, self.clock.now_ms))

    def forget(self, keys: list[Key], amount: int) -> None:
        there = [key for key in keys if key in self.entries]
        slots, _ = self.table.get_or_create(columns(there))
        self.table.forget(slots)
        for key in there:
            del self.entries[key]

    def restore(self, keys: list[Key], amount: int) -> None:
        saved = self.table.save()
        self.table = self.fresh()
        self.table.load(saved)

    def tick(self, keys: list[Key], amount: int) -> None:
        self.clock.now_ms += amount
        due = self.table.next_sweep_ms
        gone = [key for key, (_, at) in self.entries.items() if at + 100 <= self.clock.now_ms]
        assert not gone or (due is not None and due <= self.clock.now_ms)
        if due is not None and due <= self.clock.now_ms:
            assert self.table.expire() == len(gone)
        for key in gone:
            del self.entries[key]

    def check(self) -> None:
        slots = self.table.slots()
        assert len(self.table) == len(slots) == len(self.entries)
        found = list(zip(*(column.to_pylist() for column in self.table.keys(slots)), strict=True))
        keys = [(name, None if day is None else (day - dt.date(1970, 1, 1)).days) for name, day in found]
        amounts = dict(zip(keys, self.numbers.values[slots].tolist(), strict=True))
        assert amounts == {key: amount for key, (amount, _) in self.entries.items()}
        rows = self.rows.get(slots)
        assert rows.column("amount").to_pylist() == self.numbers.values[slots].tolist()


def columns(keys: list[Key]) -> list[pa.Array]:
    names, days = [name for name, _ in keys], [day for _, day in keys]
    return [pa.array(names, pa.string()), pa.array(days, pa.int32()).cast(pa.date32())]


@given(ACTIONS)
@settings(max_examples=60, deadline=None)
def test_a_table_is_a_dict_that_forgets_what_is_old(actions: list[tuple[str, list[Key], int]]) -> None:
    model = Model()
    for action, keys, amount in actions:
        getattr(model, action)(keys, amount)
        model.check()


def test_what_is_saved_can_be_read_by_name() -> None:
    model = Model()
    model.write([("a", 1), (None, None)], 3)
    table = model.table.save().keyed["entries"]
    fixed = [KEY_GROUP_COLUMN, SLOT_COLUMN, VERSION_COLUMN]
    assert table.column_names == [*fixed, "$touched_ms", "name", "day", "best", "text", "amount"]
    assert table.drop_columns(fixed).to_pylist()[0] == {
        "$touched_ms": 1_000,
        "name": "a",
        "day": dt.date(1970, 1, 2),
        "best": 3,
        "text": "('a', 1)",
        "amount": 3,
    }
    assert model.table.schema.names == ["name", "day", "best", "text", "amount"]
    groups = key_groups(hash_columns(columns([("a", 1), (None, None)])), 128)
    assert table.column(KEY_GROUP_COLUMN).to_pylist() == groups.tolist()


@pytest.mark.parametrize(
    ("before_ms", "after_ms", "due_ms"), [(0, 50, 1_070), (50, 0, None), (50, 50, 1_050)]
)
def test_the_time_to_live_may_change_between_saving_and_loading(
    before_ms: int, after_ms: int, due_ms: int | None
) -> None:
    clock = ManualClock(1_000)
    keys = pa.schema([("k", pa.int64())])
    tables, numbers = [], []
    for ttl_ms in (before_ms, after_ms):
        numbers.append(NumberColumn("n", pa.float64()))
        tables.append(KeyedTable("t", keys, [numbers[-1]], StateScope(now_ms=clock), ttl_ms=ttl_ms))
    slots, _ = tables[0].get_or_create([pa.array([7])])
    tables[0].writing(slots)
    numbers[0].values[slots] = 2.5
    clock.now_ms = 1_020
    tables[1].load(tables[0].save())
    assert (numbers[1].values[0], tables[1].next_sweep_ms) == (2.5, due_ms)


def test_without_keys_there_is_one_entry_from_its_first_use_on() -> None:
    numbers = NumberColumn("n", pa.int64())
    table = KeyedTable("t", pa.schema([]), [numbers], StateScope())
    assert (len(table), table.save().keyed["t"].num_rows) == (0, 0)
    assert [part.tolist() for part in table.get_or_create([])] == [[0], [True]]
    numbers.values[0] = 9
    assert [part.tolist() for part in table.get_or_create([])] == [[0], [False]]
    other = KeyedTable("t", pa.schema([]), [NumberColumn("n", pa.int64())], StateScope())
    other.load(table.save())
    assert (len(other), other.save()) == (1, table.save())
    table.forget(table.slots())
    assert (len(table), numbers.values[0]) == (0, 0)


def test_the_parts_of_entries_of_several_old_subtasks_find_their_entries() -> None:
    keys = pa.schema([("k", pa.int64())])
    owned: dict[int, list[int]] = {0: [], 1: []}
    for key in range(20):
        owned[int(key_groups(hash_columns([pa.array([key])]), 128)[0]) // 64].append(key)
    saved = []
    for mine in owned.values():
        words = ValueCounts(pa.string())
        table = KeyedTable("t", keys, [], StateScope(), parts={"words": words})
        slots, _ = table.get_or_create([pa.array(mine)])
        for prefix in ("", "again "):
            words.add(slots, pa.array([f"{prefix}{key}" for key in mine]), NO_WEIGHTS)
        saved.append(table.save())
    words = ValueCounts(pa.string())
    together = KeyedTable("t", keys, [], StateScope(), parts={"words": words})
    together.load(
        SavedTables(keyed={name: pa.concat_tables(s.keyed[name] for s in saved) for name in saved[0].keyed})
    )
    assert set(saved[0].keyed) == {"t", "t.words"}
    slots = together.slots()
    found = dict(zip(together.keys(slots)[0].to_pylist(), slots.tolist(), strict=True))
    for key, slot in found.items():
        assert words.counted_values_of(np.array([slot]))[1].to_pylist() == [f"{key}", f"again {key}"]


def test_names_that_occur_twice_get_a_number() -> None:
    assert unique_names(["a", "b", "a", "a_2", "a"]) == ["a", "b", "a_2", "a_2_2", "a_3"]


def test_a_saved_table_does_not_change_with_the_state() -> None:
    model = Model()
    model.write([("a", 1)], 3)
    saved = model.table.save().keyed["entries"]
    model.write([("a", 1)], 4)
    assert pc.sum(saved.column("best")).as_py() == 3


def test_a_large_table_is_saved_in_pieces_that_are_loaded_as_one() -> None:
    count = 600_000
    keys = pa.schema([("k", pa.int64())])
    numbers = [NumberColumn("n", pa.int64()) for _ in range(2)]
    tables = [KeyedTable("t", keys, [column], StateScope()) for column in numbers]
    slots, _ = tables[0].get_or_create([pa.array(np.arange(count))])
    numbers[0].values[slots] = np.arange(count) * 3
    saved = tables[0].save()
    assert saved.keyed["t"].num_rows == count
    assert saved.keyed["t"].column("n").num_chunks > 1
    tables[1].load(saved)
    slots = tables[1].slots()
    assert len(slots) == count
    assert (numbers[1].values[slots] == view_values(tables[1].keys(slots)[0], np.int64) * 3).all()


def test_a_table_that_is_restored_from_increments_is_as_large_as_from_a_whole_copy() -> None:
    count = 70_000
    keys = pa.schema([("k", pa.int64())])
    table = KeyedTable("t", keys, [NumberColumn("n", pa.int64())], StateScope())
    table.get_or_create([pa.array(np.arange(count))])
    whole = table.save().keyed["t"]
    place = whole.schema.get_field_index(VERSION_COLUMN)
    replaced = whole.set_column(place, VERSION_COLUMN, pa.array(np.full(count, 2)))
    sizes = []
    for saved in (whole, pa.concat_tables([whole, replaced])):
        restored = KeyedTable("t", keys, [NumberColumn("n", pa.int64())], StateScope())
        restored.load(SavedTables({"t": saved}))
        assert len(restored) == count
        sizes.append(restored.nbytes())
    assert sizes[0] == sizes[1]


def test_what_is_copied_for_a_snapshot_counts_until_it_is_read_or_given_up() -> None:
    count = 70_000
    table = KeyedTable("t", pa.schema([("k", pa.int64())]), [NumberColumn("n", pa.int64())], StateScope())
    slots, _ = table.get_or_create([pa.array(np.arange(count))])
    table.save()
    before = table.nbytes()
    row_bytes = 4 + 4 + 8 + 8 + 8
    for is_read in (True, False):
        pending = table.begin(1, is_full=True)
        assert table.nbytes() == before
        table.writing(slots[:1_000])
        assert row_bytes * 1_000 <= table.nbytes() - before < 2 * row_bytes * 1_000
        second = table.begin(2, is_full=True)
        assert row_bytes * count <= table.nbytes() - before < 2 * row_bytes * count
        if is_read:
            assert pending.collect().keyed["t"].num_rows == second.collect().keyed["t"].num_rows == count
        table.aborted(1)
        table.aborted(2)
        assert table.nbytes() == before


def test_columns_may_have_the_names_of_those_that_are_added() -> None:
    names = [KEY_GROUP_COLUMN, SLOT_COLUMN, "$touched_ms"]
    keys = pa.schema([(name, pa.int64()) for name in names])
    table = KeyedTable("t", keys, [], StateScope())
    slots, _ = table.get_or_create([pa.array([n]) for n in (1, 2, 3)])
    table.writing(slots)
    saved = table.save()
    assert len(set(saved.keyed["t"].column_names)) == saved.keyed["t"].num_columns
    restored = KeyedTable("t", keys, [], StateScope())
    restored.load(saved)
    assert [key.to_pylist() for key in restored.keys(restored.slots())] == [[1], [2], [3]]

"""The state of a group aggregation (keys, accumulators, row counts and times by slot), and its snapshot."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.aggregates.accumulator_set import AccumulatorSet
from runtime.kernels.buffers import to_array, view_values
from runtime.kernels.index import KeyIndex
from runtime.state.arrays import Array, grown
from runtime.state.key_group_column import slot_key_groups
from runtime.state.snapshot import KEY_GROUP_COLUMN, OperatorSnapshot
from runtime.state.state_ttl import StateTtl


class GroupState:
    """One slot per group. Without keys (`index` None) there is only slot 0, from its first use on."""

    def __init__(self, index: KeyIndex | None, accumulators: AccumulatorSet, ttl: StateTtl) -> None:
        self.index = index
        self.accumulators = accumulators
        self.row_counts: Array = np.empty(0, dtype=np.int64)
        self.ttl = ttl
        self.is_started = False

    def find_or_create(self, keys: list[pa.Array]) -> tuple[Array, Array]:
        """(slots of distinct keys, which of them are new)."""
        if self.index is None:
            slots, is_new = np.zeros(1, dtype=np.int64), np.array([not self.is_started])
        else:
            slots, is_new = self.index.get_or_insert(keys)
        self.is_started = True
        self.resize(int(slots.max(initial=-1)) + 1)
        return slots, is_new

    def resize(self, capacity: int) -> None:
        if capacity > len(self.row_counts):
            self.row_counts = grown(self.row_counts, capacity)
            self.accumulators.resize(len(self.row_counts))

    def live_slots(self) -> Array:
        if self.index is None:
            return np.zeros(1 if self.is_started else 0, dtype=np.int64)
        return self.index.slots()

    def forget(self, slots: Array) -> None:
        if len(slots) == 0:
            return
        self.accumulators.reset(slots)
        self.row_counts[slots] = 0
        self.ttl.forget(slots)
        if self.index is None:
            self.is_started = False
        else:
            self.index.delete(slots)

    def nbytes(self) -> int:
        index_bytes = 0 if self.index is None else int(self.index.nbytes)
        return index_bytes + self.accumulators.nbytes() + int(self.row_counts.nbytes) + self.ttl.nbytes()


def save_groups(state: GroupState, max_parallelism: int) -> OperatorSnapshot:
    """One table of groups (key group, slot number, row count, time, keys, accumulators), and one table per call that
    keeps its values (key group, position of the group's row, value, count)."""
    slots = state.live_slots()
    groups = slot_key_groups(state.index, slots, max_parallelism)
    keys = [] if state.index is None else state.index.keys(slots)
    plain = [
        column
        for a in state.accumulators.accumulators
        if a.kept_values is None
        for column in a.columns(slots)
    ]
    columns = [
        pa.array(groups),
        to_array(pa.int64(), slots),
        to_array(pa.int64(), state.row_counts[slots]),
        to_array(pa.int64(), state.ttl.touched_ms(slots)),
        *keys,
        *plain,
    ]
    names = [KEY_GROUP_COLUMN, "slot", "row_count", "touched_ms", *(f"c{i}" for i in range(len(columns) - 4))]
    keyed = {"groups": pa.table(columns, names=names)}
    group_of_slot = np.zeros(len(state.row_counts), dtype=np.int32)
    group_of_slot[slots] = groups
    for position, accumulator in enumerate(state.accumulators.accumulators):
        kept = accumulator.kept_values
        if kept is not None:
            owners, values, counts = kept.table()
            keyed[f"values{position}"] = pa.table(
                [
                    pa.array(group_of_slot[owners]),
                    to_array(pa.int64(), owners),
                    values,
                    to_array(pa.int64(), counts),
                ],
                names=[KEY_GROUP_COLUMN, "slot", "value", "count"],
            )
    return OperatorSnapshot(keyed=keyed)


def load_groups(state: GroupState, snapshot: OperatorSnapshot) -> None:
    """The inverse of `save_groups` on an empty state.

    Slot numbers of several old subtasks overlap, but (key group, slot) is unique: one subtask owned the key group.
    """
    table = snapshot.keyed.get("groups")
    if table is None or table.num_rows == 0:
        return
    batch = table.combine_chunks().to_batches()[0]
    width = 0 if state.index is None else len(state.index.types)
    slots, _ = state.find_or_create(list(batch.columns[4 : 4 + width]))
    state.row_counts[slots] = view_values(batch.column(2), np.int64)
    state.ttl.load(slots, view_values(batch.column(3), np.int64))
    first = 4 + width
    old = KeyIndex([pa.int32(), pa.int64()])
    old_slots, _ = old.get_or_insert([batch.column(0), batch.column(1)])
    slot_of_old = np.zeros(len(old_slots), dtype=np.int64)
    slot_of_old[old_slots] = slots
    for position, accumulator in enumerate(state.accumulators.accumulators):
        if accumulator.kept_values is None:
            count = len(accumulator.columns(slots[:1]))
            accumulator.merge(slots, list(batch.columns[first : first + count]))
            first += count
            continue
        values = snapshot.keyed[f"values{position}"].combine_chunks()
        if values.num_rows:
            owners = old.get([c.combine_chunks() for c in (values.column(0), values.column(1))])
            counts = values.column(3).to_numpy().astype(np.int64)
            accumulator.load(slot_of_old[owners], values.column(2).combine_chunks(), counts)

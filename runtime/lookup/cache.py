"""What a lookup join keeps of the rows that it has looked up: nothing, some by key, or the whole table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.keys.group import group
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.kernels.slots.chains import Chains
from sqlstream.runtime.lookup.fetcher import Fetcher
from sqlstream.runtime.operators.join.joined import complete_rows
from sqlstream.runtime.state.storage.arrays import Array, grown
from sqlstream.runtime.state.storage.columns import RowStore
from sqlstream.spi.lookup import CacheKind, LookupOptions


class LookupCache(Protocol):
    """Answers whole batches of keys. Between `find` and `release` the rows of the found slots stay."""

    @property
    def rows(self) -> RowsByKey: ...

    def find(self, keys: Sequence[pa.Array]) -> Array:
        """int64[n]: for each key (repeats and NULLs allowed) its slot in `rows`; -1 only where no row matches."""

    def release(self) -> None:
        """The batch has been answered: forget what is too much."""

    def next_reload_ms(self) -> int | None: ...

    def reload_if_due(self) -> None: ...


def make_cache(
    options: LookupOptions,
    fetcher: Fetcher,
    key_columns: tuple[int, ...],
    now_ms: Callable[[], int],
    count: Callable[[str, int], None],
) -> LookupCache:
    """The cache that the options ask for; `key_columns` are those of the fetcher's rows."""
    if options.cache is CacheKind.FULL:
        return FullCache(options, fetcher, key_columns, now_ms)
    return PartialCache(options, fetcher, key_columns, now_ms, count)


class PartialCache:
    """Keeps the rows of the keys that were looked up, also that a key has none.

    A batch looks all of its unknown keys up by one query. State: rows by key, and per key when it was looked up, when it was
    last asked for, and in which batch; the keys that the batch has looked up. A key is forgotten when it expires, and after a
    batch when there are more than `partial_rows_max` rows, where a key without rows counts as one: those asked for in the
    oldest batches go first. With cache NONE every batch begins with nothing. Counts `hitCount` and `missCount`, in keys of
    rows."""

    def __init__(
        self,
        options: LookupOptions,
        fetcher: Fetcher,
        key_columns: tuple[int, ...],
        now_ms: Callable[[], int],
        count: Callable[[str, int], None],
    ) -> None:
        self._options = options
        self._is_kept = options.cache is CacheKind.PARTIAL
        self._fetcher = fetcher
        self._key_columns = key_columns
        self._now_ms = now_ms
        self._count = count
        self._clear()

    def _clear(self) -> None:
        self.rows = RowsByKey(self._fetcher.schema, self._key_columns)
        self._written_ms: Array = np.empty(0, dtype=np.int64)
        self._used_ms: Array = np.empty(0, dtype=np.int64)
        self._used_batch: Array = np.empty(0, dtype=np.int64)
        self._fetched: Array = np.empty(0, dtype=np.int64)
        self._batch = 0

    def find(self, keys: Sequence[pa.Array]) -> Array:
        now_ms = self._now_ms()
        slots = self.rows.find(keys)
        if self._is_kept:
            slots = self._without_expired(slots, keys, now_ms)
        unknown = np.flatnonzero(slots < 0)
        if len(unknown):
            slots[unknown] = self._fetch([k.take(to_array(pa.int64(), unknown)) for k in keys], now_ms)
        if self._is_kept:
            self._count("hitCount", len(slots) - len(unknown))
            self._count("missCount", len(unknown))
            self._touch(slots, now_ms)
        return slots

    def _fetch(self, keys: list[pa.Array], now_ms: int) -> Array:
        """The slots of unknown keys, which are looked up; -1 for those with a NULL."""
        slots = np.full(len(keys[0]), -1, dtype=np.int64)
        complete = complete_rows(keys)
        if complete is not None:
            keys = [k.take(to_array(pa.int64(), complete)) for k in keys]
        if len(keys[0]) == 0:
            return slots
        groups, firsts = group(keys)
        distinct = [k.take(to_array(pa.int64(), firsts)) for k in keys]
        self._fetched = added = self.rows.add(distinct, self._fetcher.look_up(distinct))
        if self._is_kept:
            self._written_ms = grown(self._written_ms, self.rows.slot_count)
            self._used_ms = grown(self._used_ms, self.rows.slot_count)
            self._used_batch = grown(self._used_batch, self.rows.slot_count)
            self._written_ms[added] = now_ms
        slots[slice(None) if complete is None else complete] = added[groups]
        return slots

    def _touch(self, slots: Array, now_ms: int) -> None:
        self._batch += 1
        known = slots[slots >= 0]
        self._used_ms[known] = now_ms
        self._used_batch[known] = self._batch

    def _without_expired(self, slots: Array, keys: Sequence[pa.Array], now_ms: int) -> Array:
        """Forget the keys of the batch that have expired, so that they are looked up again."""
        write, access = self._options.expire_after_write_ms, self._options.expire_after_access_ms
        if not write and not access:
            return slots
        known = np.unique(slots[slots >= 0])
        is_old = np.zeros(len(known), dtype=bool)
        if write:
            is_old |= now_ms - self._written_ms[known] >= write
        if access:
            is_old |= now_ms - self._used_ms[known] >= access
        if not is_old.any():
            return slots
        self.rows.forget(known[is_old])
        return self.rows.find(keys)

    def release(self) -> None:
        if not self._is_kept:
            self._clear()
            return
        if not self._options.keeps_missing_keys:
            # Those of earlier batches have been forgotten.
            self.rows.forget(self._fetched[self.rows.counts(self._fetched) == 0])
            self._fetched = self._fetched[:0]
        self._trim()

    def _trim(self) -> None:
        limit = self._options.partial_rows_max
        if self.rows.row_count + self.rows.key_count <= limit:
            return
        live = self.rows.slots()
        weights = np.maximum(self.rows.counts(live), 1)
        excess = int(weights.sum()) - limit
        if excess <= 0:
            return
        oldest = np.argsort(self._used_batch[live], kind="stable")
        freed = np.cumsum(weights[oldest])
        # A quarter more than needed, so that not every batch has to sort the keys.
        enough = int(np.searchsorted(freed, min(excess + limit // 4, int(freed[-1])))) + 1
        self.rows.forget(live[oldest[:enough]])

    def next_reload_ms(self) -> int | None:
        return None

    def reload_if_due(self) -> None:
        return None


class FullCache:
    """Holds the whole table, loaded before the first row is answered and again when the options say so.

    State: the rows by key; they are replaced as a whole. The task waits while the table is loaded."""

    def __init__(
        self,
        options: LookupOptions,
        fetcher: Fetcher,
        key_columns: tuple[int, ...],
        now_ms: Callable[[], int],
    ) -> None:
        self._options = options
        self._fetcher = fetcher
        self._key_columns = key_columns
        self._now_ms = now_ms
        self._due_ms: int | None = None
        self.rows = RowsByKey(fetcher.schema, key_columns)
        self._is_loaded = False

    def find(self, keys: Sequence[pa.Array]) -> Array:
        self.reload_if_due()
        return self.rows.find(keys)

    def release(self) -> None:
        return None

    def next_reload_ms(self) -> int | None:
        return self._due_ms

    def reload_if_due(self) -> None:
        if self._is_loaded and (self._due_ms is None or self._now_ms() < self._due_ms):
            return
        began_ms = self._now_ms()
        rows = RowsByKey(self._fetcher.schema, self._key_columns)
        rows.load(self._fetcher.load(self._options.full_rows_max))
        self.rows = rows
        self._is_loaded = True
        if self._options.reload is not None:
            self._due_ms = self._options.reload.next_ms(began_ms, self._now_ms())


# The rows that a table has under each key that was looked up.


class RowsByKey:
    """A multi-map of keys to rows in which a key may also have no row: then it is known that the table has none.

    The key of a row is in its columns `key_columns`. A key that is not known has slot -1.

    State: index, chains and rows; `forget` drops keys with their rows. A loaded table whose keys do not repeat
    (`is_one_to_one`) needs no chains: the slot of a key is the id of its row."""

    def __init__(self, schema: pa.Schema, key_columns: Sequence[int]) -> None:
        self._key_columns = tuple(key_columns)
        self._index = KeyIndex([schema.field(c).type for c in key_columns])
        self._chains = Chains()
        self._rows = RowStore(schema)
        self.is_one_to_one = False

    @property
    def row_count(self) -> int:
        return len(self._rows)

    @property
    def key_count(self) -> int:
        return len(self._index)

    @property
    def slot_count(self) -> int:
        """One more than the highest slot: the length that arrays by slot need."""
        return self._index.slot_count

    def find(self, keys: Sequence[pa.Array]) -> Array:
        """int64[n]: the slot of each key, -1 where it is not known. A key with a NULL is never known."""
        return self._index.get(keys)

    def add(self, keys: Sequence[pa.Array], rows: pa.RecordBatch) -> Array:
        """Make distinct keys known that are not, with all rows that the table has under them; returns their slots. Rows with
        other keys are left out, since they need not be all rows of theirs."""
        slots, _ = self._index.get_or_insert(keys)
        is_added = np.zeros(self.slot_count, dtype=bool)
        is_added[slots] = True
        found = self._index.get([rows.column(c) for c in self._key_columns])
        wanted = (found >= 0) & is_added[found]
        if not wanted.all():
            chosen = np.flatnonzero(wanted)
            rows, found = rows.take(to_array(pa.int64(), chosen)), found[chosen]
        if rows.num_rows:
            self._chains.append(found, self._rows.append(rows))
        return slots

    def load(self, rows: pa.RecordBatch) -> None:
        """Hold a whole table, and nothing else; a row with a NULL in its key can never match, and is left out."""
        assert self.key_count == 0
        keys = [rows.column(c) for c in self._key_columns]
        complete = complete_rows(keys)
        if complete is not None:
            rows = rows.take(to_array(pa.int64(), complete))
            keys = [rows.column(c) for c in self._key_columns]
        if rows.num_rows:
            slots, _ = self._index.get_or_insert(keys)
            row_ids = self._rows.append(rows)
            # Both are numbered in order of arrival: without a repeated key they are the same.
            self.is_one_to_one = self.key_count == rows.num_rows
            if not self.is_one_to_one:
                self._chains.append(slots, row_ids)

    def slots(self) -> Array:
        """The slots of all known keys, ascending."""
        return self._index.slots()

    def counts(self, slots: Array) -> Array:
        """int64[n]: how many rows each slot has; none for -1."""
        if self.is_one_to_one:
            return (slots >= 0).astype(np.int64)
        return self._chains.counts(slots)

    def match(self, slots: Array) -> tuple[Array, Array]:
        """(positions in `slots`, row ids) of every row of every slot, by position."""
        if self.is_one_to_one:
            if len(slots) and slots.min() >= 0:
                return np.arange(len(slots)), slots
            positions = np.flatnonzero(slots >= 0)
            return positions, slots[positions]
        return self._chains.match(slots)

    def gather(self, row_ids: Array) -> pa.RecordBatch:
        return self._rows.gather(row_ids)

    def forget(self, slots: Array) -> None:
        """Drop keys, which must be known and distinct, and their rows."""
        _, row_ids = self._chains.match(slots)
        self._chains.remove(row_ids)
        self._rows.delete(row_ids)
        self._index.delete(slots)

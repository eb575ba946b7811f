"""The rows of a chunk by key and time, for probes that are small beside it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.index import KeyIndex
from sqlstream.runtime.operators.join.equal_pairs import complete_rows, portions
from sqlstream.runtime.state.storage.arrays import Array


class ChunkIndex:
    """Finds the rows of a chunk with a key and a time within bounds, without looking at others.

    State: an index of the keys, the rows ordered by key and time, and the distinct times. It follows from the chunk, so it is not
    saved, and goes with it.
    """

    def __init__(self, keys: list[pa.Array], times: Array) -> None:
        complete = complete_rows(keys)
        rows = np.arange(len(times)) if complete is None else complete
        slots = np.zeros(len(rows), dtype=np.int64)
        # Without key columns all rows have one key.
        self._keys = KeyIndex([key.type for key in keys]) if keys else None
        if self._keys is not None:
            chosen = keys if complete is None else [key.take(to_array(pa.int64(), rows)) for key in keys]
            slots, _ = self._keys.get_or_insert(chosen)
        # One number orders keys and times: times count by their place among all, so that it cannot overflow.
        self._times, places = np.unique(times[rows], return_inverse=True)
        self._width = len(self._times) + 1
        entries = slots * self._width + places
        order = np.argsort(entries, kind="stable")
        self._rows, self._entries = rows[order], entries[order]

    @property
    def nbytes(self) -> int:
        keys = 0 if self._keys is None else int(self._keys.nbytes)
        return int(keys + self._rows.nbytes + self._entries.nbytes + self._times.nbytes)

    def probe(self, keys: list[pa.Array], earliest: Array, latest: Array) -> Iterator[tuple[Array, Array]]:
        """(Probe row, row of the chunk) of all pairs with equal keys and `earliest <= time <= latest` of the probe row, in
        portions of about PAIRS_MAX. NULL equals nothing."""
        slots = np.zeros(len(earliest), dtype=np.int64)
        if self._keys is not None:
            types = self._keys.types
            typed = [k if k.type == t else k.cast(t) for k, t in zip(keys, types, strict=True)]
            slots = self._keys.get(typed)
        hits = np.flatnonzero(slots >= 0)
        if len(hits) == 0:
            return
        bases = slots[hits] * self._width
        starts = np.searchsorted(self._entries, bases + np.searchsorted(self._times, earliest[hits], "left"))
        stops = np.searchsorted(self._entries, bases + np.searchsorted(self._times, latest[hits], "right"))
        counts = np.maximum(stops - starts, 0)
        for low, high in portions(counts):
            part = counts[low:high]
            probes = np.repeat(np.arange(low, high), part)
            within = np.arange(len(probes)) - np.repeat(np.cumsum(part) - part, part)
            if len(probes):
                yield hits[probes], self._rows[starts[probes] + within]

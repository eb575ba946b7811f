"""Chains of rows against a dict of lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.runtime.kernels.slots.chains import Chains


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_chains_behave_as_a_dict_of_lists(data: st.DataObject) -> None:
    chains = Chains()
    reference: dict[int, list[int]] = {}
    free = list(range(60))
    for _ in range(data.draw(st.integers(1, 6))):
        slots = data.draw(st.lists(st.integers(0, 5), max_size=10))
        rows = [free.pop(0) for _ in slots]
        chains.append(np.array(slots, dtype=np.int64), np.array(rows, dtype=np.int64))
        for slot, row in zip(slots, rows, strict=True):
            reference.setdefault(slot, []).append(row)
        live = [row for chain in reference.values() for row in chain]
        if live:
            doomed = data.draw(st.lists(st.sampled_from(live), max_size=8))
            emptied = chains.remove(np.array(doomed, dtype=np.int64)).tolist()
            before = {slot for slot, chain in reference.items() if chain}
            reference = {slot: [r for r in chain if r not in doomed] for slot, chain in reference.items()}
            assert sorted(emptied) == sorted(slot for slot in before if not reference[slot])
            free += sorted(set(doomed))
        probes = data.draw(st.lists(st.integers(-1, 8), max_size=8))
        indices, row_ids = chains.match(np.array(probes, dtype=np.int64))
        assert list(zip(indices.tolist(), row_ids.tolist(), strict=True)) == [
            (number, row) for number, slot in enumerate(probes) for row in reference.get(slot, [])
        ]
        assert len(chains) == sum(map(len, reference.values()))


def test_rows_know_their_slot() -> None:
    chains = Chains()
    chains.append(np.array([3, 3, 1]), np.array([0, 1, 2]))
    chains.remove(np.array([1]))
    assert chains.slots_of(np.array([0, 1, 2])).tolist() == [3, -1, 1]
    assert chains.counts(np.array([3, 1, 0, -1, 99_999])).tolist() == [1, 1, 0, 0, 0]

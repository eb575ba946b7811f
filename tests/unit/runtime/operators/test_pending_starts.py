"""The earliest of the times that are kept, after any changes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sqlstream.elements import WATERMARK_MAX
from sqlstream.runtime.operators.match.open_runs import PendingStarts


@pytest.mark.parametrize("seed", range(5))
def test_the_earliest_and_what_is_due_are_those_of_all_times(seed: int) -> None:
    pick, starts, kept = random.Random(seed), PendingStarts(), dict[int, int]()
    for _ in range(200):
        free = [i for i in range(40) if i not in kept]
        new = {i: pick.randrange(30) for i in pick.sample(free, min(len(free), pick.randrange(4)))}
        starts.set(np.array(list(new), dtype=np.int64), np.array(list(new.values()), dtype=np.int64))
        kept |= new
        gone = pick.sample(range(50), pick.randrange(5))
        starts.remove(np.array(gone, dtype=np.int64))
        kept = {i: time for i, time in kept.items() if i not in gone}
        assert starts.earliest == min(kept.values(), default=WATERMARK_MAX)
        limit = pick.choice([pick.randrange(30), WATERMARK_MAX])
        assert starts.until(limit).tolist() == sorted(i for i, time in kept.items() if time <= limit)

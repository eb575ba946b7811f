"""Which windows close, are forgotten and are next, among any."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sqlstream.elements import WATERMARK_MAX
from sqlstream.runtime.operators.window.emitting_windows import DueWindows
from sqlstream.specs.aggregate import EmitSpec


@pytest.mark.parametrize("lateness_ms", [0, 7])
@pytest.mark.parametrize("seed", range(3))
def test_windows_close_and_are_forgotten_by_their_ends(seed: int, lateness_ms: int) -> None:
    pick, closed_ms = random.Random(seed), -5
    due, kept = DueWindows(EmitSpec(early_ms=-1, late_ms=0, lateness_ms=lateness_ms)), dict[int, int]()
    slots = iter(range(10_000))
    for _ in range(60):
        new = {
            next(slots): closed_ms + 2 - lateness_ms + pick.randrange(12) for _ in range(pick.randrange(5))
        }
        due.opened(np.array(list(new), dtype=np.int64), np.array(list(new.values()), dtype=np.int64))
        kept |= new
        watermark_ms = closed_ms + pick.randrange(1, 6)
        closing = [s for slots_of in due.closing(closed_ms, watermark_ms) for s in slots_of.tolist()]
        assert sorted(closing) == [s for s, end in kept.items() if closed_ms < end - 1 <= watermark_ms]
        assert [kept[s] for s in closing] == sorted(kept[s] for s in closing)
        forgotten = {s for slots_of in due.take_forgotten(watermark_ms) for s in slots_of.tolist()}
        assert forgotten == {s for s, end in kept.items() if end - 1 + lateness_ms <= watermark_ms}
        kept = {s: end for s, end in kept.items() if s not in forgotten}
        closed_ms = watermark_ms
        moments = (end if end - 1 > closed_ms else end + lateness_ms for end in kept.values())
        assert due.next_end(closed_ms) == min(moments, default=WATERMARK_MAX)
    assert {s for slots_of in due.take_forgotten(WATERMARK_MAX) for s in slots_of.tolist()} == set(kept)

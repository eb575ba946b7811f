"""`sqlstream bench exchange` measures every path with every number of channels."""

from __future__ import annotations

import pytest

from client.benches.exchange import PATHS, figures


@pytest.mark.timeout(60)
def test_every_path_carries_batches_over_one_channel_and_several() -> None:
    found = list(figures(list(PATHS), [1, 3], [10], 0.02, spaced=5, warm_up_s=0))
    assert [(f.path, f.channels, f.rows) for f in found] == [(p, c, 10) for p in PATHS for c in (1, 3)]
    for figure in found:
        assert figure.rows_per_s > 0
        assert figure.latency_us > 0
        assert figure.sender_cpu_us > 0
        assert (figure.receiver_cpu_us > 0) == (figure.path != "process")

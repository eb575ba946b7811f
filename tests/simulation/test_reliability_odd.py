"""The odd seeds of `test_reliability.py`."""

from __future__ import annotations

from simulation.reliable_cluster import ReliableCluster

HALF = 1


def test_every_row_counts_once_whatever_happens(reliable_seed: int) -> None:
    with ReliableCluster(reliable_seed) as cluster:
        cluster.run_or_tell(reliable_seed)

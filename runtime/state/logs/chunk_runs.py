"""Chooses the neighbouring chunks of a log that are merged into one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Chunk = TypeVar("Chunk")


def runs_of_small(
    chunks: Iterable[Chunk], rows_of: Callable[[Chunk], int], rows_max: int
) -> list[list[Chunk]]:
    """The chunks in order, as runs to merge: the small neighbours in one run have at most `rows_max` rows in total."""
    runs: list[list[Chunk]] = []
    rows = 0
    for chunk in chunks:
        if not runs or rows + rows_of(chunk) > rows_max:
            runs.append([])
            rows = 0
        runs[-1].append(chunk)
        rows += rows_of(chunk)
    return runs

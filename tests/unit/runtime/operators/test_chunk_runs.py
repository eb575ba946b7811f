"""Which chunks of a log are merged."""

from __future__ import annotations

import pytest

from sqlstream.runtime.state.logs.chunk_changes import runs_of_small


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], []),
        ([1], [[1]]),
        ([4, 6], [[4, 6]]),
        ([4, 7], [[4], [7]]),
        ([10, 1], [[10], [1]]),
        ([99], [[99]]),
        ([1, 99, 1, 1], [[1], [99], [1, 1]]),
        ([3, 3, 3, 3, 3, 3, 3], [[3, 3, 3], [3, 3, 3], [3]]),
        ([5, 5, 5, 1], [[5, 5], [5, 1]]),
    ],
)
def test_neighbours_are_put_together_up_to_a_number_of_rows(
    rows: list[int], expected: list[list[int]]
) -> None:
    assert runs_of_small(rows, lambda chunk: chunk, 10) == expected

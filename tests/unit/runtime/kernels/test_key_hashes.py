"""Hashes that come with a batch."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.runtime.kernels.keys.hashing import KeyHashes, hash_columns, known, known_hashes

BATCH = pa.record_batch(
    {
        "a": pa.array([1, 2, 3], pa.int64()),
        "b": ["x", "y", None],
        "c": pa.array([1, 2, 3], pa.int64()),
        "d": pa.array(["x", "y", "x"]).dictionary_encode(),
    }
)
MARKED = np.array([7, 8, 9], dtype=np.uint64)


def test_columns_of_the_batch_have_the_hashes_that_came_with_it() -> None:
    with known(KeyHashes([BATCH.column("a"), BATCH.column("b")], MARKED)):
        assert hash_columns([BATCH.column(0), BATCH.column(1)]) is MARKED
    assert known_hashes([BATCH.column(0), BATCH.column(1)]) is None


@pytest.mark.parametrize(
    "columns",
    [
        [BATCH.column("a")],
        [BATCH.column("b"), BATCH.column("a")],
        [BATCH.column("c"), BATCH.column("b")],
        [BATCH.column("a").slice(1), BATCH.column("b").slice(1)],
        [BATCH.column("a").slice(0, 2), BATCH.column("b").slice(0, 2)],
        [BATCH.column("a").view(pa.timestamp("ms")), BATCH.column("b")],
        [BATCH.column("a").take(pa.array([0, 1, 2])), BATCH.column("b")],
    ],
    ids=["fewer", "other order", "other column", "moved", "shorter", "other type", "copied"],
)
def test_other_columns_have_not(columns: list[pa.Array]) -> None:
    with known(KeyHashes([BATCH.column("a"), BATCH.column("b")], MARKED)):
        assert hash_columns(columns).tolist() != MARKED[: len(columns[0])].tolist()


def test_dictionaries_are_hashed_again() -> None:
    # The indices do not say what they mean.
    with known(KeyHashes([BATCH.column("d")], MARKED)):
        assert hash_columns([BATCH.column("d")]).tolist() != MARKED.tolist()


def test_other_threads_know_nothing() -> None:
    found = []
    columns = [BATCH.column("a")]
    with known(KeyHashes(columns, MARKED)):
        thread = threading.Thread(target=lambda: found.append(known_hashes(columns)))
        thread.start()
        thread.join(60)
        assert known_hashes(columns) is MARKED
    assert found == [None]


def test_an_error_ends_it_too() -> None:
    columns = [BATCH.column("a")]
    with pytest.raises(ValueError, match="broken"), known(KeyHashes(columns, MARKED)):
        raise ValueError("broken")
    assert known_hashes(columns) is None

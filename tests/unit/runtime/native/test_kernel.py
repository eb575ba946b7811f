"""What a kernel takes and gives, and that its machine code does what its Python text does."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from sqlstream.runtime.kernels import accumulate, nexmark, rank, windows
from sqlstream.runtime.kernels.keys import group, hashing
from sqlstream.runtime.kernels.slots import changes
from sqlstream.runtime.native.definition import definition_of

SLOTS = np.array([0, 2, 1, 2], dtype=np.int64)
WEIGHTS = np.array([1, 1, 0, -1], dtype=np.int8)


def int64s(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("kernel", "arguments"),
    [
        (accumulate.count_into, (int64s(0, 0, 5), SLOTS, WEIGHTS)),
        (accumulate.sum_into, (int64s(1, 2, 3), int64s(0, 0, 0), SLOTS, int64s(7, 8, 9, 10), WEIGHTS)),
        (accumulate.sum_into, (np.array([1.5, 2, 3]), int64s(0, 0, 0), SLOTS, np.array([1.0, 2, 3, 4]), WEIGHTS)),
        (accumulate.min_into, (np.zeros(3), np.zeros(3, np.uint8), SLOTS, np.array([1.0, np.nan, 3, 4]), WEIGHTS)),
        (windows.slice_ends_into, (int64s(-1, 0, 999, 1000), 1000, 10, int64s(0, 0, 0, 0))),
        (group.extent, (int64s(3, -7, 9),)),
        (changes.touch_into, (int64s(4, 5, 6), np.array([True, False, False]), int64s(2, 1, 2), 9, int64s(0, 0, 0))),
        (rank.rank_changes_into, (int64s(1, -1).reshape(1, 2), int64s(2, 1).reshape(1, 2), 0, True, int64s(0, 0, 0, 0),
                                  int64s(0, 0, 0, 0), np.zeros(4, np.int8))),
    ],
)  # fmt: skip
def test_machine_code_does_what_the_python_text_does(kernel: Any, arguments: tuple[Any, ...]) -> None:
    definition = definition_of(kernel)
    assert definition is not None
    copies = [[a.copy() if isinstance(a, np.ndarray) else a for a in arguments] for _ in range(2)]
    given = definition.function(*copies[0])
    found = kernel(*copies[1])
    assert found == given
    assert type(found) is tuple if isinstance(given, tuple) else type(found) in (int, bool, type(None))
    for expected, actual in zip(*copies, strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    "counts",
    [
        np.zeros(4, np.int32),
        np.zeros(4, np.uint64),
        np.zeros(4),
        np.zeros(4, ">i8"),
        np.zeros(4, "M8[ms]"),
        np.zeros(8, np.int64)[::2],
        np.zeros((2, 2), np.int64),
        [0, 0],
        None,
    ],
    ids=[
        "int32",
        "uint64",
        "float64",
        "swapped",
        "times",
        "strided",
        "2-d",
        "list",
        "None",
    ],
)
def test_an_array_that_no_signature_fits_is_refused(counts: Any) -> None:
    with pytest.raises(TypeError, match=r"count_into\(\) takes arrays of other types"):
        accumulate.count_into(counts, int64s(0), np.zeros(0, np.int8))


def test_an_array_may_begin_anywhere() -> None:
    counts = np.zeros(33, np.uint8)[1:].view(np.int64)
    accumulate.count_into(counts, int64s(0, 3), np.zeros(0, np.int8))
    assert counts.tolist() == [1, 0, 0, 1]


def test_a_wrong_number_of_arguments_is_refused() -> None:
    with pytest.raises(TypeError, match="number"):
        accumulate.count_into(int64s(0), int64s(0))


def touched(now_ms: Any) -> Any:
    """What a kernel has stored of a scalar."""
    times = int64s(0)
    changes.touch_into(times, np.array([True]), int64s(0), now_ms, int64s(0))
    return times[0]


@pytest.mark.parametrize(
    ("first", "error"),
    [
        ("1", TypeError),
        (None, TypeError),
        (1.0, TypeError),
        (2**63, OverflowError),
        (-(2**63) - 1, OverflowError),
    ],
)
def test_a_scalar_that_does_not_fit_is_refused(first: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        touched(first)


@pytest.mark.parametrize("first", [-1, np.int64(-1), np.int8(-1), -(2**63), 2**63 - 1])
def test_whole_numbers_of_every_kind_are_taken(first: Any) -> None:
    assert touched(first) == first


def test_an_unsigned_number_takes_all_64_bits() -> None:
    groups = np.zeros(1, np.int32)
    hashing._key_groups_into(np.array([2**64 - 1], np.uint64), np.uint64(128), groups)
    assert groups.tolist() == [127]
    with pytest.raises(OverflowError):
        hashing._key_groups_into(np.zeros(1, np.uint64), -1, groups)


def test_a_division_by_zero_is_an_error() -> None:
    with pytest.raises(ArithmeticError, match="slice_ends_into"):
        windows.slice_ends_into(int64s(1), 0, 0, int64s(0))


def test_other_threads_run_while_a_kernel_does() -> None:
    """Another thread sees the CPU time of this one in mid kernel, which it cannot where the kernel holds the interpreter."""
    clock = time.pthread_getcpuclockid(threading.get_ident())
    seen: set[int] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.add(time.clock_gettime_ns(clock))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        deadline_s = time.monotonic() + 240
        is_seen = False
        while not is_seen:
            assert time.monotonic() < deadline_s, "no other thread runs while a kernel does"
            seen.clear()
            begun_ns = time.thread_time_ns()
            # A loop of 0.3 s that finds nothing to write. On a busy machine the other thread may not have its turn in it.
            nexmark.select_events(0, 300_000_000, 50, 0, 0, 1, int64s(), int64s())
            used_ns = time.thread_time_ns() - begun_ns
            is_seen = any(0.25 < (at - begun_ns) / used_ns < 0.75 for at in seen.copy())
    finally:
        done.set()
        thread.join()

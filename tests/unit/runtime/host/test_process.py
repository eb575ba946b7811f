"""What a task leaves of the libraries of its process."""

from __future__ import annotations

import pyarrow as pa

from runtime.host.process import LibraryThreadLimit


def pools() -> tuple[int, int]:
    return pa.cpu_count(), pa.io_thread_count()


def test_arrows_pools_are_limited_until_the_last_holder_has_gone() -> None:
    before = pools()
    try:
        pa.set_cpu_count(3)
        pa.set_io_thread_count(5)
        limit = LibraryThreadLimit()
        for _ in range(2):
            limit.hold()
            limit.hold()
            assert pools() == (1, 2)
            limit.release()
            assert pools() == (1, 2)
            limit.release()
            assert pools() == (3, 5)
    finally:
        pa.set_cpu_count(before[0])
        pa.set_io_thread_count(before[1])

"""How many key groups a job has: its max-parallelism, which is fixed when the job is first planned."""

from __future__ import annotations

MAX_PARALLELISM_DEFAULT = 128
MAX_PARALLELISM_BOUND = 32768


def default_max_parallelism(parallelism: int) -> int:
    """Flink's computeDefaultMaxParallelism: 1.5 times the parallelism, rounded up to a power of two, from 128 to 32768.

    >>> default_max_parallelism(1), default_max_parallelism(86), default_max_parallelism(30_000)
    (128, 256, 32768)
    """
    power = 1 << (parallelism + parallelism // 2 - 1).bit_length()
    return min(max(MAX_PARALLELISM_DEFAULT, power), MAX_PARALLELISM_BOUND)

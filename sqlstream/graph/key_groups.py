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


def key_groups_of(subtask: int, parallelism: int, max_parallelism: int) -> range:
    """The key groups of a subtask; a row of key group g goes to subtask g * parallelism // max_parallelism.

    >>> [key_groups_of(subtask, 3, 128) for subtask in range(3)]
    [range(0, 43), range(43, 86), range(86, 128)]
    """
    first = -(-subtask * max_parallelism // parallelism)
    return range(first, -(-(subtask + 1) * max_parallelism // parallelism))

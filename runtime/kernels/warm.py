"""Loads every kernel, and compiles those missing in the cache: set-up runs `python -m runtime.kernels.warm` once, so that no
query waits for a compiler."""

from __future__ import annotations

import importlib

#: Importing a module is what loads or compiles its kernels.
MODULES = (
    "runtime.kernels.accumulate",
    "runtime.kernels.arena",
    "runtime.kernels.bitmaps",
    "runtime.kernels.chains",
    "runtime.kernels.changes",
    "runtime.kernels.chunk_chains",
    "runtime.kernels.csv_records",
    "runtime.kernels.decimals",
    "runtime.kernels.equal_elements",
    "runtime.kernels.frames",
    "runtime.kernels.group",
    "runtime.kernels.hashing",
    "runtime.kernels.id_lists",
    "runtime.kernels.index",
    "runtime.kernels.java_random",
    "runtime.kernels.json_members",
    "runtime.kernels.json_nodes",
    "runtime.kernels.json_rows",
    "runtime.kernels.json_tape",
    "runtime.kernels.match",
    "runtime.kernels.nexmark",
    "runtime.kernels.ordering",
    "runtime.kernels.partition",
    "runtime.kernels.pattern_scan",
    "runtime.kernels.rank",
    "runtime.kernels.records",
    "runtime.kernels.remainder",
    "runtime.kernels.replace",
    "runtime.kernels.row_order",
    "runtime.kernels.runs",
    "runtime.kernels.sha2",
    "runtime.kernels.split",
    "runtime.kernels.take",
    "runtime.kernels.text_extremes",
    "runtime.kernels.text_rows",
    "runtime.kernels.text_scan",
    "runtime.kernels.time_texts",
    "runtime.kernels.touch",
    "runtime.kernels.urls",
    "runtime.kernels.value_heaps",
    "runtime.kernels.windows",
    "runtime.kernels.words",
)


def warm() -> None:
    """Import all kernels: some milliseconds from the cache, about a minute without."""
    for module in MODULES:
        importlib.import_module(module)


if __name__ == "__main__":
    warm()

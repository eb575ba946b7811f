"""Loads every kernel, and compiles those that are neither shipped nor in the cache: set-up runs
`python -m sqlstream.runtime.kernels.warm` once, so that no query waits for a compiler."""

from __future__ import annotations

import importlib
import logging
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from sqlstream.runtime.native.cache import kernels_of, say_what_takes_long

#: Importing a module is what loads or compiles its kernels.
MODULES = (
    "sqlstream.runtime.kernels.accumulate",
    "sqlstream.runtime.kernels.arena",
    "sqlstream.runtime.kernels.bitmaps",
    "sqlstream.runtime.kernels.chains",
    "sqlstream.runtime.kernels.changes",
    "sqlstream.runtime.kernels.chunk_chains",
    "sqlstream.runtime.kernels.csv_records",
    "sqlstream.runtime.kernels.decimals",
    "sqlstream.runtime.kernels.equal_elements",
    "sqlstream.runtime.kernels.frames",
    "sqlstream.runtime.kernels.group",
    "sqlstream.runtime.kernels.hashing",
    "sqlstream.runtime.kernels.id_lists",
    "sqlstream.runtime.kernels.index",
    "sqlstream.runtime.kernels.java_random",
    "sqlstream.runtime.kernels.json_nodes",
    "sqlstream.runtime.kernels.json_rows",
    "sqlstream.runtime.kernels.json_tape",
    "sqlstream.runtime.kernels.match",
    "sqlstream.runtime.kernels.nexmark",
    "sqlstream.runtime.kernels.ordering",
    "sqlstream.runtime.kernels.partition",
    "sqlstream.runtime.kernels.pattern_scan",
    "sqlstream.runtime.kernels.rank",
    "sqlstream.runtime.kernels.records",
    "sqlstream.runtime.kernels.remainder",
    "sqlstream.runtime.kernels.replace",
    "sqlstream.runtime.kernels.row_order",
    "sqlstream.runtime.kernels.runs",
    "sqlstream.runtime.kernels.sha2",
    "sqlstream.runtime.kernels.split",
    "sqlstream.runtime.kernels.take",
    "sqlstream.runtime.kernels.text_extremes",
    "sqlstream.runtime.kernels.text_rows",
    "sqlstream.runtime.kernels.text_scan",
    "sqlstream.runtime.kernels.time_texts",
    "sqlstream.runtime.kernels.touch",
    "sqlstream.runtime.kernels.urls",
    "sqlstream.runtime.kernels.value_heaps",
    "sqlstream.runtime.kernels.windows",
    "sqlstream.runtime.kernels.words",
)


def warm() -> None:
    """Load all kernels: some milliseconds when they are shipped or compiled, else about a minute on all processors."""
    for module in MODULES:
        importlib.import_module(module)
    compile_apart([module for module in MODULES if kernels_of(module).deferred])


def compile_apart(modules: Sequence[str], modules_per_process: int | None = None) -> None:
    """Compile files of kernels in processes of their own, as many at a time as there are processors."""
    if not modules:
        return
    say_what_takes_long()
    # Long files first, so that no processor begins with one when the others have nothing left.
    ordered = sorted(
        modules, key=lambda module: -Path(__file__).with_name(f"{_stem(module)}.py").stat().st_size
    )
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(mp_context=context, max_tasks_per_child=modules_per_process) as pool:
        for _ in pool.map(_compile, ordered):
            pass


def _stem(module: str) -> str:
    return module.rpartition(".")[2]


def _compile(module: str) -> None:
    # The process that waits says what takes long.
    logging.getLogger("sqlstream.runtime.native.cache").setLevel(logging.ERROR)
    importlib.import_module(module)
    for kernel in kernels_of(module).deferred:
        kernel.compile()


if __name__ == "__main__":
    warm()

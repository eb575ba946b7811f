"""Loads every kernel, and compiles those that are neither shipped nor in the cache: set-up runs
`python -m runtime.kernels.warm` once, so that no query waits for a compiler."""

from __future__ import annotations

import importlib
import logging
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from runtime.native.cache import kernels_of, say_what_takes_long

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
    logging.getLogger("runtime.native.cache").setLevel(logging.ERROR)
    importlib.import_module(module)
    for kernel in kernels_of(module).deferred:
        kernel.compile()


if __name__ == "__main__":
    warm()

"""Loads every kernel, and compiles those that are neither shipped nor in the cache: set-up runs
`python -m sqlstream.runtime.kernels.warm` once, so that no query waits for a compiler."""

from __future__ import annotations

import importlib
import logging
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from sqlstream.runtime.native.cache import kernels_of, say_what_takes_long, stem_of

#: Importing a module is what loads or compiles its kernels.
MODULES = (
    "sqlstream.runtime.kernels.accumulate",
    "sqlstream.runtime.kernels.avro.decode",
    "sqlstream.runtime.kernels.avro.encode",
    "sqlstream.runtime.kernels.bitmaps",
    "sqlstream.runtime.kernels.checksum",
    "sqlstream.runtime.kernels.decimals",
    "sqlstream.runtime.kernels.frames",
    "sqlstream.runtime.kernels.graph",
    "sqlstream.runtime.kernels.java_random",
    "sqlstream.runtime.kernels.json.json_index",
    "sqlstream.runtime.kernels.json.json_nodes",
    "sqlstream.runtime.kernels.json.json_rows",
    "sqlstream.runtime.kernels.json.json_tape",
    "sqlstream.runtime.kernels.keys.equal_elements",
    "sqlstream.runtime.kernels.keys.group",
    "sqlstream.runtime.kernels.keys.hashing",
    "sqlstream.runtime.kernels.keys.index",
    "sqlstream.runtime.kernels.keys.partition",
    "sqlstream.runtime.kernels.keys.row_order",
    "sqlstream.runtime.kernels.keys.words",
    "sqlstream.runtime.kernels.match",
    "sqlstream.runtime.kernels.messages",
    "sqlstream.runtime.kernels.nexmark",
    "sqlstream.runtime.kernels.protobuf.decode",
    "sqlstream.runtime.kernels.protobuf.encode",
    "sqlstream.runtime.kernels.rank",
    "sqlstream.runtime.kernels.slots.chains",
    "sqlstream.runtime.kernels.slots.changes",
    "sqlstream.runtime.kernels.slots.chunk_chains",
    "sqlstream.runtime.kernels.slots.id_lists",
    "sqlstream.runtime.kernels.slots.records",
    "sqlstream.runtime.kernels.slots.supports",
    "sqlstream.runtime.kernels.slots.value_heaps",
    "sqlstream.runtime.kernels.slots.value_marks",
    "sqlstream.runtime.kernels.take",
    "sqlstream.runtime.kernels.text.csv_fields",
    "sqlstream.runtime.kernels.text.csv_records",
    "sqlstream.runtime.kernels.text.lines",
    "sqlstream.runtime.kernels.text.pattern_scan",
    "sqlstream.runtime.kernels.text.replace",
    "sqlstream.runtime.kernels.text.sha2",
    "sqlstream.runtime.kernels.text.text_rows",
    "sqlstream.runtime.kernels.text.text_scan",
    "sqlstream.runtime.kernels.text.time_texts",
    "sqlstream.runtime.kernels.text.urls",
    "sqlstream.runtime.kernels.windows",
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
    ordered = sorted(modules, key=lambda module: -_file_of(module).stat().st_size)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(mp_context=context, max_tasks_per_child=modules_per_process) as pool:
        for _ in pool.map(_compile, ordered):
            pass


def _file_of(module: str) -> Path:
    return Path(__file__).parent / f"{stem_of(module).replace('.', '/')}.py"


def _compile(module: str) -> None:
    # The process that waits says what takes long.
    logging.getLogger("sqlstream.runtime.native.cache").setLevel(logging.ERROR)
    importlib.import_module(module)
    for kernel in kernels_of(module).deferred:
        kernel.compile()


if __name__ == "__main__":
    warm()

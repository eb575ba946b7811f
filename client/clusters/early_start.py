"""TaskManagers that start while a script is planned, where its text looks as if its jobs need them."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sqlstream.runtime.providers.early_children import EARLY_CHILDREN

if TYPE_CHECKING:
    from sqlstream.client.configuration import Configuration

TEXT_MAX = 1_000_000
"""Characters of a script that are looked at."""
FILES_MAX = 1_000
"""Files of a directory that are looked at."""
ROWS_MIN = 40_000
"""So many generated rows are too many for threads of this process."""
_SERVICES = frozenset({"kafka", "upsert-kafka", "socket", "sse", "websocket", "webhook", "http"})
"""Connectors of tables without an end."""
_GENERATORS = frozenset({"datagen", "faker", "nexmark"})
_ROW_COUNTS = frozenset({"number-of-rows", "nexmark.events"})
_MODE = "execution.runtime-mode"
_OPTION = re.compile(r"'([\w.-]{1,100})'\s*=\s*'([^'\n]{1,400})'")
_FILE = re.compile(r"\b(?:FROM|JOIN|LIKE)\s+'([^'\n]{1,400})'", re.IGNORECASE)


@contextlib.contextmanager
def early_task_managers(
    texts: Sequence[str], configuration: Configuration, task_managers: int | None
) -> Iterator[None]:
    """Have as many processes for TaskManagers start as the scripts seem to need, and end those that are not used. A guess that is
    wrong costs time and nothing else."""
    if configuration.get("execution.target") != "local":
        yield
        return
    try:
        EARLY_CHILDREN.start(_seem_needed(texts, configuration, task_managers))
        yield
    finally:
        EARLY_CHILDREN.end()


def _seem_needed(texts: Sequence[str], configuration: Configuration, task_managers: int | None) -> int:
    input_max = configuration.get("sqlstream.in-process.max-input-size")
    if task_managers is None and _seems_batch(texts, configuration):
        return 0
    if not any(seems_large(text, input_max) for text in texts):
        return 0
    if task_managers is not None:
        return task_managers
    given = [value for text in texts for key, value in _options(text) if key == "parallelism.default"]
    slots = max(configuration.get("parallelism.default"), *(int(v) for v in given if v.isdecimal()), 1)
    wanted = -(-slots // configuration.get("taskmanager.numberOfTaskSlots"))
    return min(wanted, os.cpu_count() or 1)


def _seems_batch(texts: Sequence[str], configuration: Configuration) -> bool:
    """Whether batch engines answer, which run in this process."""
    modes = [value.upper() for text in texts for key, value in _options(text) if key == _MODE]
    return set(modes or [configuration.get(_MODE)]) == {"BATCH"}


def seems_large(text: str, input_bytes_max: int) -> bool:
    """Whether a script names a table without an end, many rows or a large file.

    >>> seems_large("CREATE TABLE t (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '10')", 4_000_000)
    False
    >>> seems_large("CREATE TABLE t (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1000000')", 4_000_000)
    True
    """
    generated: int | None = None
    has_generator = False
    paths = _FILE.findall(text[:TEXT_MAX])
    for key, value in _options(text):
        if key == "path":
            paths.append(value)
        elif key in _ROW_COUNTS and value.isdecimal():
            generated = max(generated or 0, int(value))
        elif key == "connector":
            if value in _SERVICES:
                return True
            has_generator = has_generator or value in _GENERATORS
    if has_generator and (generated is None or generated >= ROWS_MIN):
        return True
    return any(_bytes_of(path) > input_bytes_max for path in paths)


def _options(text: str) -> list[tuple[str, str]]:
    return _OPTION.findall(text[:TEXT_MAX])


def _bytes_of(path: str) -> int:
    """Of a file, or of the first files in a directory."""
    # ValueError: a path with a NUL character.
    with contextlib.suppress(OSError, ValueError):
        if os.path.isdir(path):
            with os.scandir(path) as entries:
                return sum(entry.stat().st_size for entry in itertools.islice(entries, FILES_MAX))
        return os.path.getsize(path)
    return 0

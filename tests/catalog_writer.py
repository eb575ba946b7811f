"""A process that changes a catalog in files and writes a line for each change that is acknowledged.

Arguments: directory, seed, number of changes, and the number of the system call before which it kills itself (0: never).
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable
from typing import Any

from sqlstream import types as sql
from sqlstream.catalog import (
    DEFAULT_CATALOG,
    CatalogContents,
    CatalogDatabase,
    CatalogTable,
    Column,
    ObjectPath,
    PutDatabase,
    PutObject,
    RemoveDatabase,
    RemoveObject,
    RenameObject,
)
from sqlstream.catalog.changes import ContentsChange
from sqlstream.client.catalog.file_catalog import open_file_catalog

CALLS = ("open", "fdopen", "fsync", "replace", "rename", "mkdir", "unlink", "rmdir", "pwrite")


def some_change(random_: random.Random, contents: CatalogContents, number: int) -> ContentsChange:
    """A change that fits `contents`; the same for the same state of `random_` and contents."""
    databases = sorted(contents.databases)
    database = random_.choice(databases)
    objects = contents.databases[database].objects
    entry = objects[random_.choice(sorted(objects))] if objects else None
    made = CatalogTable(
        ObjectPath(DEFAULT_CATALOG, database, f"t{number}"), (Column("a", sql.INT),), {"n": str(number)}
    )
    kind = random_.randrange(10)
    if kind == 0:
        return PutDatabase(DEFAULT_CATALOG, f"d{number}", CatalogDatabase(str(number)))
    if kind == 1 and len(databases) > 1:
        return RemoveDatabase(DEFAULT_CATALOG, database, is_cascade=True)
    if kind == 2:
        before = contents.databases[database].database
        return PutDatabase(DEFAULT_CATALOG, database, CatalogDatabase(f"altered {number}"), before)
    if entry is not None and kind == 3:
        return RemoveObject(entry)
    if entry is not None and kind == 4:
        return RenameObject(entry, f"r{number}")
    if isinstance(entry, CatalogTable) and kind == 5:
        altered = CatalogTable(entry.path, entry.columns, {"n": "x" * random_.randrange(10_000)})
        return PutObject(altered, entry)
    return PutObject(made)


def die_before(call_number: int) -> None:
    """Kill this process before the n-th call of those that change files."""
    count = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count == call_number:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **named)

        return call

    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))


def main() -> None:
    directory, seed, changes, call_number = sys.argv[1], *map(int, sys.argv[2:])
    catalog = open_file_catalog(directory)
    random_ = random.Random(seed)
    if call_number:
        die_before(call_number)
    for number in range(changes):
        catalog.apply(some_change(random_, catalog.contents(), number))
        os.write(1, f"{number}\n".encode())


if __name__ == "__main__":
    main()

"""A catalog in files holds every acknowledged change, however its writers end and however many there are."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from catalog_writer import some_change

from sqlstream.catalog import DEFAULT_DATABASE, CatalogContents, DatabaseContents
from sqlstream.catalog.contents import changed
from sqlstream.client.catalog.file_catalog import open_file_catalog

WRITER = Path(__file__).parents[1] / "catalog_writer.py"


def start(directory: Path, seed: int, changes: int, call_number: int) -> subprocess.Popen[bytes]:
    arguments = [str(directory), str(seed), str(changes), str(call_number)]
    return subprocess.Popen([sys.executable, str(WRITER), *arguments], stdout=subprocess.PIPE)


def states(seed: int, changes: int) -> list[CatalogContents]:
    """The contents after each number of changes."""
    random_ = random.Random(seed)
    found = [CatalogContents({DEFAULT_DATABASE: DatabaseContents()})]
    for number in range(changes):
        found.append(changed(found[-1], some_change(random_, found[-1], number)))
    return found


def check(directory: Path, seed: int, acknowledged: int) -> None:
    """The catalog holds the acknowledged changes, or these and the one that was under way, and takes another."""
    *_, known, next_one = states(seed, acknowledged + 1)
    catalog = open_file_catalog(str(directory))
    assert catalog.contents() in (known, next_one)
    assert list(directory.rglob(".*")) == []
    change = some_change(random.Random(1), catalog.contents(), 999_999)
    after = changed(catalog.contents(), change)
    catalog.apply(change)
    assert open_file_catalog(str(directory)).contents() == after


def test_a_writer_killed_at_any_time_loses_no_acknowledged_change(tmp_path: Path) -> None:
    for seed in range(4):
        directory = tmp_path / str(seed)
        writer = start(directory, seed, 1_000_000, 0)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(random.Random(seed).random() * 0.05)
        writer.kill()
        acknowledged = 1 + len(writer.stdout.read().split(b"\n")) - 1
        writer.wait(60)
        check(directory, seed, acknowledged)


@pytest.mark.parametrize("first", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.timeout(600)
def test_a_writer_killed_before_any_change_of_a_file_loses_no_acknowledged_change(
    tmp_path: Path, first: int
) -> None:
    step = 23
    numbers = range(1, 180, step) if first == 1 else [n for n in range(2, 180) if n % step != 1]
    for number in numbers:
        directory = tmp_path / str(number)
        writer = start(directory, number, 200, number)
        assert writer.stdout is not None
        acknowledged = writer.stdout.read().count(b"\n")
        assert writer.wait(60) == -9
        check(directory, number, acknowledged)


def test_processes_that_write_at_once_lose_nothing_and_never_both_win(tmp_path: Path) -> None:
    open_file_catalog(str(tmp_path)).close()
    code = (
        "import sys\n"
        "from sqlstream.client.catalog.file_catalog import open_file_catalog\n"
        "from sqlstream import types as sql\n"
        "from sqlstream.catalog import *\n"
        "catalog = open_file_catalog(sys.argv[1])\n"
        "for i in range(60):\n"
        "    path = ObjectPath(DEFAULT_CATALOG, DEFAULT_DATABASE, f't{i}')\n"
        "    try:\n"
        "        catalog.apply(PutObject(CatalogTable(path, (Column('a', sql.INT),), {'by': sys.argv[2]})))\n"
        "    except CatalogConflict:\n"
        "        continue\n"
        "    print(i)\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(n)], stdout=subprocess.PIPE)
        for n in range(3)
    ]
    won = [set(writer.communicate(timeout=60)[0].split()) for writer in writers]
    assert sum(len(w) for w in won) == 60
    objects = open_file_catalog(str(tmp_path)).contents().databases[DEFAULT_DATABASE].objects
    for number, names in enumerate(won):
        for name in names:
            entry = objects[f"t{name.decode()}"]
            assert entry.options == {"by": str(number)}  # type: ignore[union-attr]

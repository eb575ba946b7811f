"""State in mapped files: what is written is there, files have no names, and a full disk is an error."""

from __future__ import annotations

import datetime
import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.errors import ExternalError
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.memory.array_memory import in_force
from sqlstream.runtime.memory.mapped_memory import REGION_BYTES, MappedMemory
from sqlstream.runtime.state.storage.arrays import grown
from sqlstream.runtime.state.storage.segments import Segments


@pytest.fixture(autouse=True)
def small_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlstream.runtime.memory.mapped_memory.MAPPED_BYTES_MIN", 4096)


@pytest.fixture
def memory(tmp_path: Path) -> MappedMemory:
    return MappedMemory("GroupAggregate[1]", [str(tmp_path)])


def open_files() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_a_growing_array_keeps_its_items_and_gives_its_file_back(
    memory: MappedMemory, tmp_path: Path
) -> None:
    before = open_files()
    array = GrowingArray(np.int64, width=3, fill=-1, memory=memory)
    for count in range(10, 5000, 70):
        array.reserve(count)
        array.values[count - 10 : count] = np.arange(count - 10, count)[:, None]
    assert memory.file_bytes >= 5000 * 24 * 0.9
    assert os.listdir(tmp_path) == []
    rows = array.values[: array.count]
    assert (rows[:10] == np.arange(10)[:, None]).all()
    assert (rows[10:70] == -1).all()
    assert (rows[-10:] == np.arange(array.count - 10, array.count)[:, None]).all()
    del array, rows
    assert (open_files(), memory.file_bytes) == (before, 0)


def test_a_view_sees_what_is_written_after_the_array_has_grown(memory: MappedMemory) -> None:
    array = GrowingArray(np.int64, memory=memory)
    array.reserve(1000)
    view = array.values[:1000]
    array.reserve(100_000)
    array.values[7] = 3
    assert (view[7], array.values[99_999]) == (3, 0)


def test_structures_take_the_memory_that_is_in_force_where_they_are_made(memory: MappedMemory) -> None:
    with in_force(memory):
        index, segments = KeyIndex([pa.int64(), pa.string()]), Segments()
    held = memory.file_bytes
    keys = [pa.array(range(20_000)), pa.array([f"a longer key {n}" for n in range(20_000)])]
    slots, _ = index.get_or_insert(keys)
    segments.open(10_000)
    assert memory.file_bytes - held > index.nbytes / 2
    assert index.get(keys).tolist() == slots.tolist() == list(range(20_000))
    index.delete(slots[:15_000])
    assert index.keys(slots[15_000:])[1].to_pylist() == keys[1][15_000:].to_pylist()
    del index, segments
    gc.collect()
    assert memory.file_bytes == 0


def test_an_array_that_is_copied_to_grow_is_filled(memory: MappedMemory) -> None:
    array = grown(np.arange(6).reshape(3, 2), 1000, -7, memory)
    assert array[:3].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert (array[3:] == -7).all()
    assert memory.file_bytes >= array.nbytes


COLUMNS = {
    "bigint": pa.array(range(9_000)),
    "with NULL": pa.array([None, 1, 2] * 3_000, pa.int32()),
    "boolean": pa.array([True, None, False] * 3_000),
    "string": pa.array(["", None, "long enough to need its own bytes"] * 3_000),
    "slice": pa.array(["x", "yy", None] * 6_000)[5:9005],
    "decimal": pa.array([1, 2, None] * 3_000, pa.decimal128(38, 3)),
    "time": pa.array([datetime.datetime(2026, 1, 2), None, None] * 3_000, pa.timestamp("ms")),
    "nested": pa.array([[{"a": 1}], [], None] * 3_000),
    "dictionary": pa.array(["a", "b", "a"] * 3_000).dictionary_encode(),
    "null": pa.nulls(9_000),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_the_same_in_files(memory: MappedMemory, name: str) -> None:
    columns = [COLUMNS[name], COLUMNS["bigint"]]
    settled = memory.settled(columns)
    assert [c.type for c in settled] == [c.type for c in columns]
    assert [c.to_pylist() for c in settled] == [c.to_pylist() for c in columns]
    assert memory.file_bytes == REGION_BYTES
    del settled, columns
    memory.settled([pa.nulls(0)])


def test_columns_of_several_chunks_share_files(memory: MappedMemory) -> None:
    chunks = [memory.settled([COLUMNS["bigint"]]) for _ in range(200)]
    assert 200 * 72_000 < memory.file_bytes <= 200 * 72_000 + 2 * REGION_BYTES
    assert all(chunk[0].equals(COLUMNS["bigint"]) for chunk in chunks)
    (large,) = memory.settled([pa.array(np.arange(1_000_000))])
    assert large[999_999].as_py() == 999_999


def test_a_directory_that_is_not_there_fails_with_the_operator(tmp_path: Path) -> None:
    memory = MappedMemory("Join[3]", [str(tmp_path / "gone")])
    with pytest.raises(ExternalError, match=r'operator "Join\[3\]" .*/gone": no such file') as caught:
        memory.zeros(10_000, np.int64)
    assert caught.value.code == "SS6262"


FULL_DISK = """
import resource, sys
import numpy as np
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.memory.mapped_memory import MappedMemory
from sqlstream.errors import ExternalError

resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))
array = GrowingArray(np.int64, memory=MappedMemory("Join[3]", [sys.argv[1]]))
count = 1 << 18
while True:
    try:
        array.reserve(count)
    except ExternalError as error:
        print(error.code, error.message)
        break
    array.values[:count] = 5
    count *= 2
print(int(array.values[: array.count].sum()) == 5 * array.count, array.count)
"""


def test_files_that_cannot_grow_are_an_error_and_no_signal(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith('SS6262 operator "Join[3]" could not keep more state in files below')
    assert second == f"True {1 << 20}"

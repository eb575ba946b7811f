"""What a subtask writes of its state is what an attempt reads, or an error that names the file."""

from __future__ import annotations

import datetime
import decimal
import io
import itertools
import os
import shutil
import weakref
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from sqlstream.errors import ErrorInfo, ExternalError, FailureReason
from sqlstream.messages.checkpoint import SubtaskState, TaskRestore, checkpoint_of_path
from sqlstream.runtime.checkpoint.state_reader import StateReader
from sqlstream.runtime.checkpoint.state_writer import PIECE_BYTES_MAX, StateWriter, pieces_of
from sqlstream.runtime.host.private_files import PrivateFiles
from sqlstream.runtime.state.snapshots.snapshot import KEY_GROUP_COLUMN, OperatorSnapshot, SnapshotAborted

FILES = PrivateFiles()
ALL = range(128)


def keyed(groups: list[int], **columns: Any) -> pa.Table:
    return pa.table({KEY_GROUP_COLUMN: pa.array(groups, pa.int32()), **columns})


def written(directory: Path, *snapshots: OperatorSnapshot, files: Any = FILES, **options: Any) -> TaskRestore:
    """Each snapshot as the one operator, 7, of one old subtask."""
    writer = StateWriter(files, str(directory), **options)
    states = [SubtaskState(writer.write(f"s{n}-1", {7: s})) for n, s in enumerate(snapshots)]
    return TaskRestore(1, str(directory), tuple(states))


def read(restore: TaskRestore, key_groups: range = ALL) -> OperatorSnapshot:
    found = StateReader(FILES, restore).operator(7, key_groups)
    assert found is not None
    return found


EVERY_TYPE = keyed(
    [0, 5, 127],
    i=pa.array([1, None, -(2**63)], pa.int64()),
    d=pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-0.01")], pa.decimal128(38, 2)),
    s=pa.array(["", "ö" * 40, None]),
    b=pa.array([b"\0", None, b""], pa.binary()),
    t=pa.array([datetime.datetime(2024, 2, 29), None, datetime.datetime(1, 1, 1)], pa.timestamp("us")),
    flag=pa.array([True, None, False]),
    l=pa.array([[1, None], None, []], pa.list_(pa.int32())),
    r=pa.array([{"a": [{"x": "y"}]}, None, {"a": None}], pa.struct([("a", pa.list_(pa.struct([("x", pa.string())])))])),
    m=pa.array([[("k", 1.5)], [], None], pa.map_(pa.string(), pa.float64())),
    nothing=pa.nulls(3),
)  # fmt: skip


@pytest.mark.parametrize("is_compressed", [False, True])
def test_tables_of_every_type_are_read_as_they_were_written(tmp_path: Path, is_compressed: bool) -> None:
    shared = pa.table({"watermark_ms": [3]})
    restore = written(
        tmp_path, OperatorSnapshot({"groups": EVERY_TYPE}, {"w": shared}), is_compressed=is_compressed
    )
    found = read(restore)
    assert found.keyed["groups"].equals(EVERY_TYPE)
    assert found.shared["w"].equals(shared)


def test_slices_of_longer_columns_take_only_their_own_bytes(tmp_path: Path) -> None:
    rows = keyed([3] * 100_000, s=[str(i) * 10 for i in range(100_000)])
    restore = written(tmp_path, OperatorSnapshot({"t": rows.slice(50_000, 3)}))
    assert restore.states[0].bytes < 2_000
    assert read(restore).keyed["t"].column("s").to_pylist() == [str(i) * 10 for i in (50_000, 50_001, 50_002)]


def test_an_attempt_reads_its_key_groups_of_all_old_subtasks_and_everything_shared(tmp_path: Path) -> None:
    old = [
        OperatorSnapshot({"t": keyed([1, 60, 2], v=[10, 20, 30])}, {"w": pa.table({"w": [1]})}),
        OperatorSnapshot({"t": keyed([64, 100], v=[40, 50])}, {"w": pa.table({"w": [2]})}),
    ]
    restore = written(tmp_path, *old)
    for groups, values in (
        (range(2, 65), [20, 30, 40]),
        (range(100, 128), [50]),
        (ALL, [10, 20, 30, 40, 50]),
    ):
        found = read(restore, groups)
        assert found.keyed["t"].column("v").to_pylist() == values
        assert found.shared["w"].column("w").to_pylist() == [1, 2]
    assert read(restore, range(3, 60)).keyed == {}


def test_the_parts_of_a_vertex_at_any_parallelism_are_the_whole(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    groups = random.integers(0, 128, 300_000).astype(np.int32)
    old = [
        OperatorSnapshot({"t": pa.table({KEY_GROUP_COLUMN: groups[mask], "row": np.flatnonzero(mask)})})
        for mask in (groups < 40, (groups >= 40) & (groups < 90), groups >= 90)
    ]
    restore = written(tmp_path, *old)
    for bounds in ([0, 128], [0, 1, 64, 128], list(range(0, 129, 8))):
        rows = [
            read(restore, range(start, stop)).keyed["t"].column("row").to_numpy()
            for start, stop in itertools.pairwise(bounds)
        ]
        assert np.array_equal(np.sort(np.concatenate(rows)), np.arange(300_000))


def test_an_operator_that_saved_nothing_is_known_and_another_is_not(tmp_path: Path) -> None:
    restore = written(tmp_path, OperatorSnapshot())
    assert list(tmp_path.iterdir()) == []
    assert read(restore) == OperatorSnapshot()
    assert StateReader(FILES, restore).operator(8, ALL) is None


def test_a_table_without_rows_keeps_its_columns_on_disk(tmp_path: Path) -> None:
    restore = written(tmp_path, OperatorSnapshot({"t": EVERY_TYPE.slice(0, 0)}))
    assert read(restore).keyed == {}
    segment = restore.states[0].operators[0].tables[0].segments[0]
    data = (tmp_path / segment.path).read_bytes()[segment.offset :]
    assert pa.ipc.open_stream(data).schema == EVERY_TYPE.schema


def test_increments_without_rows_leave_no_file_that_nobody_refers_to(tmp_path: Path) -> None:
    nothing = OperatorSnapshot({"a": keyed([]), "b": keyed([])}, increments={"a": 1, "b": 1})
    [saved] = StateWriter(FILES, str(tmp_path)).write("s0-2", {7: nothing})
    assert [(t.name, t.segments) for t in saved.tables] == [("a", ()), ("b", ())]
    assert list(tmp_path.rglob("*.arrow")) == []
    beside = OperatorSnapshot({"a": keyed([]), "b": keyed([3])}, increments={"a": 1, "b": 1})
    [saved] = StateWriter(FILES, str(tmp_path)).write("s0-3", {7: beside})
    assert {t.name: len(t.segments) for t in saved.tables} == {"a": 0, "b": 1}
    assert len(list(tmp_path.rglob("*.arrow"))) == 1


def test_pyarrow_alone_reads_a_segment(tmp_path: Path) -> None:
    tables = {"a": keyed([1], v=[1]), "b": keyed([2, 3], v=["x", "y"])}
    restore = written(tmp_path, OperatorSnapshot(tables))
    for table in restore.states[0].operators[0].tables:
        (segment,) = table.segments
        assert segment.offset % 64 == 0
        with pa.memory_map(str(tmp_path / segment.path)) as file:
            file.seek(segment.offset)
            assert pa.ipc.open_stream(file).read_all().equals(tables[table.name])


def test_pieces_are_bounded_in_rows_and_bytes() -> None:
    wide = pa.table({"s": ["x" * 1_000] * 40_000})
    pieces = list(pieces_of(wide))
    assert len(pieces) == 3
    assert all(piece.nbytes < 1.1 * PIECE_BYTES_MAX for piece in pieces)
    assert pa.Table.from_batches(pieces).equals(wide)
    assert [p.num_rows for p in pieces_of(pa.table({"i": range(300_000)}))] == [131_072, 131_072, 37_856]


# -- what goes wrong --------------------------------------------------------------------------------


def test_every_flipped_byte_of_a_segment_is_found(tmp_path: Path) -> None:
    restore = written(tmp_path, OperatorSnapshot({"t": keyed([1, 2], s=["a", "b"])}))
    segment = restore.states[0].operators[0].tables[0].segments[0]
    path = tmp_path / segment.path
    good = path.read_bytes()
    for position in range(segment.offset, segment.offset + segment.length, 7):
        path.write_bytes(good[:position] + bytes([good[position] ^ 0x10]) + good[position + 1 :])
        with pytest.raises(ExternalError, match="its bytes are not those that were written") as raised:
            read(restore)
        assert raised.value.code == "SS6210"
        assert str(path) in raised.value.message
    path.write_bytes(good)
    assert read(restore).keyed["t"].num_rows == 2


@pytest.mark.parametrize("share", [0, 0.5, 0.999])
def test_a_truncated_file_is_named(tmp_path: Path, share: float) -> None:
    restore = written(tmp_path, OperatorSnapshot({"t": keyed([1, 2], s=["a", "b"])}))
    path = tmp_path / "shared" / "s0-1.arrow"
    left = int(share * path.stat().st_size)
    os.truncate(path, left)
    with pytest.raises(ExternalError, match=f'"{path}" of a checkpoint: it has only {left} bytes'):
        read(restore)


def test_a_missing_file_is_a_corrupt_checkpoint_in_another_process_too(tmp_path: Path) -> None:
    restore = written(tmp_path, OperatorSnapshot({"t": keyed([1], s=["a"])}))
    complete(tmp_path)
    (tmp_path / "shared" / "s0-1.arrow").unlink()
    with pytest.raises(ExternalError, match="there is no such file") as raised:
        read(restore)
    info = ErrorInfo.of(raised.value)
    assert info.reason is FailureReason.CHECKPOINT_CORRUPT
    again = info.to_error()
    assert isinstance(again, ExternalError)
    assert ErrorInfo.of(again) == info


def complete(directory: Path) -> None:
    (directory / "chk-1").mkdir()
    (directory / "chk-1" / "_metadata").write_text("{}")


@pytest.mark.parametrize("left", ["", "shared"])
def test_a_directory_that_is_away_is_a_store_that_does_not_answer_yet(tmp_path: Path, left: str) -> None:
    """A volume that is not mounted for a moment, also when a checkpoint was begun meanwhile."""
    directory, elsewhere = tmp_path / "job", tmp_path / "elsewhere"
    restore = written(directory, OperatorSnapshot({"t": keyed([1], s=["a"])}))
    complete(directory)
    directory.rename(elsewhere)
    if left:
        (directory / left).mkdir(parents=True)
    with pytest.raises(ExternalError, match=f'could not read checkpoints in "{directory}"') as raised:
        read(restore)
    assert (raised.value.code, raised.value.reason) == ("SS5001", FailureReason.EXTERNAL)
    shutil.rmtree(directory, ignore_errors=True)
    elsewhere.rename(directory)
    assert read(restore).keyed["t"].num_rows == 1


class FullDisk(PrivateFiles):
    """Takes 1,000 bytes."""

    def open_write(self, path: str) -> BinaryIO:
        stream = super().open_write(path)
        return Full(stream)  # type: ignore[return-value]


class Full:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._left = 1_000

    def __enter__(self) -> Full:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stream.close()

    def write(self, data: Any) -> int:
        self._left -= len(data)
        if self._left < 0:
            raise OSError(28, "no space")
        return self._stream.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def test_a_full_disk_is_the_error_of_that_write_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ExternalError, match="no space left on device") as raised:
        written(tmp_path, OperatorSnapshot({"t": keyed([1] * 1_000, s=["a"] * 1_000)}), files=FullDisk())
    assert (raised.value.code, raised.value.reason) == ("SS5001", FailureReason.EXTERNAL)
    assert "free space" in raised.value.hint
    assert not tmp_path.exists()


def test_a_place_that_cannot_be_written_is_the_error_of_that_write(tmp_path: Path) -> None:
    (tmp_path / "shared").write_text("a file in the way")
    with pytest.raises(ExternalError, match="could not"):
        written(tmp_path, OperatorSnapshot({"t": keyed([1], s=["a"])}))


def test_a_disk_that_does_not_answer_is_no_corrupt_checkpoint(tmp_path: Path) -> None:
    class Unread(io.FileIO):
        def readinto(self, buffer: Any) -> int:
            raise OSError(5, "")

    class Silent(PrivateFiles):
        def open_read(self, path: str) -> BinaryIO:
            return Unread(path)  # type: ignore[return-value]

    restore = written(tmp_path, OperatorSnapshot({"t": keyed([1], s=["a"])}))
    with pytest.raises(ExternalError, match="could not read") as raised:
        StateReader(Silent(), restore).operator(7, ALL)
    assert (raised.value.code, raised.value.reason) == ("SS5001", FailureReason.EXTERNAL)


def test_files_and_directories_are_of_the_user_alone(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b"
    written(directory, OperatorSnapshot({"t": keyed([1], s=["a"])}))
    assert (directory / "shared" / "s0-1.arrow").stat().st_mode & 0o777 == 0o600
    assert {p.stat().st_mode & 0o777 for p in (directory / "shared", directory, tmp_path / "a")} == {0o700}


def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / "shared" / "s0-1.arrow").symlink_to(victim)
    with pytest.raises(ExternalError, match="could not write"):
        written(tmp_path, OperatorSnapshot({"t": keyed([1], s=["a"])}))
    assert victim.read_text() == "kept"


def test_large_tables_have_files_of_their_own_that_go_with_the_name(tmp_path: Path) -> None:
    large = pa.table({KEY_GROUP_COLUMN: np.zeros(400_000, np.int32), "v": np.arange(400_000)})
    tables = {"a": keyed([1], v=[1]), "left": large, "right": large.slice(1), "b": keyed([2], v=[2])}
    writer = StateWriter(FILES, str(tmp_path))
    (saved,) = writer.write("x-12", {7: OperatorSnapshot(tables)})
    paths = {table.name: table.segments[0].path for table in saved.tables}
    assert paths == {
        "a": "shared/x-12.arrow",
        "b": "shared/x-12.arrow",
        "left": "shared/x.1-12.arrow",
        "right": "shared/x.2-12.arrow",
    }
    assert {checkpoint_of_path(path) for path in paths.values()} == {12}
    restore = TaskRestore(12, str(tmp_path), (SubtaskState((saved,)),))
    assert {name: t.num_rows for name, t in read(restore).keyed.items()} == {
        "a": 1,
        "b": 1,
        "left": 400_000,
        "right": 399_999,
    }
    writer.discard("x-12")
    assert not tmp_path.exists()


def test_a_disk_that_is_full_at_the_last_file_leaves_none(tmp_path: Path) -> None:
    large = pa.table({KEY_GROUP_COLUMN: np.zeros(400_000, np.int32), "v": np.arange(400_000)})
    with pytest.raises(ExternalError, match="no space left"):
        StateWriter(FullDisk(), str(tmp_path)).write(
            "x-12", {7: OperatorSnapshot({"a": keyed([1], v=[1]), "b": large})}
        )
    assert not tmp_path.exists()


def test_what_is_discarded_is_gone_and_can_be_discarded_again(tmp_path: Path) -> None:
    writer = StateWriter(FILES, str(tmp_path / "job"))
    for name in ("s-1", "s-2"):
        writer.write(name, {7: OperatorSnapshot({"t": keyed([1], s=["a"])})})
    writer.discard("s-1")
    writer.discard("s-1")
    assert [p.name for p in (tmp_path / "job" / "shared").iterdir()] == ["s-2.arrow"]
    writer.discard("s-2")
    assert list(tmp_path.iterdir()) == []


class Pieces:
    """A table that is copied while it is read, as a reader. State: how many pieces are held by anybody at most."""

    def __init__(self, pieces: int) -> None:
        self.held_max = 0
        self._held: list[Any] = []
        self._count = pieces

    def reader(self) -> pa.RecordBatchReader:
        schema = pa.schema([(KEY_GROUP_COLUMN, pa.int32()), ("v", pa.int64())])
        return pa.RecordBatchReader.from_batches(schema, (self._piece(n) for n in range(self._count)))

    def _piece(self, number: int) -> pa.RecordBatch:
        rows = 100_000
        values = np.full(rows, number)
        self._held = [held for held in self._held if held() is not None] + [weakref.ref(values)]
        self.held_max = max(self.held_max, len(self._held))
        return pa.record_batch({KEY_GROUP_COLUMN: np.full(rows, number, np.int32), "v": values})


def test_a_table_that_is_read_piece_by_piece_is_not_held(tmp_path: Path) -> None:
    pieces, few = Pieces(60), Pieces(2)
    streamed = OperatorSnapshot({"many": pieces.reader(), "few": few.reader(), "none": Pieces(0).reader()})
    restore = written(tmp_path, streamed)
    found = read(restore).keyed
    assert {name: table.num_rows for name, table in found.items()} == {"many": 6_000_000, "few": 200_000}
    assert np.array_equal(found["many"].column("v").to_numpy(), np.repeat(np.arange(60), 100_000))
    (saved,) = restore.states[0].operators
    assert [(t.name, t.segments[0].path) for t in saved.tables] == [
        ("many", "shared/s0.1-1.arrow"),
        ("few", "shared/s0-1.arrow"),
        ("none", "shared/s0-1.arrow"),
    ]
    assert pieces.held_max <= 6


def test_a_reader_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def pieces() -> Any:
        yield from itertools.repeat(keyed([1] * 100_000, v=[1] * 100_000).to_batches()[0], 20)
        raise SnapshotAborted

    rows = keyed([1], v=[1])
    streamed = OperatorSnapshot({"a": rows, "t": pa.RecordBatchReader.from_batches(rows.schema, pieces())})
    with pytest.raises(SnapshotAborted):
        written(tmp_path, streamed)
    assert not tmp_path.exists()


def resealed(restore: TaskRestore, content: bytes) -> TaskRestore:
    """The state with this content in the place of the one segment, under a checksum that is right."""
    (operator,) = restore.states[0].operators
    (table,) = operator.tables
    (segment,) = table.segments
    path = Path(restore.directory) / segment.path
    path.write_bytes(content)
    forged = replace(segment, offset=0, length=len(content), checksum=zlib.crc32(content))
    operator = replace(operator, tables=(replace(table, segments=(forged,)),))
    return replace(restore, states=(replace(restore.states[0], operators=(operator,)),))


@pytest.mark.parametrize("content", [b"", b"garbage", b"\xff" * 200, bytes(4096)])
def test_what_is_no_arrow_stream_is_named_although_its_checksum_is_right(
    tmp_path: Path, content: bytes
) -> None:
    restore = resealed(written(tmp_path, OperatorSnapshot({}, {"t": pa.table({"n": [1]})})), content)
    with pytest.raises(ExternalError, match="it is no Arrow stream") as caught:
        read(restore)
    assert (caught.value.code, ErrorInfo.of(caught.value).reason) == (
        "SS6210",
        FailureReason.CHECKPOINT_CORRUPT,
    )


def test_every_changed_byte_under_a_right_checksum_is_refused_or_read(tmp_path: Path) -> None:
    """Offsets that lead out of a buffer would end the process, and with it the tasks of others."""
    rows = pa.table({"s": ["a" * 10, "b", None], "l": [[1, 2], [], None]})
    whole = written(tmp_path, OperatorSnapshot({}, {"t": rows}))
    (path,) = (tmp_path / "shared").iterdir()
    content = path.read_bytes()
    for place in range(0, len(content), 3):
        changed = bytearray(content)
        changed[place] ^= 0xFF
        try:
            read(resealed(whole, bytes(changed))).shared["t"].to_pylist()
        except ExternalError as error:
            assert error.code == "SS6210"  # noqa: PT017
        except UnicodeDecodeError:
            raise AssertionError(f"byte {place} is no text") from None


def test_a_large_file_is_on_its_way_to_the_disk_before_it_is_synced(tmp_path: Path, monkeypatch: Any) -> None:
    """In parts that follow each other, and all that was written is read."""
    begun: list[tuple[int, int]] = []
    monkeypatch.setattr(
        "sqlstream.runtime.host.private_files._write_back", lambda: lambda number, *part: begun.append(part)
    )
    table = keyed([0] * 3_000_000, n=pa.array(range(3_000_000), pa.int64()))
    restore = written(tmp_path, OperatorSnapshot(keyed={"t": table}))
    ends = [0, *itertools.accumulate(length for _, length in begun)]
    assert [start for start, _ in begun] == ends[:-1]
    assert ends[-1] > 20 << 20
    assert read(restore).keyed["t"].column("n").to_pylist()[-1] == 2_999_999

"""Files that go with jobs: sent, fetched and kept by what is in them."""

from __future__ import annotations

import hashlib
import io
import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from sqlstream.errors import ExternalError, UserError
from sqlstream.graph.artifacts import PART_BYTES, Artifact
from sqlstream.runtime.host.artifacts import KEPT_S, ArtifactStore, HostArtifacts, digest_of
from sqlstream.runtime.host.files import LocalFiles

ROOM = 1 << 30
DATA = bytes(range(256)) * 10_000


def artifact(data: bytes = DATA, name: str = "model") -> Artifact:
    return Artifact(name, hashlib.sha256(data).hexdigest(), len(data))


def store_in(directory: Path, kept_s: float = KEPT_S) -> ArtifactStore:
    return ArtifactStore(lambda: str(directory), kept_s)


def add(store: ArtifactStore, data: bytes, step: int = PART_BYTES, room: int = ROOM) -> Artifact:
    sent, there = artifact(data), 0
    while True:
        there = store.add_part(sent, there, data[there : there + step], size_max=ROOM, room=room)
        if there == len(data):
            return sent


def nothing() -> None:
    return


@pytest.mark.parametrize("data", [b"", b"x", DATA])
def test_a_file_that_came_in_parts_is_there_whole_and_private(tmp_path: Path, data: bytes) -> None:
    store = store_in(tmp_path / "store")
    sent = add(store, data, step=100_000)
    assert store.size(sent.digest) == len(data)
    read = b"".join(iter(lambda at=[0]: _next(store, sent, at), b""))
    assert read == data
    assert os.stat(store.path(sent.digest)).st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path / "store") == [sent.digest]
    # Whoever sends it again is told at once.
    assert store.add_part(sent, 0, b"", size_max=ROOM, room=ROOM) == len(data)


def _next(store: ArtifactStore, sent: Artifact, at: list[int]) -> bytes:
    part = store.part(sent.digest, at[0])
    at[0] += len(part)
    return part


def test_a_part_that_is_repeated_or_lost_is_asked_for_again(tmp_path: Path) -> None:
    store, sent = store_in(tmp_path), artifact()
    assert store.add_part(sent, 0, DATA[:1000], size_max=ROOM, room=ROOM) == 1000
    assert store.add_part(sent, 0, DATA[:1000], size_max=ROOM, room=ROOM) == 1000
    assert store.add_part(sent, 5000, DATA[5000:6000], size_max=ROOM, room=ROOM) == 1000
    assert store.add_part(sent, 1000, DATA[1000:], size_max=ROOM, room=ROOM) == len(DATA)


def test_other_bytes_than_the_digest_says_are_dropped(tmp_path: Path) -> None:
    store, sent = store_in(tmp_path), artifact()
    with pytest.raises(ExternalError, match="are not those with the digest") as raised:
        store.add_part(sent, 0, b"x" * len(DATA), size_max=ROOM, room=ROOM)
    assert raised.value.code == "SS5089"
    with pytest.raises(ExternalError, match="are not those"):
        store.add_part(sent, 0, DATA + b"x", size_max=ROOM, room=ROOM)
    with pytest.raises(ExternalError, match="are not those"):
        store.fetch(sent, lambda offset: DATA[offset : offset + 1000] if offset < 1000 else b"")
    assert os.listdir(tmp_path) == []


def test_a_file_beyond_the_limit_is_refused_before_it_comes(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    with pytest.raises(UserError, match="more than 1000 bytes") as raised:
        store.add_part(artifact(), 0, b"", size_max=1000, room=ROOM)
    assert raised.value.code == "SS5087"
    with pytest.raises(UserError, match="more than 1000 bytes"):
        digest_of(io.BytesIO(DATA), 1000, "model.bin")
    add(store, DATA, room=len(DATA) + 10)
    with pytest.raises(UserError, match="would take more than"):
        store.add_part(artifact(b"another one"), 0, b"", size_max=ROOM, room=len(DATA) + 10)


def test_a_file_goes_when_no_job_needs_it(tmp_path: Path) -> None:
    store = store_in(tmp_path, kept_s=0)
    sent = add(store, DATA)
    store.need("a", [sent])
    store.need("b", [sent])
    past = time.time() - 10
    os.utime(store.path(sent.digest), (past, past))
    store.sweep()
    store.release("a")
    assert store.size(sent.digest) == len(DATA)
    store.release("b")
    assert store.size(sent.digest) is None


def asking(store: ArtifactStore, asked: list[int]) -> Callable[[str, int], bytes]:
    def part(digest: str, offset: int) -> bytes:
        asked.append(offset)
        return store.part(digest, offset)

    return part


def test_a_host_fetches_a_file_once_for_all_its_processes(tmp_path: Path) -> None:
    master, asked = store_in(tmp_path / "master"), list[int]()
    sent = add(master, DATA)
    first, second = (
        HostArtifacts(store_in(tmp_path / "host"), asking(master, asked), ROOM) for _ in range(2)
    )
    for host in (first, second, first):
        path = host.use("job", [sent], nothing)["model"]
        assert Path(path).read_bytes() == DATA
    assert asked == list(range(0, len(DATA), PART_BYTES))


def test_a_cache_drops_what_was_used_longest_ago_but_nothing_in_use(tmp_path: Path) -> None:
    master, host_store = store_in(tmp_path / "master"), store_in(tmp_path / "host")
    files = [add(master, bytes([i]) * 1000) for i in range(4)]
    host = HostArtifacts(host_store, master.part, 2500)
    host.use("a", [files[0]], nothing)
    host.use("b", [files[1]], nothing)
    for age, file in ((20, files[0]), (10, files[1])):
        os.utime(host_store.path(file.digest), (time.time() - age,) * 2)
    host.release("b")
    host.use("c", [files[2]], nothing)
    assert [host_store.size(f.digest) for f in files] == [1000, None, 1000, None]
    # All is in use: it becomes larger rather than to fail a job.
    host.use("d", [files[3]], nothing)
    assert [host_store.size(f.digest) for f in files] == [1000, None, 1000, 1000]


def test_a_task_that_is_cancelled_fetches_no_further(tmp_path: Path) -> None:
    master = store_in(tmp_path / "master")
    sent = add(master, DATA)
    asked: list[int] = []

    def check() -> None:
        if asked:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        HostArtifacts(store_in(tmp_path / "host"), asking(master, asked), ROOM).use("job", [sent], check)
    assert os.listdir(tmp_path / "host") == []


def test_savepoints_have_the_files_and_damage_is_found(tmp_path: Path) -> None:
    store, other, files = store_in(tmp_path / "a"), store_in(tmp_path / "b"), LocalFiles()
    sent = add(store, DATA)
    saved = str(tmp_path / "savepoint" / "artifacts")
    for _ in range(2):
        store.copy_to(files, saved, [sent])
    assert os.listdir(saved) == [sent.digest]
    other.copy_from(files, saved, sent)
    assert other.size(sent.digest) == len(DATA)
    Path(saved, sent.digest).write_bytes(b"x" + DATA[1:])
    with pytest.raises(ExternalError, match="are not those with the digest"):
        store_in(tmp_path / "c").copy_from(files, saved, sent)


def test_memory_does_not_depend_on_the_size_of_a_file(tmp_path: Path) -> None:
    size, block = 64 << 20, b"\x07" * PART_BYTES
    digest = hashlib.sha256()
    for _ in range(size // PART_BYTES):
        digest.update(block)
    sent = Artifact("large", digest.hexdigest(), size)
    master, host_store = store_in(tmp_path / "master"), store_in(tmp_path / "host")
    tracemalloc.start()
    try:
        for offset in range(0, size, PART_BYTES):
            master.add_part(sent, offset, block, size_max=ROOM, room=ROOM)
        HostArtifacts(host_store, master.part, ROOM).use("job", [sent], nothing)
        with open(host_store.path(sent.digest), "rb") as stream:
            assert digest_of(stream, ROOM, "") == (sent.digest, size)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * PART_BYTES


def test_a_job_without_files_touches_no_disk(tmp_path: Path) -> None:
    store = store_in(tmp_path / "store")
    store.need("a", [])
    store.release("a")
    assert not (tmp_path / "store").exists()

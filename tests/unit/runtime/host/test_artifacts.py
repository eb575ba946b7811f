"""Files that go with jobs: sent, fetched and kept by what is in them."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import threading
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


def interrupt() -> None:
    raise KeyboardInterrupt


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
        store.add_part(artifact(b"another one"), 0, b"another", size_max=ROOM, room=len(DATA) + 10)
    # To ask begins nothing, and finds what could never have room.
    assert store.add_part(artifact(b"another one"), 0, b"", size_max=ROOM, room=len(DATA) + 10) == 0
    assert len(os.listdir(tmp_path)) == 1
    with pytest.raises(UserError, match="would take more than"):
        store.add_part(artifact(b"another one"), 0, b"", size_max=ROOM, room=10)


def test_a_file_on_the_disk_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    with path.open("rb") as stream:
        with pytest.raises(UserError, match="SS5087"):
            digest_of(stream, 1 << 30, str(path))
        assert stream.tell() == 0


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


def in_thread(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def test_ends_of_jobs_do_not_wait_for_an_upload_that_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_in(tmp_path)
    store.need("ends", [add(store, b"needed")])
    is_synced, goes_on, sync = threading.Event(), threading.Event(), os.fsync

    def fsync(number: int) -> None:
        is_synced.set()
        assert goes_on.wait(60)
        sync(number)

    monkeypatch.setattr(os, "fsync", fsync)
    sending = in_thread(lambda: add(store, DATA))
    assert is_synced.wait(60)
    ending = in_thread(lambda: (store.release("ends"), store.need("begins", [artifact()])))
    ending.join(60)
    has_ended = not ending.is_alive()
    # Whoever repeats the last part is answered once the file is there.
    repeated = in_thread(lambda: add(store, DATA))
    goes_on.set()
    sending.join(60), repeated.join(60)
    assert (has_ended, store.size(artifact().digest)) == (True, len(DATA))


def test_a_job_without_files_waits_for_no_others(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    with store._lock:
        ending = in_thread(lambda: (store.need("a", []), store.release("a")))
        ending.join(60)
        assert not ending.is_alive()


def test_a_job_that_ends_and_other_files_wait_for_no_download(tmp_path: Path) -> None:
    master = store_in(tmp_path / "master")
    files = [add(master, bytes([i]) * 1000) for i in range(3)]
    is_asked, goes_on = threading.Event(), threading.Event()

    def part(digest: str, offset: int) -> bytes:
        if digest == files[2].digest:
            is_asked.set()
            assert goes_on.wait(60)
        return master.part(digest, offset)

    host = HostArtifacts(store_in(tmp_path / "host"), part, ROOM)
    host.use("a", [files[0]], nothing)
    fetching = in_thread(lambda: host.use("b", [files[2]], nothing))
    assert is_asked.wait(60)
    others = in_thread(lambda: (host.release("a"), host.use("a", [files[1]], nothing)))
    others.join(60)
    have_gone_on = not others.is_alive()
    checks = iter([nothing, interrupt])
    with pytest.raises(KeyboardInterrupt):
        # One that waits for the same file, and is cancelled.
        host.use("c", [files[2]], lambda: next(checks)())
    goes_on.set()
    fetching.join(60)
    assert (have_gone_on, fetching.is_alive()) == (True, False)


WRITE = """
import sys
from sqlstream.graph.artifacts import Artifact
from sqlstream.runtime.host.artifacts import _Draft
draft = _Draft(sys.argv[1], Artifact("model", "0" * 64, 2000))
print(draft.path, flush=True)
sys.stdin.read()
"""


def test_what_a_killed_process_was_fetching_goes_and_what_another_one_fetches_counts(tmp_path: Path) -> None:
    master, host_store = store_in(tmp_path / "master"), store_in(tmp_path / "host")
    files = [add(master, bytes([i]) * 1000) for i in range(3)]
    host = HostArtifacts(host_store, master.part, 3500)
    host.use("a", [files[0]], nothing)
    host.release("a")
    words = [sys.executable, "-c", WRITE, str(tmp_path / "host")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writing:
        assert writing.stdout is not None
        draft = Path(writing.stdout.readline().strip())
        # 2000 bytes are promised to the other process: the unused file makes room for this one.
        host.use("b", [files[1]], nothing)
        assert (draft.exists(), host_store.size(files[0].digest)) == (True, None)
        writing.kill()
        writing.wait()
    host.use("c", [files[2]], nothing)
    assert sorted(os.listdir(tmp_path / "host")) == sorted(f.digest for f in files[1:])


def test_a_file_that_two_processes_fetched_stays_while_one_of_them_uses_it(tmp_path: Path) -> None:
    master, host_store = store_in(tmp_path / "master"), store_in(tmp_path / "host")
    sent = add(master, DATA)
    quick = HostArtifacts(host_store, master.part, ROOM)

    def part(digest: str, offset: int) -> bytes:
        quick.use("a", [sent], nothing)
        return master.part(digest, offset)

    slow = HostArtifacts(host_store, part, ROOM)
    slow.use("b", [sent], nothing)
    slow.release("b")
    host_store.make_room(1, 0)
    assert host_store.size(sent.digest) == len(DATA)


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

"""The files of jobs in the store of several servers: whole, there for the next one, and gone when no job needs them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from sqlstream.client.server.leaders import shared_artifacts
from sqlstream.client.server.leaders.folder_store import FolderStore
from sqlstream.client.server.leaders.shared_artifacts import SharedArtifacts
from sqlstream.errors import ExternalError
from sqlstream.graph.artifacts import Artifact
from sqlstream.runtime.host.artifacts import ArtifactStore

PART_BYTES = 7


class Server:
    """Its own files, and what it shares of them."""

    def __init__(self, tmp_path: Path, name: str, check_owner: Callable[[], None] = lambda: None) -> None:
        self.local = ArtifactStore(lambda: str(tmp_path / name))
        self.needed: set[str] = set()
        self.store = FolderStore(str(tmp_path / "store"))
        self.shared = SharedArtifacts(self.store, self.local, lambda: self.needed, check_owner, PART_BYTES)

    def upload(self, content: bytes) -> Artifact:
        artifact = Artifact("f", hashlib.sha256(content).hexdigest(), len(content))
        self.local.add_part(artifact, 0, content, size_max=1000, room=1000)
        return artifact


@pytest.mark.parametrize("size", [0, 1, PART_BYTES, PART_BYTES + 1, 50])
def test_the_next_server_has_the_file_that_the_first_has_put_there(tmp_path: Path, size: int) -> None:
    first, second = Server(tmp_path, "first"), Server(tmp_path, "second")
    content = bytes(range(size))
    artifact = first.upload(content)
    second.shared.fetch([artifact])
    assert not second.local.holds(artifact)
    first.shared.put([artifact])
    first.shared.put([artifact])
    second.shared.fetch([artifact])
    assert Path(second.local.path(artifact.digest)).read_bytes() == content


def test_a_file_that_was_put_in_part_or_changed_is_none(tmp_path: Path) -> None:
    first, second = Server(tmp_path, "first"), Server(tmp_path, "second")
    artifact = first.upload(bytes(range(20)))
    first.shared.put([artifact])
    last = f"{artifact.digest}-2"
    record = first.store.read(last)
    assert record is not None
    first.store.write(last, b"others", record.version)
    with pytest.raises(ExternalError, match="SS5089"):
        second.shared.fetch([artifact])
    first.store.remove(last)
    second.shared.fetch([artifact])
    assert not second.local.holds(artifact)
    # It is completed by the next put.
    first.shared.put([artifact])
    second.shared.fetch([artifact])
    assert second.local.holds(artifact)


def test_files_go_when_no_job_needs_them_and_none_that_was_just_put_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = []
    first = Server(tmp_path, "first", lambda: checked.append(1))
    of_job, left = first.upload(b"of a job"), first.upload(b"of none")
    first.shared.put([of_job, left])
    first.needed = {of_job.digest}
    first.shared.remove_left()
    assert len(first.store.keys()) == 3
    assert not checked
    second = Server(tmp_path, "second", lambda: checked.append(1))
    second.needed = {of_job.digest}
    second.shared.remove_left()
    # Only what a server has listed that leads afterwards is removed.
    assert checked == [1]
    assert {key.partition("-")[0] for key in sorted(second.store.keys())} == {of_job.digest}
    # Of this server's own, what no job has needed for an hour.
    monkeypatch.setattr(shared_artifacts, "KEPT_S", -1.0)
    first.needed = set()
    first.shared.put([])
    first.shared.put([first.upload(b"another")])
    assert len(first.store.keys()) == 1


def test_a_server_that_does_not_lead_any_more_removes_nothing(tmp_path: Path) -> None:
    def lost() -> None:
        raise ExternalError("SS6077", "this server leads no longer")

    first, late = Server(tmp_path, "first"), Server(tmp_path, "late", lost)
    first.shared.put([first.upload(b"of a job")])
    with pytest.raises(ExternalError, match="SS6077"):
        late.shared.remove_left()
    assert len(first.store.keys()) == 2

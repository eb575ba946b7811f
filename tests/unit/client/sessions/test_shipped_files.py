"""The files that 'pipeline.cached-files' names, as a cluster gets them."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pytest

from sqlstream.client.clusters.cluster_client import ClusterClient
from sqlstream.client.clusters.local_cluster import LocalClusterClient
from sqlstream.client.sessions.shipped_files import _Digests, named_files, shipped_files
from sqlstream.errors import UserError
from sqlstream.runtime.host import artifacts
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.rooted_files import FilePlaces, RootedFiles


@pytest.mark.parametrize(
    "text",
    [
        *("a.txt", "name:a", "path:/a", "name:a,path:", "name:../a,path:/a"),
        *("name:a,path:/a;name:a,path:/b", "name:a,path:/a,executable:true"),
    ],
)
def test_what_names_no_file_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="names no file, or one twice") as raised:
        named_files(text)
    assert raised.value.code == "SS5088"


class Forgetful:
    """A cluster that forgets what it was sent, once. State: how many calls there were."""

    def __init__(self, cluster: LocalClusterClient) -> None:
        self._cluster = cluster
        self.calls = 0

    def add_artifact_part(self, artifact: Any, offset: int, data: bytes) -> int:
        self.calls += 1
        return 0 if self.calls == 2 else self._cluster.add_artifact_part(artifact, offset, data)


def test_a_file_is_sent_once_and_from_the_beginning_when_the_cluster_has_forgotten_it(tmp_path: Path) -> None:
    data = b"0123456789" * 300_000
    (tmp_path / "m.bin").write_bytes(data)
    config = {"pipeline.cached-files": f"name:model,path:{tmp_path}/m.bin;name:again,path:'{tmp_path}/m.bin'"}
    cluster = LocalClusterClient()
    forgetful = Forgetful(cluster)
    model, again = shipped_files(config, cast(ClusterClient, forgetful), LocalFiles())
    assert (model.size, model.digest, again.name) == (len(data), again.digest, "again")
    # A question, a part that is forgotten, three parts; then a question alone.
    assert forgetful.calls == 1 + 1 + 3 + 1
    by_digest = {"pipeline.cached-files": f"name:m,path:sha256:{model.digest}"}
    assert [a.size for a in shipped_files(by_digest, cluster, LocalFiles())] == [len(data)]
    by_digest = {"pipeline.cached-files": f"name:m,path:sha256:{'0' * 64}"}
    with pytest.raises(UserError, match="is not there"):
        shipped_files(by_digest, cluster, LocalFiles())


def test_a_file_is_read_again_only_when_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, cluster, read = tmp_path / "m.bin", LocalClusterClient(), list[str]()
    config = {"pipeline.cached-files": f"name:model,path:{path}"}
    taken = artifacts.digest_of

    def digest_of(stream: Any, size_max: int, path: str) -> tuple[str, int]:
        read.append(path)
        return taken(stream, size_max, path)

    monkeypatch.setattr(artifacts, "digest_of", digest_of)

    def digest() -> str:
        return shipped_files(config, cluster, LocalFiles())[0].digest

    path.write_bytes(b"one")
    # What has just changed is not trusted.
    assert (digest(), digest(), len(read)) == (sha256(b"one").hexdigest(),) * 2 + (2,)
    monkeypatch.setattr(_Digests, "SETTLED_NS", -60_000_000_000)
    assert (digest(), digest(), len(read)) == (sha256(b"one").hexdigest(),) * 2 + (3,)
    with pytest.raises(UserError, match="more than 2 bytes"):
        shipped_files({**config, "sqlstream.artifacts.max-size": "2 b"}, cluster, LocalFiles())
    was = path.stat()
    path.write_bytes(b"two")
    while path.stat().st_ctime_ns == was.st_ctime_ns or path.stat().st_mtime_ns != was.st_mtime_ns:
        # Whoever sets the time of a change back changes another one, once the clock of the file system has gone on.
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert (digest(), len(read)) == (sha256(b"two").hexdigest(), 4)
    (tmp_path / "new").write_bytes(b"six")
    (tmp_path / "new").replace(path)
    assert digest() == sha256(b"six").hexdigest()


def test_what_a_user_may_not_read_or_is_too_large_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "m.bin").write_bytes(b"x" * 2000)
    files = RootedFiles(FilePlaces((str(tmp_path / "data"),)))
    named = {"pipeline.cached-files": f"name:model,path:{tmp_path}/m.bin"}
    cluster = LocalClusterClient()
    for config, allowed, code in (
        (named, files, "SS5030"),
        ({"pipeline.cached-files": "name:model,path:s3://bucket/m"}, files, "SS5031"),
        ({**named, "sqlstream.artifacts.max-size": "1000 b"}, LocalFiles(), "SS5087"),
        ({"pipeline.cached-files": f"name:model,path:{tmp_path}"}, LocalFiles(), "SS5088"),
    ):
        with pytest.raises(UserError) as raised:
            shipped_files(config, cluster, allowed)
        assert raised.value.code == code

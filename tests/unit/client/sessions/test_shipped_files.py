"""The files that 'pipeline.cached-files' names, as a cluster gets them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from sqlstream.client.clusters.cluster_client import ClusterClient
from sqlstream.client.clusters.local_cluster import LocalClusterClient
from sqlstream.client.sessions.shipped_files import named_files, shipped_files
from sqlstream.errors import UserError
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

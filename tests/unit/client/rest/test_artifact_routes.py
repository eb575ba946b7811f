"""Files that go with jobs, uploaded in parts."""

import hashlib
import os
from pathlib import Path
from typing import cast

import pytest
from fastapi.testclient import TestClient

from sqlstream.client.connection.address import Address
from sqlstream.client.connection.cluster_rest import ClusterRest
from sqlstream.client.connection.http import HttpClient
from sqlstream.client.connection.wire import answered_error
from sqlstream.errors import UserError
from sqlstream.graph.artifacts import PART_BYTES
from sqlstream.runtime.host import artifacts
from sqlstream.runtime.host.artifacts import ArtifactStore

DATA = b"0123456789" * 100
DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def store(cluster, tmp_path):
    kept = ArtifactStore(lambda: str(tmp_path / "artifacts"))
    cluster.artifact_size = kept.size
    cluster.add_artifact_part = lambda artifact, offset, data: kept.add_part(
        artifact, offset, data, size_max=2000, room=10_000
    )
    return kept


def put(rest, data, digest=DIGEST, **query):
    return rest.put(f"/artifacts/{digest}", params={"size": len(DATA), **query}, content=data)


def test_a_file_comes_in_parts_and_is_there_when_it_is_whole(store, rest):
    assert rest.get(f"/artifacts/{DIGEST}").status_code == 404
    assert put(rest, b"").json() == {"bytes": 0, "complete": False}
    assert put(rest, DATA[:600]).json() == {"bytes": 600, "complete": False}
    assert rest.get(f"/artifacts/{DIGEST}").status_code == 404
    # Lost and repeated parts: the answer says where to go on.
    assert put(rest, DATA[900:], offset=900).json() == {"bytes": 600, "complete": False}
    assert put(rest, DATA[600:], offset=600).json() == {"bytes": 1000, "complete": True}
    assert rest.get(f"/artifacts/{DIGEST}").json() == {"bytes": 1000, "complete": True}
    assert store.part(DIGEST, 0) == DATA


@pytest.mark.parametrize(
    ("digest", "data", "query", "status", "said"),
    [
        ("ABC", b"", {}, 400, "is no SHA-256"),
        (DIGEST, b"", {"size": -1}, 422, ""),
        (DIGEST, b"", {"size": 2001}, 400, "SS5087"),
        (DIGEST, b"x" * 1000, {}, 500, "SS5089"),
        (DIGEST, b"x" * (PART_BYTES + 1), {}, 413, "exceeded"),
    ],
)  # fmt: skip
def test_what_is_no_part_of_the_file_is_refused(store, rest, digest, data, query, status, said):
    answer = put(rest, data, digest, **query)
    assert (answer.status_code, said in answer.text) == (status, True)
    assert store.size(DIGEST) is None


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="is a named pipe, not a file"):
        ClusterRest.upload(cast(ClusterRest, object()), str(tmp_path / "pipe"))


def test_a_file_that_is_too_large_for_the_server_is_refused_unread_by_its_name(
    store: ArtifactStore, rest: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    monkeypatch.setattr(artifacts, "digest_of", lambda *given: read.append(given))

    def call(_: object, method: str, path: str, body: bytes, **query: str) -> object:
        answer = rest.request(method, path, params=query, content=body)
        if answer.status_code != 200:
            raise answered_error(answer.status_code, answer.content, "http://server")
        return answer.json()

    monkeypatch.setattr(HttpClient, "call", call)
    (tmp_path / "model.bin").write_bytes(b"x" * 2001)
    with ClusterRest(Address("http://server")) as server, pytest.raises(UserError) as caught:
        server.upload(str(tmp_path / "model.bin"))
    assert caught.value.message.startswith('"model.bin" has more than 2000 bytes')
    assert read == []

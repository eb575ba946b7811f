"""What the settings of servers that share a store must say, and what such a store must do."""

from __future__ import annotations

import http.server
import sys
import threading
from pathlib import Path

import pytest

from sqlstream.client.configuration import Configuration, load_configuration
from sqlstream.client.server.leaders.leadership import LeaseTimes
from sqlstream.client.server.leaders.s3_store import S3Login, S3Store
from sqlstream.client.server.leaders.stores import leaders, open_stores
from sqlstream.errors import ExternalError, UserError
from sqlstream.secrets import without_secrets


def configured(**settings: str) -> Configuration:
    words = [f"high-availability.{key.replace('_', '.')}={value}" for key, value in settings.items()]
    return load_configuration(None, words, {"XDG_CONFIG_HOME": "/none"})


def test_what_lies_in_the_directory_of_servers_is_below_the_name_of_the_cluster() -> None:
    assert leaders(configured()) is None
    found = leaders(configured(type="ZOOKEEPER", storageDir="file:///shared/", **{"cluster-id": "a"}))
    assert found is not None
    assert (found.type, found.place, found.directory) == ("zookeeper", "/shared/a", "/shared/a")
    assert found.times == LeaseTimes(5, 5, 1)
    for place in ("file:/shared", "/x/../shared/"):
        found = leaders(configured(type="filesystem", storageDir=place))
        assert found is not None
        assert found.place == "/shared/default"
    found = leaders(configured(type="s3", storageDir="s3://bucket/x/"))
    assert found is not None
    assert (found.place, found.directory) == ("s3://bucket/x/default", "")
    found = leaders(configured(type="kubernetes", storageDir="/shared"))
    assert found is not None
    assert found.times == LeaseTimes(15, 15, 5)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"type": "filesystem"}, 'storageDir" is ""'),
        ({"type": "filesystem", "storageDir": "s3://b/x"}, "is filesystem"),
        ({"type": "s3", "storageDir": "/shared"}, "is s3"),
        ({"type": "zookeeper", "storageDir": "hdfs://host/x"}, "is zookeeper"),
        ({"type": "filesystem", "storageDir": "shared/x"}, "not the same directory for all servers"),
        ({"type": "kubernetes", "storageDir": "file:x"}, "not the same directory for all servers"),
        ({"type": "filesystem", "storageDir": "/s", "cluster-id": "a/b"}, 'cluster-id" is "a/b"'),
        ({"type": "kubernetes", "storageDir": "/s", "cluster-id": "A"}, 'cluster-id" is "A"'),
        (
            {"type": "kubernetes", "storageDir": "/s", "kubernetes_leader-election_retry-period": "15 s"},
            "says so less often",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(UserError) as caught:
        leaders(configured(**settings))
    assert said in caught.value.message
    assert (caught.value.code, bool(caught.value.hint)) == ("SS4002", True)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "quorum"),
        ({"zookeeper_quorum": "zk", "zookeeper_path_root": "flink"}, "path.root"),
        ({"zookeeper_quorum": "zk", "zookeeper_client_authorization": "digest"}, "has no scheme"),
        ({"zookeeper_quorum": "zk", "zookeeper_client_acl": "creator"}, "nobody logs in"),
    ],
)
def test_settings_of_zookeeper_that_are_wrong_are_refused(
    tmp_path: Path, settings: dict[str, str], said: str
) -> None:
    configuration = configured(type="zookeeper", storageDir=str(tmp_path), **settings)
    found = leaders(configuration)
    assert found is not None
    with pytest.raises(UserError) as caught:
        open_stores(found, configuration)
    assert said in caught.value.message


@pytest.mark.parametrize("acl", ["open", "creator"])
def test_nodes_of_zookeeper_that_are_open_to_all_of_its_users_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, acl: str
) -> None:
    configuration = configured(
        type="zookeeper", storageDir=str(tmp_path), zookeeper_quorum="127.0.0.1:1", zookeeper_client_acl=acl,
        zookeeper_client_authorization="digest:ann:secret", **{"zookeeper_client_connection-timeout": "100 ms"},
    )  # fmt: skip
    found = leaders(configuration)
    assert found is not None
    with pytest.raises(ExternalError, match="could not use ZooKeeper"):
        open_stores(found, configuration)
    told = [text for text in caplog.messages if "all users of ZooKeeper" in text]
    assert len(told) == (acl == "open")
    assert [without_secrets(text) for text in told] == told


def test_a_zookeeper_that_is_not_there_and_a_library_that_is_missing_are_errors_that_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeout = {"zookeeper_client_connection-timeout": "300 ms"}
    settings = {"type": "zookeeper", "storageDir": str(tmp_path), "zookeeper_quorum": "127.0.0.1:1"}
    configuration = configured(**settings, **timeout)
    found = leaders(configuration)
    assert found is not None
    with pytest.raises(ExternalError, match=r'could not use ZooKeeper at "127\.0\.0\.1:1"') as caught:
        open_stores(found, configuration)
    assert caught.value.code == "SS6080"
    for name in ("kazoo", "botocore"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match="kazoo, by which") as missing:
        open_stores(found, configuration)
    assert missing.value.code == "SS6084"
    with pytest.raises(UserError, match="botocore, by which") as missing:
        S3Store("s3://bucket/x", S3Login())
    assert missing.value.code == "SS6084"


class Careless(http.server.BaseHTTPRequestHandler):
    """Writes whatever it is to expect."""

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("etag", '"1"')
        self.send_header("content-length", "0")
        self.end_headers()

    def do_DELETE(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def test_a_store_that_does_not_check_what_it_is_to_expect_is_refused() -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Careless) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        login = S3Login(endpoint, access_key="a", secret_key="b")
        with pytest.raises(UserError, match="writes an object that is not the one to expect") as caught:
            S3Store("s3://bucket/x", login)
        assert caught.value.code == "SS6083"
        server.shutdown()

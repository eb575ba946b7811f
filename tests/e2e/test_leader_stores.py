"""Each store that servers can share compares what it is to replace, and fences a leader that wakes too late."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from leader_stores import Settings, running_kubernetes, running_zookeeper, shared_store

from sqlstream.client.configuration import Configuration, load_configuration
from sqlstream.client.server.leaders.fenced_records import LeaderRecord
from sqlstream.client.server.leaders.leadership import Leadership, Stores
from sqlstream.client.server.leaders.record_store import Conflict
from sqlstream.client.server.leaders.stores import Leaders, leaders, open_stores
from sqlstream.errors import ExternalError, UserError

KINDS = ("filesystem", "zookeeper", "s3", "s3-moto", "kubernetes")
TIMES = {
    "high-availability.lease-duration": "1 s",
    "high-availability.kubernetes.leader-election.lease-duration": "1 s",
    "high-availability.kubernetes.leader-election.renew-deadline": "1 s",
    "high-availability.kubernetes.leader-election.retry-period": "200 ms",
}


@pytest.fixture(scope="module", params=KINDS)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    with (
        shared_store(request.param, tmp_path_factory.mktemp(request.param)) as (settings, variables),
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in variables.items():
            patch.setenv(name, value)
        yield settings | TIMES


def configured(shared: Settings, cluster_id: str) -> tuple[Leaders, Configuration]:
    words = [
        f"{key}={value}" for key, value in {**shared, "high-availability.cluster-id": cluster_id}.items()
    ]
    configuration = load_configuration(words=words)
    found = leaders(configuration)
    assert found is not None
    return found, configuration


def opened(shared: Settings, cluster_id: str) -> Stores:
    return open_stores(*configured(shared, cluster_id))


def test_a_record_is_replaced_only_where_it_is_the_one_to_expect(shared: Settings) -> None:
    stores = opened(shared, "records")
    for store in (stores.records, stores.large):
        assert store.read("1-a") is None
        first = store.write("1-a", b"one", None)
        second = store.write("1-a", b"two", first)
        for expected in (None, first, "7" * 32 if len(first) == 32 else "77"):
            with pytest.raises(Conflict):
                store.write("1-a", b"three", expected)
        with pytest.raises(Conflict):
            store.write("1-b", b"x", second)
        found = store.read("1-a")
        assert found is not None
        assert (found.data, found.version) == (b"two", second)
        for name in "cdefg":
            store.write(f"1-{name}", bytes(range(256)) * 100, None)
        assert sorted(store.keys()) == [f"1-{name}" for name in "acdefg"]
        for key in (*store.keys(), "1-none"):
            store.remove(key)
        assert store.keys() == []
    stores.close()


def test_of_many_writers_one_replaces_a_record(shared: Settings) -> None:
    """Each adds its numbers to what it has read until they are there: none is lost, and none is there twice."""
    counted = 15

    def add(first: int) -> None:
        stores = opened(shared, "race")
        for number in range(first, first + counted):
            while number not in (data := (found.data if (found := stores.records.read("1-a")) else b"")):
                with contextlib.suppress(Conflict, ExternalError):
                    stores.records.write(
                        "1-a", data + bytes([number]), found.version if found is not None else None
                    )
        stores.close()

    threads = [threading.Thread(target=add, args=(first,)) for first in (0, 50, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stores = opened(shared, "race")
    found = stores.records.read("1-a")
    assert found is not None
    assert sorted(found.data) == [first + n for first in (0, 50, 100) for n in range(counted)]
    stores.close()


def test_a_leader_that_stands_still_changes_nothing_when_it_wakes(shared: Settings) -> None:
    lost = threading.Event()
    times = configured(shared, "late")[0].times
    first = Leadership(opened(shared, "late"), times, lost.set)
    assert first.wait(threading.Event())
    first.change("job-a", {"graph": b"g" * 5000, "saved": b"1"})
    first._ended.set()
    first._thread.join()
    second = Leadership(opened(shared, "late"), times, lambda: None)
    assert second.wait(threading.Event())
    with pytest.raises(ExternalError, match="leads no longer"):
        first.change("job-a", {"saved": b"2"})
    assert lost.is_set()
    assert second.contents() == {"job-a": {"graph": b"g" * 5000, "saved": b"1"}}
    second.change("job-a", {"graph": None, "saved": None})
    assert second.contents() == {}
    second.stop()


def test_who_may_not_ask_kubernetes_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_kubernetes(tmp_path) as (_, account, variables):
        settings = {
            "high-availability.type": "kubernetes",
            "high-availability.storageDir": str(tmp_path / "shared"),
            "sqlstream.kubernetes.service-account": str(account),
        }
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        with pytest.raises(UserError, match=r"this is no pod with .*: the variable KUBERNETES_SERVICE_HOST"):
            opened(settings, "a")
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        (account / "token").write_text("another")
        with pytest.raises(ExternalError, match="status 401"):
            opened(settings, "a").records.read("leader")
        (account / "ca.crt").unlink()
        with pytest.raises(UserError, match="this is no pod with"):
            opened(settings, "a")


def test_nodes_of_zookeeper_are_those_of_the_user_that_made_them(tmp_path: Path) -> None:
    with running_zookeeper(tmp_path / "zookeeper") as quorum:
        settings = {
            "high-availability.type": "zookeeper",
            "high-availability.storageDir": str(tmp_path / "shared"),
            "high-availability.zookeeper.quorum": quorum,
            "high-availability.zookeeper.client.acl": "creator",
        }
        login = "high-availability.zookeeper.client.authorization"
        ours = opened({**settings, login: "digest:sqlstream:secret:word"}, "a")
        version = ours.records.write("leader", b"1", None)
        with pytest.raises(ExternalError, match="NoAuth"):
            opened({**settings, login: "digest:sqlstream:secret:word2"}, "a")
        again = opened({**settings, login: "digest:sqlstream:secret:word"}, "a")
        again.records.write("leader", b"2", version)
        again.close()
        found = ours.records.read("leader")
        assert found is not None
        assert found.data == b"2"
        ours.close()


def test_what_is_no_object_of_a_server_is_an_error_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_kubernetes(tmp_path) as (api, account, variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        settings = {
            "high-availability.type": "kubernetes",
            "high-availability.storageDir": str(tmp_path / "shared"),
            "sqlstream.kubernetes.service-account": str(account),
        }
        records = opened(settings, "a").records
        records.write("leader", msgspec.msgpack.encode(LeaderRecord(1, "h")), None)
        records.write("1-a", b"x", None)
        for known in api.objects.values():
            known.pop("binaryData", None)
            known["metadata"].pop("annotations", None)
        for key in ("leader", "1-a"):
            with pytest.raises(ExternalError, match="SS6081"):
                records.read(key)
        monkeypatch.setattr(api, "answer", lambda *_: (200, {"neither": "kind"}))
        for ask in (lambda: records.read("1-a"), lambda: records.write("1-b", b"x", None), records.keys):
            with pytest.raises(ExternalError, match="SS6081"):
                ask()

"""A server touches nothing that a later release has written, and names the release."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sqlstream import __version__
from sqlstream.client.server.data_directory import DataDirectory
from sqlstream.client.server.leaders.folder_store import FolderStore
from sqlstream.client.server.place_formats import check_record, put_record
from sqlstream.client.server.tokens import Tokens
from sqlstream.errors import ExternalError, UserError
from sqlstream.kept_formats import OF_A_PLACE, KeptFormat


def test_a_directory_says_what_formats_are_in_it(tmp_path: Path) -> None:
    path, shared = tmp_path / "data", tmp_path / "shared"
    shared.mkdir(0o700)
    with DataDirectory(str(path), str(shared)):
        pass
    for place in (path, shared):
        found = json.loads((place / "formats.json").read_text())
        assert found == {
            "release": __version__,
            "formats": {one.name: one.version for one in OF_A_PLACE},
            "version": 1,
        }
    # 0.1.0 writes none.
    (path / "formats.json").unlink()
    DataDirectory(str(path)).close()
    assert (path / "formats.json").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"formats": {"jobs": 3}}, "in version 3 of the format of jobs; sqlstream"),
        ({"formats": {"sessions of Mars": 1}}, "in version 1 of the format of sessions of Mars"),
        ({"formats": {}, "version": 2}, "in version 2 of the format of formats"),
    ],
)
def test_a_directory_of_a_later_release_is_left_alone(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    place = tmp_path / "data"
    DataDirectory(str(place)).close()
    written = json.dumps({"release": "0.7.0", "version": 1, **change})
    (place / "formats.json").write_text(written)
    for _ in range(2):
        with pytest.raises(UserError, match=r"written by sqlstream 0\.7\.0") as raised:
            DataDirectory(str(place))
        assert (raised.value.code, raised.value.hint) == ("SS6140", "use sqlstream 0.7.0 or a later release")
        assert said in raised.value.message
    assert (place / "formats.json").read_text() == written


def test_formats_that_cannot_be_read_stop_the_server(tmp_path: Path) -> None:
    DataDirectory(str(tmp_path / "data")).close()
    (tmp_path / "data" / "formats.json").write_text("{")
    with pytest.raises(ExternalError, match="could not read"):
        DataDirectory(str(tmp_path / "data"))


def test_an_older_version_names_the_last_release_that_reads_it() -> None:
    known = KeptFormat("jobs", 5, 3, {2: "0.4.2"})
    assert [known.reads(version) for version in (2, 3, 5, 6)] == [False, True, True, False]
    text, hint = known.refusal(2)
    assert "reads 3 to 5" in text
    assert hint == "use sqlstream 0.4.2"


def test_tokens_of_the_first_release_count_and_those_of_a_later_one_do_not(tmp_path: Path) -> None:
    tokens = Tokens(str(tmp_path))
    tmp_path.chmod(0o700)
    path = tmp_path / "tokens.json"
    token = tokens.ensure_first() and (tmp_path / "token").read_text().strip()
    kept = json.loads(path.read_text())
    assert kept["version"] == 1
    path.write_text(json.dumps(kept["tokens"]))
    assert Tokens(str(tmp_path)).principal_of(str(token)) is not None
    path.write_text(json.dumps({"version": 2, "users": []}))
    with pytest.raises(UserError, match="written in version 2 of the format of tokens"):
        Tokens(str(tmp_path)).all()


def test_records_that_servers_share_say_so_too(tmp_path: Path) -> None:
    store = FolderStore(str(tmp_path / "records"))
    check_record(store, "the store")
    put_record(store)
    put_record(store)
    check_record(store, "the store")
    found = store.read("formats")
    assert found is not None
    assert (json.loads(found.data)["release"], found.version) == (__version__, "1")
    later = json.dumps({"release": "0.7.0", "version": 1, "formats": {"jobs": 3}}).encode()
    version = store.write("formats", later, found.version)
    with pytest.raises(UserError, match=r'"the store" was written by sqlstream 0\.7\.0') as raised:
        check_record(store, "the store")
    assert raised.value.code == "SS6140"
    store.write("formats", b"{", version)
    with pytest.raises(ExternalError, match="could not read the record") as damaged:
        check_record(store, "the store")
    assert damaged.value.code == "SS6081"

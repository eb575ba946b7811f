"""What servers without a directory in common share of their cluster: sealed, the same for all, and changed by commands."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from sqlstream.client.configuration import load_configuration
from sqlstream.client.server.leaders import shared_secrets
from sqlstream.client.server.leaders.folder_store import FolderStore
from sqlstream.client.server.leaders.shared_secrets import SharedSecrets
from sqlstream.client.server.leaders.stores import leaders
from sqlstream.client.server.roles import Role
from sqlstream.client.server.standalone import StandaloneCluster
from sqlstream.client.server.tokens import Tokens
from sqlstream.errors import ExternalError, UserError

SECRET = b"a secret of more than 32 characters"


def opened(tmp_path: Path, secret: bytes = SECRET, cluster_id: str = "default") -> SharedSecrets:
    return SharedSecrets(FolderStore(str(tmp_path / "store")), secret, cluster_id)


def place(tmp_path: Path, name: str) -> Path:
    found = tmp_path / name
    found.mkdir(mode=0o700)
    return found


def make(directory: Path) -> None:
    StandaloneCluster(str(directory / "cluster")).make_secrets()
    Tokens(str(directory)).ensure_first()


def test_the_next_server_has_the_authority_and_the_tokens_of_the_first(tmp_path: Path) -> None:
    first, second = (place(tmp_path, name) for name in ("first", "second"))
    opened(tmp_path).settle(str(first), lambda: make(first))
    opened(tmp_path).settle(str(second), lambda: make(second))
    clusters = [StandaloneCluster(str(found / "cluster")) for found in (first, second)]
    assert clusters[0].join_token() == clusters[1].join_token()
    assert clusters[0].secret == clusters[1].secret
    token = (first / "token").read_text().strip()
    principal = Tokens(str(second)).principal_of(token)
    assert principal is not None
    assert principal.role is Role.ADMIN
    assert all(path.stat().st_mode & 0o077 == 0 for path in second.rglob("*"))


def test_of_two_that_begin_together_one_makes_the_authority(tmp_path: Path) -> None:
    places = [place(tmp_path, f"data{number}") for number in range(3)]
    together = threading.Barrier(len(places))

    def begin(found: Path) -> None:
        waits = [together.wait]

        def make_together() -> None:
            make(found)
            # The second time another one was first.
            for wait in waits:
                wait(60)
            waits.clear()

        opened(tmp_path).settle(str(found), make_together)

    threads = [threading.Thread(target=begin, args=(found,)) for found in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tokens = {StandaloneCluster(str(found / "cluster")).join_token() for found in places}
    assert len(tokens) == 1


def test_an_authority_that_was_copied_by_hand_becomes_that_of_the_store(tmp_path: Path) -> None:
    first, second = (place(tmp_path, name) for name in ("first", "second"))
    make(first)
    token = StandaloneCluster(str(first / "cluster")).join_token()
    opened(tmp_path).settle(str(first), lambda: None)
    opened(tmp_path).settle(str(second), lambda: make(second))
    assert StandaloneCluster(str(second / "cluster")).join_token() == token


def test_who_has_the_store_alone_reads_nothing_and_changes_nothing_unseen(tmp_path: Path) -> None:
    first = place(tmp_path, "first")
    opened(tmp_path).settle(str(first), lambda: make(first))
    kept = b"".join(path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file())
    for path in (first / "cluster").iterdir():
        assert path.read_bytes() not in kept
    assert b"PRIVATE KEY" not in kept
    # Another secret, another cluster's record, and one whose bytes were changed.
    store = FolderStore(str(tmp_path / "store"))
    for other in (opened(tmp_path, SECRET + b"!"), opened(tmp_path, cluster_id="other")):
        with pytest.raises(UserError, match="SS6171"):
            other.settle(str(place(tmp_path, f"x{time.monotonic_ns()}")), lambda: None)
    record = store.read("cluster")
    assert record is not None
    store.write("cluster", record.data[:-1] + bytes([record.data[-1] ^ 1]), record.version)
    with pytest.raises(UserError, match="SS6171"):
        opened(tmp_path).settle(str(place(tmp_path, "second")), lambda: None)


def test_what_a_command_changes_a_server_has_soon_and_a_second_change_at_once_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_secrets, "FOLLOW_S", 0.02)
    first = place(tmp_path, "first")
    shared = opened(tmp_path)
    shared.settle(str(first), lambda: make(first))
    shared.follow(str(first))
    before = StandaloneCluster(str(first / "cluster")).join_token()
    with opened(tmp_path).changing() as directory:
        added = Tokens(directory).add("eyes", Role.READ_ONLY)
        after = StandaloneCluster(f"{directory}/cluster").join_token(is_new=True)
        Tokens(directory).remove("admin")
    deadline_s = time.monotonic() + 60
    while (first / "token").exists() or Tokens(str(first)).principal_of(added) is None:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    assert StandaloneCluster(str(first / "cluster")).join_token() == after != before
    with pytest.raises(ExternalError, match="SS6172"):
        _change_twice_at_once(tmp_path)
    shared.close()


def _change_twice_at_once(tmp_path: Path) -> None:
    with opened(tmp_path).changing() as one:
        Tokens(one).add("hands", Role.OPERATOR)
        with opened(tmp_path).changing() as other:
            Tokens(other).add("feet", Role.OPERATOR)


def test_a_secret_is_a_private_file_of_enough_characters_for_servers_with_s3(tmp_path: Path) -> None:
    path = tmp_path / "secret"

    def refused(mode: int, text: bytes) -> str:
        path.write_bytes(text)
        path.chmod(mode)
        with pytest.raises(UserError, match="SS6173") as caught:
            shared_secrets._secret_of(str(path))
        return caught.value.message

    assert "open to other users" in refused(0o644, SECRET)
    assert "has 8 characters" in refused(0o600, b"tooshort\n")
    path.unlink()
    with pytest.raises(UserError, match="could not read"):
        shared_secrets._secret_of(str(path))
    words = ["high-availability.type=filesystem", f"high-availability.storageDir={tmp_path}"]
    with pytest.raises(UserError, match="secret-file"):
        leaders(load_configuration(words=[*words, f"high-availability.secret-file={path}"]))

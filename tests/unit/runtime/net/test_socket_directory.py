"""Processes of a cluster listen where no other user comes, and leave nothing behind."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pyarrow import flight

from sqlstream.errors import ExternalError
from sqlstream.runtime.net.flight import MESSAGES, FlightConnections, FlightServer, ServerCalls, encode
from sqlstream.runtime.net.socket_directory import (
    YOUNG_S,
    directory_of,
    flight_location,
    hold,
    new_address,
    remove_directory_without,
    remove_socket,
)

ROOT = Path(__file__).resolve().parents[4]
NOBODY = 65534
HOSTILE_BYTES = 300_000_000
GROWTH_BYTES_MAX = 20_000_000

# Sends all that it can to a server, as a user who has nothing to do with it.
ATTACK = f"""
import os, sys
from pyarrow import flight
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
client = flight.FlightClient(sys.argv[1])
options = flight.FlightCallOptions(timeout=60)
body = bytes({HOSTILE_BYTES})
for call in (
    lambda: list(client.do_action(flight.Action("messages", body), options)),
    lambda: client.get_flight_info(flight.FlightDescriptor.for_command(body), options),
    lambda: client.do_exchange(flight.FlightDescriptor.for_command(body), options)[1].read_chunk(),
):
    try:
        call()
    except flight.FlightUnavailableError:
        print("refused", flush=True)
"""


@pytest.fixture
def server() -> Iterator[FlightServer]:
    server = FlightServer("secret", ServerCalls(lambda data: None))
    yield server
    server.shutdown()


def test_only_the_user_who_runs_the_cluster_may_enter_the_directory(server: FlightServer) -> None:
    directory = os.stat(directory_of(server.address))
    assert stat.S_IMODE(directory.st_mode) == 0o700
    assert directory.st_uid == os.getuid()


def test_nothing_listens_on_the_network() -> None:
    before = network_listeners()  # Spark of another test may listen for its executors.
    server = FlightServer("secret", ServerCalls(lambda data: None))
    try:
        assert network_listeners() - before == set()
    finally:
        server.shutdown()


def network_listeners() -> set[tuple[str, int]]:
    ours = psutil.Process().net_connections("inet")
    return {tuple(c.laddr) for c in ours if c.status == psutil.CONN_LISTEN}


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.timeout(300)
def test_another_user_makes_a_server_take_nothing_into_memory(server: FlightServer) -> None:
    process = psutil.Process()
    before, peak, is_over = process.memory_info().rss, [0], threading.Event()

    def watch() -> None:
        while not is_over.wait(0.01):
            peak[0] = max(peak[0], process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        done = subprocess.run(
            [sys.executable, "-c", ATTACK, flight_location(server.address)],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    finally:
        is_over.set()
        watcher.join()
    assert done.stdout.split() == ["refused"] * 3, done.stderr
    assert peak[0] - before < GROWTH_BYTES_MAX


def test_a_stream_without_the_token_is_refused_at_its_headers(server: FlightServer) -> None:
    client = flight.FlightClient(flight_location(server.address))
    descriptor = flight.FlightDescriptor.for_command(b"no stream of ours")

    def read() -> None:
        client.do_exchange(descriptor, flight.FlightCallOptions(timeout=60))[1].read_chunk()

    # Only the client's first message names a stream, and it would be refused for that.
    with pytest.raises(flight.FlightUnauthenticatedError):
        read()
    client.close()


@pytest.mark.parametrize("given", [b"", b"Bearer ", b"Bearer secre", b"Bearer secret ", b"Bearer \xff\xfe"])
def test_what_is_not_the_token_is_refused(server: FlightServer, given: bytes) -> None:
    client = flight.FlightClient(flight_location(server.address))
    options = flight.FlightCallOptions(timeout=60, headers=[(b"authorization", given)])
    with pytest.raises((flight.FlightError, OSError)):
        list(client.do_action(flight.Action(MESSAGES, encode([])), options))
    client.close()


def test_the_directory_goes_with_the_server() -> None:
    server = FlightServer("secret", ServerCalls(lambda data: None))
    directory = Path(directory_of(server.address))
    assert len(list(directory.iterdir())) == 1
    server.shutdown()
    assert not directory.exists()


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory whose path leaves room for those of sockets, which one of pytest's may not under several workers."""
    with tempfile.TemporaryDirectory(prefix="sqlstream-test-", dir="/tmp") as directory:
        yield Path(directory)


def sent(received: list[bytes], parent: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Send a message to a server whose sockets are below that directory if they can be; where they are."""
    monkeypatch.setattr(tempfile, "tempdir", str(parent))
    server = FlightServer("secret", ServerCalls(received.append))
    connections = FlightConnections("secret")
    connections.send_messages(server.address, [b"m"], 20)
    connections.close()
    server.shutdown()
    assert list(parent.iterdir()) == []
    return Path(directory_of(server.address)).parent


@pytest.mark.parametrize("name", ["with space é", "%41", "a%2Fb%", "%2541"])
def test_any_name_of_the_directory_for_temporary_files_will_do(
    short_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (short_path / name).mkdir()
    received: list[bytes] = []
    assert sent(received, short_path / name, monkeypatch) == short_path / name
    assert received == [b"m"]


def test_a_path_that_is_too_long_for_sockets_is_avoided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ("x" * 120)).mkdir()
    received: list[bytes] = []
    assert sent(received, tmp_path / ("x" * 120), monkeypatch) == Path("/tmp")
    assert received == [b"m"]


def test_what_killed_clusters_have_left_is_removed_and_nothing_else(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(short_path))
    live = FlightServer("secret", ServerCalls(lambda data: None))
    names = (
        "sqlstream-dead0001",
        "sqlstream-file0001",
        "sqlstream-young001",
        "sqlstream-others",
        "other-dead0001",
    )
    for name in names:
        (short_path / name).mkdir()
        if name == "sqlstream-young001":
            continue
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(short_path / name / "s"))
    (short_path / "sqlstream-file0001" / "rows").write_text("kept")
    # Its owner holds it, although nobody listens yet.
    (short_path / "sqlstream-held0001").mkdir()
    held = hold(str(short_path / "sqlstream-held0001"))
    old_s = time.time() - YOUNG_S - 60
    os.utime(short_path / "sqlstream-held0001", (old_s, old_s))
    another = FlightServer("secret", ServerCalls(lambda data: None))
    left = {entry.name for entry in short_path.iterdir()}
    in_use = {Path(directory_of(server.address)).name for server in (live, another)}
    assert left == {*names[1:], "sqlstream-held0001", *in_use}
    os.close(held)
    for server in (live, another):
        server.shutdown()


def test_no_place_for_sockets_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(prefix: str, dir: str | None) -> str:
        raise PermissionError(13, "Permission denied", dir)

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    with pytest.raises(ExternalError, match="sockets of the cluster") as caught:
        FlightServer("secret", ServerCalls(lambda data: None))
    assert "TMPDIR" in caught.value.hint


def test_a_directory_whose_owner_was_killed_is_removed_by_who_comes_last(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    directory.mkdir()
    owner = FlightServer("secret", ServerCalls(lambda data: None), directory=str(directory))
    remove_directory_without(owner.address)
    assert directory.exists()
    dead = new_address(str(directory))
    remove_socket(dead)
    remove_directory_without(dead)
    assert not directory.exists()
    owner.shutdown()

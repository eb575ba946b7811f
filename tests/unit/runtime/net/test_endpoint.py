"""Where processes listen over TCP: plain on loopback alone, with certificates of both sides elsewhere."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import trustme
from certificate_files import TLS, certificates, settings
from pyarrow import flight

from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.net.endpoint import (
    Endpoint,
    TlsFiles,
    host_towards,
    internal_tls,
    job_manager_endpoint,
    read_identity,
)
from sqlstream.runtime.net.flight import FlightConnections, FlightServer, ServerCalls


@contextmanager
def server(endpoint: Endpoint, received: list[bytes]) -> Iterator[FlightServer]:
    found = FlightServer("secret", ServerCalls(received.append), endpoint=endpoint)
    try:
        yield found
    finally:
        found.shutdown()


def test_a_free_port_is_taken_and_part_of_the_address() -> None:
    received: list[bytes] = []
    with server(Endpoint("localhost", "127.0.0.1"), received) as found:
        assert found.address == f"grpc://localhost:{found.port}"
        assert found.port > 0
        with closing(FlightConnections("secret")) as connections:
            connections.send_messages(found.address, [b"hello"], 60)
    assert received == [b"hello"]


def test_a_call_without_the_token_is_refused_over_tcp_too() -> None:
    received: list[bytes] = []
    with (
        server(Endpoint("127.0.0.1", "127.0.0.1"), received) as found,
        closing(FlightConnections("guess")) as stranger,
        pytest.raises(flight.FlightUnauthenticatedError),
    ):
        stranger.send_messages(found.address, [b"hello"], 60)
    assert received == []


def test_a_port_that_is_taken_is_told() -> None:
    with server(Endpoint("127.0.0.1", "127.0.0.1"), []) as found:
        with pytest.raises(
            ExternalError, match=f'could not listen on "127.0.0.1" port {found.port}: address already in use'
        ) as error:
            FlightServer(
                "secret",
                ServerCalls(lambda data: None),
                endpoint=Endpoint("127.0.0.1", "127.0.0.1", found.port),
            )
        assert error.value.code == "SS6071"


def test_a_name_that_nobody_knows_is_told() -> None:
    with pytest.raises(
        ExternalError, match=r'could not listen on "no-such-host\.invalid" port 6123: .*name'
    ) as error:
        FlightServer(
            "secret",
            ServerCalls(lambda data: None),
            endpoint=Endpoint("no-such-host.invalid", "no-such-host.invalid", 6123),
        )
    assert error.value.code == "SS6071"


def test_processes_with_certificates_of_one_authority_reach_each_other(tmp_path: Path) -> None:
    files = certificates(tmp_path / "a", trustme.CA(), "127.0.0.1")
    received: list[bytes] = []
    with server(Endpoint("127.0.0.1", "127.0.0.1", 0, files), received) as found:
        assert found.address.startswith("grpc+tls://127.0.0.1:")
        with closing(FlightConnections("secret", read_identity(files))) as connections:
            connections.send_messages(found.address, [b"hello"], 60)
    assert received == [b"hello"]


def test_one_certificate_for_all_hosts_is_known_by_its_server_name(tmp_path: Path) -> None:
    files = certificates(tmp_path / "a", trustme.CA(), "cluster.internal")
    named = TlsFiles(files.certificate, files.key, files.authority, "cluster.internal")
    received: list[bytes] = []
    with server(Endpoint("127.0.0.1", "127.0.0.1", 0, files), received) as found:
        nameless = closing(FlightConnections("secret", read_identity(files)))
        with nameless as connections, pytest.raises(flight.FlightUnavailableError):
            connections.send_messages(found.address, [b"by host"], 5)
        with closing(FlightConnections("secret", read_identity(named))) as connections:
            connections.send_messages(found.address, [b"by name"], 5)
    assert received == [b"by name"]


def test_a_stranger_with_the_token_and_another_certificate_is_refused_before_its_call_is_read(
    tmp_path: Path,
) -> None:
    authority = trustme.CA()
    files = certificates(tmp_path / "a", authority, "127.0.0.1")
    others = certificates(tmp_path / "b", trustme.CA(), "127.0.0.1")
    # It trusts the cluster's authority, but has a certificate of another one.
    stranger = TlsFiles(others.certificate, others.key, files.authority)
    received: list[bytes] = []
    with server(Endpoint("127.0.0.1", "127.0.0.1", 0, files), received) as found:
        outsider = closing(FlightConnections("secret", read_identity(stranger)))
        with outsider as connections, pytest.raises(flight.FlightUnavailableError):
            connections.send_messages(found.address, [b"hello"], 60)
        # One without any certificate either.
        client = flight.FlightClient(found.address, tls_root_certs=Path(files.authority).read_bytes())
        with client, pytest.raises(flight.FlightUnavailableError):
            list(client.do_action(flight.Action("messages", b""), flight.FlightCallOptions(timeout=60)))
    assert received == []


def test_nothing_listens_unless_an_address_is_given() -> None:
    assert job_manager_endpoint({}) is None


def test_tls_without_an_address_is_refused() -> None:
    with pytest.raises(UserError, match="which have no TLS") as error:
        job_manager_endpoint({f"{TLS}enabled": "true"})
    assert error.value.code == "SS4073"


@pytest.mark.parametrize(
    "key", ["jobmanager.rpc.port", "jobmanager.bind-host", "taskmanager.host", "taskmanager.bind-host"]
)
def test_hosts_and_ports_without_an_address_are_refused(key: str) -> None:
    assert job_manager_endpoint({"jobmanager.rpc.port": "0", "taskmanager.host": ""}) is None
    with pytest.raises(UserError, match=f'option "{key}" is set, but') as error:
        job_manager_endpoint({key: "6123"})
    assert error.value.code == "SS4073"


def test_plain_tcp_is_refused_beyond_loopback() -> None:
    assert job_manager_endpoint({"jobmanager.rpc.address": "127.0.0.1"}) == Endpoint("127.0.0.1", "127.0.0.1")
    for config in (
        {"jobmanager.rpc.address": "10.1.2.3"},
        {"jobmanager.rpc.address": "127.0.0.1", "jobmanager.bind-host": "0.0.0.0"},
        {"jobmanager.rpc.address": "head.cluster.internal", "jobmanager.bind-host": "127.0.0.1"},
    ):
        with pytest.raises(UserError, match="without encryption") as error:
            job_manager_endpoint(config)
        assert error.value.code == "SS4071"


def test_addresses_to_bind_and_to_advertise_are_apart(tmp_path: Path) -> None:
    files = certificates(tmp_path, trustme.CA(), "head")
    config = settings(
        files,
        **{
            "jobmanager.rpc.address": "head",
            "jobmanager.bind-host": "0.0.0.0",
            "jobmanager.rpc.port": "6123",
            f"{TLS}server-name": "head",
        },
    )
    endpoint = job_manager_endpoint(config)
    assert endpoint is not None
    assert endpoint.location() == "grpc+tls://0.0.0.0:6123"
    assert endpoint.address(6123) == "grpc+tls://head:6123"
    assert internal_tls(config) == TlsFiles(files.certificate, files.key, files.authority, "head")


def test_an_address_of_ipv6_has_brackets() -> None:
    assert Endpoint("::1", "::1").address(7) == "grpc://[::1]:7"


@pytest.mark.parametrize(
    ("option", "content", "reason"),
    [
        ("ca-file", None, "is not set"),
        ("key-file", "nowhere.pem", "no such file"),
        ("key-file", "other.pem", "no private key without a password of the certificate"),
        ("ca-file", "empty.pem", "it holds no certificate"),
    ],
)
def test_a_wrong_file_is_told_before_anything_starts(
    tmp_path: Path, option: str, content: str | None, reason: str
) -> None:
    files = certificates(tmp_path, trustme.CA(), "127.0.0.1")
    other = certificates(tmp_path / "other", trustme.CA(), "127.0.0.1")
    (tmp_path / "other.pem").write_bytes(Path(other.key).read_bytes())
    (tmp_path / "empty.pem").write_text("")
    config = settings(files, **{"jobmanager.rpc.address": "127.0.0.1"})
    config[TLS + option] = str(tmp_path / content) if content else ""
    with pytest.raises(UserError, match=reason) as error:
        job_manager_endpoint(config)
    assert error.value.code == "SS4070"
    assert f"{TLS}{option}" in error.value.message


def test_a_host_is_known_by_the_address_from_which_it_reaches_the_job_manager() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert host_towards(f"grpc://127.0.0.1:{port}") == "127.0.0.1"
    with pytest.raises(ExternalError, match=f"could not reach the JobManager at 127.0.0.1:{port}") as error:
        host_towards(f"grpc+tls://127.0.0.1:{port}")
    assert error.value.code == "SS6070"

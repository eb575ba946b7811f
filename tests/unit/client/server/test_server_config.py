"""The server's settings, checked together."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.client.configuration import load_configuration
from sqlstream.client.gateway.options import GatewayOptions
from sqlstream.client.server.server_config import Endpoint, ServerConfig, file_roots, server_config
from sqlstream.errors import UserError


def config_of(*words: str) -> ServerConfig:
    return server_config(load_configuration(None, words, {"XDG_CONFIG_HOME": "/none"}))


def test_two_ports_of_flink_on_loopback_and_no_token_is_the_default() -> None:
    found = config_of()
    assert found.gateway == Endpoint("localhost", "127.0.0.1", (8083,))
    assert found.rest == Endpoint("localhost", "127.0.0.1", (8081,))
    assert (found.is_token_required, found.tls, found.file_roots) == (False, None, ("/",))
    assert found.limits == GatewayOptions()


def test_equal_ports_are_one_listener() -> None:
    assert config_of("rest.port=8083").rest is None
    assert config_of("rest.port=0", "sql-gateway.endpoint.rest.port=0").rest is None
    assert config_of("rest.port=0").rest is not None


@pytest.mark.parametrize(
    ("words", "is_required"),
    [
        (["sql-gateway.endpoint.rest.bind-address=0.0.0.0"], True),
        (["rest.bind-address=::"], True),
        (["rest.bind-address=a.host"], True),
        (["rest.bind-address=::1"], False),
        (["sqlstream.server.authentication=always"], True),
    ],
)
def test_a_token_is_required_as_soon_as_one_listener_is_beyond_loopback(
    words: list[str], is_required: bool
) -> None:
    assert config_of(*words).is_token_required is is_required


def test_one_port_listens_on_one_address() -> None:
    shared = "rest.port=8083"
    with pytest.raises(
        UserError, match=r'"rest\.bind-address" is "0\.0\.0\.0", but gateway and REST share a port'
    ):
        config_of("rest.bind-address=0.0.0.0", shared)
    both = ("rest.bind-address=0.0.0.0", "sql-gateway.endpoint.rest.bind-address=0.0.0.0", shared)
    assert config_of(*both).is_token_required
    # As in Flink's own config.yaml.
    assert config_of("rest.bind-address=localhost", shared).rest is None


def test_ports_are_taken_from_ranges() -> None:
    found = config_of("rest.bind-port=9000-9002,80").rest
    assert found is not None
    assert found.ports == (9000, 9001, 9002, 80)
    for text in ("9-8", "70000", "x", "1,,2"):
        with pytest.raises(UserError, match="takes ports"):
            config_of(f"rest.bind-port={text}")


def test_tls_needs_both_files(tmp_path: Path) -> None:
    pem = tmp_path / "c.pem"
    on, certificate = "security.ssl.rest.enabled=true", f"security.ssl.rest.certificate-file={pem}"
    with pytest.raises(UserError, match=r'"security.ssl.rest.certificate-file" is not set'):
        config_of(on)
    with pytest.raises(UserError, match=r"c\.pem\", which is no file"):
        config_of(on, certificate)
    pem.touch()
    with pytest.raises(UserError, match=r'"security.ssl.rest.key-file" is not set'):
        config_of(on, certificate)


def test_roots_are_directories_by_their_real_path(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert file_roots(f"{tmp_path}/a; {tmp_path}/b") == (f"{tmp_path}/a",)
    assert file_roots(" ") == ("/",)
    with pytest.raises(UserError, match="which is no directory"):
        file_roots(f"{tmp_path}/c")

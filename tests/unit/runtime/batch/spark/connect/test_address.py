"""Addresses of Spark Connect servers: what they may say, and what would not be safe."""

from __future__ import annotations

import pytest

from sqlstream.errors import UserError
from sqlstream.runtime.batch.spark.connect.address import ConnectAddress, connect_address, is_connect
from sqlstream.runtime.batch.spark.settings import spark_keys
from sqlstream.secrets import masked, without_secrets


def refused(given: dict[str, str]) -> UserError:
    with pytest.raises(UserError) as caught:
        spark_keys(given)
    return caught.value


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("sc://localhost", ConnectAddress("localhost", 15002)),
        ("sc://127.0.0.1:7/", ConnectAddress("127.0.0.1", 7)),
        ("sc://[::1]:7", ConnectAddress("::1", 7)),
        (
            "sc://node7:443/;use_ssl=true;token=a%3Bb;user_id=me",
            ConnectAddress("node7", 443, True, "a;b", (("user_id", "me"),)),
        ),
        ("sc://node7/;use_ssl=false", ConnectAddress("node7", 15002)),
    ],
)
def test_an_address_has_host_port_and_parameters(url: str, address: ConnectAddress) -> None:
    assert connect_address({"spark.remote": url}) == address
    assert connect_address({"spark.master": url}) == address
    assert spark_keys({"spark.remote": url}) == {"spark.remote": url}


def test_the_token_may_come_by_a_setting_or_by_spark_s_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"spark.remote": "sc://localhost", "spark.connect.authenticate.token": "one"}
    found = connect_address(given)
    assert found is not None
    assert found.token == "one"
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", "two")
    found = connect_address({"spark.remote": "sc://localhost"})
    assert found is not None
    assert found.token == "two"


def test_other_masters_are_no_servers() -> None:
    assert connect_address({"spark.master": "local[2]"}) is None
    assert not is_connect({})


@pytest.mark.parametrize(
    "url",
    [
        *("sc://", "sc://host:99999", "sc://host:x", "sc://me@host", "sc://host/path", "sc://host/;use_ssl"),
        *("sc://host/;use_ssl=yes", "local[2]", "http://host"),
        "sc://localhost/;session_id=9d4d1e7e-0a0f-4a5e-b1a8-0123456789ab",
    ],
)
def test_what_is_no_address_is_refused_without_being_shown(url: str) -> None:
    error = refused({"spark.remote": url})
    assert error.code == "SS4053"
    assert url not in error.message


def test_two_places_are_refused() -> None:
    error = refused({"spark.remote": "sc://localhost", "spark.master": "local[2]"})
    assert error.code == "SS4053"
    assert error.hint == "RESET 'spark.master', or RESET 'spark.remote'"


@pytest.mark.parametrize(
    "given", [{"spark.api.mode": "connect"}, {"spark.api.mode": "classic", "spark.remote": "sc://a"}]
)
def test_the_mode_of_the_api_follows_from_the_address(given: dict[str, str]) -> None:
    assert refused(given).code == "SS4053"


@pytest.mark.parametrize("key", ["spark.executor.memory", "spark.sql.warehouse.dir", "spark.app.name"])
def test_what_the_server_starts_with_is_refused(key: str) -> None:
    error = refused({"spark.remote": "sc://localhost", key: "x"})
    assert error.code == "SS4058"
    assert f'"{key}"' in error.message


@pytest.mark.parametrize(
    "url", ["sc://node7", "sc://node7/;token=geheim", "sc://node7/;token=geheim;use_ssl=false"]
)
def test_nothing_goes_to_another_host_in_plain_text_unless_it_is_asked_for(url: str) -> None:
    error = refused({"spark.remote": url})
    assert error.code == "SS4059"
    assert "geheim" not in error.message + error.hint


def test_a_token_within_an_address_is_masked_wherever_it_is_shown() -> None:
    url = "sc://node7/;use_ssl=true;token=geheim;user_id=me"
    assert masked("spark.remote", url) == "sc://node7/;use_ssl=true;token=******;user_id=me"
    assert without_secrets(f"SET 'spark.remote' = '{url}'; SELECT 1") == (
        "SET 'spark.remote' = 'sc://node7/;use_ssl=true;token=******;user_id=me'; SELECT 1"
    )
    assert without_secrets("it is geheim", f"SET 'spark.remote' = '{url}'") == "it is ******"
    assert str(connect_address({"spark.remote": url})) == "sc://node7:15002"

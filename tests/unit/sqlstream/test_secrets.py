"""What messages do not show."""

from __future__ import annotations

import pytest

from sqlstream.config import OPTIONS
from sqlstream.runtime.connectors import descriptors
from sqlstream.runtime.formats import descriptors as format_descriptors
from sqlstream.secrets import is_secret, query_without_secrets, without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("'path' = 'host=a password=hunter2 port=1'", "'path' = 'host=a password=****** port=1'"),
        ("'path' = 'postgresql://u:hunter2@a/db'", "'path' = 'postgresql://u:******@a/db'"),
        (
            "'url' = 'jdbc:postgresql://a/db?user=u&password=hunter2'",
            "'url' = 'jdbc:postgresql://a/db?user=u&password=******'",
        ),
        ("SELECT * FROM t WHERE password = hunter2", "SELECT * FROM t WHERE password = hunter2"),
    ],
)
def test_a_password_within_an_address_is_not_shown(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    "key",
    [
        "pasword",
        "passwrod",
        "passwort",
        "Passwd",
        "pwd",
        "db.pass",
        "s3.secert-key",
        "tokn",
        "s3.secrt",
        "api_kye",
        "credentials",
        "ssl.pass-word",
        "my.pass.word",
        "secret-acess-key",
        "s3.acces-key",
        "s3.acess.kye",
        "S3.AccesKey",
        "aws.acces-key-id",
        "fs.azure.acount.key",
        "privat_key",
        "servce-key",
        "auth-parms",
        "basic-auht",
        "sasl.jaas.confg",
        "http.heades",
        "pasphrase",
    ],
)
def test_a_misspelled_key_of_a_secret_hides_its_value(key: str) -> None:
    assert is_secret(key)
    assert without_secrets(f"WITH ('{key}' = 'hunter2')") == f"WITH ('{key}' = '******')"


def test_no_option_is_taken_for_a_misspelled_secret() -> None:
    known = {*OPTIONS, *(o.key for d in descriptors().values() for o in d.options)}
    known |= {f"{name}.{o.key}" for name, d in format_descriptors().items() for o in d.options}
    secrets = {"password", "s3.access-key", "s3.secret-key", "security.ssl.rest.key-password"}
    secrets |= {"fs.azure.account.key", "fs.password", "fs.private-key", "fs.token", "gs.access-token"}
    access = (
        "basic-auth.credentials-source",
        "basic-auth.user-info",
        "bearer-auth.credentials-source",
        "bearer-auth.token",
        "ssl.keystore.password",
    )
    confluent = ("avro-confluent", "debezium-avro-confluent", "json-registry", "protobuf-confluent")
    secrets |= {f"{name}.{key}" for name in confluent for key in access}
    headers = {f"http.{of}.header.*" for of in ("source", "source.lookup", "sink")}
    secrets |= headers | {f"gid.connector.{key}" for key in headers if key != "http.source.header.*"}
    secrets |= {"high-availability.zookeeper.client.authorization", "sqlstream.server.ldap.bind-password"}
    secrets.add("high-availability.secret-file")
    secrets |= {"sse.header.*", "websocket.header.*", "subscribe-message", "token"}
    assert {key for key in known if is_secret(key)} == secrets
    assert not any(map(is_secret, ("path", "passive", "url", "format", "broken", "select", "sector")))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("WITH ('password'=>'hunter2')", "WITH ('password'=>'******')"),
        ("WITH ('password':'hunter2')", "WITH ('password':'******')"),
        ("WITH ('password' = hunter2, 'a' = 'b')", "WITH ('password' = ******, 'a' = 'b')"),
        ("WITH ('a' = 'b', password = 'hunter2')", "WITH ('a' = 'b', password = '******')"),
        ('OPTIONS("password" = "hunter2")', 'OPTIONS("password" = "******")'),
        ("SET 'password'=hunter2", "SET 'password'=******"),
        ("CREATE USER u IDENTIFIED BY 'hunter2'", "CREATE USER u IDENTIFIED BY '******'"),
        ("CREATE SECRET s (SECRET 'hunter2')", "CREATE SECRET s (SECRET '******')"),
        ("('password' = 'hunter2', 'user' = 'hunter2')", "('password' = '******', 'user' = '******')"),
        ("SELECT 1 FROM t WHERE (token = 'abc')", "SELECT 1 FROM t WHERE (token = 'abc')"),
        ('could not read "/a/tokens.json": no such file', 'could not read "/a/tokens.json": no such file'),
    ],
)
def test_a_secret_is_found_however_its_pair_is_written(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_a_stored_query_keeps_its_conditions() -> None:
    query = "SELECT * FROM t /*+ OPTIONS('pasword'='hunter2') */ JOIN 's3://k:hunter2@b/a.csv' ON `token` = 'abcd'"
    shown = (
        "SELECT * FROM t /*+ OPTIONS('pasword'='******') */ JOIN 's3://k:******@b/a.csv' ON `token` = 'abcd'"
    )
    assert query_without_secrets(query) == shown


@pytest.mark.parametrize(
    "name", ["key", "sig", "X-Amz-Signature", "subscription-key", "code", "auth", "api_key"]
)
def test_parameters_of_addresses_that_are_keys_or_signatures_are_masked(name: str) -> None:
    text = f"'url' = 'https://example.org/x?page=2&{name}=S3&sort=asc'"
    assert without_secrets(text) == f"'url' = 'https://example.org/x?page=2&{name}=******&sort=asc'"

"""A server with TLS, tokens and sessions that idle out soon, as Python and the commands meet it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trustme
from command_harness import environment, sqlstream
from server_harness import RunningServer

import sqlstream as db
from sqlstream.client.connection import http_connection

IDLE_MS = 3000
CLOSED = "was idle for too long and is closed"
OPTIONS = {
    "sqlstream.server.authentication": "ALWAYS",
    "security.ssl.rest.enabled": "true",
    "sql-gateway.session.idle-timeout": f"{IDLE_MS} ms",
    "sql-gateway.session.check-interval": "100 ms",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("guarded")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    (folder / "chain.pem").write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    certificate.private_key_pem.write_to_path(str(folder / "key.pem"))
    files = {
        "security.ssl.rest.certificate-file": str(folder / "chain.pem"),
        "security.ssl.rest.key-file": str(folder / "key.pem"),
    }
    words = [word for key, value in {**OPTIONS, **files}.items() for word in ("-D", f"{key}={value}")]
    with RunningServer(folder / "data", *words) as running:
        yield running


def test_a_certificate_and_a_token_are_asked_for(server: RunningServer) -> None:
    with pytest.raises(db.OperationalError, match="certificate verify failed") as raised:
        db.connect(server.gateway)
    assert "ca_file" in raised.value.hint
    trusting = f"{server.gateway}?ca_file={server.directory.parent}/ca.pem"
    for url in (trusting, f"{trusting}&token=wrong"):
        with pytest.raises(db.OperationalError, match=f"{server.gateway} answered 401") as raised:
            db.connect(url)
        assert "token_file" in raised.value.hint
        with pytest.raises(db.OperationalError, match="answered 401"):
            asyncio.run(db.connect_async(url))


def test_a_connection_outlives_the_idle_timeout_of_its_session_and_one_without_signs_of_life_says_that_it_is_gone(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{server.gateway}?ca_file={server.directory.parent}/ca.pem&token_file={server.directory}/token"

    async def use_async(silent: ExitStack) -> db.Connection:
        async with await db.connect_async(url) as opened:
            cursor = await opened.cursor().execute("SET 'parallelism.default' = '2'")
            # The one that says nothing is opened last: when it is gone, the others would be, too.
            with monkeypatch.context() as patched:
                patched.setattr(
                    http_connection.HttpConnection,
                    "_beat",
                    lambda connection: None,
                )
                idle = silent.enter_context(db.connect(url))
            log = server.directory / "logs"
            while not any(CLOSED in path.read_text() for path in log.iterdir()):
                await asyncio.sleep(0.05)
            await cursor.execute("SET")
            assert ("parallelism.default", "2") in await cursor.fetchall()
            return idle

    monkeypatch.setattr(http_connection, "HEARTBEAT_S", IDLE_MS / 15_000)
    with ExitStack() as silent:
        with db.connect(url) as opened:
            cursor = opened.cursor().execute("SET 'parallelism.default' = '2'")
            idle = asyncio.run(use_async(silent))
            assert ("parallelism.default", "2") in cursor.execute("SET").fetchall()
        with pytest.raises(db.OperationalError, match="does not exist") as raised:
            idle.cursor().execute("SELECT 1")
        assert raised.value.code == "SS6020"


def test_commands_take_the_token_from_where_it_is_given(server: RunningServer, tmp_path: Path) -> None:
    url = f"{server.gateway}?ca_file={server.directory.parent}/ca.pem"
    token = (server.directory / "token").read_text().strip()
    bare = {"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    done = sqlstream("status", "--server", url, env=environment(**bare))
    assert (done.returncode, "answered 401" in done.stderr, "--token-file" in done.stderr) == (2, True, True)
    assert (
        sqlstream("status", env=environment(**bare, SQLSTREAM_URL=url, SQLSTREAM_TOKEN=token)).returncode == 0
    )
    words = ("status", "--server", url, "--token-file", str(server.directory / "token"))
    assert sqlstream(*words, env=environment(**bare)).returncode == 0
    own = {**bare, "SQLSTREAM_DATA_DIR": str(server.directory), "SQLSTREAM_URL": url}
    assert sqlstream("jobs", env=environment(**own)).returncode == 0

"""A server knows users of an issuer, of an LDAP directory and with certificates, in a role each."""

from __future__ import annotations

import base64
import json
import os
import signal
import ssl
from pathlib import Path

import httpx
import pytest
import trustme
from command_harness import environment, sqlstream
from ldap_server import BASE, LdapServer, is_installed
from oidc_issuer import OidcIssuer
from server_harness import RunningServer

ROLES = "sqlstream.server.users.roles=engineers=operator; guests=read-only; roots=admin"


def settings(*pairs: str) -> list[str]:
    return [word for pair in pairs for word in ("-D", pair)]


def audit_of(directory: Path) -> list[dict[str, object]]:
    files = sorted((directory / "audit").glob("*.log"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


@pytest.mark.timeout(300)
def test_tokens_of_an_issuer_open_sessions_in_the_role_of_their_groups(tmp_path: Path) -> None:
    with OidcIssuer() as issuer:
        words = settings(
            f"sqlstream.server.oidc.issuer={issuer.url}", "sqlstream.server.oidc.audience=sqlstream", ROLES,
            "sqlstream.server.users.failures.max-num=3",
        )  # fmt: skip
        with RunningServer(tmp_path / "data", *words) as server:
            create = "CREATE TABLE t (n BIGINT) WITH ('connector' = 'blackhole')"
            server.headers = {"authorization": f"Bearer {issuer.token(groups=['guests'])}"}
            assert server.execute(server.open_session(), "SELECT 1") == [[1]]
            with pytest.raises(AssertionError, match="read-only"):
                server.execute(server.open_session(), create)
            server.headers = {"authorization": f"Bearer {issuer.token(groups=['guests', 'engineers'])}"}
            session = server.open_session()
            server.execute(session, create)
            assert server.request("DELETE", "/cluster", rest=True).status_code == 403
            # The first token of the server counts as before.
            token = (tmp_path / "data" / "token").read_text().strip()
            server.headers = {"authorization": f"Bearer {token}"}
            assert ["t"] in server.execute(server.open_session(), "SHOW TABLES")
            # The command line takes the issuer's token as it takes others.
            found = sqlstream(
                "tables",
                "--server",
                server.gateway,
                env=environment(SQLSTREAM_TOKEN=issuer.token(groups=["guests"])),
            )
            assert (found.returncode, "t" in found.stdout.split()) == (0, True), found.stderr
            statuses = []
            for _ in range(5):
                server.headers = {"authorization": f"Bearer {issuer.token(aud='other')}"}
                statuses.append(server.request("GET", "/jobs/overview").status_code)
            assert statuses == [401, 401, 401, 429, 429]
            # Those who are remembered, and tokens of the server, are let in all the same.
            server.headers = {"authorization": f"Bearer {token}"}
            assert server.request("GET", "/jobs/overview").status_code == 200
            assert server.signal(signal.SIGTERM) == 0
    audit = audit_of(tmp_path / "data")
    assert any((r["event"], r["user"], r.get("role")) == ("statement", "oidc:ann", "operator") for r in audit)
    refused = [r["reason"] for r in audit if r["event"] == "refused" and r.get("status") in (401, 429)]
    assert refused[-1] == "too many failures"
    assert "no valid token of the issuer: InvalidClaimError" in refused


@pytest.mark.timeout(300)
@pytest.mark.skipif(not is_installed(), reason="there is no slapd: apt-get install slapd")
def test_users_of_a_directory_log_in_with_their_passwords(tmp_path: Path) -> None:
    with LdapServer(tmp_path / "ldap") as directory:
        secret = tmp_path / "sqlstream.yaml"
        secret.write_text("sqlstream.server.ldap.bind-password: readersecret\n")
        secret.chmod(0o600)
        words = settings(
            f"sqlstream.server.ldap.url={directory.url}", f"sqlstream.server.ldap.ca-file={directory.ca_file}",
            f"sqlstream.server.ldap.bind-dn=cn=reader,{BASE}", f"sqlstream.server.ldap.users.base=ou=people,{BASE}",
            f"sqlstream.server.ldap.groups.base=ou=groups,{BASE}", ROLES,
        )  # fmt: skip
        with RunningServer(tmp_path / "data", "--config", str(secret), *words) as server:
            server.headers = {"authorization": f"Basic {base64.b64encode(b'bob:bobsecret').decode()}"}
            session = server.open_session()
            server.execute(session, "CREATE TABLE t (n BIGINT) WITH ('connector' = 'blackhole')")
            found = sqlstream(
                "tables", "--server", server.gateway, env=environment(SQLSTREAM_TOKEN="eve:evesecret")
            )
            assert (found.returncode, "t" in found.stdout.split()) == (0, True), found.stderr
            found = sqlstream(
                "tables", "--server", server.gateway, env=environment(SQLSTREAM_TOKEN="eve:bobsecret")
            )
            assert found.returncode != 0
            directory.stop()
            # Who was let in a short while ago still is; others are told that nobody can be asked.
            assert server.request("GET", "/jobs/overview").status_code == 200
            server.headers = {"authorization": f"Basic {base64.b64encode(b'eve:other').decode()}"}
            assert server.request("GET", "/jobs/overview").status_code == 503
            assert server.signal(signal.SIGTERM) == 0
    assert "readersecret" not in server.errors()
    assert any(r["user"] == "ldap:bob" and r.get("role") == "operator" for r in audit_of(tmp_path / "data"))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("needed", ["true", "false"])
def test_services_are_known_by_their_certificates(tmp_path: Path, needed: str) -> None:
    ours, others = trustme.CA(), trustme.CA()
    issued = ours.issue_cert("localhost")
    files = {name: tmp_path / f"{name}.pem" for name in ("ca", "cert", "key", "ci", "stranger", "nobody")}
    ours.cert_pem.write_to_path(files["ca"])
    issued.cert_chain_pems[0].write_to_path(files["cert"])
    issued.private_key_pem.write_to_path(files["key"])
    for name, authority, identity in (
        ("ci", ours, "ci.example.org"), ("nobody", ours, "nobody.example.org"), ("stranger", others, "ci.example.org"),
    ):  # fmt: skip
        authority.issue_cert(identity).private_key_and_cert_chain_pem.write_to_path(files[name])
        os.chmod(files[name], 0o600)
    words = settings(
        "security.ssl.rest.enabled=true", f"security.ssl.rest.certificate-file={files['cert']}",
        f"security.ssl.rest.key-file={files['key']}", f"security.ssl.rest.ca-file={files['ca']}",
        f"security.ssl.rest.authentication-enabled={needed}",
        "sqlstream.server.certificates.roles=ci.example.org=read-only",
    )  # fmt: skip
    with RunningServer(tmp_path / "data", *words) as server:
        token = (tmp_path / "data" / "token").read_text().strip()

        def ask(name: str, **headers: str) -> int:
            context = ssl.create_default_context(cafile=str(files["ca"]))
            if name:
                context.load_cert_chain(files[name])
            with httpx.Client(verify=context, trust_env=False) as client:
                return client.get(f"{server.gateway}/jobs/overview", headers=headers).status_code

        assert ask("ci") == 200
        assert ask("nobody") == 401
        assert ask("nobody", authorization=f"Bearer {token}") == 200
        for name in ("", "stranger") if needed == "true" else ("stranger",):
            with pytest.raises(httpx.TransportError):
                ask(name, authorization=f"Bearer {token}")
        if needed == "false":
            assert ask("", authorization=f"Bearer {token}") == 200
        url = f"{server.gateway}?ca_file={files['ca']}&certificate_file={files['ci']}"
        found = sqlstream("tables", "--server", url)
        assert found.returncode == 0, found.stderr
        assert server.signal(signal.SIGTERM) == 0

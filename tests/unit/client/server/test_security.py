"""Every request passes host, origin, token, role and size before it is answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

from sqlstream.client.gateway.asker import AskedStatement, Asker
from sqlstream.client.http_api.errors import RestError
from sqlstream.client.server import security
from sqlstream.client.server.audit import AuditLog, StatementRules
from sqlstream.client.server.log_files import LogFiles
from sqlstream.client.server.places import PlaceLimits, Places
from sqlstream.client.server.roles import Role, request_effects
from sqlstream.client.server.security import AccessRules, Receive, Scope, Security, Send
from sqlstream.client.server.tokens import Tokens
from sqlstream.effects import Effects
from sqlstream.errors import UserError

NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class Served:
    """A secured application that answers with user, role and body. `tokens` by role."""

    def __init__(self, directory: Path, is_token_required: bool = False, body_bytes_max: int = 100) -> None:
        self.reached = 0
        self.store = Tokens(str(directory))
        self.tokens = {role: self.store.add(role.value, role) for role in Role}
        self._files = LogFiles(str(directory / "audit"), 100_000, 1, "audit")
        self._audit_path = directory / "audit" / "audit-000001.log"
        rules = AccessRules(
            is_token_required, NAMES, body_bytes_max, bodies_bytes_max=200, requests_per_user_max=2
        )
        self.sessions: dict[str, int] = {}
        self._security = Security(
            self._answer,
            rules,
            self.store,
            AuditLog(self._files, self._files),
            self.sessions.get,
            Places(PlaceLimits()),
        )

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.reached += 1
        body = (await receive())["body"]
        said = {"user": scope["state"]["user"], "role": scope["state"]["role"].value, "body": body.decode()}
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(said).encode()})

    def request(
        self, method: str = "GET", path: str = "/overview", parts: tuple[bytes, ...] = (b"",), **headers: str
    ) -> tuple[int, Any]:
        """Status and body; `(0, None)` when nothing was answered."""
        headers = {"host": "localhost:8083", **{k.replace("_", "-"): v for k, v in headers.items()}}
        return asyncio.run(self.ask(self.scope(method, path, headers), parts))

    @staticmethod
    def scope(method: str, path: str, headers: dict[str, str]) -> Scope:
        return {
            "type": "http",
            "method": method,
            "path": path,
            "client": ("10.0.0.9", 1),
            "headers": [(k.encode(), v.encode()) for k, v in headers.items() if v],
        }

    async def ask(
        self, scope: Scope, parts: tuple[bytes, ...], until: asyncio.Event | None = None
    ) -> tuple[int, Any]:
        """With `until`, the last part of the body comes then."""
        messages = [{"type": "http.request", "body": p, "more_body": True} for p in parts]
        messages[-1]["more_body"] = False
        if parts == (b"gone",):
            messages = [
                {"type": "http.request", "body": b"x", "more_body": True},
                {"type": "http.disconnect"},
            ]
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            if until is not None and len(messages) == 1:
                await until.wait()
            return messages.pop(0)

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await self._security(scope, receive, send)
        if not sent:
            return 0, None
        return sent[0]["status"], json.loads(sent[1]["body"])

    def audited(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._audit_path.read_text().splitlines()]


@pytest.fixture
def open_server(tmp_path: Path) -> Served:
    return Served(tmp_path)


@pytest.fixture
def closed_server(tmp_path: Path) -> Served:
    return Served(tmp_path, is_token_required=True)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8083", "[::1]:8083"])
def test_loopback_needs_no_token(open_server: Served, host: str) -> None:
    assert open_server.request(host=host) == (200, {"user": "local", "role": "admin", "body": ""})


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example:8083", "", "10.1.2.3", "[::1", "127.0.0.1.nip.io"]
)
def test_a_name_that_is_not_ours_is_refused_where_no_token_protects(open_server: Served, host: str) -> None:
    status, body = open_server.request(host=host)
    assert (status, body["errors"][0][:27], open_server.reached) == (421, "This server is not reached ", 0)


def test_with_tokens_any_name_will_do(closed_server: Served) -> None:
    token = closed_server.tokens[Role.ADMIN]
    assert closed_server.request(host="sql.example", authorization=f"Bearer {token}")[0] == 200


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "https://localhost.evil.example",
        "file://",
        "http://[",
        "http://localhost:9",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_pages_of_other_sites_are_refused(open_server: Served, origin: str, method: str) -> None:
    status, body = open_server.request(method, origin=origin)
    assert (status, body) == (403, {"errors": ["Requests from pages of other sites are refused."]})
    assert open_server.audited()[-1]["reason"] == f"origin {origin}"


def test_pages_of_other_sites_may_ask_whether_the_server_is_ready(closed_server: Served) -> None:
    """As the console of a server does that is lost."""
    assert closed_server.request("GET", "/ready", origin="http://other.example")[0] == 200
    assert closed_server.request("POST", "/ready", origin="http://other.example")[0] == 403


def test_our_own_page_is_let_in(closed_server: Served, tmp_path: Path) -> None:
    token = closed_server.tokens[Role.ADMIN]
    words = {"host": "sql.example:8081", "authorization": f"Bearer {token}"}
    assert closed_server.request("POST", origin="http://sql.example:8081", **words)[0] == 200
    assert closed_server.request("POST", origin="http://other.example", **words)[0] == 403


@pytest.mark.parametrize(
    ("authorization", "message"),
    [
        ("", "A token is required: send the header 'Authorization: Bearer TOKEN'."),
        ("Basic YTpi", "A token is required: send the header 'Authorization: Bearer TOKEN'."),
        ("Bearer ", "A token is required: send the header 'Authorization: Bearer TOKEN'."),
        ("Bearer wrong", "The token is not valid."),
    ],
)
def test_without_the_right_token_nothing_is_reached(
    closed_server: Served, authorization: str, message: str
) -> None:
    assert closed_server.request(authorization=authorization) == (401, {"errors": [message]})
    assert closed_server.reached == 0
    assert closed_server.audited()[-1]["status"] == 401
    assert "wrong" not in json.dumps({k: v for k, v in closed_server.audited()[-1].items() if k != "reason"})


@pytest.mark.parametrize(
    ("path", "status"), [("/", 200), ("/console/app.js", 200), ("/consoles", 401), ("/jobs", 401)]
)
def test_the_page_itself_needs_no_token(closed_server: Served, path: str, status: int) -> None:
    assert closed_server.request(path=path)[0] == status
    assert closed_server.request("POST", path)[0] == 401


def test_a_removed_token_counts_no_longer(closed_server: Served) -> None:
    token = closed_server.tokens[Role.OPERATOR]
    assert closed_server.request(authorization=f"bearer {token}")[1]["role"] == "operator"
    closed_server.store.remove("operator")
    assert closed_server.request(authorization=f"bearer {token}")[0] == 401


@pytest.mark.parametrize(
    ("role", "method", "path", "is_allowed"),
    [
        (Role.READ_ONLY, "GET", "/v1/jobs/overview", True),
        (Role.READ_ONLY, "POST", "/v3/sessions", True),
        (Role.READ_ONLY, "POST", "/sessions/s/statements", True),
        (Role.READ_ONLY, "DELETE", "/v2/sessions/s", True),
        (Role.READ_ONLY, "PATCH", "/v1/jobs/j", False),
        (Role.READ_ONLY, "GET", "/v1/jobs/j/yarn-cancel", False),
        (Role.OPERATOR, "GET", "/jobs/j/yarn-cancel", True),
        (Role.READ_ONLY, "POST", "/jobs/j/stop", False),
        (Role.READ_ONLY, "POST", "/sessionsx", False),
        (Role.READ_ONLY, "POST", "/v1/jobs/j/savepoints", False),
        (Role.READ_ONLY, "POST", "/jobs/j/checkpoints", False),
        (Role.READ_ONLY, "PUT", "/jobs/j/resource-requirements", False),
        (Role.READ_ONLY, "PATCH", "/jobs/j/rescaling", False),
        (Role.READ_ONLY, "POST", "/savepoint-disposal", False),
        (Role.READ_ONLY, "POST", "/jars/upload", False),
        (Role.READ_ONLY, "POST", "/applications/a/cancel", False),
        (Role.READ_ONLY, "GET", "/jobs/j/yarn-stop/", False),
        (Role.READ_ONLY, "DELETE", "/cluster", False),
        (Role.OPERATOR, "PATCH", "/jobs/j", True),
        (Role.OPERATOR, "DELETE", "/cluster", False),
        (Role.OPERATOR, "DELETE", "/v1/cluster", False),
        (Role.ADMIN, "DELETE", "/v1/cluster", True),
    ],
)
def test_a_role_allows_what_it_says(
    closed_server: Served, role: Role, method: str, path: str, is_allowed: bool
) -> None:
    status, _ = closed_server.request(method, path, authorization=f"Bearer {closed_server.tokens[role]}")
    assert status == (200 if is_allowed else 403)
    assert (role.permit.missing(request_effects(method, path)) is None) is is_allowed


def test_a_body_is_handed_on_whole_and_a_large_one_refused(open_server: Served) -> None:
    assert open_server.request("POST", parts=(b"a", b"b" * 99))[1]["body"] == "a" + "b" * 99
    large = (413, {"errors": ["The request's body is larger than 100 bytes."]})
    assert open_server.request("POST", parts=(b"a", b"b" * 100)) == large
    assert open_server.request("POST", content_length="101") == large
    assert open_server.reached == 1


def test_a_client_that_has_gone_is_not_answered(open_server: Served) -> None:
    assert open_server.request("POST", parts=(b"gone",)) == (0, None)
    assert open_server.reached == 0


def test_changes_are_audited_and_looks_are_not(closed_server: Served) -> None:
    words = {"authorization": f"Bearer {closed_server.tokens[Role.OPERATOR]}"}
    closed_server.request("GET", "/jobs", **words)
    closed_server.request("POST", "/v3/sessions/s/heartbeat", **words)
    closed_server.request("PATCH", "/jobs/j", **words)
    (record,) = closed_server.audited()
    assert {k: v for k, v in record.items() if k != "time"} == {
        "event": "request",
        "user": "operator",
        "role": "operator",
        "address": "10.0.0.9",
        "method": "PATCH",
        "path": "/jobs/j",
        "status": 200,
    }
    assert closed_server.tokens[Role.OPERATOR] not in json.dumps(record)


def test_a_session_is_open_to_the_role_that_opened_it_and_to_higher_ones(closed_server: Served) -> None:
    handle = "3B1F0C0E-0000-4000-8000-00000000000A"
    closed_server.sessions[handle.lower()] = Role.OPERATOR.level
    statuses = {
        (role, method, path): closed_server.request(method, path, authorization=f"Bearer {token}")[0]
        for role, token in closed_server.tokens.items()
        for method, path in (
            *(
                ("GET", f"/v4/sessions/{handle}"),
                ("GET", f"/sessions/{handle.lower()}/operations/o/result/0"),
            ),
            *(("POST", f"/v1/sessions/{handle}/statements"), ("DELETE", f"/v4/sessions/{handle}")),
        )
    }
    assert {role for (role, *_), status in statuses.items() if status == 403} == {Role.READ_ONLY}
    assert {role for (role, *_), status in statuses.items() if status == 200} == {Role.OPERATOR, Role.ADMIN}
    assert closed_server.audited()[0]["reason"] == "session of a higher role"
    reader = {"authorization": f"Bearer {closed_server.tokens[Role.READ_ONLY]}"}
    assert closed_server.request("GET", "/v4/sessions/another", **reader)[0] == 200


def test_a_statement_is_recorded_with_address_and_outcome(tmp_path: Path) -> None:
    files = LogFiles(str(tmp_path / "audit"), 100_000, 1, "audit")
    tokens = Tokens(str(tmp_path))
    tokens.add("eyes", Role.READ_ONLY)
    rules = StatementRules(AuditLog(files, files), tokens, is_token_required=True)
    asker = Asker("eyes", "10.0.0.9")
    statement = AskedStatement(asker, "s", "o", "SELECT 1")
    rules.announce(statement)
    rules.end(statement, "ERROR", UserError("SS2003", "no such column"))
    created = "CREATE TABLE t (a INT) WITH ('password' = 'hush')"
    with pytest.raises(UserError) as refused:
        Role.READ_ONLY.permit.require(Effects(objects=frozenset({"t"})))
    rules.end(AskedStatement(asker, "s", "p", created), "ERROR", refused.value)
    with pytest.raises(RestError, match="its token has been removed"):
        rules.announce(AskedStatement(Asker("gone", "10.0.0.8"), "s", "q", "SELECT 2"))
    lines = (tmp_path / "audit" / "audit-000001.log").read_text().splitlines()
    records = [{k: v for k, v in json.loads(line).items() if k != "time"} for line in lines]
    common = {"user": "eyes", "address": "10.0.0.9", "session": "s"}
    assert records == [
        common
        | {"event": "statement", "role": "read-only", "operation": "o", "statement": "SELECT 1"}
        | {"outcome": "ACCEPTED"},
        common | {"event": "outcome", "operation": "o", "outcome": "ERROR", "code": "SS2003"},
        common | {"event": "outcome", "operation": "p", "outcome": "ERROR", "code": "SS2037"},
        common
        | {"event": "refused", "role": "read-only", "status": 403, "outcome": "REFUSED"}
        | {"statement": "CREATE TABLE t (a INT) WITH ('password' = '******')"}
        | {
            "reason": "the role read-only may not create, alter and drop tables, views, functions, models and databases"
        },
        {"event": "refused", "user": "gone", "address": "10.0.0.8", "session": "s", "status": 403}
        | {"statement": "SELECT 2", "outcome": "REFUSED", "reason": "its token has been removed"},
    ]


def test_changes_by_requests_and_by_the_control_protocol_are_recorded(tmp_path: Path) -> None:
    audit = AuditLog(
        LogFiles(str(tmp_path), 100_000, 1, "audit"), LogFiles(str(tmp_path), 100_000, 1, "refused")
    )
    audit.control("CancelJob", "j1")
    audit.request("eyes", "admin", "10.0.0.9", "PATCH", "/jobs/j1", 202)
    audit.refused("", "10.0.0.8", "GET", "/" + "a" * 300, 401, "no token")
    kept = [(tmp_path / name).read_text().splitlines() for name in ("audit-000001.log", "refused-000001.log")]
    records = [{k: v for k, v in json.loads(line).items() if k != "time"} for line in (*kept[0], *kept[1])]
    local = {"event": "request", "user": "local", "role": "admin", "address": "control"}
    assert records == [
        local | {"method": "CancelJob", "path": "/jobs/j1"},
        {"event": "request", "user": "eyes", "role": "admin", "address": "10.0.0.9"}
        | {"method": "PATCH", "path": "/jobs/j1", "status": 202},
        {"event": "refused", "user": "", "address": "10.0.0.8", "method": "GET", "status": 401}
        | {"path": "/" + "a" * 199 + "…", "reason": "no token"},
    ]
    assert [len(lines) for lines in kept] == [2, 1]


def test_secrets_of_statements_are_masked_in_the_audit_log(tmp_path: Path) -> None:
    files = LogFiles(str(tmp_path), 10_000_000, 1, "audit")
    audit, text = AuditLog(files, files), "CREATE TABLE t (a INT) WITH ('password' = 'hush')"
    audit.statement(AskedStatement(Asker("a", "10.0.0.9"), "s", "o", text), "admin")
    audit.statement(AskedStatement(Asker("a", "10.0.0.9"), "s", "o", "x" * 100_000), "admin")
    first, second = (json.loads(line) for line in (tmp_path / "audit-000001.log").read_text().splitlines())
    assert first["statement"] == "CREATE TABLE t (a INT) WITH ('password' = '******')"
    assert len(second["statement"]) == 20_001


def test_requests_without_a_token_push_no_statement_out_of_the_audit(tmp_path: Path) -> None:
    files = LogFiles(str(tmp_path / "audit"), 10_000, 2, "audit")
    strangers = LogFiles(str(tmp_path / "audit"), 10_000, 2, "refused")
    audit = AuditLog(files, strangers)
    audit.statement(AskedStatement(Asker("a", "10.0.0.9"), "s", "o", "DROP TABLE t"), "admin")
    for _ in range(500):
        audit.refused("", "127.0.0.1", "GET", "/" + "a" * 60_000, 401, "no token")
    assert "DROP TABLE t" in (tmp_path / "audit" / "audit-000001.log").read_text()
    kept = sorted(path.name for path in (tmp_path / "audit").glob("refused-*"))
    assert len(kept) == 3
    assert all(path.stat().st_size <= 10_000 for path in (tmp_path / "audit").iterdir())


def test_bodies_under_way_have_a_bound_together_and_for_each_user(closed_server: Served) -> None:
    """Each of them is as large as one may be; that of another user has its room."""

    def post(role: Role) -> Scope:
        return closed_server.scope("POST", "/x", {"authorization": f"Bearer {closed_server.tokens[role]}"})

    async def ask() -> list[int]:
        ends = asyncio.Event()
        first = asyncio.create_task(closed_server.ask(post(Role.ADMIN), (b"x" * 90, b""), ends))
        await asyncio.sleep(0)
        second = await closed_server.ask(post(Role.ADMIN), (b"x" * 90,))
        other = await closed_server.ask(post(Role.OPERATOR), (b"x" * 90,))
        ends.set()
        again = [await first, await closed_server.ask(post(Role.ADMIN), (b"x" * 90,))]
        return [status for status, _ in (second, other, *again)]

    assert asyncio.run(ask()) == [503, 200, 200, 200]


def test_a_body_that_drips_is_given_up(closed_server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "BODY_TIMEOUT_S", 0.01)
    scope = closed_server.scope("POST", "/x", {"authorization": f"Bearer {closed_server.tokens[Role.ADMIN]}"})

    async def ask() -> int:
        never = asyncio.Event()
        status, _ = await closed_server.ask(scope, (b"x", b""), never)
        return status

    assert asyncio.run(ask()) == 408


def test_a_user_has_so_many_requests_under_way(closed_server: Served) -> None:
    def get(role: Role) -> Scope:
        return closed_server.scope("GET", "/x", {"authorization": f"Bearer {closed_server.tokens[role]}"})

    async def ask() -> list[int]:
        ends = asyncio.Event()
        held = [asyncio.create_task(closed_server.ask(get(Role.ADMIN), (b"",), ends)) for _ in range(2)]
        await asyncio.sleep(0)
        third = await closed_server.ask(get(Role.ADMIN), (b"",))
        other = await closed_server.ask(get(Role.READ_ONLY), (b"",))
        ends.set()
        found = [
            third,
            other,
            *[await each for each in held],
            await closed_server.ask(get(Role.ADMIN), (b"",)),
        ]
        return [status for status, _ in found]

    assert asyncio.run(ask()) == [429, 200, 200, 200, 200]

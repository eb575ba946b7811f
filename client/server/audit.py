"""The audit log: who ran which statement, changed which job, or was refused; and what the server does with each statement."""

from __future__ import annotations

import datetime
import logging

import msgspec

from sqlstream.client.gateway.asker import AskedStatement, Asker
from sqlstream.client.http_api.errors import RestError
from sqlstream.client.server.log_files import LogFiles
from sqlstream.client.server.roles import LOCAL, Role, of_level
from sqlstream.client.server.tokens import Tokens
from sqlstream.effects import NOT_PERMITTED
from sqlstream.errors import SqlStreamError
from sqlstream.secrets import without_secrets

logger = logging.getLogger(__name__)

STATEMENT_CHARACTERS_MAX = 20_000
PATH_CHARACTERS_MAX = 200


class AuditRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event; `time` is UTC.

    `event` is `statement` (before it is executed; `outcome` is ACCEPTED), `outcome` (that statement has been settled: `outcome`
    is the status of its operation, or REJECTED, and `code` that of its error), `request` (one that changes something) or
    `refused`. `status` is that of HTTP."""

    time: str
    event: str
    user: str
    role: str = ""
    address: str = ""
    method: str = ""
    path: str = ""
    status: int = 0
    session: str = ""
    operation: str = ""
    statement: str = ""
    outcome: str = ""
    code: str = ""
    reason: str = ""


class AuditLog:
    """Appends one JSON object per event; secrets in statements are masked. State: the open files.

    Refusals of requests without a valid token are in `strangers`, so that nobody without one can push the records of
    statements out of the bounded `files`."""

    def __init__(self, files: LogFiles, strangers: LogFiles) -> None:
        self._files = files
        self._strangers = strangers

    def statement(self, statement: AskedStatement, role: str, refusal: str = "") -> None:
        """A statement before it is executed, or the reason why it is not."""
        said, asker = without_secrets(statement.text), statement.asker
        if len(said) > STATEMENT_CHARACTERS_MAX:
            said = f"{said[:STATEMENT_CHARACTERS_MAX]}…"
        record = AuditRecord(
            _now(), "statement", asker.user, role, asker.address, session=statement.session, statement=said
        )
        if refusal:
            changes = {"event": "refused", "status": 403, "outcome": "REFUSED", "reason": refusal}
        else:
            changes = {"operation": statement.operation, "outcome": "ACCEPTED"}
        self._write(msgspec.structs.replace(record, **changes), self._files)

    def outcome(self, statement: AskedStatement, outcome: str, code: str = "") -> None:
        """How a statement that was accepted went on."""
        record = AuditRecord(
            _now(),
            "outcome",
            statement.asker.user,
            address=statement.asker.address,
            session=statement.session,
            operation=statement.operation,
            outcome=outcome,
            code=code,
        )
        self._write(record, self._files)

    def request(self, user: str, role: str, address: str, method: str, path: str, status: int) -> None:
        """A request that changed something, or tried to."""
        self._write(AuditRecord(_now(), "request", user, role, address, method, path, status), self._files)

    def control(self, message: str, job_id: str) -> None:
        """What a client of the control protocol changes. It runs as the server's user."""
        self.request(LOCAL.name, LOCAL.role.value, "control", message, f"/jobs/{job_id}", 0)

    def refused(self, user: str, address: str, method: str, path: str, status: int, reason: str) -> None:
        path = path if len(path) <= PATH_CHARACTERS_MAX else f"{path[:PATH_CHARACTERS_MAX]}…"
        record = AuditRecord(_now(), "refused", user, "", address, method, path, status, reason=reason)
        self._write(record, self._files if user else self._strangers)

    def _write(self, record: AuditRecord, files: LogFiles) -> None:
        if not files.write(f"{msgspec.json.encode(record).decode()}\n"):
            logger.error(
                "the audit log cannot be written: %s of %s is missing in it", record.event, record.user
            )


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class StatementRules:
    """The gateway's listener (StatementListener): whose token is gone is refused, and the audit log has the rest. Thread-safe; no
    state of its own."""

    def __init__(self, audit: AuditLog, tokens: Tokens, is_token_required: bool) -> None:
        self._audit = audit
        self._tokens = tokens
        self._is_token_required = is_token_required

    def announce(self, statement: AskedStatement) -> None:
        """Write a statement into the audit log; RestError 403 when the user's token has been removed. What a statement may do is
        required of the permit of who asks, as soon as the statement is bound."""
        role = self._role_of(statement.asker)
        reason = "" if role is not None else "its token has been removed"
        self._audit.statement(statement, _name(role), reason)
        if reason:
            raise RestError(403, f"The statement is not allowed: {reason}.")

    def end(self, statement: AskedStatement, outcome: str, error: SqlStreamError | None) -> None:
        code = error.code if error is not None else ""
        self._audit.outcome(statement, outcome, code)
        if error is not None and code == NOT_PERMITTED:
            role = self._role_of(statement.asker)
            self._audit.statement(statement, _name(role), error.message)

    def _role_of(self, asker: Asker) -> Role | None:
        if not self._is_token_required:
            return LOCAL.role
        # Others than tokens have been asked for with the request itself.
        return of_level(asker.level) if ":" in asker.user else self._tokens.role_of(asker.user)


def _name(role: Role | None) -> str:
    return role.value if role is not None else ""

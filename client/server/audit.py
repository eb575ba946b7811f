"""The audit log: who ran which statement, changed which job, or was refused."""

from __future__ import annotations

import datetime
import logging

import msgspec

from sqlstream.client.gateway.asker import AskedStatement
from sqlstream.client.server.log_files import LogFiles
from sqlstream.client.server.roles import LOCAL
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

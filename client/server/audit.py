"""The audit log: who ran which statement, changed which job, or was refused."""

from __future__ import annotations

import datetime
import logging

import msgspec

from client.server.log_files import LogFiles
from sqlstream.secrets import without_secrets

logger = logging.getLogger(__name__)

STATEMENT_CHARACTERS_MAX = 20_000
PATH_CHARACTERS_MAX = 200


class AuditRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event. `event` is `statement`, `request` (one that changes something) or `refused`. `time` is UTC."""

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
    reason: str = ""


class AuditLog:
    """Appends one JSON object per event; secrets in statements are masked. State: the open files.

    Refusals of requests without a valid token are in `strangers`, so that nobody without one can push the records of
    statements out of the bounded `files`."""

    def __init__(self, files: LogFiles, strangers: LogFiles) -> None:
        self._files = files
        self._strangers = strangers

    def statement(self, user: str, role: str, session: str, operation: str, text: str) -> None:
        """A statement before it is executed."""
        said = without_secrets(text)
        if len(said) > STATEMENT_CHARACTERS_MAX:
            said = f"{said[:STATEMENT_CHARACTERS_MAX]}…"
        self._write(
            AuditRecord(
                _now(), "statement", user, role, session=session, operation=operation, statement=said
            ),
            self._files,
        )

    def request(self, user: str, role: str, address: str, method: str, path: str, status: int) -> None:
        """A request that changed something, or tried to."""
        self._write(AuditRecord(_now(), "request", user, role, address, method, path, status), self._files)

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

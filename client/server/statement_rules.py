"""What the server does with each statement of its gateway: whose token is gone is refused, and the audit log has the rest."""

from __future__ import annotations

from sqlstream.client.gateway.asker import AskedStatement, Asker
from sqlstream.client.http_api.errors import RestError
from sqlstream.client.server.audit import AuditLog
from sqlstream.client.server.roles import LOCAL, Role, of_level
from sqlstream.client.server.tokens import Tokens
from sqlstream.effects import NOT_PERMITTED
from sqlstream.errors import SqlStreamError


class StatementRules:
    """The gateway's listener (StatementListener). Thread-safe; no state of its own."""

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

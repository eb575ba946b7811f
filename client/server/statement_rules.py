"""What the server does with each statement of its gateway: the role decides, and the audit log has it."""

from __future__ import annotations

from client.gateway.asker import Asker
from client.http_api.errors import RestError
from client.server.audit import AuditLog
from client.server.roles import LOCAL, Role, refused_statement
from client.server.tokens import Tokens


class StatementRules:
    """The gateway's listener (StatementListener). Thread-safe; no state of its own."""

    def __init__(self, audit: AuditLog, tokens: Tokens, is_token_required: bool) -> None:
        self._audit = audit
        self._tokens = tokens
        self._is_token_required = is_token_required

    def announce(self, asker: Asker, session: str, operation: str, text: str) -> None:
        """Write a statement into the audit log; RestError 403 when the user's role does not allow it."""
        role = self._role_of(asker.user)
        reason = refused_statement(role, text) if role is not None else "its token has been removed"
        known_as = role.value if role is not None else ""
        self._audit.statement(asker.user, known_as, asker.address, session, operation, text, reason)
        if reason:
            raise RestError(403, f"The statement is not allowed: {reason}.")

    def end(self, asker: Asker, session: str, operation: str, outcome: str, code: str) -> None:
        self._audit.outcome(asker.user, asker.address, session, operation, outcome, code)

    def _role_of(self, user: str) -> Role | None:
        return self._tokens.role_of(user) if self._is_token_required else LOCAL.role

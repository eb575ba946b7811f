"""What the server does with each statement of its gateway: whose token is gone is refused, and the audit log has the rest."""

from __future__ import annotations

from client.gateway.asker import Asker
from client.http_api.errors import RestError
from client.server.audit import AuditLog
from client.server.roles import LOCAL, Role
from client.server.tokens import Tokens
from sqlstream.effects import NOT_PERMITTED
from sqlstream.errors import SqlStreamError


class StatementRules:
    """The gateway's listener (StatementListener). Thread-safe; no state of its own."""

    def __init__(self, audit: AuditLog, tokens: Tokens, is_token_required: bool) -> None:
        self._audit = audit
        self._tokens = tokens
        self._is_token_required = is_token_required

    def announce(self, asker: Asker, session: str, operation: str, text: str) -> None:
        """Write a statement into the audit log; RestError 403 when the user's token has been removed. What a statement may do is
        required of the permit of who asks, as soon as the statement is bound."""
        role = self._role_of(asker.user)
        reason = "" if role is not None else "its token has been removed"
        self._audit.statement(
            asker.user, self._name_of(asker), asker.address, session, operation, text, reason
        )
        if reason:
            raise RestError(403, f"The statement is not allowed: {reason}.")

    def end(
        self,
        asker: Asker,
        session: str,
        operation: str,
        text: str,
        outcome: str,
        error: SqlStreamError | None,
    ) -> None:
        code = error.code if error is not None else ""
        self._audit.outcome(asker.user, asker.address, session, operation, outcome, code)
        if error is not None and code == NOT_PERMITTED:
            self._audit.statement(
                *(asker.user, self._name_of(asker), asker.address, session, operation, text, error.message)
            )

    def _name_of(self, asker: Asker) -> str:
        role = self._role_of(asker.user)
        return role.value if role is not None else ""

    def _role_of(self, user: str) -> Role | None:
        return self._tokens.role_of(user) if self._is_token_required else LOCAL.role

"""How many expressions one statement may have."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream import config
from sqlstream.errors import Span, UserError

EXPRESSIONS_MAX = "sqlstream.statement.max-expressions"


class StatementSize:
    """Counts the columns, operators and calls that are bound for one statement. State: that count, and the limit once read.

    A view counts each time it is read, so that short statements over nested views are bounded too. Literals do not count: they
    cost little, and VALUES has many.
    """

    def __init__(self) -> None:
        self._count = 0
        self._count_max: int | None = None

    def add(self, count: int, settings: Mapping[str, str], span: Span | None) -> None:
        """UserError SS3019 when the statement has more expressions than `settings` allow."""
        if self._count_max is None:
            self._count_max = int(config.get(settings, EXPRESSIONS_MAX))
        self._count += count
        if self._count > self._count_max:
            raise UserError(
                "SS3019",
                f"the statement has more than {self._count_max} columns, operators and calls",
                span=span,
                hint=f"split it, or raise '{EXPRESSIONS_MAX}'",
            )

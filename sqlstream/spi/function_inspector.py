"""What the planner asks of a Python object that CREATE FUNCTION names."""

from __future__ import annotations

from typing import Protocol

from sqlstream.function_ref import InspectedFunction


class FunctionInspector(Protocol):
    """Imports modules of users. One object serves one statement.

    Errors are SqlStreamError without a position: UserError SS2031 when the object cannot be imported, or is not what a decorator
    has made; SS2033 for files that cannot be shipped, SS2034 where Python functions are not allowed.
    """

    def inspect(self, module: str, attribute: str, files: tuple[str, ...]) -> InspectedFunction:
        """The declaration of `module.attribute`, which may be in one of the files."""

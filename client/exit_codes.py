"""What the exit code of a command says."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlstream.errors import SqlStreamError

EXIT_OK = 0
EXIT_FAILED = 1
"""Something that ran has failed: a job, a comparison of VERIFY, a server, a disk."""
EXIT_USAGE = 2
"""A word, a setting or a statement was refused before it ran."""
EXIT_SIGNALLED = 128
"""Added to the number of the signal that ended the command, as in a shell."""
EXIT_BROKEN_PIPE = EXIT_SIGNALLED + signal.SIGPIPE
"""Whoever read the output has closed it, so that the rest was not run or not shown."""


def exit_code_of(error: SqlStreamError) -> int:
    """The code of a command that an error ends.

    >>> from sqlstream.errors import UserError
    >>> exit_code_of(UserError("SS2003", 'column "b" does not exist'))
    2
    """
    from sqlstream.errors import UserError

    return EXIT_USAGE if isinstance(error, UserError) else EXIT_FAILED

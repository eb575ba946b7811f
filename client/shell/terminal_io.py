"""prompt-toolkit's input and output on the terminal of this process, without the escaping that printed data gets."""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import TYPE_CHECKING, TextIO, cast

from sqlstream.client.rendering.terminal import unescaped

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output


@functools.cache
def terminal_input() -> Input:
    from prompt_toolkit.input import create_input

    return create_input(sys.stdin)


def terminal_output() -> Output:
    """The output to the real terminal, also while standard output is replaced by one that prints above the prompt. It is the one
    of prompt-toolkit's session, where its replacement of standard output looks for it."""
    from prompt_toolkit.application.current import get_app_session

    with contextlib.redirect_stdout(cast(TextIO, unescaped(sys.__stdout__ or sys.stdout))):
        return get_app_session().output

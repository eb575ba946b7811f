"""prompt-toolkit's input and output on the terminal of this process, without the escaping that printed data gets."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, TextIO, cast

from client.terminal import unescaped

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output


@functools.cache
def terminal_input() -> Input:
    from prompt_toolkit.input import create_input

    return create_input(sys.stdin)


@functools.cache
def terminal_output() -> Output:
    """The output to the real terminal, also while standard output is replaced by one that prints above the prompt."""
    from prompt_toolkit.output import create_output

    return create_output(cast(TextIO, unescaped(sys.__stdout__ or sys.stdout)))

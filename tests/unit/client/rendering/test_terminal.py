"""Data that is printed cannot control a terminal."""

from __future__ import annotations

import io
from typing import cast

from client.rendering.terminal import EscapedTerminal, unescaped


def test_a_terminal_gets_escapes_and_keeps_its_lines() -> None:
    terminal = io.StringIO()
    escaped = EscapedTerminal(terminal)
    print("a\x1b]0;title\x07\tb\nc\u202ed\r", file=escaped)
    assert terminal.getvalue() == "a\\x1b]0;title\\x07\tb\nc\\u202ed\\r\n"
    assert unescaped(cast(io.StringIO, escaped)) is terminal

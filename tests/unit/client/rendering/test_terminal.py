"""Data that is printed cannot control a terminal."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import cast

import pexpect

from sqlstream.client.rendering.terminal import EscapedTerminal, unescaped


def test_a_terminal_gets_escapes_and_keeps_its_lines() -> None:
    terminal = io.StringIO()
    escaped = EscapedTerminal(terminal)
    print("a\x1b]0;title\x07\tb\nc\u202ed\r", file=escaped)
    assert terminal.getvalue() == "a\\x1b]0;title\\x07\tb\nc\\u202ed\\r\n"
    assert unescaped(cast(io.StringIO, escaped)) is terminal


FILLS_ITS_TERMINAL = """
import os, signal, sys
from sqlstream.client.rendering.terminal import kept_output

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
with kept_output():
    os.set_blocking(1, False)
    written = 0
    try:
        while written < 1_000_000:
            written += os.write(1, b"0123456789")
    except BlockingIOError:
        print("full", file=sys.stderr, flush=True)
    signal.sigwait({signal.SIGINT})
    os.set_blocking(1, True)
    os.write(1, b"=%d" % written)
"""


def test_ctrl_c_drops_nothing_of_what_a_terminal_has_not_shown_yet(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "told")
    (tmp_path / "fills.py").write_text(FILLS_ITS_TERMINAL)
    command = f"exec {sys.executable} {tmp_path}/fills.py 2>{tmp_path}/told"
    child = pexpect.spawn("/bin/sh", ["-c", command], timeout=60, echo=False)
    try:
        assert (tmp_path / "told").open().readline() == "full\n"
        child.sendintr()
        child.expect(pexpect.EOF)
        shown, _, written = child.before.partition(b"=")
        assert len(shown) == int(written) > 4096
    finally:
        child.close(force=True)

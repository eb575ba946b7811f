"""The line at the bottom of a terminal."""

from __future__ import annotations

import io
import threading
import time

import pytest

from sqlstream.client.rendering.live_line import LOCK_TIMEOUT_S, LiveLine

ERASE = "\r\033[K"


class Terminal(io.StringIO):
    """80 columns: it has no file descriptor that could be asked."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def test_each_text_takes_the_place_of_the_one_before() -> None:
    out = Terminal()
    line = LiveLine(out)
    line.draw("one")
    line.draw("two")
    line.erase()
    line.erase()
    assert out.getvalue() == f"{ERASE}one{ERASE}two{ERASE}"


def test_a_text_is_cut_so_that_it_never_wraps() -> None:
    out = Terminal()
    LiveLine(out).draw("x" * 80)
    assert out.getvalue() == ERASE + "x" * 78 + "…"


def test_other_text_is_written_on_an_empty_line_and_the_line_is_drawn_again_below() -> None:
    out = Terminal()
    line = LiveLine(out)
    line.draw("busy")
    with line.cleared(out):
        out.write("a row\n")
    assert out.getvalue() == f"{ERASE}busy{ERASE}a row\n{ERASE}busy"
    with pytest.raises(KeyError), line.cleared(out):
        raise KeyError
    assert out.getvalue().endswith(f"{ERASE}{ERASE}busy")


def test_without_a_line_nothing_is_erased() -> None:
    out = Terminal()
    with LiveLine(out).cleared(out):
        out.write("a row\n")
    assert out.getvalue() == "a row\n"


def test_a_file_or_a_terminal_without_codes_gets_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    file, terminal = io.StringIO(), Terminal()
    LiveLine(file).draw("busy")
    line = LiveLine(terminal)
    line.draw("busy")
    with line.cleared(file):
        pass
    monkeypatch.setenv("TERM", "dumb")
    dumb = Terminal()
    LiveLine(dumb).draw("busy")
    assert (file.getvalue(), terminal.getvalue(), dumb.getvalue()) == ("", f"{ERASE}busy", "")


def test_a_terminal_that_blocks_another_thread_is_not_waited_for_long() -> None:
    out = Terminal()
    line = LiveLine(out)
    is_held, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with line.cleared(out):
            is_held.set()
            may_end.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait(60)
    started_s = time.monotonic()
    # The other thread holds the terminal until this one has come back.
    line.draw("never")
    assert time.monotonic() - started_s >= LOCK_TIMEOUT_S
    may_end.set()
    thread.join(60)
    line.draw("again")
    assert out.getvalue() == f"{ERASE}again"


def test_a_line_that_stays_is_written_anywhere_and_above_the_live_one() -> None:
    file, terminal = io.StringIO(), Terminal()
    LiveLine(file).say("a note")
    line = LiveLine(terminal)
    line.draw("busy")
    line.say("a note")
    assert file.getvalue() == "a note\n"
    assert terminal.getvalue() == f"{ERASE}busy{ERASE}a note\n{ERASE}busy"

"""What becomes of the lines of a child process."""

from __future__ import annotations

import pytest

from sqlstream.runtime.providers.child_output import LINES_KEPT, ChildOutput, print_errors


def test_the_last_lines_of_a_child_that_is_not_up_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    output = ChildOutput(print_errors)
    for number in range(LINES_KEPT + 3):
        output.add(f"line {number}\n".encode())
    output.add(b"no end \xff")
    assert capsys.readouterr().err == ""
    lines = output.last_words().splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("line 4", "no end \ufffd", LINES_KEPT)


def test_a_child_that_is_up_speaks_for_itself(capsys: pytest.CaptureFixture[str]) -> None:
    output = ChildOutput(print_errors)
    output.add(b"before\n")
    output.release()
    output.add(b"after\n")
    assert capsys.readouterr().err == "before\nafter\n"
    assert output.last_words() == ""

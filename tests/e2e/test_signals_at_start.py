"""A signal while the command still loads ends it without a traceback, whatever it is loading."""

from __future__ import annotations

import signal
import sys

import pytest
from command_harness import run_to_end

# What an installed `sqlstream` script does, in a process that signals itself when it comes to load a certain module.
START = """
import os, sys

class Finalised:
    def __del__(self):
        signal_me()

class Signals:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            {how}

def signal_me():
    os.kill(os.getpid(), {number})

def hide_the_signal():
    try:
        signal_me()
    except KeyboardInterrupt:
        raise ImportError("the library could not be loaded") from None

sys.meta_path.insert(0, Signals())
sys.argv = ["sqlstream", "run", "-"]
from sqlstream.client.start import command
sys.exit(command())
"""

both = pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGINT, "interrupted\n"), (signal.SIGTERM, "terminated\n")]
)


def run(module: str, number: int, how: str = "signal_me()") -> tuple[int, str, str]:
    """Exit code, output and errors."""
    program = START.format(module=module, number=int(number), how=how)
    done = run_to_end(
        [sys.executable, "-c", program], stdin="SELECT COUNT(*) AS one FROM (VALUES (1)) AS t(x);"
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("module", ["sqlstream.client.main", "argparse"])
def test_before_there_is_anything_to_clean_up_a_signal_ends_the_process(module: str, number: int) -> None:
    assert run(module, number) == (-number, "", "")


@both
@pytest.mark.parametrize(
    "module", ["sqlstream.client.commands.run", "numpy", "sqlglot", "sqlstream.runtime.embedded"]
)
def test_while_a_command_loads_a_signal_unwinds_it(module: str, number: int, said: str) -> None:
    assert run(module, number) == (128 + number, "", said)


@both
def test_a_library_that_raises_an_error_of_its_own_instead_does_not_change_the_end(
    number: int, said: str
) -> None:
    assert run("sqlglot", number, how="hide_the_signal()") == (128 + number, "", said)


@both
def test_a_signal_that_comes_while_a_destructor_runs_is_not_lost(number: int, said: str) -> None:
    assert run("sqlglot", number, how="Finalised()") == (128 + number, "", said)

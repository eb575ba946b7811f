"""The plugin of pytest that comes with sqlstream, with the fixture `process_function`. A conftest.py names it:

pytest_plugins = ["sqlstream.testing.pytest_plugin"]
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sqlstream.testing.process_harness import ProcessHarness


@pytest.fixture
def process_function() -> Iterator[Callable[..., ProcessHarness]]:
    """Makes a `ProcessHarness` of a class, which is closed at the end of the test: process_function(Numbered, "k STRING",
    partition_by="k")."""
    from sqlstream.testing.process_harness import ProcessHarness

    with contextlib.ExitStack() as opened:
        yield lambda *given, **named: opened.enter_context(ProcessHarness(*given, **named))

"""A pytest plugin that records which functions of the product each test file calls, and how long that takes.

Its process is traced, not its children: tests that start the command are run for every fault that the others let through.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from hypothesis import settings

EXAMPLES = 10
_SETTINGS = "_hypothesis_internal_use_settings"
DIRECTORY = "SQLSTREAM_MUTANTS_CALLS"
_ROOT = str(Path(__file__).resolve().parents[2]) + os.sep
_PRODUCT = tuple(_ROOT + name + os.sep for name in ("sqlstream", "planner", "runtime", "client"))


class Recorder:
    """State: the test file under way, and for each test file its seconds, the code objects that it called, and whether it
    failed: what a failed one called is not written, so that it is recorded again."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)
        self._called: dict[str, set[CodeType]] = defaultdict(set)
        self._current: set[CodeType] = set()
        self._failed: set[str] = set()

    def trace(self, frame: FrameType, event: str, argument: Any) -> None:
        self._current.add(frame.f_code)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """A few examples of a property call what all of them call."""
        for item in items:
            test = getattr(item, "obj", None)
            known = getattr(test, _SETTINGS, None)
            if known is not None:
                function = getattr(test, "__func__", test)
                setattr(function, _SETTINGS, settings(known, max_examples=min(known.max_examples, EXAMPLES)))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        path = str(item.path).removeprefix(_ROOT)
        started_s = time.monotonic()
        self._current = self._called[path]
        sys.settrace(self.trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            self._seconds[path] += time.monotonic() - started_s

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid.partition("::")[0])

    def pytest_sessionfinish(self) -> None:
        for path in self._seconds.keys() - self._failed:
            seconds = self._seconds[path]
            codes = [c for c in self._called[path] if c.co_filename.startswith(_PRODUCT)]
            called = sorted({f"{c.co_filename.removeprefix(_ROOT)}:{_function(c)}" for c in codes})
            place = Path(os.environ[DIRECTORY]) / (path.replace("/", "~") + ".json")
            place.write_text(json.dumps({"seconds": seconds, "called": called}))


def _function(code: CodeType) -> str:
    """The function around: a lambda or a comprehension is a part of the one that it stands in."""
    parts = code.co_qualname.split(".")
    while parts and parts[-1].startswith("<"):
        parts.pop()
    return ".".join(parts)


def pytest_configure(config: pytest.Config) -> None:
    # With workers, each of them records; the one that shares out the work calls nothing.
    if os.environ.get(DIRECTORY) and (
        hasattr(config, "workerinput") or not config.getoption("numprocesses", None)
    ):
        recorder = Recorder()
        config.pluginmanager.register(recorder, "recorder-of-calls")
        threading.settrace(recorder.trace)

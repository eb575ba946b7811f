"""A pytest plugin that records which functions of the product each test file calls, and how long that takes.

Processes that a test starts write theirs themselves (sitecustomize.py); they are put together here.
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
from sitecustomize import DIRECTORY, PRODUCT, ROOT, SUFFIX, function_of

EXAMPLES = 10
_SETTINGS = "_hypothesis_internal_use_settings"


class Recorder:
    """State: the test file under way, and for each test file its seconds, the code objects that it called, and whether it
    failed: what a failed one called is marked, so that it is recorded again."""

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
        path = str(item.path).removeprefix(ROOT)
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
        for path, seconds in self._seconds.items():
            called = {function_of(c) for c in self._called[path] if c.co_filename.startswith(PRODUCT)}
            directory, name = Path(os.environ[DIRECTORY]), path.replace("/", "~")
            for of_process in directory.glob(f"{name}~*{SUFFIX}"):
                called.update(of_process.read_text().splitlines())
            ending = "failed" if path in self._failed else "json"
            (directory / f"{name}.{ending}").write_text(
                json.dumps({"seconds": seconds, "called": sorted(called)})
            )


def pytest_configure(config: pytest.Config) -> None:
    # With workers, each of them records; the one that shares out the work calls nothing.
    if os.environ.get(DIRECTORY) and (
        hasattr(config, "workerinput") or not config.getoption("numprocesses", None)
    ):
        recorder = Recorder()
        config.pluginmanager.register(recorder, "recorder-of-calls")
        threading.settrace(recorder.trace)

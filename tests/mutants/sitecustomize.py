"""Loaded by every Python process that a recorded test starts, since it lies on PYTHONPATH: writes which functions it calls.

Each function is written when it is called first, because processes are killed, and leave without an end.
"""

from __future__ import annotations

import os
import sys
import threading
from types import CodeType, FrameType
from typing import Any

DIRECTORY = "MUTANTS_CALLS"
TEST = "PYTEST_CURRENT_TEST"
"""Set by pytest while a test runs, and so known to what the test starts; pytest's own processes start before it is."""

SUFFIX = ".called"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
PRODUCT = ROOT + "sqlstream" + os.sep
LINKED = tuple(PRODUCT + name + os.sep for name in ("planner", "runtime", "client"))
"""Parts of the package that stand beside it in the tree."""


def function_of(code: CodeType) -> str:
    """`path:function`, where a lambda or a comprehension is a part of the function that it stands in."""
    parts = code.co_qualname.split(".")
    while parts and parts[-1].startswith("<"):
        parts.pop()
    linked = code.co_filename.startswith(LINKED)
    return f"{code.co_filename.removeprefix(PRODUCT if linked else ROOT)}:{'.'.join(parts)}"


def _write_calls(directory: str, test: str) -> None:
    name = test.partition("::")[0].replace("/", "~")
    place = os.path.join(directory, f"{name}~{os.getpid()}{SUFFIX}")
    seen: dict[int, CodeType] = {}

    def trace(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if id(code) in seen:
            return
        seen[id(code)] = code
        if code.co_filename.startswith(PRODUCT):
            # Opened anew for each, since some processes close all files that they did not open.
            file = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(file, f"{function_of(code)}\n".encode())
            os.close(file)

    threading.settrace(trace)
    sys.settrace(trace)


if os.environ.get(DIRECTORY) and os.environ.get(TEST):
    _write_calls(os.environ[DIRECTORY], os.environ[TEST])

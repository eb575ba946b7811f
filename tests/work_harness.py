"""How much a piece of code does, whatever the machine: the calls that it makes, and of what."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1].resolve()
PACKAGES = ("sqlstream", "planner", "runtime", "client")


def calls_of(function: Callable[[], object]) -> int:
    """How many functions are called until `function` returns, those of C among them."""
    count = 0

    def counted(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of one function of ours by another: where both stand (`planner/bind/sink.py`), and their names."""

    caller: str
    caller_name: str
    place: str
    name: str


def calls_between(function: Callable[[], object], is_counted: Callable[[FrameType], bool]) -> set[Call]:
    """The calls of our own named functions until `function` returns, of those frames that `is_counted` accepts.

    What modules, comprehensions and lambdas call is called by the function around them."""
    found: set[Call] = set()
    places: dict[str, str] = {}

    def place_of(frame: FrameType | None) -> str:
        """Empty for code of others, and for what is no named function."""
        if (
            frame is None
            or not frame.f_code.co_flags & inspect.CO_OPTIMIZED
            or frame.f_code.co_name[0] == "<"
        ):
            return ""
        name = frame.f_code.co_filename
        if name not in places:
            path = Path(name).resolve()
            is_ours = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in PACKAGES
            places[name] = str(path.relative_to(ROOT)) if is_ours else ""
        return places[name]

    def noted(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or not (place := place_of(frame)) or not is_counted(frame):
            return
        caller = frame.f_back
        while caller is not None and not place_of(caller):
            caller = caller.f_back
        name = frame.f_code.co_qualname
        found.add(Call(place_of(caller), caller.f_code.co_qualname if caller else "", place, name))

    before = sys.getprofile()
    sys.setprofile(noted)
    try:
        function()
    finally:
        sys.setprofile(before)
    return found

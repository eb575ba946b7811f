"""Which tests can see a fault, those first that most likely do."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

from faults import Fault

STAGES = ("tests/unit/", "tests/golden/", "tests/property/", "tests/simulation/", "tests/differential/")
"""Directories of tests whose calls are recorded, quick ones first."""

COMMANDS = "tests/e2e/"
"""Tests that start processes come last. Where nothing is recorded of one, it is chosen for every fault."""

_SHARE_MIN = 0.1
"""Counted for a test file that calls nothing of the faulty one by itself, as kernels are called."""

_UNKNOWN_S = 60.0
"""For a test file whose time is not known."""


def is_test(name: str, directories: tuple[str, ...] = STAGES) -> bool:
    """Whether a file of the tree holds tests."""
    return name.startswith(directories) and Path(name).name.startswith("test_") and name.endswith(".py")


class Selection:
    """`calls`: for each test file its seconds and the `path:function` that it called, as `calls.py` records them.
    `has_commands`: tests that start processes are chosen too. `seconds_max`: of these, and of the others, those that come first
    are chosen that take no longer together, since functions that every statement calls are reached by nearly all."""

    def __init__(
        self,
        root: Path,
        files: list[str],
        calls: dict[str, dict[str, Any]],
        *,
        has_commands: bool = True,
        seconds_max: float = math.inf,
    ) -> None:
        self._tests = [name for name in files if is_test(name, STAGES)]
        self._commands = [name for name in files if has_commands and is_test(name, (COMMANDS,))]
        tests = [*self._tests, *self._commands]
        self._seconds = {name: calls[name]["seconds"] for name in tests if name in calls}
        self._called = {name: frozenset(calls.get(name, {}).get("called", ())) for name in tests}
        self._called_files = {
            name: Counter(called.partition(":")[0] for called in self._called[name]) for name in tests
        }
        self._importers = _importers_of_kernels(root, files)
        self._root, self._files = root, files
        self._seconds_max = seconds_max

    def tests_for(self, fault: Fault) -> list[str]:
        """Test files, to be run in this order until one fails."""
        reaching = sorted(self._reaching(fault, self._tests), key=lambda t: self._rank(t, fault.path))
        unknown = [t for t in self._commands if not self._called[t]]
        starting = sorted(self._reaching(fault, self._commands), key=lambda t: self._rank(t, fault.path))
        return [*self._affordable(reaching), *self._affordable(starting), *unknown]

    def _affordable(self, tests: list[str]) -> list[str]:
        chosen, seconds = [], 0.0
        for test in tests:
            if seconds + self._seconds.get(test, 0.0) <= self._seconds_max:
                seconds += self._seconds.get(test, 0.0)
                chosen.append(test)
        return chosen

    def seconds(self, tests: list[str]) -> float:
        """How long they took when they were recorded."""
        return float(sum(self._seconds.get(test, _UNKNOWN_S) for test in tests))

    def _reaching(self, fault: Fault, tests: list[str]) -> set[str]:
        if fault.path in self._importers:
            near = self._importers[fault.path] | {fault.path}
            reaching = {t for t in tests if t in near or near & self._called_files[t].keys()}
        else:
            place = f"{fault.path}:{fault.function}"
            reaching = {t for t in tests if fault.function and place in self._called[t]}
            if not reaching:
                # At module level (a constant, a default of a dataclass), or new since the calls were recorded.
                near = {fault.path, *_importers_of(fault.path, self._root, self._files)}
                reaching = {t for t in tests if t in near or near & self._called_files[t].keys()}
        same_name = {t for t in tests if _stem(t) == Path(fault.path).stem}
        return reaching | same_name

    def _rank(self, test: str, path: str) -> tuple[bool, bool, float]:
        """The test of the file itself, those of its directory, then those that spend least time beside it: the seconds of a
        test file, divided by the share of the faulty file in the functions that it calls."""
        is_near = str(Path(test).parent).endswith(str(Path(path).parent))
        called = self._called_files[test]
        share = (called[path] + _SHARE_MIN) / (called.total() + 1)
        return (_stem(test) != Path(path).stem, not is_near, self._seconds.get(test, 0.0) / share)


def _stem(test: str) -> str:
    return Path(test).stem.removeprefix("test_")


def _importers_of(path: str, root: Path, files: list[str]) -> set[str]:
    """The files that import names of a module."""
    module = "sqlstream." + path.removesuffix(".py").removesuffix("/__init__").removeprefix(
        "sqlstream/"
    ).replace("/", ".")
    pattern = re.compile(rf"^\s*from {re.escape(module)} import", re.M)
    return {name for name in files if name.endswith(".py") and pattern.search((root / name).read_text())}


def _importers_of_kernels(root: Path, files: list[str]) -> dict[str, set[str]]:
    """For each file of kernels, whose calls cannot be recorded, the files that import it, also through other kernels."""
    kernels = {name for name in files if name.startswith("runtime/kernels/") and name.endswith(".py")}
    imports = {
        name: {
            f"runtime/kernels/{module.replace('.', '/')}.py"
            for module in _kernels_imported((root / name).read_text())
        }
        for name in files
        if name.endswith(".py") and name.startswith(("runtime/", "tests/unit/"))
    }
    importers = {kernel: {name for name in imports if kernel in imports[name]} for kernel in kernels}
    for _ in kernels:
        for kernel in kernels:
            for other in importers[kernel] & kernels:
                importers[kernel] = importers[kernel] | importers[other]
    return importers


def _kernels_imported(source: str) -> set[str]:
    """Modules of sqlstream.runtime.kernels that a file imports, whole or names of them.

    >>> sorted(_kernels_imported("from sqlstream.runtime.kernels import rank, take as t\\n"))
    ['rank', 'take']
    >>> sorted(_kernels_imported("from sqlstream.runtime.kernels.keys.index import find\\n"))
    ['keys.index', 'keys.index.find']
    """
    imports = re.findall(r"^\s*from sqlstream\.runtime\.kernels\b([.\w]*) import (.+)$", source, re.M)
    places = {module.removeprefix(".") for module, _ in imports if module}
    names = {
        f"{module}.{name.split()[0]}"
        for module, listed in imports
        for name in listed.split(",")
        if name.strip()
    }
    return places | {name.removeprefix(".") for name in names}


def digest_of(root: Path, test: str) -> str:
    """Of a test file and of what all tests share: when it changes, its calls are recorded anew."""
    shared = sorted((root / "tests").glob("*.py"))
    text = b"".join(p.read_bytes() for p in [*shared, root / test])
    return hashlib.sha256(text).hexdigest()[:16]


def read_calls(place: Path) -> dict[str, dict[str, Any]]:
    """What is known of earlier runs."""
    return json.loads(place.read_text()) if place.exists() else {}

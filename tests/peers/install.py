"""Puts the peers into environments of their own, beside the project's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

FLINK_VERSION = "2.3.0"
PYCLINK_VERSION = "0.12.2"
DBT_FLINK_VERSION = "1.3.11"
GATEWAY_CLIENT_VERSION = "0.1.6"
JAVA_MINIMUM = 17
DUCKDB_VERSION = "1.5.5"
"""The latest for which PyPI has DuckDB's extensions as packages."""
_INSTALL_TIMEOUT_S = 1_200

# Flink's jars and the bridge to its JVM: what else PyFlink asks for serves Python functions, which no query here has.
_FLINK = (f"apache-flink=={FLINK_VERSION}", f"apache-flink-libraries=={FLINK_VERSION}", "py4j==0.10.9.7")
_PYCLINK = (f"pyclink=={PYCLINK_VERSION}",)
_DBT = (f"dbt-flink-adapter=={DBT_FLINK_VERSION}",)
_DUCKDB = (
    f"duckdb=={DUCKDB_VERSION}",
    f"duckdb-extension-sqlite-scanner=={DUCKDB_VERSION}",
    f"duckdb-extension-postgres-scanner=={DUCKDB_VERSION}",
)
_GATEWAY_CLIENT = (f"py-flink-sql-gateway=={GATEWAY_CLIENT_VERSION}",)


class PeerError(Exception):
    """A peer cannot be installed, started or asked; the message says what to do about it."""


def install_flink(folder: Path) -> Path:
    """The Python of the environment that has Flink."""
    return _environment(folder / "flink", _FLINK, ("--no-deps",))


def install_pyclink(folder: Path) -> Path:
    """The Python of the environment that has pyclink."""
    return _environment(folder / "pyclink", _PYCLINK, ())


def install_gateway_client(folder: Path) -> Path:
    """The Python of the environment that has py-flink-sql-gateway."""
    return _environment(folder / "gateway_client", _GATEWAY_CLIENT, ())


def install_duckdb(folder: Path) -> Path:
    """The directory with the packages of a DuckDB that has extensions for SQLite and Postgres, to be put on PYTHONPATH."""
    environment = _environment(folder / "duckdb", _DUCKDB, ()).parent.parent
    (packages,) = environment.glob("lib/python*/site-packages")
    return packages


def install_dbt(folder: Path) -> Path:
    """The Python of the environment that has dbt-flink-adapter. PeerError where no Python is old enough: the dbt that it asks
    for (1.3) has dataclasses that Python 3.11 refuses."""
    names = ("python3.10", "python3.9", "python3.8")
    managed = [str(p) for p in Path.home().glob(".pyenv/versions/3.10.*/bin/python3.10")]
    # A version manager puts names on the path that lead nowhere: those of Pythons that are not chosen.
    found = next((path for path in (*managed, *map(shutil.which, names)) if path and _runs(path)), None)
    if not found:
        raise PeerError("dbt-flink-adapter runs on Python 3.8 to 3.10 alone, which are not here")
    return _environment(folder / "dbt", _DBT, (), found)


def _runs(python: str) -> bool:
    return subprocess.run([python, "--version"], capture_output=True, timeout=60, check=False).returncode == 0


def flink_home(python: Path) -> Path:
    """The directory of Flink's distribution inside the environment."""
    (home,) = python.parent.parent.glob("lib/python*/site-packages/pyflink")
    return home


def find_java() -> tuple[str, str]:
    """The `java` to use and its version; PeerError when there is none, or one that is too old."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = f"install Java {JAVA_MINIMUM} or later (on Debian: apt-get install openjdk-17-jre-headless)"
    if java is None or not Path(java).is_file():
        raise PeerError(f"Flink needs Java, which is not here: {advice}, or leave Flink out with --engines")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    version = java_version(told)
    if int(version.split(".")[0]) < JAVA_MINIMUM:
        raise PeerError(f"Flink needs Java {JAVA_MINIMUM} or later, and this is {version}: {advice}")
    return java, version


def java_version(told: str) -> str:
    """The version in what `java -version` prints; 1.8 is 8."""
    found = re.search(r'version "(?:1\.)?([\d.]+)', told)
    if found is None:
        raise PeerError(f"java -version does not tell its version: {told.strip()}")
    return found.group(1)


def _environment(
    directory: Path,
    requirements: tuple[str, ...],
    options: tuple[str, ...],
    interpreter: str = sys.executable,
) -> Path:
    python = directory / "bin" / "python"
    if all(_is_installed(directory, requirement) for requirement in requirements):
        return python
    print(f"installing {', '.join(requirements)} …", file=sys.stderr, flush=True)
    _run([interpreter, "-m", "venv", "--clear", str(directory)])
    pip = [
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        *options,
        *requirements,
    ]
    _run(pip)
    return python


def _is_installed(directory: Path, requirement: str) -> bool:
    name, _, version = requirement.partition("==")
    pattern = f"lib/python*/site-packages/{name.replace('-', '_')}-{version}.dist-info"
    return any(directory.glob(pattern))


def _run(command: list[str]) -> None:
    what = " ".join(command[1:4])
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise PeerError(f"{what} did not end within {_INSTALL_TIMEOUT_S} s") from None
    if done.returncode != 0:
        raise PeerError(f"{what} failed: {done.stderr.strip()[-2000:]}")

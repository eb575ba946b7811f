"""A Postgres server of our own on a free port of loopback: Debian's, which `make setup` installs where it may."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_harness import free_port

PASSWORD = "it's \\ secret"
USER = "shop"
MISSING = "Postgres is not here: install it (on Debian: apt-get install postgresql)"


def binaries() -> Path | None:
    """The directory of the server's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    named = shutil.which("initdb")
    return found[-1].parent if found else Path(named).resolve().parent if named else None


class Postgres:
    """The server; `sql` runs statements as its superuser. State: its directory, and whether it runs."""

    def __init__(self, programs: Path, directory: Path) -> None:
        self._programs = programs
        self._data = directory / "data"
        self.port = free_port()
        password = directory / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        words = ("-A", "scram-sha-256", "-U", USER, f"--pwfile={password}", "--no-sync", "--locale=C.UTF-8")
        self._as_user("initdb", "-D", self._data, *words)

    def start(self) -> None:
        settings = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c log_statement=all"
            " -c fsync=off"
        )
        self._as_user("pg_ctl", "-D", self._data, "-o", settings, "-l", self._data / "log", "-w", "start")

    def stop(self) -> None:
        self._as_user("pg_ctl", "-D", self._data, "-m", "immediate", "-w", "stop")

    def sql(self, *statements: str) -> str:
        """What the last query gives, one line a row and | between the values."""
        commands = [word for statement in statements for word in ("-c", statement)]
        done = subprocess.run(
            [self._programs / "psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-d", "postgres",
             "-v", "ON_ERROR_STOP=1", "-qAt", *commands],
            env={**os.environ, "PGPASSWORD": PASSWORD},
            check=False, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @property
    def log(self) -> str:
        return (self._data / "log").read_text()

    def options(self, table: str, **others: str) -> dict[str, str]:
        """The options of a table of connector `jdbc`."""
        named = {key.replace("__", ".").replace("_", "-"): value for key, value in others.items()}
        url = f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"
        return {"url": url, "table-name": table, "username": USER, "password": PASSWORD, **named}

    def _as_user(self, command: str, *words: object) -> None:
        """Postgres does not run as root."""
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        subprocess.run(
            [*(user if getpass.getuser() == "root" else []), str(self._programs / command), *map(str, words)],
            check=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd="/",
        )


@contextlib.contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Fails the test without Postgres, unless SQLSTREAM_TEST_WITHOUT_POSTGRES says that it may be skipped."""
    programs = binaries()
    if programs is None:
        if os.environ.get("SQLSTREAM_TEST_WITHOUT_POSTGRES"):
            pytest.skip(MISSING)
        pytest.fail(f"{MISSING}, or set SQLSTREAM_TEST_WITHOUT_POSTGRES=1 to skip these tests")
    directory = Path(tempfile.mkdtemp(prefix="sqlstream-postgres-"))
    if getpass.getuser() == "root":
        shutil.chown(directory, "postgres")
    try:
        server = Postgres(programs, directory)
        server.start()
        try:
            yield server
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):
                server.stop()
    finally:
        shutil.rmtree(directory)


def sql_options(options: dict[str, Any]) -> str:
    """The options as they stand in WITH."""
    written = {"connector": "jdbc", **options}
    return ", ".join(f"'{key}' = '{value.replace(chr(39), chr(39) * 2)}'" for key, value in written.items())

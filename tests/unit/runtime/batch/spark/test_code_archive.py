"""The code that goes to Spark's workers: ours, and that of packages which bring connectors and functions."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from command_harness import ROOT, TIMEOUT_S, environment
from installed_packages import GUEST, install, write_entry_points

WRITE = "import sys; from sqlstream.runtime.batch.spark.code_archive import write_code_archive as write; write(sys.argv[1])"
USE = """
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.formats import format_of
from sqlstream.spi.packages import all_guests
import sqlstream, sqlstream_ledger.functions
print(sqlstream.__file__)
print(sqlstream_ledger.functions.__file__)
print(connector("ledger").descriptor.identifier, format_of("pipes").descriptor.identifier)
print(*sorted(guest.label for guest in all_guests()), sep="\\n")
"""


def run(code: str, *words: str, path: list[Path]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**environment(), "PYTHONPATH": os.pathsep.join(map(str, path))},
        cwd=path[0],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_worker_with_the_archive_alone_finds_what_packages_bring(tmp_path: Path) -> None:
    packages = install(GUEST, tmp_path / "packages")
    # One with machine code is left to be installed on the workers.
    write_entry_points(packages, "native", "1", {"sqlstream.connectors": {"native": "native_guest:Native"}})
    (packages / "native_guest").mkdir()
    (packages / "native_guest" / "__init__.py").write_text("")
    (packages / "native_guest" / "core.so").write_bytes(b"")
    run(WRITE, str(tmp_path / "code.zip"), path=[ROOT, packages])
    with zipfile.ZipFile(tmp_path / "code.zip") as archive:
        archive.extractall(tmp_path / "worker")
    assert not (tmp_path / "worker" / "native_guest").exists()
    assert run(USE, path=[tmp_path / "worker"]) == [
        str(tmp_path / "worker/sqlstream/__init__.py"),
        str(tmp_path / "worker/sqlstream_ledger/functions.py"),
        "ledger pipes",
        'catalog "shelf" of package sqlstream-ledger 0.3.0',
        'connector "ledger" of package sqlstream-ledger 0.3.0',
        'connector "native" of package native 1',
        'format "pipes" of package sqlstream-ledger 0.3.0',
        'function "cents" of package sqlstream-ledger 0.3.0',
        'function "spread" of package sqlstream-ledger 0.3.0',
    ]

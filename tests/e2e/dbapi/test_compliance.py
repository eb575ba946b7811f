"""PyPI's dbapi-compliance 1.15.0, whole, for both ways to connect."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import unittest
from pathlib import Path
from types import ModuleType

import pytest

import sqlstream

VERSION = "1.15.0"
FOLDER = Path(__file__).resolve().parents[3] / ".peers" / "dbapi-compliance"
INSTALL_TIMEOUT_S = 120
# Defined twice in the suite, or left to drivers to write: what they ask for is in test_contract.py.
LEFT_TO_DRIVERS = ("test_nextset", "test_setoutputsize")


def suite() -> ModuleType:
    """The module `dbapi20`, installed when it is not there."""
    path = FOLDER / "dbapi20.py"
    if not path.is_file():
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
        ]
        command += ["--target", str(FOLDER), f"dbapi-compliance=={VERSION}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
        if done.returncode:
            pytest.skip(f"dbapi-compliance cannot be installed: {done.stderr.strip()[-300:]}")
    spec = importlib.util.spec_from_file_location("dbapi20", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def case(module: ModuleType, url: str, folder: Path) -> type[unittest.TestCase]:
    """The suite's tests with this module as driver; its tables are directories of Parquet files."""

    def with_files(statement: str, name: str) -> str:
        (folder / name).mkdir(parents=True)
        return (
            f"{statement.replace('create table', 'create temporary table')} WITH ('connector' = 'filesystem',"
            f" 'path' = '{folder / name}', 'format' = 'parquet')"
        )

    base = module.DatabaseAPI20Test

    class Compliance(base):  # type: ignore[misc,valid-type]
        driver = sqlstream
        connect_args = (url,)
        ddl1 = with_files(base.ddl1, "booze")
        ddl2 = with_files(base.ddl2, "barflys")
        xddl1 = base.xddl1.replace("drop table", "drop temporary table")
        xddl2 = base.xddl2.replace("drop table", "drop temporary table")
        lowerfunc = ""

        def test_callproc(self) -> None:
            with pytest.raises(sqlstream.NotSupportedError):
                self._connect().cursor().callproc("lower", ("FOO",))

    return Compliance


@pytest.mark.slow
def test_the_suite_passes(url: str, tmp_path: Path) -> None:
    module = suite()
    loader = unittest.TestLoader()
    names = [n for n in loader.getTestCaseNames(module.DatabaseAPI20Test) if n not in LEFT_TO_DRIVERS]
    assert len(names) == 34
    failures: dict[str, str] = {}
    for name in names:
        compliance = case(module, url, tmp_path / name)
        result = unittest.TestResult()
        compliance(name).run(result)
        if not result.wasSuccessful():
            failures[name] = "".join(text for _, text in [*result.failures, *result.errors])
        assert not result.skipped
    assert not failures, "\n".join(f"{name}: {text}" for name, text in failures.items())

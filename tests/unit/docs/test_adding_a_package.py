"""The package of docs/adding/package.md: installed as it is written there, its SQL and its tests run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from command_harness import ROOT, TIMEOUT_S, environment, sqlstream
from document_overlay import blocks
from installed_packages import install


def test_the_package_works_as_the_page_says(tmp_path: Path) -> None:
    (project,), (script,), (shown,) = (blocks("package.md", language) for language in ("toml", "sql", "text"))
    connector, functions, checks = blocks("package.md", "python")
    package = tmp_path / "source" / "sqlstream_steps"
    package.mkdir(parents=True)
    (package.parent / "pyproject.toml").write_text(project)
    (package / "__init__.py").write_text("")
    (package / "connector.py").write_text(connector)
    (package / "functions.py").write_text(functions)
    installed = install(package.parent, tmp_path / "packages")
    around = environment(PYTHONPATH=os.pathsep.join([str(ROOT), str(installed)]))
    done = sqlstream("run", "--quiet", "-", stdin=script, env=around, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, shown), done.stderr
    (tmp_path / "test_steps.py").write_text(checks)
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(tmp_path),
            "test_steps.py",
        ],
        env=around,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "7 passed" in ran.stdout

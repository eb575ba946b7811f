"""Loading kernels and where they are cached."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from runtime.kernels import cache_directory
from runtime.kernels.warm import MODULES, warm


def python(code: str, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    root = str(Path(__file__).resolve().parents[4])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, **environment},
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


def test_warm_imports_every_kernel_module() -> None:
    warm()
    assert all(module in sys.modules for module in MODULES)


def test_the_package_itself_does_not_import_numba() -> None:
    assert python("import sys, runtime.kernels; print('numba' in sys.modules)") == "False"


def test_numba_caches_where_the_package_says() -> None:
    code = "import runtime.kernels, numba; print(numba.config.CACHE_DIR)"
    assert python(code) == str(cache_directory())
    assert python("import numba, runtime.kernels; print(numba.config.CACHE_DIR)") == str(cache_directory())


def test_the_users_own_cache_directory_wins(tmp_path: Path) -> None:
    code = "import runtime.kernels, numba; print(numba.config.CACHE_DIR)"
    assert python(code, NUMBA_CACHE_DIR=str(tmp_path)) == str(tmp_path)

"""Compiled loops over Arrow and numpy buffers, and the place where their machine code is cached.

numba caches a kernel by the time stamp of its own file and cannot see that a function which it inlined from
another file has changed. So kernels inline across files only from `intrinsics.py`, and the cache directory
carries a digest of that file.

The cache is `.numba_cache` beside this package when that can be written, else the user's cache directory
(`$XDG_CACHE_HOME/sqlstream/numba`, by default `~/.cache/sqlstream/numba`). `NUMBA_CACHE_DIR`, when set, wins.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

_CACHE_VARIABLE = "NUMBA_CACHE_DIR"


def cache_directory() -> Path:
    """Where compiled kernels are kept, without creating it."""
    here = Path(__file__).resolve().parent
    digest = hashlib.sha256((here / "intrinsics.py").read_bytes()).hexdigest()[:16]
    runtime = here.parent
    beside = runtime / ".numba_cache"
    if os.access(beside if beside.exists() else runtime, os.W_OK):
        return beside / digest
    cache_home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache_home) / "sqlstream" / "numba" / digest


def _point_numba_at_the_cache() -> None:
    if os.environ.get(_CACHE_VARIABLE):
        return
    directory = str(cache_directory())
    os.environ[_CACHE_VARIABLE] = directory
    if "numba" in sys.modules:
        # numba reads its environment once, when it is imported.
        sys.modules["numba"].config.CACHE_DIR = directory


_point_numba_at_the_cache()

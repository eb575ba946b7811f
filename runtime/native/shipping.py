"""Makes the object code that comes with sqlstream: `python -m sqlstream.runtime.native.shipping`, by `make kernels`.

Each file of kernels is compiled by a process of its own, for one processor and with one hash seed. So the same sources give the
same bytes with the same versions of Python, numba and llvmlite.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sqlstream.runtime.native.cache import SHIPPED, VARIABLE, shipped_name, stem_of
from sqlstream.runtime.native.loader import SHIPPED_PROCESSOR

MADE_WITH = SHIPPED / "MADE_WITH"
"""What the files there were made with: other versions make other code, which is as right."""


def made_with() -> str:
    """The versions of what makes code here, on a line each."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("numba", "llvmlite", "numpy")]
    return "\n".join([f"{sys.implementation.cache_tag}", *versions, ""])


def shipped_names(modules: Sequence[str]) -> dict[str, str]:
    """The names of the files that hold the code of these files of kernels as they are."""
    names = {}
    for module in modules:
        found = importlib.util.find_spec(module)
        assert found is not None
        assert found.origin is not None
        names[module] = shipped_name(module, Path(found.origin).read_bytes())
    return names


def build(modules: Sequence[str], directory: Path) -> None:
    """Put the object code of these files of kernels into a directory. This process must have `fixed_environment`."""
    from sqlstream.runtime.kernels.warm import compile_apart

    with tempfile.TemporaryDirectory() as scratch:
        os.environ[VARIABLE] = scratch
        compile_apart(modules, modules_per_process=1)
        for module, name in shipped_names(modules).items():
            (made,) = Path(scratch).glob(f"{stem_of(module)}-*")
            (directory / name).write_bytes(made.read_bytes())


def fixed_environment() -> dict[str, str]:
    """Environment variables that fix what numba makes."""
    return {"NUMBA_CPU_NAME": SHIPPED_PROCESSOR, "NUMBA_CPU_FEATURES": "", "PYTHONHASHSEED": "0"}


def main() -> None:
    """Build what is missing and remove what no source stands for."""
    from sqlstream.runtime.kernels.warm import MODULES

    names = shipped_names(MODULES)
    SHIPPED.mkdir(exist_ok=True)
    is_same_maker = MADE_WITH.exists() and MADE_WITH.read_text() == made_with()
    missing = [m for m, name in names.items() if not (is_same_maker and (SHIPPED / name).exists())]
    if missing and fixed_environment().items() - os.environ.items():
        arguments = [sys.executable, "-P", "-m", "sqlstream.runtime.native.shipping"]
        os.execve(sys.executable, arguments, {**os.environ, **fixed_environment()})
    build(missing, SHIPPED)
    MADE_WITH.write_text(made_with())
    for path in SHIPPED.glob("*.kernels"):
        if path.name not in names.values():
            path.unlink()


if __name__ == "__main__":
    main()

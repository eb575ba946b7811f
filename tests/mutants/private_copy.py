"""A copy of the working tree in which faults are put, so that nobody's checkout ever holds one."""

from __future__ import annotations

import compileall
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults import Fault

_LATER_S = itertools.count(10)
_KERNELS = Path("runtime") / ".kernel_cache"


def tracked_files(root: Path) -> list[str]:
    """What the project is made of: all files that git knows or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.splitlines()
    return [name for name in names if (root / name).is_file() or (root / name).is_symlink()]


class PrivateCopy:
    """The tree at `path`, kept between runs: its kernels stay compiled. State: the files on disk."""

    def __init__(self, root: Path, path: Path) -> None:
        self.path = path
        self.files = tracked_files(root)
        self._bring_up_to_date(root)
        self._take_kernels_of(root)
        compileall.compile_dir(str(path), quiet=2, maxlevels=20)

    def _bring_up_to_date(self, root: Path) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        kept = set(self.files)
        for place in sorted(self.path.rglob("*")):
            name = place.relative_to(self.path)
            is_made = any(part.startswith((".", "__pycache__")) for part in name.parts)
            if place.is_file() and str(name) not in kept and not is_made:
                place.unlink()
        for name in self.files:
            source, target = root / name, self.path / name
            if source.is_symlink():
                if not target.is_symlink():
                    target.symlink_to(source.readlink())
                continue
            if not target.exists() or target.read_bytes() != source.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
            shutil.copystat(source, target)

    def _take_kernels_of(self, root: Path) -> None:
        """Compiled kernels are kept by what they are compiled of, so that those of the working tree serve here."""
        source, target = root / _KERNELS, self.path / _KERNELS
        target.mkdir(mode=0o700, exist_ok=True)
        for place in source.glob("*.kernels"):
            if not (target / place.name).exists():
                shutil.copy2(place, target / place.name)

    @contextmanager
    def fault(self, fault: Fault) -> Iterator[None]:
        """The fault is in the copy as long as this lasts."""
        place = self.path / fault.path
        source, before = place.read_bytes(), place.stat()
        place.write_bytes(fault.apply(source))
        # Byte code is kept by the file's time and size, and a fault often changes neither.
        later_ns = before.st_mtime_ns + next(_LATER_S) * 1_000_000_000
        os.utime(place, ns=(later_ns, later_ns))
        try:
            yield
        finally:
            place.write_bytes(source)
            os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))

    def environment(self) -> dict[str, str]:
        """For processes that run in the copy: its packages are found before installed ones, also by their children."""
        kept = {k: v for k, v in os.environ.items() if k not in ("SQLSTREAM_KERNEL_CACHE", "PYTEST_ADDOPTS")}
        plugins = self.path / "tests" / "mutants"
        return {**kept, "PYTHONPATH": f"{self.path}{os.pathsep}{plugins}"}

    def warm(self) -> None:
        """Compile the kernels, and make sure that it is the copy that tests import."""
        program = "import sqlstream.runtime.kernels.warm as w; w.warm(); print(w.__file__)"
        command = [sys.executable, "-c", program]
        done = subprocess.run(
            command, cwd=self.path, env=self.environment(), check=True, capture_output=True, text=True
        )
        assert done.stdout.strip().startswith(str(self.path)), done.stdout

"""The tree with the edits of a page of docs/adding laid over it, in which commands and tests run."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from command_harness import run_to_end

ROOT = Path(__file__).parents[1]
each_engine = pytest.mark.parametrize(
    "engine", ["stream", "duckdb", pytest.param("spark", marks=pytest.mark.slow)]
)
_LINKED = ("sqlstream", "planner", "runtime", "client", "docs", "queries", "tests", "pyproject.toml")


def blocks(page: str, language: str) -> list[str]:
    """The code of a page of docs/adding in a language, in order."""
    text = (ROOT / "docs/adding" / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def _under(directory: Path, path: Path) -> Path:
    return directory / path.relative_to(path.anchor)


class Overlay:
    """A directory with links to the tree, but for copies of the files that are edited or written there. Its processes find the
    bytecode of what is linked, too, where that does not lie beside the code."""

    def __init__(self, path: Path, edited: Iterable[str]) -> None:
        self.path = path
        self._bytecode = path / "bytecode"
        _under(self._bytecode, path).mkdir(parents=True)
        # That of libraries, too.
        for kept in Path(sys.pycache_prefix or self._bytecode).iterdir():
            if not (self._bytecode / kept.name).exists():
                (self._bytecode / kept.name).symlink_to(kept)
        # Processes that a job starts look beside this file for the packages.
        edited = ("sqlstream/__init__.py", *edited)
        real = {path for pattern in edited for path in ROOT.glob(pattern)}
        for name in _LINKED:
            self._link(ROOT / name, real)

    def _link(self, source: Path, real: set[Path]) -> None:
        target = self.path / source.relative_to(ROOT)
        bytecode = _under(self._bytecode, target)
        if source.is_symlink():
            target.symlink_to(source.readlink())
            bytecode.symlink_to(source.readlink())
        elif source in real and source.is_file():
            shutil.copy(source, target)
        elif any(source == path or source in path.parents for path in real):
            target.mkdir()
            bytecode.mkdir(parents=True)
            for entry in source.iterdir():
                if entry.name != "__pycache__":
                    self._link(entry, real)
        else:
            target.symlink_to(source)
            # That of tests names their files, which pytest believes.
            if (
                source.is_dir()
                and sys.pycache_prefix is not None
                and ROOT / "tests" not in (source, *source.parents)
            ):
                kept = _under(Path(sys.pycache_prefix), source)
                kept.mkdir(parents=True, exist_ok=True)
                bytecode.symlink_to(kept)

    def write(self, file: str, text: str) -> None:
        (self.path / file).write_text(text, encoding="utf-8")

    def insert(self, file: str, text: str, end: str) -> None:
        """Put text before the last `end` of a file that is edited."""
        before, _, after = (self.path / file).read_text(encoding="utf-8").rpartition(end)
        self.write(file, before + "\n" + text.rstrip("\n") + end + after)

    def python(self, *arguments: str, text: str = "") -> str:
        """What Python prints. AssertionError when it fails."""
        path = os.pathsep.join((str(self.path), str(self.path / "tests")))
        keeps = (
            {"PYTHONPYCACHEPREFIX": str(self._bytecode)}
            if sys.pycache_prefix
            else {"PYTHONDONTWRITEBYTECODE": "1"}
        )
        around = {**os.environ, "PYTHONPATH": path, **keeps}
        done = run_to_end([sys.executable, *arguments], stdin=text, cwd=self.path, env=around)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, script: str, engine: str = "stream") -> str:
        """What `sqlstream run` prints, in batch on an engine."""
        batch = f"SET 'execution.runtime-mode' = 'batch'; SET 'execution.batch.engine' = '{engine}'; "
        return self.sqlstream("run", "--quiet", "-", text=("" if engine == "stream" else batch) + script)

    def sqlstream(self, *arguments: str, text: str = "") -> str:
        code = "from sqlstream.client.start import command; command()"
        return self.python("-c", code, *arguments, text=text)

    def pytest(self, *arguments: str) -> str:
        return self.python("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments)

"""Object code of kernels between processes: loaded without numba, and never when it is out of date, damaged or not ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.kernels.warm import MODULES
from runtime.native.cache import cache_directories, is_safe

ROOT = Path(__file__).resolve().parents[4]
SOURCE = """
from runtime.native.kernel import inlined, kernel

@inlined
def more(value):
    return value + 1

@kernel("void(int64[::1])")
def add_into(values):
    for i in range(len(values)):
        values[i] = more(values[i])
"""
PROGRAM = """
import sys
import numpy as np
import own_kernels
values = np.array([1, 2])
own_kernels.add_into(values)
print(values.tolist(), "compiled" if "numba" in sys.modules else "loaded")
"""
COMPILED, LOADED = "[2, 3] compiled", "[2, 3] loaded"


Start = Callable[[], subprocess.Popen[str]]


def starter(directory: Path) -> Start:
    """Starts a process that calls a kernel whose cache is `directory / "cache"`."""
    (directory / "own_kernels.py").write_text(SOURCE)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{directory}",
        "SQLSTREAM_KERNEL_CACHE": str(directory / "cache"),
        # Sources of one size that are edited within a second look alike to Python's own cache.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-P", "-c", PROGRAM]
    return lambda: subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE)


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return starter(tmp_path)


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache that one process has filled."""
    directory = tmp_path_factory.mktemp("compiled")
    assert said(starter(directory)()) == COMPILED
    return directory / "cache"


@pytest.fixture
def run(tmp_path: Path, start: Start, compiled_once: Path) -> Callable[[], str]:
    """Run such a process, behind one that has compiled the kernel; says what it has said."""
    shutil.copytree(compiled_once, tmp_path / "cache")
    return lambda: said(start())


def said(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return out.strip()


def cached(tmp_path: Path) -> Path:
    (file,) = (tmp_path / "cache").iterdir()
    return file


def test_a_kernel_is_compiled_once_and_loaded_without_numba(tmp_path: Path, run: Callable[[], str]) -> None:
    assert run() == LOADED
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    assert is_safe(cached(tmp_path))


def test_code_of_an_edited_source_is_not_loaded(tmp_path: Path, run: Callable[[], str]) -> None:
    source = tmp_path / "own_kernels.py"
    before = source.stat()
    source.write_text(SOURCE.replace("value + 1", "value + 5"))
    # As an editor or a version control system may leave it: neither time nor size has changed.
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [run(), run()] == ["[6, 7] compiled", "[6, 7] loaded"]


def test_code_of_versions_long_gone_is_removed(tmp_path: Path, run: Callable[[], str]) -> None:
    (current,) = (tmp_path / "cache").iterdir()
    others = [current.with_name(f"own_kernels-{n:032x}.kernels") for n in range(4)]
    kept = current.with_name(f"own_kernels_of_others-{0:032x}.kernels")
    for age, path in enumerate([*others, kept]):
        path.write_bytes(b"")
        os.utime(path, ns=(age, age))
    source = tmp_path / "own_kernels.py"
    source.write_text(SOURCE.replace("value + 1", "value + 6"))
    assert run() == "[7, 8] compiled"
    left = set((tmp_path / "cache").iterdir())
    assert left > {current, kept, others[3]}
    assert len(left) == 4


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-100] + bytes(100),
        lambda data: data[1:],
    ],
    ids=["empty", "truncated", "overwritten", "shifted"],
)
def test_damaged_code_is_compiled_again(
    tmp_path: Path, run: Callable[[], str], damage: Callable[[bytes], bytes]
) -> None:
    file = cached(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    assert [run(), run()] == [COMPILED, LOADED]


@pytest.mark.parametrize("is_directory", [False, True])
def test_code_that_others_could_have_written_is_not_loaded(
    tmp_path: Path, run: Callable[[], str], is_directory: bool
) -> None:
    (tmp_path / "cache" if is_directory else cached(tmp_path)).chmod(0o777)
    assert run() == COMPILED


def test_kernels_run_where_nothing_can_be_kept(tmp_path: Path, start: Start) -> None:
    (tmp_path / "cache").write_text("a file, no directory")
    assert [said(start()), said(start())] == [COMPILED, COMPILED]


def test_processes_that_fill_the_cache_at_once_leave_one_whole_file(tmp_path: Path, start: Start) -> None:
    processes = [start() for _ in range(3)]
    assert {said(process) for process in processes} <= {COMPILED, LOADED}
    assert cached(tmp_path).suffix == ".kernels"
    assert said(start()) == LOADED


def test_the_cache_is_beside_the_package_or_the_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SQLSTREAM_KERNEL_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directories() == (ROOT / "runtime" / ".kernel_cache", tmp_path / "sqlstream" / "kernels")


def test_set_up_compiles_every_kernel() -> None:
    files = (ROOT / "runtime" / "kernels").glob("*.py")
    with_kernels = {f"runtime.kernels.{f.stem}" for f in files if "\n@kernel(" in f.read_text()}
    assert with_kernels == set(MODULES)


@pytest.mark.slow
def test_kernels_give_the_same_whether_they_are_loaded_or_just_compiled(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "not slow",
        "-p",
        "no:cacheprovider",
        "tests/unit/runtime/kernels",
    ]
    environment = {**os.environ, "SQLSTREAM_KERNEL_CACHE": str(tmp_path / "cache")}
    for _ in ("compiled", "loaded"):
        subprocess.run(
            command, cwd=ROOT, env=environment, check=True, timeout=1200, stdout=subprocess.DEVNULL
        )

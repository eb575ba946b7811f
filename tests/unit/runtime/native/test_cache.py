"""Object code of kernels between processes: loaded without numba, and never when it is out of date, damaged or not ours. What
comes with sqlstream is that of its sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from sqlstream.runtime.host.cache_directory import is_safe
from sqlstream.runtime.kernels.warm import MODULES
from sqlstream.runtime.native import cache, loader
from sqlstream.runtime.native.cache import SHIPPED, cache_directories
from sqlstream.runtime.native.shipping import MADE_WITH, fixed_environment, made_with, shipped_names

ROOT = Path(__file__).resolve().parents[4]
SOURCE = """
from sqlstream.runtime.native.kernel import inlined, kernel

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


class Process(subprocess.Popen[str]):
    """`remarks`: what it has printed on standard error, once `said` has been called."""

    remarks = ""


Start = Callable[[], Process]


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
    return lambda: Process(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, umask=0o077
    )


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


def said(process: Process) -> str:
    out, process.remarks = process.communicate(timeout=120)
    assert process.returncode == 0, process.remarks
    return out.strip()


def cached(tmp_path: Path) -> Path:
    (file,) = (tmp_path / "cache").iterdir()
    return file


def test_a_kernel_is_compiled_once_and_loaded_without_numba(tmp_path: Path, run: Callable[[], str]) -> None:
    assert run() == LOADED
    assert is_safe(cached(tmp_path))


def test_what_one_user_has_compiled_others_can_read(compiled_once: Path) -> None:
    (file,) = compiled_once.iterdir()
    assert [path.stat().st_mode & 0o777 for path in (compiled_once, file)] == [0o755, 0o644]


def test_only_what_is_called_is_compiled(tmp_path: Path, start: Start) -> None:
    source = tmp_path / "own_kernels.py"
    source.write_text(SOURCE + SOURCE.partition("return value + 1")[2].replace("add_into", "unused"))
    assert said(start()) == COMPILED
    objects = cache._read_file(cached(tmp_path))
    assert objects is not None
    assert [*objects] == ["own_kernels.add_into"]


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


def test_kernels_run_where_nothing_can_be_kept_and_say_once_what_to_set(tmp_path: Path, start: Start) -> None:
    (tmp_path / "cache").write_text("a file, no directory")
    first, second = start(), start()
    assert [said(first), said(second)] == [COMPILED, COMPILED]
    (words,) = first.remarks.splitlines()
    assert "no directory can be written" in words
    assert "SQLSTREAM_KERNEL_CACHE" in words


def test_a_line_says_what_takes_long_and_where_it_is_kept(tmp_path: Path, start: Start) -> None:
    first, second = start(), None
    assert said(first) == COMPILED
    assert first.remarks.splitlines() == [
        f"compiling kernels for this processor, which takes some seconds: once, for they are kept in {tmp_path / 'cache'}"
    ]
    second = start()
    assert said(second) == LOADED
    assert second.remarks == ""


def test_without_a_home_compiled_code_is_kept_in_the_temporary_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no directory")
    monkeypatch.delenv("SQLSTREAM_KERNEL_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(cache, "_RUNTIME", tmp_path / "file")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    place = tmp_path / f".sqlstream_kernels_{os.geteuid()}"
    assert cache._directory_to_write() == place
    assert place.stat().st_mode & 0o777 == 0o755
    place.chmod(0o777)
    assert cache._directory_to_write() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
def test_a_link_of_another_user_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to("ours")
    assert is_safe(tmp_path / "link")
    os.lchown(tmp_path / "link", 12345, 12345)
    assert not is_safe(tmp_path / "link")


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
    assert cache_directories()[:2] == (ROOT / "runtime" / ".kernel_cache", tmp_path / "sqlstream" / "kernels")


def test_set_up_compiles_every_kernel() -> None:
    files = (ROOT / "runtime").glob("kernels/**/*.py")
    names = {f.relative_to(ROOT).with_suffix("").parts for f in files if "\n@kernel(" in f.read_text()}
    assert {".".join(("sqlstream", *parts)) for parts in names} == set(MODULES)


def test_the_code_that_comes_with_sqlstream_is_that_of_the_sources() -> None:
    found = {path.name for path in SHIPPED.glob("*.kernels")}
    assert found == set(shipped_names(MODULES).values()), "run `make kernels`"


def test_a_wheel_has_the_code_that_comes_with_sqlstream() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["sqlstream.runtime"]
    packed = {path for pattern in patterns for path in (ROOT / "runtime").glob(pattern)}
    assert {path for path in packed if path.parent == SHIPPED} == set(SHIPPED.iterdir())


@pytest.mark.skipif(not loader.runs_shipped_code(), reason="compiles its kernels on this processor")
def test_kernels_that_come_with_sqlstream_are_loaded_without_a_cache(tmp_path: Path) -> None:
    program = f"""
import importlib, sys
from pathlib import Path
from sqlstream.runtime.native import cache
cache.cache_directories = lambda: (Path({str(tmp_path)!r}),)
for module in {MODULES!r}:
    importlib.import_module(module)
print("numba" in sys.modules)
"""
    environment = {name: value for name, value in os.environ.items() if name != "SQLSTREAM_KERNEL_CACHE"}
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", ["avx2", "bmi2", "fma"])
def test_a_processor_without_an_instruction_of_shipped_code_does_not_run_it(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    features = dict.fromkeys(loader._SHIPPED_FEATURES, True)
    monkeypatch.setattr("llvmlite.binding.get_process_triple", lambda: "x86_64-unknown-linux-gnu")
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", lambda: features)
    assert loader.runs_shipped_code.__wrapped__()
    features[missing] = False
    assert not loader.runs_shipped_code.__wrapped__()
    monkeypatch.setattr("llvmlite.binding.get_process_triple", lambda: "aarch64-unknown-linux-gnu")
    features[missing] = True
    assert not loader.runs_shipped_code.__wrapped__()


@pytest.mark.skipif(
    not MADE_WITH.exists() or MADE_WITH.read_text() != made_with(), reason="made with other versions"
)
@pytest.mark.parametrize(
    "module", ["sqlstream.runtime.kernels.slots.changes", "sqlstream.runtime.kernels.keys.partition"]
)
def test_the_same_sources_give_the_same_bytes(tmp_path: Path, module: str) -> None:
    build = f"build([{module!r}], Path({str(tmp_path)!r}))"
    program = f"from pathlib import Path; from sqlstream.runtime.native.shipping import build; {build}"
    environment = {**os.environ, **fixed_environment(), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-P", "-c", program], env=environment, cwd=ROOT, check=True, timeout=280)
    (made,) = tmp_path.iterdir()
    assert made.read_bytes() == (SHIPPED / made.name).read_bytes()


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

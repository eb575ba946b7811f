"""Golden files: `golden(path, text)` compares, and `pytest --rewrite` writes them anew. `pytest --examples PERCENT` draws that
share of the examples of all properties, the same ones each time. Test files that take long begin first."""

from __future__ import annotations

import atexit
import gc
import os
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

EXAMPLES_MIN = 5
"""A property with fewer keeps them all."""
_TESTS = Path(__file__).parent
_SETTINGS = "_hypothesis_internal_use_settings"
TEST_MS = {
    "chaos": 60_000,
    "conformance": 20_000,
    "differential/test_interrupted": 2_000,
    "differential/test_spark": 5_000,
    "differential/test_verify": 800,
    "differential": 150,
    "e2e/test_native_spark": 8_000,
    "e2e/test_spark": 5_000,
    "e2e/test_start_up": 1_700,
    "e2e": 500,
    "golden": 30,
    "property/test_moved_state": 350,
    "property": 250,
    "simulation/test_disks": 20,
    "simulation/test_reliability": 250,
    "simulation": 120,
    "sql/test_random_queries": 5_000,
    "sql": 300,
    "unit/runtime/native/test_cache": 2_000,
    "unit/docs/test_adding_a": 20_000,
    "unit/docs/test_examples": 500,
}
"""About what a test of a file takes whose path begins so, the first that does; another takes `UNIT_TEST_MS`."""
UNIT_TEST_MS = 20
TOGETHER = {
    "spark": re.compile(r"e2e/test_\w*spark|differential/test_spark|batch/spark/test_session"),
    "scikit-learn": re.compile(
        r"e2e/test_models|client/test_(trained_)?models|runtime/models/test_(training|onnx_model)"
    ),
}
"""Files that one process runs, since what they start or load takes seconds: a JVM, libraries."""
MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 6 << 30
"""What must be free for temporary files to lie in memory, of which they take some 200 MB at a time."""
_DISK = "TESTS_DISK"
"""The variable that tells workers where temporary files lie else."""

# Output that a command does not flush must be missed, also where the surroundings turn buffers off.
os.environ.pop("PYTHONUNBUFFERED", None)
# Where bytecode is not to lie beside the code, it lies in pytest's cache: a short command would compile for half of its time. The
# test processes and all that they start inherit it.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(_TESTS.parent / ".pytest_cache" / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
# Tests stop processes (SIGSTOP). While one is stopped, Linux hangs up its whole process group when another process ends whose
# parent is of another group, as a browser's may be: each worker has a group of its own, so that this does not end all of them.
if "PYTEST_XDIST_WORKER" in os.environ and os.getpgrp() != os.getpid():
    os.setsid()
    signal.signal(signal.SIGHUP, lambda *_: None)
# What a shell or nohup starts in the background is deaf to some signals, and processes that tests start would inherit that; a
# handler is not inherited.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write golden files instead of comparing with them"
    )
    parser.addoption(
        "--examples",
        type=int,
        default=100,
        metavar="PERCENT",
        help="share of the examples of a property to draw",
    )
    parser.addoption(
        "--draws", default="", help="all: run each query of tests/sql in every way that is drawn"
    )
    parser.addoption("--day", type=int, default=0, help="draw as on another day, which is a number")


def pytest_configure(config: pytest.Config) -> None:
    from hypothesis import HealthCheck, settings

    # Before test files are imported: what they set builds on the profile in force. On a busy machine everything is slow.
    steady: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
    share = {"derandomize": True, "database": None} if config.getoption("--examples") < 100 else {}
    settings.register_profile(
        "steady", settings.get_profile(settings.get_current_profile_name()), **steady, **share
    )
    settings.load_profile("steady")
    # It looks at the environment, which is what it shall be only here.
    from forked_process import fork_task_managers

    fork_task_managers()
    # The order of the collection, see `_sort_slow_files_first`, is that in which files are shared out.
    config.option.loadscopereorder = False
    if hasattr(config, "workerinput"):
        _begin_elsewhere(config)
    else:
        _have_temporary_files_removed(config)


def _begin_elsewhere(config: Any) -> None:
    """Workers collect the same files, each from another one on: what one has compiled the others find. Half a minute of processor
    time goes by until a worker has compiled all of them itself."""
    if [Path(name).resolve() for name in config.args] == [_TESTS]:
        parts = [part for folder in (_TESTS, _TESTS / "unit") for part in sorted(folder.iterdir())]
        parts = [part for part in parts if part != _TESTS / "unit" and _has_tests(part)]
        worker = int(config.workerinput["workerid"].removeprefix("gw"))
        first = len(parts) * worker // config.workerinput["workercount"] % len(parts)
        config.args = [str(part) for part in parts[first:] + parts[:first]]


def _has_tests(path: Path) -> bool:
    return any(path.rglob("test_*.py")) if path.is_dir() else path.match("test_*.py")


def _have_temporary_files_removed(config: pytest.Config) -> None:
    """Tests kill processes, which leave what they have below TMPDIR: it goes with the run, whose workers inherit it. What
    `tmp_path` gives stays where pytest keeps it."""
    os.environ[_DISK] = tempfile.gettempdir()
    root = str(MEMORY) if _are_files_kept_in_memory() else tempfile.gettempdir()
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", root)
    directory = tempfile.mkdtemp(prefix="sst-", dir=root)
    # Some tests run processes of other users.
    os.chmod(directory, 0o1777)
    os.environ["TMPDIR"] = tempfile.tempdir = directory
    config.add_cleanup(lambda: shutil.rmtree(directory, ignore_errors=True))


def _are_files_kept_in_memory() -> bool:
    """Where there is room, unless TMPDIR names a place: each file that is written through to a disk costs a test milliseconds."""
    if "TMPDIR" in os.environ or not MEMORY.is_dir():
        return False
    import psutil

    found = os.statvfs(MEMORY)
    free_bytes = min(found.f_bavail * found.f_frsize, psutil.virtual_memory().available)
    return free_bytes >= MEMORY_BYTES_MIN and not found.f_flag & (os.ST_NOEXEC | os.ST_RDONLY)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    percent: int = config.getoption("--examples")
    if percent < 100:
        _draw_fewer_examples(items, percent)
    if hasattr(config, "workerinput"):
        _sort_slow_files_first(items)


def pytest_collection(session: pytest.Session) -> None:
    # Nearly all that is made is kept.
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    # Each collection in a test, and those of pytest at its end, would look at the millions of objects of all other tests.
    gc.freeze()
    gc.enable()
    # Libraries count what is left when the process ends.
    atexit.register(gc.unfreeze)


def _draw_fewer_examples(items: list[pytest.Item], percent: int) -> None:
    from hypothesis import settings

    done: set[int] = set()
    for item in items:
        test = getattr(item, "obj", None)
        function = getattr(test, "__func__", test)
        drawn = getattr(function, _SETTINGS, None)
        if drawn is not None and id(function) not in done:
            done.add(id(function))
            examples = min(drawn.max_examples, max(EXAMPLES_MIN, drawn.max_examples * percent // 100))
            setattr(function, _SETTINGS, settings(drawn, max_examples=examples))


def _sort_slow_files_first(items: list[pytest.Item]) -> None:
    """A long file that begins last keeps one process busy while the others have ended."""
    scope_ms: Counter[str] = Counter()
    for item in items:
        scope_ms[_scope(item.nodeid)] += _test_ms(item.nodeid)
    items.sort(key=lambda item: (-scope_ms[_scope(item.nodeid)], _scope(item.nodeid), str(item.path)))


def _test_ms(nodeid: str) -> int:
    return next((ms for begin, ms in TEST_MS.items() if nodeid.startswith(f"tests/{begin}")), UNIT_TEST_MS)


def _scope(nodeid: str) -> str:
    """What one process runs: a file, or those of `TOGETHER`; of tests/sql the queries of a file."""
    file, _, test = nodeid.partition("::")
    if file.startswith("tests/sql/"):
        return f"{file}::{test.partition('[')[2].partition(':')[0]}"
    return next((name for name, files in TOGETHER.items() if files.search(file)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _scope(nodeid)

    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


def _remove_orphans(path: Path) -> None:
    """Remove the files beside a golden one whose scripts are gone. That of `nexmark_q4.out` is queries/nexmark/q4.sql."""
    if path.with_suffix(".sql").exists():
        for other in path.parent.glob(f"*{path.suffix}"):
            product = _TESTS.parent / "queries" / f"{other.stem.replace('_', '/', 1)}.sql"
            if not other.with_suffix(".sql").exists() and not product.exists():
                other.unlink()


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """A directory on a disk, as `tmp_path` may not be: Linux counts pages of its files as `RssFile`, and can drop them."""
    with tempfile.TemporaryDirectory(prefix="sst-", dir=os.environ[_DISK]) as directory:
        yield Path(directory)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Hold `text` to the file at `path`."""

    def compare(path: Path, text: str) -> None:
        text = text.rstrip("\n") + "\n"
        if request.config.getoption("--rewrite"):
            path.write_text(text)
            _remove_orphans(path)
        assert path.exists(), f"{path} is missing: run pytest --rewrite"
        assert text == path.read_text()

    return compare

"""What a process leaves of its libraries, how it starts another, and what it costs."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from sqlstream.runtime.host import process
from sqlstream.runtime.host.process import (
    LibraryThreadLimit,
    ProcessUsage,
    cpu_seconds,
    forgo_pandas_once,
    give_back_memory,
    memory_bytes,
    peak_rss_bytes,
    permit_pandas,
    start_python_module,
)

NO_PROCESS = 2**22 + 1
"""More than any process has."""

STREAMS = """
import os, sys
from sqlstream.runtime.host.process import open_missing_streams
missing = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
open_missing_streams()
number = os.open(os.devnull, os.O_RDONLY)
kept = sys.stdin.read() + sys.stdin.mode + sys.stdout.mode + sys.stderr.mode
targets = {os.readlink(f"/proc/self/fd/{n}") for n in range(3)}
open(sys.argv[1], "w").write(repr((missing, number > 2, kept, targets)))
"""


def pools() -> tuple[int, int]:
    return pa.cpu_count(), pa.io_thread_count()


def test_arrows_pools_are_limited_until_the_last_holder_has_gone() -> None:
    before = pools()
    try:
        pa.set_cpu_count(3)
        pa.set_io_thread_count(5)
        limit = LibraryThreadLimit()
        for _ in range(2):
            limit.hold()
            limit.hold()
            assert pools() == (1, 2)
            limit.release()
            assert pools() == (1, 2)
            limit.release()
            assert pools() == (3, 5)
    finally:
        pa.set_cpu_count(before[0])
        pa.set_io_thread_count(before[1])


def test_standard_streams_that_are_closed_are_opened_on_nothing(tmp_path: Path) -> None:
    script, found = tmp_path / "script.py", tmp_path / "found"
    script.write_text(STREAMS)
    command = f"exec {sys.executable} {script} {found} <&- >&- 2>&-"
    root = str(Path(__file__).resolve().parents[4])
    subprocess.run(["sh", "-c", command], env={**os.environ, "PYTHONPATH": root}, check=True, timeout=60)
    expected = (["stdin", "stdout", "stderr"], True, "rww", {"/dev/null"})
    assert found.read_text() == repr(expected)


def test_pandas_is_absent_once_it_is_forgone() -> None:
    before = list(sys.meta_path)
    loaded = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "pandas"}
    for name in loaded:
        del sys.modules[name]
    try:
        permit_pandas()
        allowed = len(sys.meta_path)
        forgo_pandas_once()
        forgo_pandas_once()
        assert len(sys.meta_path) == allowed + 1
        with pytest.raises(ModuleNotFoundError, match="pandas is not used here") as caught:
            importlib.import_module("pandas")
        assert caught.value.name == "pandas"
        assert importlib.util.find_spec("colorsys") is not None
    finally:
        sys.meta_path[:] = before
        sys.modules.update(loaded)


def test_a_module_is_started_away_from_where_the_user_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its group is its own, its errors go where its output goes, and the end of its input is the end of its parent."""
    (tmp_path / "platform.py").write_text("raise SystemExit('from here')")
    (tmp_path / "told.py").write_text(
        "import os, sys; print(sys.argv[1:], os.environ['A'], os.getpgrp() == os.getpid(), file=sys.stderr); input()"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    process = start_python_module("told", ["x"], {"A": "b"})
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == b"['x'] b True\n"
    process.stdin.close()
    assert process.wait(60) == 1
    process.stdout.close()


def test_the_time_of_a_process_is_that_of_its_code() -> None:
    spent_s = time.process_time() + 0.1
    while (least_s := time.process_time()) < spent_s:
        pass
    assert least_s <= cpu_seconds(os.getpid()) <= time.process_time()
    process = subprocess.Popen(
        [sys.executable, "-c", "while True: pass"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline_s = time.monotonic() + 240
        while cpu_seconds(process.pid) < 0.05:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    assert cpu_seconds(NO_PROCESS) == 0


def test_the_memory_of_a_process_and_of_the_machine_are_bytes() -> None:
    import psutil

    own = psutil.Process().memory_info().rss
    assert own <= peak_rss_bytes(os.getpid()) < memory_bytes() == psutil.virtual_memory().total
    lines = Path("/proc/self/status").read_text().splitlines()
    (kibibytes,) = (int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    assert abs(peak_rss_bytes(os.getpid()) - kibibytes * 1024) < 1 << 20
    assert peak_rss_bytes(NO_PROCESS) == 0


def test_memory_that_is_free_is_given_back() -> None:
    give_back_memory()
    held = pa.py_buffer(b"x")
    give_back_memory()
    assert held.to_pybytes() == b"x"


def test_what_ended_children_have_used_counts_although_others_have_their_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used, children = {os.getpid(): 5.0, 7: 2.0}, [7]
    monkeypatch.setattr(process, "cpu_seconds", lambda id: used.get(id, 0.0))
    monkeypatch.setattr(process, "peak_rss_bytes", lambda id: int(100 * used.get(id, 0)))
    usage = ProcessUsage(lambda: tuple(children))
    used[os.getpid()] = 6.0
    assert usage.cpu_seconds() == 1.0 + 2.0
    # It has ended, and is listed for a while.
    del used[7]
    assert usage.cpu_seconds() == 1.0 + 2.0
    children.clear()
    usage.measure()
    used[7] = 0.5
    children.append(7)
    assert usage.cpu_seconds() == 1.0 + 2.0 + 0.5
    assert usage.peak_rss_bytes() == 600 + 200 + 50
    for other in range(100, 10_000):
        children[:] = [other]
        usage.measure()
    assert len(usage._figures) == 2

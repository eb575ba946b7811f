"""What the end of a driver's process does to what it has started."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil
import pytest

from sqlstream.runtime.providers.child_output import print_errors
from sqlstream.runtime.providers.spark import provider

# Ends with its input, or does not.
OBEDIENT, HANGING = "import sys; sys.stdin.read()", "import time; time.sleep(600)"


@pytest.mark.parametrize("code", [OBEDIENT, HANGING])
def test_no_jvm_outlives_its_driver_for_long(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(provider, "JVM_TIMEOUT_S", 3.0)
    starts = f"import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', {code!r}], stdin=subprocess.PIPE)"
    child = subprocess.Popen(
        [sys.executable, "-c", f"{starts}; print(p.pid, flush=True); time.sleep(600)"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    driver = provider._Driver(child, print_errors)
    assert child.stdout is not None
    jvm = psutil.Process(int(child.stdout.readline()))
    driver.note_jvm(jvm.pid)
    child.kill()
    child.wait()
    driver.end_jvm()
    deadline_s = time.monotonic() + 60
    while jvm.is_running() and jvm.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)

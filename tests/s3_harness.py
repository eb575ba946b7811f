"""A server with the protocol of S3 on a free port of loopback: moto's, in a process of its own.

`make object-store` puts it into a directory of its own, since it needs other versions of some packages than we do.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_harness import free_port

MOTO = Path(__file__).resolve().parents[1] / ".object-store"
START_TIMEOUT_S = 60
BUCKET = "bucket"


class S3:
    """The server, with one empty bucket."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"

    def require_keys(self) -> None:
        """From here on only users that it knows are let in, and there are none."""
        words = {"Content-Type": "text/plain"}
        asked = urllib.request.Request(f"{self.endpoint}/moto-api/reset-auth", b"0", words, method="POST")
        urllib.request.urlopen(asked, timeout=10).close()

    def options(self, path: str, **others: str) -> dict[str, str]:
        """The options of a table."""
        keys = {"s3.access-key": "someone", "s3.secret-key": "very secret"}
        return {"connector": "filesystem", "path": path, "s3.endpoint": self.endpoint, **keys, **others}


@contextlib.contextmanager
def running_s3() -> Iterator[S3]:
    """Skips the test where there is no moto."""
    if not MOTO.exists():
        pytest.skip("there is no moto: make object-store installs it")
    process, port = _started()
    try:
        bucket = urllib.request.Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")
        urllib.request.urlopen(bucket, timeout=10).close()
        yield S3(port)
    finally:
        process.kill()
        process.wait()


def _started() -> tuple[subprocess.Popen[bytes], int]:
    """A server that answers, and its port. Another process may take the port first: it ends then, and another one is tried."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while True:
        port = free_port()
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            env={**os.environ, "PYTHONPATH": str(MOTO)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while process.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/", timeout=5).close()
            except OSError:
                if time.monotonic() > deadline_s:
                    process.kill()
                    process.wait()
                    raise AssertionError("moto's server does not answer") from None
                time.sleep(0.1)
            else:
                return process, port
        assert time.monotonic() < deadline_s, f"moto's server ends with {process.returncode}"

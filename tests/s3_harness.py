"""A server with the protocol of S3 on a free port of loopback: moto's, in a process of its own.

moto needs other versions of some packages than we do, so that it lies in a directory of its own:

    pip install --target DIRECTORY 'moto[s3]==5.1.5' 'flask<4' 'flask-cors<7'
    SQLSTREAM_TEST_MOTO=DIRECTORY python -m pytest tests/e2e/test_s3.py
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import pytest

START_TIMEOUT_S = 60
BUCKET = "bucket"


class S3:
    """The server, with one empty bucket."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"

    def options(self, path: str, **others: str) -> dict[str, str]:
        """The options of a table."""
        keys = {"s3.access-key": "someone", "s3.secret-key": "very secret"}
        return {"connector": "filesystem", "path": path, "s3.endpoint": self.endpoint, **keys, **others}


@contextlib.contextmanager
def running_s3() -> Iterator[S3]:
    """Skips the test where no directory of moto is named."""
    directory = os.environ.get("SQLSTREAM_TEST_MOTO")
    if not directory:
        pytest.skip("SQLSTREAM_TEST_MOTO names no directory with moto: see tests/s3_harness.py")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        env={**os.environ, "PYTHONPATH": directory},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(process, f"http://127.0.0.1:{port}/moto-api/")
        bucket = urllib.request.Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")
        urllib.request.urlopen(bucket, timeout=10).close()
        yield S3(port)
    finally:
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen[bytes], address: str) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            urllib.request.urlopen(address, timeout=5).close()
        except OSError:
            assert process.poll() is None, "moto's server has ended"
            assert time.monotonic() < deadline_s, "moto's server does not answer"
            time.sleep(0.1)
        else:
            return

"""`make demo-kafka`: a broker without a JVM, and a job between two of its topics whose rows are printed, until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BROKER = ROOT / ".kafka" / "noida_db" / "noida-db"
SCRIPT = ROOT / "queries" / "kafka" / "orders.sql"
NAMED = "localhost:9092"
TOPICS = ("orders", "totals")
PARTITIONS = 2
TIMEOUT_S = 60


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, help="end by itself after this long")
    given = arguments.parse_args()
    if not BROKER.exists():
        print("there is no broker for this machine: make kafka says why", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="demo-kafka-") as directory, broker(Path(directory)) as address:
        make_topics(address)
        script = Path(directory, "orders.sql")
        script.write_text(SCRIPT.read_text(encoding="utf-8").replace(NAMED, address), encoding="utf-8")
        print(
            f"a broker listens at {address}; its topics are {' and '.join(TOPICS)}. Ctrl-C ends all.\n",
            flush=True,
        )
        return run(script, Path(directory, "state"), given.seconds)


@contextlib.contextmanager
def broker(directory: Path) -> Iterator[str]:
    """Its address. It has a session of its own, so that Ctrl-C does not end it before the job."""
    port = free_port()
    data = directory / "broker"
    data.mkdir()
    command = [BROKER, "start", "--data-dir", data, "--only", "kafka", "--kafka-port", str(port)]
    silent = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=silent, stdout=silent, stderr=silent, start_new_session=True)
    try:
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise SystemExit("the broker does not start")
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    """Kafka's own, unless it is taken."""
    for wanted in (9092, 0):
        with contextlib.suppress(OSError), socket.socket() as free:
            free.bind(("127.0.0.1", wanted))
            return int(free.getsockname()[1])
    raise SystemExit("there is no free port")


def make_topics(address: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in TOPICS]).values():
        made.result(TIMEOUT_S)


def run(script: Path, state: Path, seconds: float | None) -> int:
    """Ctrl-C comes to the job as well, which ends in order; this waits until it has."""
    signal.signal(signal.SIGINT, lambda *_: None)
    command = [sys.executable, "-P", "-m", "sqlstream", "run", str(script)]
    environment = {**os.environ, "XDG_STATE_HOME": str(state)}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait()
    is_ended = process.returncode in (130, -signal.SIGINT)
    return 0 if is_ended else process.returncode


if __name__ == "__main__":
    sys.exit(main())

"""The start of Spark: who is told that it failed, and what `close` leaves of one under way."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from spark_harness.engine import SMALL, RecordedRun, end_spark, plan_of
from spark_harness.processes import wait_until

from sqlstream.batch_plan import BatchPlan
from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.batch.engine import BatchCancelled
from sqlstream.runtime.batch.spark.engine import SparkEngine
from sqlstream.runtime.batch.spark.session import RunningSpark, SparkSessions
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.net.socket_directory import SOCKET_PATH_BYTES_MAX

NOBODY_LISTENS = {"spark.master": "spark://127.0.0.1:1"}
NOBODY_LISTENS_EITHER = {"spark.master": "spark://127.0.0.1:2"}


def failure(sessions: SparkSessions, config: dict[str, str]) -> BaseException:
    with pytest.raises((ExternalError, BatchCancelled)) as caught, _session(sessions, config):
        pass
    return caught.value


def _session(sessions: SparkSessions, config: dict[str, str], is_cancelled: bool = False):  # type: ignore[no-untyped-def]
    return sessions.session(config, lambda words: None, lambda: is_cancelled)


def test_a_failed_start_is_told_to_the_statements_with_its_settings_alone() -> None:
    sessions = SparkSessions()
    found: dict[int, str] = {}

    def ask(number: int, config: dict[str, str]) -> None:
        found[number] = str(failure(sessions, config))

    configs = [NOBODY_LISTENS, NOBODY_LISTENS_EITHER] * 3
    threads = [threading.Thread(target=ask, args=(n, c), daemon=True) for n, c in enumerate(configs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [found[n].split('"')[1] for n in range(6)] == ["spark://127.0.0.1:1", "spark://127.0.0.1:2"] * 3


def test_the_failure_of_a_start_that_nobody_waits_for_is_dropped() -> None:
    sessions = SparkSessions()
    cancelled = iter([False, True])
    with (
        pytest.raises(BatchCancelled),
        sessions.session(NOBODY_LISTENS, lambda words: None, lambda: next(cancelled)),
    ):
        pass
    with sessions._changed:
        assert sessions._changed.wait_for(lambda: sessions._starting is None, 240)
    assert '"spark://127.0.0.1:2"' in str(failure(sessions, NOBODY_LISTENS_EITHER))


def test_closing_gives_up_a_start_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A process has one Spark at most.
    end_spark()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sessions = SparkSessions()
    has_directory = threading.Event()

    def is_cancelled() -> bool:
        if list(tmp_path.glob("sqlstream-spill-*/spark.properties")):
            has_directory.set()
        return False

    def ask() -> None:
        with sessions.session({"spark.master": "local[1]"}, lambda words: None, is_cancelled):
            pass

    caught: list[BaseException] = []

    def execute() -> None:
        try:
            ask()
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=execute, daemon=True)
    thread.start()
    assert has_directory.wait(60)
    sessions.close()
    thread.join(60)
    assert [type(error) for error in caught] == [BatchCancelled]
    with sessions._changed:
        assert sessions._changed.wait_for(lambda: sessions._starting is None, 20)
    assert sessions._running is None
    assert list(tmp_path.glob("sqlstream-spill-*")) == []


def test_explain_is_cancelled_while_spark_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    engine = SparkEngine()
    plan = BatchPlan("job", "test", "spark", (), (), {"spark.master": "local[1]"})
    caught: list[BaseException] = []

    def explain() -> None:
        try:
            engine.explain(plan, LocalFiles())
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=explain, daemon=True)
    thread.start()
    while engine._sessions._starting is None:
        time.sleep(0.01)
    engine.cancel("job")
    thread.join(60)
    assert [type(error) for error in caught] == [BatchCancelled]
    engine.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_spark_is_started_for_the_first_one_that_waits_and_serves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # A process has one Spark at most.
    end_spark()
    sessions = SparkSessions()
    other = {**SMALL, "spark.master": "local[1]"}
    may_end = threading.Event()
    served: list[RunningSpark] = []

    def first() -> None:
        with _session(sessions, SMALL) as (running, _):
            served.append(running)
            may_end.wait(120)

    thread = threading.Thread(target=first, daemon=True)
    thread.start()
    wait_until(lambda: sessions._starting is not None, 60)
    # It waits while Spark starts for the other one, and does not start it anew before that one was served.
    with pytest.raises(UserError) as caught, _session(sessions, other):
        pass
    assert caught.value.code == "SS4054"
    wait_until(lambda: len(served) == 1, 60)
    may_end.set()
    thread.join(60)
    with _session(sessions, other) as (running, _):
        assert running is not served[0]
    sessions.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_long_path_for_temporary_files_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 120)
    long.mkdir()
    end_spark()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    engine = SparkEngine()
    run = RecordedRun()
    engine.run(plan_of("SELECT id AS n FROM range(3) ORDER BY n"), run)
    assert run.rows() == [(0,), (1,), (2,)]
    running = engine._sessions._running
    assert running is not None
    assert len(running.socket_directory) < SOCKET_PATH_BYTES_MAX - 50
    engine.close()
    assert list(long.iterdir()) == []
    assert not Path(running.socket_directory).exists()

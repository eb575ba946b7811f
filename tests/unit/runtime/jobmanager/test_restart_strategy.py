"""When a job restarts after a failure, and when it fails."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from sqlstream.errors import ErrorInfo, FailureReason, UserError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.runtime.jobmanager.job_master_config import JobMasterConfig
from sqlstream.runtime.jobmanager.restart_strategy import (
    REFUSED_DELAY_MS,
    REFUSED_FOR_GOOD_MS,
    Backoff,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    RestartStrategy,
    restart_strategy_of,
)

LOST = ErrorInfo(code="SS6001", message="silent", reason=FailureReason.TASK_MANAGER_LOST)
WRONG = ErrorInfo(code="SS5011", message="no number", reason=FailureReason.USER_DATA)

REFUSED = ErrorInfo(code="SS5060", message="wrong password", reason=FailureReason.ACCESS_REFUSED)


def delays(strategy: RestartStrategy, *times_ms: int, failure: ErrorInfo = LOST) -> list[int | None]:
    return [strategy.restart_after_ms(failure, ms) for ms in times_ms]


def test_a_fixed_delay_restarts_a_job_so_many_times() -> None:
    assert delays(FixedDelay(2, 500), 0, 1000, 2000, 3000) == [500, 500, None, None]
    assert delays(FixedDelay(0, 500), 0) == [None]


def test_a_failure_rate_counts_the_failures_within_the_interval() -> None:
    assert delays(FailureRate(2, 1000, 10), 0, 500, 1000) == [10, 10, None]
    assert delays(FailureRate(2, 1000, 10), 0, 500, 1001, 1501) == [10, 10, 10, 10]
    assert delays(FailureRate(2, 1000, 10), 0, 500, 1001, 1400) == [10, 10, 10, None]


def backoff(jitter: float = 0, attempts: int = 100) -> ExponentialDelay:
    return ExponentialDelay(Backoff(1000, 4000, 2.0, 60_000, jitter, attempts), random.Random(1))


def test_the_delay_grows_up_to_the_longest() -> None:
    assert delays(backoff(), 0, 10_000, 20_000, 30_000) == [1000, 2000, 4000, 4000]


def test_after_a_quiet_time_the_delay_is_the_first_again() -> None:
    strategy = backoff()
    assert delays(strategy, 0, 10_000) == [1000, 2000]
    # The second restart was due at 12,000.
    assert delays(strategy, 71_999) == [4000]
    assert delays(strategy, 75_999 + 60_000) == [1000]


def test_failures_before_the_restart_are_a_part_of_the_one_that_caused_it() -> None:
    strategy = backoff(attempts=2)
    assert delays(strategy, 0, 100, 999, 1000) == [1000, 900, 1, 2000]
    assert delays(strategy, 10_000) == [None]


def test_jitter_stays_within_its_part_and_the_bounds() -> None:
    strategy = backoff(jitter=0.5)
    found = [strategy.restart_after_ms(LOST, n * 10_000) for n in range(50)]
    assert all(d is not None and 1000 <= d <= 4000 for d in found)
    assert len(set(found)) > 10


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, [None]),
        ({"restart-strategy.type": "none", "execution.checkpointing.interval": "1 s"}, [None]),
        ({"restart-strategy.type": "off"}, [None]),
        ({"restart-strategy.type": "fixed-delay"}, [1000, None]),
        ({"restart-strategy.type": "fixeddelay", "restart-strategy.fixed-delay.attempts": "3",
          "restart-strategy.fixed-delay.delay": "5 s"}, [5000, 5000, 5000, None]),
        ({"restart-strategy.type": "failure-rate"}, [1000, None]),
        ({"restart-strategy.type": "exponential-delay", "restart-strategy.exponential-delay.jitter-factor": "0",
          "restart-strategy.exponential-delay.attempts-before-reset-backoff": "1"}, [1000, None]),
        ({"execution.checkpointing.interval": "1 s", "restart-strategy.exponential-delay.jitter-factor": "0"},
         [1000, 1500, 2250]),
    ],
)  # fmt: skip
def test_the_settings_name_the_strategy_and_checkpoints_bring_the_exponential_delay(
    config: dict[str, str], expected: list[int | None]
) -> None:
    strategy = restart_strategy_of(config, "j1")
    assert delays(strategy, *(n * 10_000 for n in range(len(expected)))) == expected


def test_what_only_the_user_can_mend_is_not_tried_again() -> None:
    strategy = restart_strategy_of({"restart-strategy.type": "fixed-delay"}, "j1")
    for failure in (WRONG, REFUSED):
        assert delays(strategy, 0, failure=failure) == [None]
    assert delays(strategy, 1) == [1000]


@pytest.mark.parametrize(
    ("config", "waits_ms"),
    [
        ({"restart-strategy.type": "none", "execution.checkpointing.interval": "1 s"}, REFUSED_DELAY_MS),
        # It would write its rows again with each try.
        ({}, REFUSED_FOR_GOOD_MS),
    ],
)
def test_what_a_server_refuses_fails_a_new_job_and_lets_a_recovered_one_wait(
    config: dict[str, str], waits_ms: int, make_job: Callable[..., JobGraph]
) -> None:
    barred = ErrorInfo.of(UserError("SS5031", "no database servers"))
    job = make_job("j1", config=config)
    assert delays(JobMasterConfig().strategy_of(job), 0, failure=barred) == [None]
    strategy = JobMasterConfig(is_recovered=True).strategy_of(job)
    assert delays(strategy, *range(100), failure=barred) == [waits_ms] * 100
    assert delays(strategy, 0, failure=WRONG) == [None]


def test_settings_that_contradict_each_other_are_refused() -> None:
    config = {
        "restart-strategy.type": "exponential-delay",
        "restart-strategy.exponential-delay.max-backoff": "10 ms",
    }
    with pytest.raises(UserError, match=r"max-backoff\" is below"):
        restart_strategy_of(config, "j1")

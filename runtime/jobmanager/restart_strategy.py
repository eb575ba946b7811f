"""Whether, and how soon, the tasks that a failure has hit are restarted (Flink: RestartBackoffTimeStrategy)."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sqlstream import config as options
from sqlstream.errors import ErrorInfo, FailureReason, UserError
from sqlstream.options.checkpointing_options import ATTEMPTS_UNBOUNDED, takes_checkpoints


class RestartStrategy(Protocol):
    """One for each job; it may count the failures that it is asked about."""

    def restart_after_ms(self, failure: ErrorInfo, now_ms: int) -> int | None:
        """How long to wait before the restart; None when the job fails instead."""


class NoRestart:
    """The first failure of a task fails the job. No state."""

    def restart_after_ms(self, failure: ErrorInfo, now_ms: int) -> int | None:
        return None


class FixedDelay:
    """Restarts a job `attempts` times, each after the same time. State: the failures so far."""

    def __init__(self, attempts: int, delay_ms: int) -> None:
        self._attempts = attempts
        self._delay_ms = delay_ms
        self._failures = 0

    def restart_after_ms(self, failure: ErrorInfo, now_ms: int) -> int | None:
        self._failures += 1
        return self._delay_ms if self._failures <= self._attempts else None


class FailureRate:
    """Restarts a job unless more than `failures_max` failures come within `interval_ms`. State: the times of the last ones."""

    def __init__(self, failures_max: int, interval_ms: int, delay_ms: int) -> None:
        self._interval_ms = interval_ms
        self._delay_ms = delay_ms
        self._failures_ms: deque[int] = deque(maxlen=failures_max + 1)
        self._failures_max = failures_max

    def restart_after_ms(self, failure: ErrorInfo, now_ms: int) -> int | None:
        self._failures_ms.append(now_ms)
        is_full = len(self._failures_ms) > self._failures_max
        if is_full and now_ms - self._failures_ms[0] <= self._interval_ms:
            return None
        return self._delay_ms


@dataclass(frozen=True)
class Backoff:
    """How the time before a restart grows. `jitter` is the part of it that is random."""

    initial_ms: int
    longest_ms: int
    multiplier: float
    reset_after_ms: int
    jitter: float
    attempts: int = ATTEMPTS_UNBOUNDED


class ExponentialDelay:
    """Waits longer before each restart, until the job has run for some time without a failure. A failure before the restart that
    an earlier one has caused is a part of that.

    State: the present time to wait, the failures in a row, and when the last restart is due."""

    def __init__(self, backoff: Backoff, fate: random.Random) -> None:
        self._backoff = backoff
        self._fate = fate
        self._delay_ms = float(backoff.initial_ms)
        self._failures = 0
        self._restart_ms: int | None = None

    def restart_after_ms(self, failure: ErrorInfo, now_ms: int) -> int | None:
        due_ms = self._restart_ms
        if due_ms is not None and now_ms < due_ms:
            return due_ms - now_ms
        if due_ms is None or now_ms - due_ms >= self._backoff.reset_after_ms:
            self._failures, self._delay_ms = 0, float(self._backoff.initial_ms)
        else:
            self._delay_ms = min(self._delay_ms * self._backoff.multiplier, self._backoff.longest_ms)
        self._failures += 1
        if self._failures > self._backoff.attempts:
            return None
        delay_ms = self._with_jitter()
        self._restart_ms = now_ms + delay_ms
        return delay_ms

    def _with_jitter(self) -> int:
        jitter_ms = self._delay_ms * self._backoff.jitter * self._fate.uniform(-1, 1)
        return round(max(self._backoff.initial_ms, min(self._delay_ms + jitter_ms, self._backoff.longest_ms)))


_PERMANENT = (FailureReason.USER_DATA, FailureReason.ACCESS_REFUSED, FailureReason.SERVER_REFUSED)


class UnlessPermanent:
    """Another strategy for the failures that can pass. One that only the user can mend, because a table, its data or a password
    is wrong, fails the job at once. No state of its own."""

    def __init__(self, strategy: RestartStrategy) -> None:
        self._strategy = strategy

    def restart_after_ms(self, failure: ErrorInfo, now_ms: int) -> int | None:
        if failure.reason in _PERMANENT:
            return None
        return self._strategy.restart_after_ms(failure, now_ms)


REFUSED_DELAY_MS, REFUSED_FOR_GOOD_MS = 60_000, 365 * 86_400_000


class UntilAllowed:
    """Another strategy, for a job that an earlier server has run. What only the settings of this server refuse is no failure of
    the job: it waits, whatever its own strategy allows, until a server is started that has them. No state of its own.

    A job with checkpoints is tried again all the same: a name may lead to another address by then, or a link to another
    directory. One without would write its rows again with each try."""

    def __init__(self, strategy: RestartStrategy, *, takes_checkpoints: bool) -> None:
        self._strategy = strategy
        self._delay_ms = REFUSED_DELAY_MS if takes_checkpoints else REFUSED_FOR_GOOD_MS

    def restart_after_ms(self, failure: ErrorInfo, now_ms: int) -> int | None:
        if failure.reason is FailureReason.SERVER_REFUSED:
            return self._delay_ms
        return self._strategy.restart_after_ms(failure, now_ms)


def restart_strategy_of(config: Mapping[str, str], seed: str) -> RestartStrategy:
    """The strategy that the settings name; ExponentialDelay for a job with checkpoints whose settings name none. UserError for
    values that do not fit. Its random numbers follow from `seed`."""

    def value(key: str) -> Any:
        return options.get(config, key)

    kind = value("restart-strategy.type")
    if "restart-strategy.type" not in config and takes_checkpoints(config):
        kind = "exponential-delay"
    match kind:
        case "fixed-delay" | "fixeddelay":
            attempts = value("restart-strategy.fixed-delay.attempts")
            return UnlessPermanent(FixedDelay(attempts, value("restart-strategy.fixed-delay.delay")))
        case "failure-rate" | "failurerate":
            return UnlessPermanent(
                FailureRate(
                    value("restart-strategy.failure-rate.max-failures-per-interval"),
                    value("restart-strategy.failure-rate.failure-rate-interval"),
                    value("restart-strategy.failure-rate.delay"),
                )
            )
        case "exponential-delay" | "exponentialdelay":
            return UnlessPermanent(ExponentialDelay(_backoff(value), random.Random(seed)))
    return NoRestart()


def _backoff(value: Callable[[str], Any]) -> Backoff:
    backoff = Backoff(
        value("restart-strategy.exponential-delay.initial-backoff"),
        value("restart-strategy.exponential-delay.max-backoff"),
        value("restart-strategy.exponential-delay.backoff-multiplier"),
        value("restart-strategy.exponential-delay.reset-backoff-threshold"),
        value("restart-strategy.exponential-delay.jitter-factor"),
        value("restart-strategy.exponential-delay.attempts-before-reset-backoff"),
    )
    if backoff.longest_ms < backoff.initial_ms:
        raise UserError(
            "SS4002",
            '"restart-strategy.exponential-delay.max-backoff" is below '
            '"restart-strategy.exponential-delay.initial-backoff"',
            hint="raise the first or lower the second",
        )
    return backoff

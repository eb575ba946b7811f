"""A job's restart strategy in Flink's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlstream import config as options
from sqlstream.checkpointing_options import takes_checkpoints

_PREFIX = "restart-strategy."


def restart_strategy_text(config: Mapping[str, str]) -> str:
    """What follows a failure of a job with these settings (Flink: RestartStrategyDescriptionUtils).

    >>> restart_strategy_text({}), restart_strategy_text({"restart-strategy.type": "fixed-delay"})
    ('Restart deactivated.', 'Restart with fixed delay (1000 ms). #1 restart attempts.')
    """

    def setting(key: str) -> Any:
        return options.get(config, _PREFIX + key)

    match _strategy(config):
        case "fixeddelay":
            delay_ms, attempts = setting("fixed-delay.delay"), setting("fixed-delay.attempts")
            return f"Restart with fixed delay ({delay_ms} ms). #{attempts} restart attempts."
        case "failurerate":
            return (
                f"Failure rate restart with maximum of {setting('failure-rate.max-failures-per-interval')} failures within"
                f" interval {setting('failure-rate.failure-rate-interval')} ms and fixed delay"
                f" {setting('failure-rate.delay')} ms."
            )
        case "exponentialdelay":
            return (
                f"Restart with exponential delay: starting at {setting('exponential-delay.initial-backoff')} ms,"
                f" increasing by {setting('exponential-delay.backoff-multiplier')}, with maximum"
                f" {setting('exponential-delay.max-backoff')} ms. Delay resets after"
                f" {setting('exponential-delay.reset-backoff-threshold')} ms with jitter"
                f" {setting('exponential-delay.jitter-factor')}."
            )
    return "Restart deactivated."


def _strategy(config: Mapping[str, str]) -> str:
    """The name of the strategy without its hyphen, which may be left out."""
    if _PREFIX + "type" not in config and takes_checkpoints(config):
        return "exponentialdelay"
    return str(options.get(config, _PREFIX + "type")).replace("-", "")

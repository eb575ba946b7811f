"""The inputs of an expression besides its columns: the clock, the time zone and a source of random numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from sqlstream.times import check_time_zone

TIME_ZONE_OPTION = "table.local-time-zone"


@dataclasses.dataclass
class EvaluationContext:
    """`time_zone` is the session's, for TIMESTAMP_LTZ values; `now_ms` returns milliseconds since the epoch,
    `watermark_ms` the operator's watermark, None before the first; `config` are the job's settings."""

    now_ms: Callable[[], int] = lambda: 0
    time_zone: str = "UTC"
    random: np.random.Generator = dataclasses.field(default_factory=np.random.default_rng)
    watermark_ms: Callable[[], int | None] = lambda: None
    config: Mapping[str, str] = dataclasses.field(default_factory=dict)
    _depth: int = 0
    _moment_ms: int | None = None

    def __enter__(self) -> None:
        """Until it is left, the clock stands still: all that is computed for a batch of rows sees one time."""
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._moment_ms = None

    def moment_ms(self) -> int:
        """The time of the batch that is computed."""
        if not self._depth:
            return self.now_ms()
        if self._moment_ms is None:
            self._moment_ms = self.now_ms()
        return self._moment_ms

    @staticmethod
    def of(now_ms: Callable[[], int], config: Mapping[str, str]) -> EvaluationContext:
        """The context of an operator with this clock and these settings; UserError for an unknown time zone."""
        return EvaluationContext(now_ms, check_time_zone(config.get(TIME_ZONE_OPTION, "UTC")), config=config)

"""The limits of a gateway."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class GatewayOptions:
    """The limits of a gateway; the defaults are Flink's where Flink has the option.

    `idle_timeout_ms`: a session without a request for this long is closed, 0 never. `check_interval_ms`: how often idle
    sessions are looked for, 0 never. `page_wait_ms`: how long a request for results that are not there yet is held before it
    is answered with NOT_READY or an empty page. `heartbeat_ms`: the longest silence of a stream of results.
    `operations_bytes_max`: the statements of a session's operations and their rows that are not read. `user_bytes_max`: all that
    the sessions of one user take; of one session, where nobody authenticates.
    `properties_bytes_max`: the name and the properties that a session is opened with, each property with 100 bytes more.
    `planning_per_user_max`: the long statements of one user that are planned at once; of one session, where nobody authenticates
    (`has_users`).
    """

    sessions_max: int = 1_000_000
    idle_timeout_ms: int = 600_000
    check_interval_ms: int = 60_000
    worker_threads_max: int = 500
    operations_max: int = 1_000
    operations_bytes_max: int = 256 * 1024 * 1024
    user_bytes_max: int = 1024 * 1024 * 1024
    statement_bytes_max: int = 1024 * 1024
    properties_bytes_max: int = 256 * 1024
    planning_per_user_max: int = 1
    planning_cpu_max_ms: int = 300_000
    has_users: bool = False
    body_bytes_max: int = 104_857_600
    page_rows_max: int = 20_000
    page_bytes_max: int = 1024 * 1024
    page_wait_ms: int = 500
    heartbeat_ms: int = 15_000

    @property
    def request_bytes_max(self) -> int:
        """The largest body in JSON: it holds a statement and properties. JSON writes a character with up to three times its
        bytes, control characters apart."""
        return min(self.body_bytes_max, 3 * (self.statement_bytes_max + self.properties_bytes_max) + 65536)

"""What an event-time temporal join must do."""

from __future__ import annotations

from sqlstream.expressions import Expression
from sqlstream.specs.join import JoinKind
from sqlstream.specs.spec import OperatorSpec, StateBound, until_ttl


class TemporalJoinSpec(OperatorSpec, frozen=True, tag="temporal_join"):
    """Join of each left row with the version of the right row that was valid at the left row's time (Flink:
    StreamExecTemporalJoin). Both inputs and the output are insert-only. Output: left columns, then right columns.

    Each right row is a version of the row with its key (`right_keys`), valid from its time until that of the next
    version; of versions with one time the last one counts. A left row waits until the watermark has passed its time. It
    matches the version whose key is equal (NULL equals nothing) if `condition` over the joined row is TRUE; LEFT
    outputs it with NULLs otherwise. A left row behind the watermark is dropped and counted. A version is forgotten
    when the watermark has passed the time of a later one, or `right_ttl_ms` (0: never) after it came. Where
    the BOOLEAN `right_valid_column` (-1: none) is not TRUE, a version ends the one before and matches nothing, as
    `condition` asks; it is forgotten once the watermark has passed it.
    """

    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    left_time_column: int
    right_time_column: int
    condition: Expression | None = None
    right_ttl_ms: int = 0
    right_valid_column: int = -1

    def kept_state(self) -> str:
        ttl = "" if not self.right_ttl_ms else f", or {until_ttl(self.right_ttl_ms)}"
        return (
            "left rows until the watermark passes them; versions per key; dropped: when the watermark"
            f" passes a later version{ttl}"
        )

    def state_bound(self) -> StateBound:
        if self.right_ttl_ms:
            return StateBound(
                f"the watermark, and the versions that come within {self.right_ttl_ms} ms", True
            )
        return StateBound("the watermark, and the number of right keys", False)

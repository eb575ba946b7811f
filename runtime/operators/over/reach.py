"""How far the calls of an OVER look from a row: which results a changed row can change, and which rows these read."""

from __future__ import annotations

import dataclasses

from sqlstream.runtime.operators.over.framed_aggregates import VARIANCES
from sqlstream.schema import Schema
from sqlstream.specs.over import RANKING, WHOLE_PARTITION_RANKING, OverCall, OverSpec
from sqlstream.types import TypeRoot

_CARRIED = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX"})
_INEXACT = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
_TIED = frozenset({"RANK", "DENSE_RANK"})


@dataclasses.dataclass(frozen=True)
class Reach:
    """What the calls of an operator need together.

    A changed row changes the results of `after` rows before it, of `before` rows behind it, and of rows that differ from it by at
    most `high` before it and `-low` behind it in the value of the ORDER BY column; where it `has_peers`, of the rows that are
    equal in order to these too. `is_running`: it may change the results of all rows behind it.
    `reads_all`: results of running frames are computed from the first row of the partition on, because no accumulator stands for
    the rows before. `is_whole`: any result of the partition may change. `sees_first`: a call has the value of the first row.
    """

    before: int = 0
    after: int = 0
    low: float = 0
    high: float = 0
    has_peers: bool = False
    is_running: bool = False
    reads_all: bool = False
    is_whole: bool = False
    sees_first: bool = False

    @staticmethod
    def of(spec: OverSpec, schema: Schema) -> Reach:
        """The reach of all calls."""
        found = Reach()
        for call in spec.calls:
            found = found._with(_reach(call, spec, schema))
        return found

    @property
    def has_range(self) -> bool:
        return self.low != 0 or self.high != 0

    def _with(self, other: Reach) -> Reach:
        return Reach(
            max(self.before, other.before),
            max(self.after, other.after),
            min(self.low, other.low),
            max(self.high, other.high),
            self.has_peers or other.has_peers,
            self.is_running or other.is_running,
            self.reads_all or other.reads_all,
            self.is_whole or other.is_whole,
            self.sees_first or other.sees_first,
        )


_WHOLE = Reach(is_whole=True)


def is_carried(call: OverCall) -> bool:
    """Whether an accumulator stands for the rows before those whose results are computed."""
    if call.function in RANKING:
        return True
    if not call.has_frame or call.frame.start is not None or call.ref is not None:
        return False
    if call.function in ("FIRST_VALUE", "LAST_VALUE"):
        return call.skips_nulls
    is_plain = not call.is_distinct or call.function in ("MIN", "MAX")
    return is_plain and call.function in _CARRIED


def is_first_value(call: OverCall) -> bool:
    """Whether it has the value of the partition's first row, NULL or not, in every frame that is not empty."""
    return (
        call.function == "FIRST_VALUE"
        and call.frame.start is None
        and call.filter < 0
        and not call.skips_nulls
    )


def _reach(call: OverCall, spec: OverSpec, schema: Schema) -> Reach:
    if call.function in WHOLE_PARTITION_RANKING:
        # The number of rows of the partition is in each result.
        return _WHOLE
    if call.function in RANKING:
        return Reach(has_peers=call.function in _TIED, is_running=True)
    if call.function in ("LAG", "LEAD"):
        # NULLs that are passed over may be any number.
        if call.skips_nulls:
            return _WHOLE
        return Reach(before=call.number) if call.function == "LAG" else Reach(after=call.number)
    if call.frame.end is None:
        # The last row of the partition is in every frame.
        return _WHOLE
    found = _frame_reach(call, spec, schema)
    if call.frame.start is not None:
        return _WHOLE if _depends_on_beginning(call, schema) else found
    is_behind = call.frame.is_range and (call.frame.end or 0) < 0
    if call.function == "LAST_VALUE" and call.filter < 0 and not call.skips_nulls and not is_behind:
        return found
    carries = is_carried(call) or is_first_value(call)
    return dataclasses.replace(found, is_running=True, reads_all=not carries, sees_first=is_first_value(call))


def _frame_reach(call: OverCall, spec: OverSpec, schema: Schema) -> Reach:
    """From the start of the frame, or from its row where the frame starts with the partition, to the end."""
    frame = call.frame
    start = min(frame.start or 0, frame.end or 0, 0)
    end = max(frame.start or 0, frame.end or 0, 0)
    if not frame.is_range:
        return Reach(before=int(-start), after=int(end))
    if start == 0 == end:
        return Reach(has_peers=True)
    if schema.types[spec.order[0].column].root in _INEXACT:
        # value - offset, rounded, is not where value + offset, rounded, reaches to.
        return _WHOLE
    return Reach(low=start, high=end)


def _depends_on_beginning(call: OverCall, schema: Schema) -> bool:
    """Whether the last digits of a result, or the order of a user's calls, depend on where in the partition the frames before it
    end: sums that slide along with the frames."""
    if call.ref is not None:
        return "retract" in call.ref.methods
    if call.is_distinct and call.function not in ("MIN", "MAX"):
        return False
    is_inexact = call.function in ("SUM", "AVG") and schema.types[call.args[0]].root in _INEXACT
    return call.function in VARIANCES or is_inexact

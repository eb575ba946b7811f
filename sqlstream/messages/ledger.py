"""The ledger of a job: for each operator the rows that came, and what became of them."""

from __future__ import annotations

import msgspec

from sqlstream.bounds import Count, Int64, Millis

FILTERED = "numRecordsFiltered"
"""The counter of rows that a condition, a limit or a deduplication has dropped."""

DONE = "numRecordsDone"
"""The counter of rows that an operator needs no more, or has taken into its result: written by a sink, aggregated by a window,
joined with all that they could meet."""

RESTORED = "numRecordsRestored"
"""The counter of rows that wait in an operator since the savepoint of another job."""

COPIED = "numRecordsCopied."
"""With the id of an edge the counter of rows that a task has sent there beyond those that its operator has emitted."""

ARRIVED = "numRecordsArrived"
"""The counter of rows in flight that a task has taken from the checkpoint of another job."""

HELD = "heldRows"
"""The figure of rows of the input that wait in the state of an operator. It is read from the state itself."""

RECEIVED = "numRecordsIn"
"""With the name of a side the counter of rows that have come to that side of a join."""

RETRACTED = "numRecordsRetracted"
"""With the name of a side the counter of rows that retractions have taken from the state, and of the retractions themselves."""

EXPIRED_ROWS = "numRecordsExpired"
"""With the name of a side the counter of rows that the state has dropped because of their age."""

SIDES = ("left", "right")


def of_side(figure: str, side: int) -> str:
    """
    >>> of_side(HELD, 1)
    'heldRows.right'
    """
    return f"{figure}.{SIDES[side]}"


LEDGER_PARTS = ("filtered", "late", "rejected", "expired", "retracted", "held", "done")
"""The parts that SHOW LEDGER has columns for."""


class LedgerSide(msgspec.Struct, frozen=True):
    """One side of a join, `name` one of SIDES: the rows that came there, and what they became, as of an operator."""

    name: str
    rows_in: Count
    parts: dict[str, Int64] = {}
    balance: tuple[str, ...] = ()
    difference: Int64 = 0


class LedgerEntry(msgspec.Struct, frozen=True):
    """One operator, over all its subtasks since the job began.

    `sent` are the rows that the operators which it reads have emitted to it, `in_flight` those of them that were under way when
    the checkpoint was taken; both None where they are not compared. `parts` are what the rows became, by name. `balance` says
    which parts add up to the rows in, empty where rows in and rows out have no fixed relation; `difference` is what is
    missing from them (negative: there is too much), and `lost` what is missing on the way to the operator. `sides` are those
    of a join, of which each adds up by itself."""

    operator_id: Count
    name: str
    vertex_id: str
    rows_in: Count
    rows_out: Count
    parts: dict[str, Int64] = {}
    balance: tuple[str, ...] = ()
    difference: Int64 = 0
    sent: Count | None = None
    in_flight: Count = 0
    lost: Int64 = 0
    sides: tuple[LedgerSide, ...] = ()

    @property
    def is_balanced(self) -> bool:
        return not self.difference and not self.lost and not any(side.difference for side in self.sides)


class JobLedger(msgspec.Struct, frozen=True):
    """At checkpoint `checkpoint_id`, 0 at the end of the job. `taken_ms` is of the clock of checkpoints' statistics."""

    checkpoint_id: Count
    taken_ms: Millis
    entries: tuple[LedgerEntry, ...]

    @property
    def is_balanced(self) -> bool:
        return all(entry.is_balanced for entry in self.entries)


def difference_text(entry: LedgerEntry) -> str:
    """What does not add up, empty when all does.

    >>> difference_text(LedgerEntry(2, "Calc", "v", 10, 7, {"filtered": 2}, ("out", "filtered"), 1))
    'of 10 rows in 1 is missing: out 7, filtered 2'
    >>> difference_text(LedgerEntry(2, "Calc", "v", 10, 10, sent=12, lost=2))
    '12 rows were sent to it, and 10 have arrived: 2 are missing'
    >>> left = LedgerSide("left", 10, {"held": 7, "done": 2}, ("done", "held"), 1)
    >>> difference_text(LedgerEntry(2, "Join", "v", 10, 10, sides=(left,)))
    'left: of 10 rows in 1 is missing: done 2, held 7'
    """
    found = []
    if entry.lost:
        arrived = entry.rows_in + entry.in_flight
        where = "have arrived or are in flight" if entry.in_flight else "have arrived"
        found.append(f"{entry.sent} rows were sent to it, and {arrived} {where}: {_missing(entry.lost)}")
    if entry.difference:
        found.append(_unequal(entry, entry.rows_out))
    found += [f"{side.name}: {side_difference_text(side)}" for side in entry.sides if side.difference]
    return "; ".join(found)


def side_difference_text(side: LedgerSide) -> str:
    return _unequal(side, 0) if side.difference else ""


def _unequal(found: LedgerEntry | LedgerSide, rows_out: int) -> str:
    amounts = {"out": rows_out, **found.parts}
    parts = ", ".join(f"{name} {amounts.get(name, 0)}" for name in found.balance)
    return f"of {found.rows_in} rows in {_missing(found.difference)}: {parts}"


def _missing(rows: int) -> str:
    verb = "is" if abs(rows) == 1 else "are"
    return f"{rows} {verb} missing" if rows > 0 else f"{-rows} {verb} too many"


def balance_text(entry: LedgerEntry | LedgerSide) -> str:
    """What adds up, empty where nothing has to.

    >>> balance_text(LedgerEntry(2, "Calc", "v", 10, 7, {"filtered": 3}, ("out", "filtered")))
    'rows in = rows out + filtered'
    >>> balance_text(LedgerEntry(2, "Over", "v", 10, 9, {"held": 3, "restored": 2}, ("out", "held", "late")))
    'rows in + restored = rows out + held + late'
    """
    if not entry.balance:
        return ""
    names = ["rows out" if part == "out" else part for part in entry.balance]
    restored = " + restored" if entry.parts.get("restored") else ""
    return f"rows in{restored} = {' + '.join(names)}"

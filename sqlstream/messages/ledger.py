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

LEDGER_PARTS = ("filtered", "late", "rejected", "expired", "held", "done")
"""The parts that SHOW LEDGER has columns for."""


class LedgerEntry(msgspec.Struct, frozen=True):
    """One operator, over all its subtasks since the job began.

    `sent` are the rows that the operators which it reads have emitted to it, `in_flight` those of them that were under way when
    the checkpoint was taken; both None where they are not compared. `parts` are what the rows became, by name. `balance` says
    which parts add up to the rows in, empty where rows in and rows out have no fixed relation; `difference` is what is
    missing from them (negative: there is too much), and `lost` what is missing on the way to the operator."""

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

    @property
    def is_balanced(self) -> bool:
        return not self.difference and not self.lost


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
    """
    found = []
    if entry.lost:
        arrived = entry.rows_in + entry.in_flight
        where = "have arrived or are in flight" if entry.in_flight else "have arrived"
        found.append(f"{entry.sent} rows were sent to it, and {arrived} {where}: {_missing(entry.lost)}")
    if entry.difference:
        amounts = {"out": entry.rows_out, **entry.parts}
        parts = ", ".join(f"{name} {amounts.get(name, 0)}" for name in entry.balance)
        found.append(f"of {entry.rows_in} rows in {_missing(entry.difference)}: {parts}")
    return "; ".join(found)


def _missing(rows: int) -> str:
    verb = "is" if abs(rows) == 1 else "are"
    return f"{rows} {verb} missing" if rows > 0 else f"{-rows} {verb} too many"


def balance_text(entry: LedgerEntry) -> str:
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

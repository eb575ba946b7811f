"""Why a stream and a batch may rightly differ: what the stream has lost, and what the statement leaves open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlstream import types as sql
from sqlstream.client.verification.contributing import Tracer
from sqlstream.client.verification.outcome import Reason
from sqlstream.errors import JobError, SqlStreamError
from sqlstream.expressions import AggregateCall, Call, InputRef, Literal, walk
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.relational import nodes as plan
from sqlstream.planner.verification import BATCH_IDS
from sqlstream.schema import Field, Schema
from sqlstream.types import BOOLEAN

if TYPE_CHECKING:
    from sqlstream.client.sessions.planning import PlanningSession
    from sqlstream.messages.rpc import JobMetrics
    from sqlstream.planner.bind.context import BindContext

_LOST = (
    ("late-rows", "numLateRecordsDropped", "late and dropped; a batch has no late rows"),
    ("rejected-rows", "numRecordsRejected", "undecodable and left out"),
    ("null-rows", "numNullRecordsDropped", "dropped for a NULL in a NOT NULL column"),
    ("overflows", "numArithmeticOverflows", "with whole numbers beyond their type, which a stream wraps"),
)
"""Kind, metric, and what became of the rows."""


def run_reasons(metrics: JobMetrics) -> Iterator[Reason]:
    """The rows that the stream has lost, and those that the batch has lost in another number."""
    for kind, metric, words in _LOST:
        streamed, batched = _lost(metrics, metric, is_batch=False), _lost(metrics, metric, is_batch=True)
        if not streamed and not batched:
            continue
        text = f"{_were(streamed)} {words}"
        if batched:
            text += f" in the stream, {batched:,} in batch"
        yield Reason(kind, text)
    expired = _lost(metrics, "numStateEntriesExpired", is_batch=False)
    if expired:
        yield Reason(
            "expired-state",
            f"{expired:,} {'entry' if expired == 1 else 'entries'} of the stream's state expired (table.exec.state.ttl); a "
            "batch forgets nothing",
        )


def _lost(metrics: JobMetrics, metric: str, *, is_batch: bool) -> int:
    """A figure of all operators of one side of a verifying job."""
    return sum(
        int(figures.get(metric, 0))
        for id, figures in metrics.operators.items()
        if (id >= BATCH_IDS) is is_batch
    )


def near_reason(count: int, tolerance: float) -> Reason:
    pairs = f"{count:,} differing row{'' if count == 1 else 's'}"
    return Reason(
        "floats",
        f"{pairs} differ in floats alone, by less than {tolerance!r} of the value: sums of floats depend on the order "
        f"of addition (SET 'sqlstream.verify.float-tolerance' = '{tolerance!r}' takes them as equal)",
    )


def plan_reasons(session: PlanningSession, sink: plan.Sink, context: BindContext) -> Iterator[Reason]:
    """What the statement leaves open: ties, a LIMIT without an order, and functions with another value in each run."""
    names: dict[str, None] = {}
    for node in plan.walk_nodes(sink):
        match node:
            case plan.Rank() | plan.Window() if node.order:
                yield from _ties(
                    session, context, node.input, (*node.partition_keys, *(k.column for k in node.order))
                )
            case plan.Sort() if node.fetch >= 0 or node.offset:
                if node.order:
                    yield from _ties(session, context, node.input, tuple(k.column for k in node.order))
                else:
                    yield Reason("limit", "LIMIT without ORDER BY keeps any of the rows")
        for expression in node.scalar_expressions():
            for part in walk(expression):
                if isinstance(part, Call) and not is_deterministic(part.with_args(())):
                    names.setdefault(part.function)
    for name in names:
        yield Reason("not-deterministic", f"{name} has another value in each run")


def _ties(
    session: PlanningSession, context: BindContext, input: plan.RelationalNode, columns: tuple[int, ...]
) -> Iterator[Reason]:
    """Whether rows are equal in all `columns`, so that any of them may come first."""
    columns = tuple(dict.fromkeys(columns))
    fields = tuple(input.schema.fields[c] for c in columns)
    names = ", ".join(field.name for field in fields)
    count = sql.BIGINT.not_null()
    grouped = plan.Aggregate(
        input=input,
        keys=columns,
        calls=(AggregateCall("COUNT", (), count),),
        schema=Schema((*fields, Field("n", count))),
    )
    several = Call(">", (InputRef(len(columns), count), Literal(1, count)), BOOLEAN.not_null())
    found = plan.Filter(input=grouped, condition=several, schema=grouped.schema)
    try:
        first = plan.Sort(input=found, order=(), fetch=1, schema=grouped.schema)
        tied = Tracer(session, context, 1).read(first).rows
    except JobError:
        raise
    except SqlStreamError as error:
        yield Reason(
            "ties", f"rows may be equal in {names}, and any of them may come first ({error.message})"
        )
        return
    if tied.num_rows:
        values = ", ".join(
            f"{name} = {value}"
            for name, value in zip(
                (f.name for f in fields), (c[0].as_py() for c in tied.columns), strict=False
            )
        )
        yield Reason("ties", f"rows are equal in {names}, and any of them may come first: {values}")


def _were(count: int) -> str:
    return f"{count:,} row{' was' if count == 1 else 's were'}"

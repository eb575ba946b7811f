"""Whether rows that differ are equally right: where a statement leaves a choice among equal rows, each answer is one.

Of a Top-N, a deduplication or a LIMIT whose rows are the result, each row is checked. It must be one of the rows that could
stand there, and the values that decide must be those of the batch. Any other choice, such as that of a ROWS frame or below a
join, is taken away: both sides run again with the ties broken by all columns, and must have the same rows.
"""

from __future__ import annotations

import dataclasses
import os
import secrets
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlstream.catalog import CatalogTable, Column, ObjectPath
from sqlstream.client.verification.run import run_to_end
from sqlstream.client.verification.written_table import reading
from sqlstream.errors import UserError
from sqlstream.expressions import Expression, InputRef, SortKey, inputs_of, references, substitute
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.bind.relations.table_options import find_connector, written_format
from sqlstream.planner.bind.sink import collecting_sink
from sqlstream.planner.compile import compile_statements
from sqlstream.planner.relational import nodes as plan
from sqlstream.runtime.checkpoint.places import check_place
from sqlstream.schema import Field, Schema
from sqlstream.specs.over import OverCall
from sqlstream.types import TypeRoot

if TYPE_CHECKING:
    from sqlstream.client.sessions.planning import PlanningSession
    from sqlstream.planner.batch import CompiledBatch
    from sqlstream.planner.bind.context import BindContext
    from sqlstream.planner.compile import CompiledPlan
    from sqlstream.specs.compare_rows import ComparisonReport

EACH_ROW = "each row of the stream is one that may stand there"
ALIKE = "with ties broken by all columns, both sides have the same rows"
_FOLLOWS_PLACES = frozenset({"ROW_NUMBER", "NTILE", "LAG", "LEAD"})
"""Functions of OVER whose value follows from the places of rows alone."""

_UNORDERED = frozenset(
    {TypeRoot.ARRAY, TypeRoot.MULTISET, TypeRoot.MAP, TypeRoot.ROW, TypeRoot.NULL, TypeRoot.VARIANT}
)

Compare = Callable[[plan.Sink, plan.Sink], "ComparisonReport"]
"""Compares the rows of the first query, as a stream, with those of the second in batch."""


@dataclasses.dataclass(frozen=True)
class _Choice:
    """The last node of a result that chooses among equal rows. `expressions` are the columns of the result over those of `node`;
    `deciding` are the columns of `node` that decide which rows there are, and `ranks` those with the place of a row."""

    node: plan.Rank | plan.Sort
    expressions: tuple[Expression, ...]
    deciding: tuple[int, ...]
    ranks: frozenset[int]

    def whole(self) -> plan.RelationalNode:
        """The columns of the result, then those that decide."""
        return _project(self.node, (*self.expressions, *self._decisions()))

    def candidates(self) -> plan.RelationalNode:
        """The same of all rows among which the node chooses, without their ranks."""
        unranked = tuple(e for e in self.expressions if not inputs_of(e) & self.ranks)
        return _project(self.node.input, (*unranked, *self._decisions(self.ranks)))

    def of_candidates(self) -> tuple[int, ...]:
        """Where the columns of `candidates` are in `whole`."""
        places = [i for i, e in enumerate(self.expressions) if not inputs_of(e) & self.ranks]
        width = len(self.expressions)
        return (*places, *(width + i for i, c in enumerate(self.deciding) if c not in self.ranks))

    def decided(self) -> tuple[int, ...]:
        """Where the columns of `whole` are that every answer has alike."""
        width = len(self.expressions)
        ranked = [i for i, e in enumerate(self.expressions) if inputs_of(e) & self.ranks]
        return (*ranked, *range(width, width + len(self.deciding)))

    def _decisions(self, without: frozenset[int] = frozenset()) -> tuple[Expression, ...]:
        types = self.node.schema.types
        return tuple(InputRef(c, types[c]) for c in self.deciding if c not in without)


def is_admissible(
    session: PlanningSession,
    sink: plan.Sink,
    stream: CompiledPlan,
    batch: CompiledBatch,
    context: BindContext,
    compare: Compare,
) -> str:
    """Why the differing rows of a query are right, or empty when this is not known: no node leaves a choice, or rows differ for
    another reason, too. `sink` is the query as it was bound. JobError when a job fails."""
    if not any(map(_chooses, plan.walk_nodes(sink))):
        return ""
    try:
        if _has_only_candidates(session, stream, batch, context, compare):
            return EACH_ROW
        ordered = _with_broken_ties(sink)
        if ordered is not None and _is_equal(compare(ordered, ordered)):
            return ALIKE
    except UserError:
        # What VERIFY would have run is refused, such as a type that no file carries: nothing is known.
        return ""
    return ""


def _is_equal(report: ComparisonReport) -> bool:
    return not report.surplus and not report.missing


# --- the rows that could stand there ---------------------------------------------------------------


def _has_only_candidates(
    session: PlanningSession,
    stream: CompiledPlan,
    batch: CompiledBatch,
    context: BindContext,
    compare: Compare,
) -> bool:
    streamed, batched = _choice(stream.optimised[0]), _choice(batch.optimised[0])
    if streamed is None or batched is None or streamed.deciding != batched.deciding:
        return False
    with tempfile.TemporaryDirectory(prefix="sqlstream-verify-") as directory:
        place = os.path.join(directory, "rows")
        check_place(place, session.files())
        kept = _keeping(streamed.whole(), place, context)
        graph = compile_statements((kept,), context, secrets.token_hex(16)).job_graph
        run_to_end(session.submit_graph(session.with_python_files(graph, context)), lambda batch: None)

        def is_within(columns: tuple[int, ...], rows: plan.RelationalNode, *, may_lack: bool) -> bool:
            found = collecting_sink(_columns(reading(kept, context).input, columns), context)
            report = compare(found, collecting_sink(rows, context))
            return not report.surplus and (may_lack or not report.missing)

        decided = _columns(batched.whole(), batched.decided())
        return is_within(streamed.decided(), decided, may_lack=False) and is_within(
            streamed.of_candidates(), batched.candidates(), may_lack=True
        )


def _choice(sink: plan.Sink) -> _Choice | None:
    """The choice of a result whose rows are those of one Top-N or LIMIT, with columns of their own; None for another plan."""
    node = sink.input
    expressions: tuple[Expression, ...] = references(node.schema.types)
    while isinstance(node, plan.Project):
        expressions = tuple(substitute(e, node.expressions) for e in expressions)
        node = node.input
    if not is_deterministic(*expressions) or sum(map(_chooses, plan.walk_nodes(sink))) != 1:
        return None
    own = len(node.inputs[0].schema) if node.inputs else 0
    match node:
        case plan.Rank():
            ranks = frozenset({own}) if node.outputs_rank else frozenset()
            deciding = (*node.partition_keys, *(k.column for k in node.order), *sorted(ranks))
        case plan.Sort() if node.fetch >= 0 or node.offset:
            ranks, deciding = frozenset(), tuple(k.column for k in node.order)
        case _:
            return None
    mixed = any(inputs_of(e) & ranks and not inputs_of(e) <= {*deciding} for e in expressions)
    return None if mixed else _Choice(node, expressions, tuple(dict.fromkeys(deciding)), ranks)


def _keeping(node: plan.RelationalNode, place: str, context: BindContext) -> plan.Sink:
    """INSERT INTO a table of files at `place` that takes and shows every change."""
    schema = collecting_sink(node, context).schema
    options = {
        "connector": "filesystem",
        "path": place,
        "format": "parquet",
        "changelog.mode": "retract",
        "changelog.op-column": f"op{secrets.token_hex(4)}",
    }
    path = ObjectPath(context.current_catalog, context.current_database, "verified rows")
    table = CatalogTable(path, tuple(Column(f.name, f.type) for f in schema.fields), options)
    sink = plan.Sink(input=node, table=table, options=tuple(sorted(options.items())), schema=schema)
    written = written_format(find_connector(options, context, None), options, context)
    return sink if written is None else dataclasses.replace(sink, format_mode=written.sink_mode)


def _columns(node: plan.RelationalNode, columns: tuple[int, ...]) -> plan.RelationalNode:
    return _project(node, references(node.schema.types, columns))


def _project(node: plan.RelationalNode, expressions: tuple[Expression, ...]) -> plan.RelationalNode:
    names = [f"c{i}" for i in range(len(expressions))]
    schema = Schema(
        tuple(Field(n, e.type.without_time_attribute()) for n, e in zip(names, expressions, strict=True))
    )
    return plan.Project(input=node, expressions=expressions, schema=schema)


# --- ties broken alike -----------------------------------------------------------------------------


def _chooses(node: plan.RelationalNode) -> bool:
    match node:
        case plan.Rank():
            return True
        case plan.Window():
            return bool(node.order) and any(map(_follows_places, node.calls))
        case plan.Sort():
            return node.fetch >= 0 or node.offset > 0
    return False


def _follows_places(call: OverCall) -> bool:
    """Whether the value of a row changes when rows that are equal in ORDER BY change places."""
    if call.function in _FOLLOWS_PLACES:
        return True
    return call.has_frame and (
        not call.frame.is_range or call.function in ("FIRST_VALUE", "LAST_VALUE", "NTH_VALUE")
    )


def _has_peers(call: OverCall) -> bool:
    """Whether rows that are equal in ORDER BY have one value: another column of ORDER BY would make it another one."""
    if call.function in _FOLLOWS_PLACES or (call.has_frame and not call.frame.is_range):
        return False
    return call.function != "FIRST_VALUE" or call.frame.start is not None


def _with_broken_ties(sink: plan.Sink) -> plan.Sink | None:
    """The query whose nodes choose by all columns of their rows; None where that would change more than the choice."""
    has_peers = False

    def broken(node: plan.RelationalNode) -> plan.RelationalNode:
        nonlocal has_peers
        if not _chooses(node):
            return node
        assert isinstance(node, plan.Rank | plan.Window | plan.Sort)
        has_peers = has_peers or (isinstance(node, plan.Window) and any(map(_has_peers, node.calls)))
        partition = () if isinstance(node, plan.Sort) else node.partition_keys
        taken = {*partition, *(key.column for key in node.order)}
        types = node.input.schema.types
        more = (SortKey(c) for c, t in enumerate(types) if c not in taken and t.root not in _UNORDERED)
        return dataclasses.replace(node, order=(*node.order, *more))

    found = plan.rewrite(sink, broken)
    assert isinstance(found, plan.Sink)
    return None if has_peers else found

"""EXPLAIN STATE: what each operator of a job keeps, for how long, how much that is, and what bounds it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlstream.graph.job_graph import ChainedOperator, JobGraph
from sqlstream.specs.spec import StateBound

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.runtime.operators.dry_run import KeptState

MEASURED_MAX = 200
"""The operators whose bytes are found out. Each takes some milliseconds."""
_SIDES = ("left", "right")
_KEYS = (("keys", 0), ("partition_keys", 0), ("left_keys", 0), ("right_keys", 1))
"""Attributes of specs, and the input whose columns they number."""
_OF_RUNTIME = frozenset({"$count", "$matches", "$touched_ms", "$time_ms", "$is_matched", "$owner"})
"""Columns that a table has beside those of its rows."""


def explain_state(graph: JobGraph) -> str:
    """One block per operator that keeps something, in the order of the plan."""
    keeping = [o for v in graph.vertices for o in v.operators if o.spec.kept_state()]
    if not keeping:
        return "No operator keeps state.\n"
    blocks = [
        "\n".join(_block(operator, graph, is_measured=number < MEASURED_MAX))
        for number, operator in enumerate(keeping)
    ]
    growing = sum(not o.spec.state_bound().is_finite for o in keeping)
    return "\n\n".join([*blocks, _summary(growing, len(keeping))]) + "\n"


def _summary(growing: int, count: int) -> str:
    if growing:
        return f"Nothing bounds the state of {growing} of {count} operator{'s' if count > 1 else ''}."
    return "All state is bounded."


def _block(operator: ChainedOperator, graph: JobGraph, *, is_measured: bool) -> Iterator[str]:
    spec = operator.spec
    kept, _, dropped = spec.kept_state().partition("; dropped: ")
    bound = spec.state_bound()
    yield f"{operator.name}: {operator.state.title if operator.state else operator.description}"
    yield f"  keeps       {kept}"
    yield f"  dropped     {dropped or 'never'}"
    keys = [_key(operator, name, number) for name, number in _KEYS if hasattr(spec, name)]
    if any(keys):
        yield f"  key         {' = '.join(keys)}"
    if is_measured:
        from sqlstream.runtime.operators.dry_run import kept_state

        found = kept_state(operator, graph.config)
        for table in sorted(found.tables, key=lambda t: not t.is_keyed):
            if table.columns.names == [table.name]:
                yield f"  value       {_column(table.columns.field(0))}"
                continue
            columns = (_column(field) for field in table.columns if field.name not in _OF_RUNTIME)
            yield f"  table       {table.name} ({', '.join(columns)})"
        yield f"  size        {_size(found, bound)}"
    yield f"  bounded by  {bound.by if bound.is_finite else f'nothing but {bound.by}'}"
    if not bound.is_finite:
        yield "  hint        SET 'table.exec.state.ttl' = '1 d' drops what has not changed for a day"


def _key(operator: ChainedOperator, attribute: str, number: int) -> str:
    """The columns of input `number` by which rows are kept."""
    names = operator.input_schemas[number].names
    return ", ".join(names[k] for k in getattr(operator.spec, attribute))


def _column(field: pa.Field) -> str:
    from sqlstream.runtime.formats.parquet_types import sql_name

    return f"{field.name} {sql_name(field.type)}"


def _size(found: KeptState, bound: StateBound) -> str:
    sizes = found.bytes_per_row
    each = f"{sizes[0]} bytes per {bound.per}"
    if len(sizes) > 1:
        each = ", ".join(
            f"{side} {size} bytes per {bound.per}" for side, size in zip(_SIDES, sizes, strict=True)
        )
    return f"about {each}{_assumed(found)}"


def _assumed(found: KeptState) -> str:
    """What the size assumes of columns whose values vary in length, and of tables with any number of entries per key."""
    import pyarrow as pa

    from sqlstream.runtime.operators.dry_run import TEXT_LENGTH

    types = [field.type for table in found.tables for field in table.columns]
    assumed = []
    if any(pa.types.is_string(t) or pa.types.is_binary(t) for t in types):
        assumed.append(f"texts of {TEXT_LENGTH} characters")
    if any(pa.types.is_nested(t) for t in types):
        assumed.append("nested values that are empty")
    assumed += [f"one value per key in {table.name}" for table in found.tables if "." in table.name]
    return f", with {' and '.join(assumed)}" if assumed else ""

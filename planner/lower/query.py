"""A relational plan as one query of a batch engine, with the tables that it reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import msgspec

from sqlstream import config
from sqlstream.batch_plan import table_names
from sqlstream.catalog import ObjectPath
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.planner.lower.engine import HostedFunctions
from sqlstream.planner.physical.planning import LoweredHistory
from sqlstream.planner.relational.nodes import RelationalNode, TableScan, rewrite, walk_nodes
from sqlstream.planner.relational.recursive_query import Iterate, MutualIterate
from sqlstream.planner.relational.scan import (
    EVENTS_DUPLICATE,
    changes_are_doubled,
    find_connector,
    source_spec,
)
from sqlstream.specs import SourceSpec
from sqlstream.specs.batch_query import HostedFunction
from sqlstream.spi.connector import ConnectorDescriptor

Lower = Callable[[RelationalNode, Mapping[str, str], str, HostedFunctions], str]
"""A plan, the relation of each table by its name, and the time zone, as SQL of an engine; it adds to the hosted functions."""

MODE = "execution.runtime-mode"
STREAM_HINT = f"run it as a stream: SET '{MODE}' = 'STREAMING'"


@dataclasses.dataclass(frozen=True)
class LoweredPlan:
    """A plan as SQL of an engine over the tables t0, t1, …, of which `shared` are read more than once, and `changes` hold
    changes. `functions` are those of the stream that the SQL calls."""

    sql: str
    shared: tuple[str, ...]
    changes: tuple[str, ...]
    functions: tuple[HostedFunction, ...]


def scans_of(root: RelationalNode) -> tuple[TableScan, ...]:
    """The distinct scans below a node, such as a sink, in the order of the statement."""
    return tuple(dict.fromkeys(node for node in walk_nodes(root) if isinstance(node, TableScan)))


def lower(engine: str) -> Lower:
    """How plans become SQL of an engine."""
    if engine == "spark":
        from sqlstream.planner.lower.spark import lower_spark

        return lower_spark
    from sqlstream.planner.lower.duckdb import lower_duckdb

    return lower_duckdb


def bounded_source(scan: TableScan, connectors: Mapping[str, ConnectorDescriptor]) -> SourceSpec:
    """What a batch reads for a scan. UserError SS3302 for a table that never ends."""
    if not scan.is_bounded:
        raise UserError(
            "SS3302",
            f'table "{scan.table.path.name}" never ends, so a batch statement cannot read it',
            span=scan.span,
            hint=f"{STREAM_HINT}, or bound the table (DESCRIBE CONNECTOR shows how)",
        )
    return source_spec(scan, find_connector(connectors, scan.table, dict(scan.options), scan.span))


def lower_plan(
    root: RelationalNode, scans: tuple[TableScan, ...], engine: str, settings: Mapping[str, str]
) -> LoweredPlan:
    """The plan, which reads these scans, in the SQL of an engine. UserError SS3301 for what the engine lacks."""
    names = dict(zip(scans, table_names(len(scans)), strict=True))
    is_doubled = bool(config.get(settings, EVENTS_DUPLICATE))

    def renamed(node: RelationalNode) -> RelationalNode:
        return _renamed(node, names[node], is_doubled) if isinstance(node, TableScan) else node

    time_zone = str(config.get(settings, "table.local-time-zone"))
    functions = HostedFunctions()
    sql = lower(engine)(rewrite(root, renamed), {name: name for name in names.values()}, time_zone, functions)
    return LoweredPlan(
        sql,
        tuple(name for scan, name in names.items() if times_read(root, scan) > 1),
        tuple(name for scan, name in names.items() if not scan.mode.is_insert_only),
        functions.found,
    )


def lower_history(
    root: RelationalNode, connectors: Mapping[str, ConnectorDescriptor], settings: Mapping[str, str]
) -> LoweredHistory:
    """A plan in the SQL of DuckDB, and what its tables are. UserError SS3301 for what DuckDB lacks, SS3302 for a table that never
    ends."""
    scans = scans_of(root)
    sources = tuple(bounded_source(scan, connectors) for scan in scans)
    plan = lower_plan(root, scans, "duckdb", settings)
    return LoweredHistory(plan.sql, sources, plan.shared, plan.changes, plan.functions)


def _renamed(scan: TableScan, name: str, is_doubled: bool) -> TableScan:
    """The scan of the relation that the engine sees: filters and limit are applied by our readers, but for filters of changes.
    `is_doubled`: changes may come twice."""
    path = ObjectPath(scan.table.path.catalog, scan.table.path.database, name)
    columns = tuple(f"c{i}" for i in range(len(scan.schema)))
    own = [*scan.columns, *(field.name for field in scan.metadata)]
    keys = tuple(columns[own.index(key)] for key in scan.table.primary_key if key in scan.columns)
    table = msgspec.structs.replace(scan.table, path=path, primary_key=keys)
    filters = () if scan.mode.is_insert_only else scan.filters
    made = dataclasses.replace(scan, table=table, columns=columns, metadata=(), filters=filters, limit=-1)
    if is_doubled and changes_are_doubled(scan):
        # The last change of a key says whether it is there, as in a table of changes by key with operations.
        return dataclasses.replace(made, mode=ChangelogMode.UPSERT)
    return made


def times_read(root: RelationalNode, scan: TableScan) -> int:
    """How often a scan is read when the plan is written out as a tree, and each round for itself; 2 stands for more."""
    counted: dict[int, int] = {}

    def count(node: RelationalNode) -> int:
        if id(node) not in counted:
            times = 1 if node == scan else sum(count(each) for each in node.inputs)
            is_again = isinstance(node, MutualIterate) or (isinstance(node, Iterate) and count(node.step))
            counted[id(node)] = min(times * 2 if is_again else times, 2)
        return counted[id(node)]

    return count(root)

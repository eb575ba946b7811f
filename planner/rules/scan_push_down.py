"""Copy filters and limits into scans whose connector can use them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlstream.expressions import conjuncts, inputs_of
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.relational.nodes import Filter, RelationalNode, Sort, TableScan
from sqlstream.planner.rules.filter_merge import unique
from sqlstream.planner.rules.filter_push_down import make_filter
from sqlstream.spi.connector import ConnectorDescriptor


def push_into_scan(node: RelationalNode, connectors: Mapping[str, ConnectorDescriptor]) -> RelationalNode:
    """The scan below a Filter or a Limit receives its conjuncts or count. A Filter stays above the scan unless the
    connector filters exactly.

    A limit is a hint for each subtask of the source, so the Limit itself always stays.
    """
    scan = node.inputs[0] if node.inputs else None
    if not isinstance(scan, TableScan):
        return node
    descriptor = connectors.get(dict(scan.options).get("connector", ""))
    if descriptor is None:
        return node
    if not scan.mode.is_insert_only:
        return _by_key(node, scan) if isinstance(node, Filter) else node
    if isinstance(node, Filter) and descriptor.reading.filters and is_deterministic(node.condition):
        filters = unique(scan.filters + conjuncts(node.condition))
        filtered = dataclasses.replace(scan, filters=filters)
        if descriptor.reading.filters_exactly:
            return filtered
        return node if filters == scan.filters else dataclasses.replace(node, input=filtered)
    if (
        isinstance(node, Sort)
        and not node.order
        and node.fetch >= 0
        and descriptor.reading.limits
        and not scan.filters
    ):
        limit = node.offset + node.fetch
        return (
            node
            if scan.limit == limit
            else dataclasses.replace(node, input=dataclasses.replace(scan, limit=limit))
        )
    return node


def _by_key(node: Filter, scan: TableScan) -> RelationalNode:
    """Over changes of rows: the conjuncts by the primary key, which the scan applies itself."""
    names = scan.columns
    keys = {i for i, name in enumerate(names) if name in scan.table.primary_key}
    parts = conjuncts(node.condition)
    moved = tuple(p for p in parts if inputs_of(p) and inputs_of(p) <= keys and is_deterministic(p))
    if not moved:
        return node
    filtered = dataclasses.replace(scan, filters=unique(scan.filters + moved))
    return make_filter(filtered, tuple(p for p in parts if p not in moved), node)

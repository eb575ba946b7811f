"""Copy filters and limits into scans whose connector can use them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from planner.relational.nodes import Filter, RelationalNode, Sort, TableScan
from planner.rules.filter_merge import unique
from sqlstream.expressions import conjuncts
from sqlstream.functions.determinism import is_deterministic
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
    if descriptor is None or not scan.mode.is_insert_only:
        return node
    if isinstance(node, Filter) and descriptor.filters and is_deterministic(node.condition):
        filters = unique(scan.filters + conjuncts(node.condition))
        filtered = dataclasses.replace(scan, filters=filters)
        if descriptor.filters_exactly:
            return filtered
        return node if filters == scan.filters else dataclasses.replace(node, input=filtered)
    if (
        isinstance(node, Sort)
        and not node.order
        and node.fetch >= 0
        and descriptor.limits
        and not scan.filters
    ):
        limit = node.offset + node.fetch
        return (
            node
            if scan.limit == limit
            else dataclasses.replace(node, input=dataclasses.replace(scan, limit=limit))
        )
    return node

"""A table's connector, as planning reads it: descriptor and parallelism."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream.catalog import CatalogTable
from sqlstream.errors import Span, UserError, did_you_mean
from sqlstream.spi.connector import ConnectorDescriptor


def find_connector(
    connectors: Mapping[str, ConnectorDescriptor],
    table: CatalogTable,
    options: dict[str, str],
    span: Span | None,
) -> ConnectorDescriptor:
    """The descriptor of the table's connector. UserError SS4004 when there is no connector of that name."""
    name = options.get("connector", "")
    descriptor = connectors.get(name)
    if descriptor is None:
        raise UserError(
            "SS4004",
            f'table "{table.path.name}" has the unknown connector "{name}"',
            span=span,
            hint=did_you_mean(name, list(connectors)) or f"choose one of {', '.join(sorted(connectors))}",
        )
    return descriptor


def parallelism_option(
    descriptor: ConnectorDescriptor, options: dict[str, str], key: str, span: Span | None
) -> int:
    """The parallelism in the table's options, 0 without one. UserError SS4002 when it is no positive number."""
    if key not in options or key not in {o.key for o in descriptor.options}:
        return 0
    text = options[key].strip()
    if not text.isdecimal() or int(text) < 1:
        raise UserError(
            "SS4002", f'option "{key}" takes a positive number, not "{text}"', span=span, hint="write '2'"
        )
    return int(text)

"""Checks for what other packages bring: one case a connector, format, type of catalogs or function, and the engine's own
promises for each.

    from sqlstream.testing import ConnectorCase, checks

    CASE = ConnectorCase("ledger", {"n": "BIGINT"}, lambda place: {"path": str(place / "book")}, values=("n",))

    @pytest.mark.parametrize("check", checks(CASE), ids=str)
    def test_the_ledger(check, tmp_path):
        check(tmp_path)

A `ProcessHarness` runs a process table function alone.
The connectors, formats and types of catalogs that come with sqlstream pass the same checks.
"""

from sqlstream.testing.catalog_checks import CatalogCase
from sqlstream.testing.check import Check, checks
from sqlstream.testing.connector_checks import ConnectorCase
from sqlstream.testing.format_checks import FormatCase
from sqlstream.testing.function_checks import FunctionCase
from sqlstream.testing.message_checks import MessageCase
from sqlstream.testing.process_harness import ProcessHarness

__all__ = [
    "CatalogCase",
    "Check",
    "ConnectorCase",
    "FormatCase",
    "FunctionCase",
    "MessageCase",
    "ProcessHarness",
    "checks",
]

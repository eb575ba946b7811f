"""The settings of a Spark session under which SQL that planner.lower makes for Spark means what it says."""

from __future__ import annotations

SPARK_SQL_SETTINGS: dict[str, str] = {
    # Whole numbers wrap and casts give NULL, as in Flink; where Flink fails the SQL calls raise_error.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    # Fields of a ROW may differ in case alone.
    "spark.sql.caseSensitive": "true",
    # Else ${name} within a string literal is replaced.
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate": "false",
    "spark.sql.legacy.statisticalAggregate": "false",
    "spark.sql.legacy.sizeOfNull": "false",
    "spark.sql.legacy.codingErrorAction": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.charAsVarchar": "false",
}
"""Set for each session that runs lowered SQL; a user's own value of one of these keys is refused."""

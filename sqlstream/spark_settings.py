"""Settings of Spark: those that our SQL relies on, and which a statement or only a new session can change."""

from __future__ import annotations

PREFIX = "spark."
"""Keys of this kind in a statement's settings are Spark's."""

SQL_PREFIX = "spark.sql."

SESSION_TIME_ZONE = "UTC"

SEMANTICS: dict[str, str] = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": SESSION_TIME_ZONE,
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
}
"""What the SQL that is generated for Spark is written for, in force for every statement. No setting of a user changes these."""


def is_spark_key(key: str) -> bool:
    return key.startswith(PREFIX)

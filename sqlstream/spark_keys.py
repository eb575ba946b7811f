"""Settings whose keys are Spark's: those that it starts with, and those that each statement can have its own of."""

from __future__ import annotations

from sqlstream.errors import UserError

PREFIX = "spark."
MASTER = "spark.master"
SECRET = "spark.authenticate.secret"

_SQL_PREFIX = "spark.sql."
_OF_THE_START = (
    *(
        "spark.sql.artifact.",
        "spark.sql.broadcastExchange.",
        "spark.sql.cache.serializer",
        "spark.sql.catalog.",
    ),
    *(
        "spark.sql.catalogImplementation",
        "spark.sql.codegen.cache.",
        "spark.sql.event.",
        "spark.sql.extensions",
    ),
    *("spark.sql.globalTempDatabase", "spark.sql.hive.", "spark.sql.queryExecutionListeners"),
    *("spark.sql.subquery.", "spark.sql.ui.", "spark.sql.warehouse.dir"),
)
"""The static ones of Spark SQL (Spark: StaticSQLConf)."""


def is_spark_key(key: str) -> bool:
    return key.startswith(PREFIX)


def is_launch_key(key: str) -> bool:
    """Whether Spark takes it at its start alone, for all statements.

    >>> is_launch_key("spark.master"), is_launch_key("spark.sql.shuffle.partitions")
    (True, False)
    """
    return is_spark_key(key) and (not key.startswith(_SQL_PREFIX) or key.startswith(_OF_THE_START))


def refuse_launch_key(key: str) -> None:
    """UserError SS4055 for a setting that Spark starts with, in a session of a server: it concerns all users, and decides what
    code runs where."""
    if is_launch_key(key):
        raise UserError(
            "SS4055",
            f'option "{key}" belongs to the server: all its sessions share one Spark',
            hint=f"put it into sqlstream.yaml, or start the server with -D {key}=VALUE",
        )

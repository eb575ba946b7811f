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


# The settings of a Spark session under which SQL that sqlstream.planner.lower makes for Spark means what it says.


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

_OF_MEANING = (
    *(
        "spark.sql.legacy.",
        "spark.sql.analyzer.",
        "spark.sql.ansi.",
        "spark.sql.collation.",
        "spark.sql.function.",
    ),
    *("spark.sql.functionResolution.", "spark.sql.json.", "spark.sql.jsonGenerator.", "spark.sql.parser."),
    *("spark.sql.path.", "spark.sql.session.", "spark.sql.variable.", "spark.sql.optimizer.excludedRules"),
    *(
        "spark.sql.binaryOutputStyle",
        "spark.sql.chunkBase64String.",
        "spark.sql.icu.",
        "spark.sql.defaultCatalog",
    ),
    *(
        "spark.sql.crossJoin.",
        "spark.sql.groupByAliases",
        "spark.sql.groupByOrdinal",
        "spark.sql.orderByOrdinal",
    ),
    *(
        "spark.sql.lateralColumnAlias.",
        "spark.sql.preserveCharVarcharTypeInfo",
        "spark.sql.readSideCharPadding",
    ),
    *("spark.sql.runSQLOnFiles", "spark.sql.timeType.", "spark.sql.timestampNanosTypes."),
)
"""What else changes how Spark reads SQL or what its functions give; Spark's own values are in force."""


def is_of_meaning(key: str) -> bool:
    """Whether a user's value could change the rows that lowered SQL gives.

    >>> is_of_meaning("spark.sql.legacy.castComplexTypesToString.enabled"), is_of_meaning("spark.sql.shuffle.partitions")
    (True, False)
    """
    return key not in SPARK_SQL_SETTINGS and key.startswith(_OF_MEANING)

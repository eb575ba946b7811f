"""The settings of a Spark session under which SQL that sqlstream.planner.lower makes for Spark means what it says."""

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

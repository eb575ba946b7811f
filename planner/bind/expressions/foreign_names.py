"""Names of functions, columns and tables that other dialects have, and what to write in Flink's.

A function's rewrite is written with the parameters of its usual call. When a call has as many arguments, the hint has them in the
place of the parameters: `DATE_TRUNC('month', ts)` is told to be `FLOOR(ts TO MONTH)`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_WINDOW = "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), INTERVAL '10' MINUTE)) and GROUP BY window_start, window_end"
_UNNEST = "FROM t CROSS JOIN UNNEST(array) AS u (element)"
_FORMAT = "DATE_FORMAT(timestamp, 'yyyy-MM-dd HH:mm:ss')"

FOREIGN_FUNCTIONS: dict[str, tuple[str, str]] = {
    # text
    "LEN": ("value", "CHAR_LENGTH(value) of a text, CARDINALITY(value) of an array"),
    "LENGTH": ("string", "CHAR_LENGTH(string)"),
    "UCASE": ("string", "UPPER(string)"),
    "LCASE": ("string", "LOWER(string)"),
    "STRPOS": ("string, part", "POSITION(part IN string)"),
    "CHARINDEX": ("part, string", "POSITION(part IN string)"),
    "CONTAINS": ("string, part", "POSITION(part IN string) > 0"),
    "STARTS_WITH": ("string, part", "STARTSWITH(string, part)"),
    "ENDS_WITH": ("string, part", "ENDSWITH(string, part)"),
    "SPLIT_PART": ("string, separator, position", "SPLIT_INDEX(string, separator, position - 1)"),
    "SUBSTRING_INDEX": (
        "string, separator, count",
        "ARRAY_JOIN(ARRAY_SLICE(SPLIT(string, separator), 1, count), separator)",
    ),
    "STRING_SPLIT": ("string, separator", "SPLIT(string, separator)"),
    "STRING_TO_ARRAY": ("string, separator", "SPLIT(string, separator)"),
    "REGEXP_LIKE": ("string, pattern", "REGEXP(string, pattern)"),
    "REGEXP_MATCHES": ("string, pattern", "REGEXP(string, pattern)"),
    "REGEXP_CONTAINS": ("string, pattern", "REGEXP(string, pattern)"),
    "FORMAT": ("pattern, value", "PRINTF(pattern, value)"),
    "CHAR": ("number", "CHR(number)"),
    "ORD": ("string", "ASCII(string)"),
    # conditions and conversions
    "COLUMNS": ("pattern", "the columns themselves, or * EXCLUDE (column, …)"),
    "NVL": ("value, other", "COALESCE(value, other)"),
    "ZEROIFNULL": ("value", "COALESCE(value, 0)"),
    "ISNULL": ("value, other", "COALESCE(value, other)"),
    "NVL2": ("value, present, missing", "IF(value IS NOT NULL, present, missing)"),
    "IIF": ("condition, a, b", "IF(condition, a, b)"),
    "IFF": ("condition, a, b", "IF(condition, a, b)"),
    "CONVERT": ("value, type, style", "CAST(value AS type)"),
    "SAFE_CAST": ("value, type", "TRY_CAST(value AS type)"),
    "TO_NUMBER": ("value", "CAST(value AS DECIMAL(38, 6))"),
    "TRY_TO_NUMBER": ("value", "TRY_CAST(value AS DECIMAL(38, 6))"),
    "TO_CHAR": ("timestamp, pattern", _FORMAT),
    "TO_VARCHAR": ("value", "CAST(value AS STRING)"),
    # numbers
    "POW": ("base, exponent", "POWER(base, exponent)"),
    "TRUNC": ("number, digits", "TRUNCATE(number, digits)"),
    "RANDOM": ("", "RAND()"),
    "GEN_RANDOM_UUID": ("", "UUID()"),
    "GENERATE_UUID": ("", "UUID()"),
    "NEWID": ("", "UUID()"),
    # times
    "GETDATE": ("", "CURRENT_TIMESTAMP"),
    "SYSDATE": ("", "CURRENT_TIMESTAMP"),
    "SYSTIMESTAMP": ("", "CURRENT_TIMESTAMP"),
    "CURDATE": ("", "CURRENT_DATE"),
    "CURTIME": ("", "CURRENT_TIME"),
    "TODAY": ("", "CURRENT_DATE"),
    "DATE_TRUNC": ("unit, timestamp", "FLOOR(timestamp TO unit)"),
    "TIMESTAMP_TRUNC": ("timestamp, unit", "FLOOR(timestamp TO unit)"),
    "DATETIME_TRUNC": ("timestamp, unit", "FLOOR(timestamp TO unit)"),
    "DATE_PART": ("unit, timestamp", "EXTRACT(unit FROM timestamp)"),
    "DATEPART": ("unit, timestamp", "EXTRACT(unit FROM timestamp)"),
    "DAY": ("date", "DAYOFMONTH(date)"),
    "WEEKDAY": ("date", "DAYOFWEEK(date)"),
    "DATEDIFF": ("unit, earlier, later", "TIMESTAMPDIFF(unit, earlier, later)"),
    "DATE_DIFF": ("unit, earlier, later", "TIMESTAMPDIFF(unit, earlier, later)"),
    "TIMESTAMP_DIFF": ("later, earlier, unit", "TIMESTAMPDIFF(unit, earlier, later)"),
    "AGE": ("later, earlier", "TIMESTAMPDIFF(DAY, earlier, later)"),
    "DATEADD": ("unit, count, timestamp", "TIMESTAMPADD(unit, count, timestamp)"),
    "DATE_ADD": ("date, days", "TIMESTAMPADD(DAY, days, date)"),
    "DATE_SUB": ("date, days", "TIMESTAMPADD(DAY, -days, date)"),
    "ADD_MONTHS": ("date, months", "TIMESTAMPADD(MONTH, months, date)"),
    "EPOCH": ("timestamp", "EXTRACT(EPOCH FROM timestamp)"),
    "LAST_DAY": ("date", "FLOOR(date TO MONTH) + INTERVAL '1' MONTH - INTERVAL '1' DAY"),
    "MONTHNAME": ("date", "DATE_FORMAT(date, 'MMMM')"),
    "DAYNAME": ("date", "DATE_FORMAT(date, 'EEEE')"),
    "MAKE_DATE": ("year, month, day", "CAST('2024-02-29' AS DATE)"),
    "STRFTIME": ("timestamp, pattern", _FORMAT),
    "FORMAT_DATE": ("pattern, timestamp", _FORMAT),
    "FORMAT_TIMESTAMP": ("pattern, timestamp", _FORMAT),
    "STRPTIME": ("string, pattern", "TO_TIMESTAMP(string, 'yyyy-MM-dd HH:mm:ss')"),
    "STR_TO_DATE": ("string, pattern", "TO_DATE(string, 'yyyy-MM-dd')"),
    "PARSE_DATE": ("pattern, string", "TO_DATE(string, 'yyyy-MM-dd')"),
    "PARSE_TIMESTAMP": ("pattern, string", "TO_TIMESTAMP(string, 'yyyy-MM-dd HH:mm:ss')"),
    "TO_UNIXTIME": ("timestamp", "UNIX_TIMESTAMP(CAST(timestamp AS STRING))"),
    "TIME_BUCKET": ("size, time", _WINDOW),
    "DATE_BIN": ("size, time", _WINDOW),
    "WINDOW": ("time, size", _WINDOW),
    # aggregates
    "STRING_AGG": ("string, separator", "LISTAGG(string, separator)"),
    "GROUP_CONCAT": ("string", "LISTAGG(string)"),
    "ANY_VALUE": ("value", "FIRST_VALUE(value)"),
    "ARBITRARY": ("value", "FIRST_VALUE(value)"),
    "FIRST": ("value", "FIRST_VALUE(value)"),
    "LAST": ("value", "LAST_VALUE(value)"),
    "EVERY": ("condition", "MIN(IF(condition, 1, 0)) = 1"),
    "BOOL_AND": ("condition", "MIN(IF(condition, 1, 0)) = 1"),
    "LOGICAL_AND": ("condition", "MIN(IF(condition, 1, 0)) = 1"),
    "BOOL_OR": ("condition", "MAX(IF(condition, 1, 0)) = 1"),
    "LOGICAL_OR": ("condition", "MAX(IF(condition, 1, 0)) = 1"),
    "COUNT_IF": ("condition", "COUNT(*) FILTER (WHERE condition)"),
    "COUNTIF": ("condition", "COUNT(*) FILTER (WHERE condition)"),
    "SUM_IF": ("value, condition", "SUM(value) FILTER (WHERE condition)"),
    "SUMIF": ("value, condition", "SUM(value) FILTER (WHERE condition)"),
    "MODE": ("value", "QUALIFY ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) = 1, with GROUP BY value"),
    "MEDIAN": ("value", "PERCENTILE(value, 0.5)"),
    "QUANTILE": ("value, fraction", "PERCENTILE(value, fraction)"),
    "PERCENTILE_CONT": ("fraction, value", "PERCENTILE(value, fraction)"),
    "PERCENTILE_DISC": ("fraction, value", "PERCENTILE(value, fraction)"),
    "APPROX_PERCENTILE": ("value, fraction", "PERCENTILE(value, fraction)"),
    "STDEV": ("value", "STDDEV_SAMP(value)"),
    "MAX_BY": ("value, order", "QUALIFY ROW_NUMBER() OVER (PARTITION BY key ORDER BY order DESC) = 1"),
    "ARG_MAX": ("value, order", "QUALIFY ROW_NUMBER() OVER (PARTITION BY key ORDER BY order DESC) = 1"),
    "MIN_BY": ("value, order", "QUALIFY ROW_NUMBER() OVER (PARTITION BY key ORDER BY order) = 1"),
    "ARG_MIN": ("value, order", "QUALIFY ROW_NUMBER() OVER (PARTITION BY key ORDER BY order) = 1"),
    "COLLECT_LIST": ("value", "ARRAY_AGG(value)"),
    "LIST": ("value", "ARRAY_AGG(value)"),
    "COLLECT_SET": ("value", "ARRAY_AGG(DISTINCT value)"),
    # collections and JSON
    "ARRAY_LENGTH": ("array", "CARDINALITY(array)"),
    "ARRAY_SIZE": ("array", "CARDINALITY(array)"),
    "SIZE": ("array", "CARDINALITY(array)"),
    "ARRAY_TO_STRING": ("array, separator", "ARRAY_JOIN(array, separator)"),
    "LIST_CONTAINS": ("array, value", "ARRAY_CONTAINS(array, value)"),
    "LIST_VALUE": ("value", "ARRAY[value]"),
    "STRUCT": ("a, b", "ROW(a, b)"),
    "EXPLODE": ("array", _UNNEST),
    "FLATTEN": ("array", _UNNEST),
    "JSON_TABLE": ("json, path", _UNNEST),
    "JSON_EXTRACT": ("json, path", "JSON_QUERY(json, path)"),
    "JSON_EXTRACT_SCALAR": ("json, path", "JSON_VALUE(json, path)"),
    "JSON_EXTRACT_STRING": ("json, path", "JSON_VALUE(json, path)"),
    "JSON_EXTRACT_PATH_TEXT": ("json, key", "JSON_VALUE(json, '$.name')"),
    "GET_JSON_OBJECT": ("json, path", "JSON_VALUE(json, path)"),
    "TO_JSON": ("value", "JSON_STRING(value)"),
    "JSON_BUILD_OBJECT": ("key, value", "JSON_OBJECT(key VALUE value)"),
    "JSON_AGG": ("value", "JSON_ARRAYAGG(value)"),
    "NEXTVAL": ("sequence", "ROW_NUMBER() OVER (ORDER BY column)"),
}
"""By name: the parameters, and the rewrite with them."""

_COLUMNS = {
    "ROWNUM": "write LIMIT n, or number the rows: ROW_NUMBER() OVER (ORDER BY column)",
    "ROWID": "rows have no number of their own; name a key, or number them: ROW_NUMBER() OVER (ORDER BY column)",
    "SYSDATE": "write CURRENT_TIMESTAMP",
    "SYSTIMESTAMP": "write CURRENT_TIMESTAMP",
    "GETDATE": "write CURRENT_TIMESTAMP",
    "CURRENT_USER": "a statement does not know its user: write the name",
    "SESSION_USER": "a statement does not know its user: write the name",
    "DEFAULT": "columns have no default values: write the value or NULL",
    "UNIQUE": "write SELECT DISTINCT",
    "STREAM": "leave STREAM out: a query over a table that does not end is a stream",
    "_ROWTIME": "name the column of the table's WATERMARK",
    "ROWTIME": "name the column of the table's WATERMARK",
    "PROCTIME": "write PROCTIME()",
}

_TABLES = {
    "DUAL": "leave FROM out: SELECT 1",
    "INFORMATION_SCHEMA": "write SHOW TABLES, SHOW COLUMNS FROM table, or SHOW DATABASES",
    "PG_CATALOG": "write SHOW TABLES, SHOW COLUMNS FROM table, or SHOW DATABASES",
    "SQLITE_MASTER": "write SHOW TABLES",
}

_FILE_SUFFIXES = ("CSV", "TSV", "JSON", "NDJSON", "JSONL", "PARQUET")


def function_rewrite(name: str, arguments: Sequence[str] | None) -> str:
    """What to write instead of a call of another dialect's function, with the texts of its arguments when they are as many as
    it usually has; empty when the function is not known. `unit` is written as a word.

    >>> function_rewrite("DATE_TRUNC", ["'month'", "ts"])
    'FLOOR(ts TO MONTH)'
    >>> function_rewrite("DATE_TRUNC", None)
    'FLOOR(timestamp TO unit)'
    """
    found = FOREIGN_FUNCTIONS.get(name)
    if found is None:
        return ""
    parameters, rewrite = found
    names = parameters.split(", ") if parameters else []
    if arguments is None or len(arguments) != len(names):
        return rewrite
    written = dict(zip(names, arguments, strict=True))
    if "days" in written and written["days"].upper().startswith("INTERVAL "):
        # DATE_ADD(date, INTERVAL 1 DAY) of MySQL.
        return f"{written['date']} {'-' if name == 'DATE_SUB' else '+'} {written['days']}"
    if "unit" in written:
        written["unit"] = written["unit"].strip("'").upper()
    if not written or any(len(text) > 60 for text in written.values()):
        return rewrite
    parts = re.split(r"('[^']*'|\b(?:" + "|".join(names) + r")\b)", rewrite)
    return "".join(written.get(part, part) for part in parts)


def column_hint(name: str) -> str:
    """What to write instead of a name that other dialects know as a column; empty when nothing is known."""
    return _COLUMNS.get(name.upper(), "")


def table_hint(parts: Sequence[str]) -> str:
    """The same of the parts of a table's name: a table of a system, or a file without its quotes."""
    if len(parts) > 1 and parts[-1].upper() in _FILE_SUFFIXES:
        return f"write the path of a file in single quotes: FROM '{'.'.join(parts)}'"
    return next((hint for part in parts if (hint := _TABLES.get(part.upper(), ""))), "")

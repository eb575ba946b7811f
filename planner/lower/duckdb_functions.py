"""Scalar functions as templates of DuckDB SQL: `{0}`, `{1}` … are the arguments."""

from __future__ import annotations

TEMPLATES: dict[str, str] = {
    **{symbol: f"({{0}} {symbol} {{1}})" for symbol in ("=", "<>", "<", "<=", ">", ">=")},
    "IS DISTINCT FROM": "({0} IS DISTINCT FROM {1})",
    "IS NOT DISTINCT FROM": "({0} IS NOT DISTINCT FROM {1})",
    "IS NULL": "({0} IS NULL)",
    "IS NOT NULL": "({0} IS NOT NULL)",
    "NOT": "(NOT {0})",
    "IS TRUE": "coalesce({0}, FALSE)",
    "IS NOT TRUE": "(NOT coalesce({0}, FALSE))",
    "IS FALSE": "(NOT coalesce({0}, TRUE))",
    "IS NOT FALSE": "coalesce({0}, TRUE)",
    "IS UNKNOWN": "({0} IS NULL)",
    "IS NOT UNKNOWN": "({0} IS NOT NULL)",
    "STARTSWITH": "starts_with({0}, {1})",
    "ENDSWITH": "ends_with({0}, {1})",
    "NULLIF": "nullif({0}, {1})",
    "IFNULL": "coalesce({0}, {1})",
    "IF": "CASE WHEN {0} THEN {1} ELSE {2} END",
    "NEGATE": "(- {0})",
    "ABS": "abs({0})",
    "SIGN": "sign({0})",
    "POWER": "pow({0}, {1})",
    "SQRT": "sqrt({0})",
    "LN": "ln({0})",
    "LOG10": "log10({0})",
    "LOG2": "log2({0})",
    "EXP": "exp({0})",
    "SIN": "sin({0})",
    "COS": "cos({0})",
    "TAN": "tan({0})",
    "ATAN": "atan({0})",
    "ATAN2": "atan2({0}, {1})",
    "DEGREES": "degrees({0})",
    "RADIANS": "radians({0})",
    "PI": "pi()",
    "E": "exp(1.0)",
    "CHAR_LENGTH": "CAST(length({0}) AS INTEGER)",
    "CHARACTER_LENGTH": "CAST(length({0}) AS INTEGER)",
    "UPPER": "upper({0})",
    "LOWER": "lower({0})",
    "REVERSE": "reverse({0})",
    # greatest() ignores NULLs.
    "LEFT": "CASE WHEN {1} IS NULL THEN NULL ELSE substr({0}, 1, greatest({1}, 0)) END",
    "RIGHT": "CASE WHEN {1} IS NULL THEN NULL ELSE right({0}, greatest({1}, 0)) END",
    "REPLACE": (
        r"CASE WHEN {1} = '' THEN regexp_replace({0}, '', replace({2}, '\', '\\'), 'g')"
        " ELSE replace({0}, {1}, {2}) END"
    ),
    "REPEAT": "repeat({0}, greatest({1}, 0))",
    "LPAD": "CASE WHEN {1} < 0 OR {2} = '' THEN NULL ELSE lpad({0}, {1}, {2}) END",
    "RPAD": "CASE WHEN {1} < 0 OR {2} = '' THEN NULL ELSE rpad({0}, {1}, {2}) END",
    "POSITION": "CAST(instr({1}, {0}) AS INTEGER)",
    "INSTR": "CAST(instr({0}, {1}) AS INTEGER)",
    "CARDINALITY": "CAST(len({0}) AS INTEGER)",
}

EXTRACTED: dict[str, str] = {
    "YEAR": "year({0})",
    "QUARTER": "quarter({0})",
    "MONTH": "month({0})",
    "WEEK": "week({0})",
    "DOY": "dayofyear({0})",
    "DAYOFYEAR": "dayofyear({0})",
    "DAY": "day({0})",
    "DAYOFMONTH": "day({0})",
    # Sunday is day 1, as in Calcite.
    "DOW": "dayofweek({0}) + 1",
    "DAYOFWEEK": "dayofweek({0}) + 1",
    "ISODOW": "isodow({0})",
    "ISOYEAR": "isoyear({0})",
    "HOUR": "hour({0})",
    "MINUTE": "minute({0})",
    "SECOND": "second({0})",
}
"""Units of EXTRACT, and functions of the same names."""

TRUNCATED_UNITS = ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND")
"""Units of FLOOR; Calcite's weeks start on Sunday, DuckDB's on Monday."""

"""The descriptions that DESCRIBE FUNCTION prints: a sentence per function, and an example with its printed value."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class FunctionDescription:
    """`example` is an expression and `value` its printed result; both are empty where a call has no fixed result."""

    sentence: str
    example: str = ""
    value: str = ""


def _said(sentence: str, example: str = "", value: str = "") -> FunctionDescription:
    return FunctionDescription(sentence, example, value)


DESCRIPTIONS: dict[str, FunctionDescription] = {
    # comparison and conditions
    "STARTSWITH": _said("Whether a text begins with another.", "STARTSWITH('stream', 'str')", "TRUE"),
    "ENDSWITH": _said("Whether a text ends with another.", "ENDSWITH('stream', 'am')", "TRUE"),
    "REGEXP": _said(
        "Whether a part of a text matches a regular expression.", "REGEXP('q12', '[0-9]+')", "TRUE"
    ),
    "COALESCE": _said("The first argument that is not NULL.", "COALESCE(CAST(NULL AS INT), 2)", "2"),
    "IFNULL": _said("The value, or the replacement where it is NULL.", "IFNULL(CAST(NULL AS INT), 0)", "0"),
    "NULLIF": _said("NULL where both values are equal, else the first.", "NULLIF(5, 0)", "5"),
    "IF": _said("The first value where the condition is true, else the second.", "IF(1 < 2, 'a', 'b')", "a"),
    "GREATEST": _said("The greatest argument; NULL when one is NULL.", "GREATEST(1, 3, 2)", "3"),
    "LEAST": _said("The least argument; NULL when one is NULL.", "LEAST(1, 3, 2)", "1"),
    # arithmetic
    "ABS": _said("The number without its sign.", "ABS(-2)", "2"),
    "MOD": _said("The remainder of a division, with the sign of the first number.", "MOD(-7, 3)", "-1"),
    "SIGN": _said("-1, 0 or 1 for a negative number, zero or a positive one.", "SIGN(-7)", "-1"),
    "FLOOR": _said(
        "The number rounded down, or the start of the unit in which a time lies.", "FLOOR(2.7)", "2"
    ),
    "CEIL": _said("The number rounded up, or the start of the next unit of a time.", "CEIL(2.1)", "3"),
    "CEILING": _said("The number rounded up.", "CEILING(2.1)", "3"),
    "ROUND": _said(
        "The number rounded half away from zero to a number of digits.", "ROUND(2.345, 2)", "2.35"
    ),
    "TRUNCATE": _said("The number cut off after a number of digits.", "TRUNCATE(2.349, 2)", "2.34"),
    "POWER": _said("The first number to the power of the second.", "POWER(2, 10)", "1024.0"),
    "SQRT": _said("The square root.", "SQRT(16)", "4.0"),
    "EXP": _said("e to the power of the number.", "EXP(0)", "1.0"),
    "LN": _said("The natural logarithm.", "LN(1)", "0.0"),
    "LOG": _said("The natural logarithm, or that to a base.", "LOG(2, 8)", "3.0"),
    "LOG2": _said("The logarithm to base 2.", "LOG2(8)", "3.0"),
    "LOG10": _said("The logarithm to base 10.", "LOG10(1000)", "3.0"),
    "SIN": _said("The sine of an angle in radians.", "SIN(0)", "0.0"),
    "COS": _said("The cosine of an angle in radians.", "COS(0)", "1.0"),
    "TAN": _said("The tangent of an angle in radians.", "TAN(0)", "0.0"),
    "COT": _said("The cotangent of an angle in radians."),
    "SINH": _said("The hyperbolic sine.", "SINH(0)", "0.0"),
    "COSH": _said("The hyperbolic cosine.", "COSH(0)", "1.0"),
    "TANH": _said("The hyperbolic tangent.", "TANH(0)", "0.0"),
    "ASIN": _said("The arc sine in radians.", "ASIN(0)", "0.0"),
    "ACOS": _said("The arc cosine in radians.", "ACOS(1)", "0.0"),
    "ATAN": _said("The arc tangent in radians.", "ATAN(0)", "0.0"),
    "ATAN2": _said("The angle in radians of the point (numeric2, numeric1).", "ATAN2(0, 1)", "0.0"),
    "DEGREES": _said("Radians as degrees.", "DEGREES(0)", "0.0"),
    "RADIANS": _said("Degrees as radians.", "RADIANS(0)", "0.0"),
    "PI": _said("The number pi."),
    "E": _said("Euler's number."),
    "RAND": _said("A random number of at least 0 and below 1, a new one per row."),
    "RAND_INTEGER": _said("A random whole number of at least 0 and below the bound, a new one per row."),
    "BIN": _said("A whole number in binary digits.", "BIN(12)", "1100"),
    "HEX": _said("A whole number, or the bytes of a text, in hexadecimal digits.", "HEX(255)", "FF"),
    "UUID": _said("A random UUID, a new one per row."),
    # text
    "CONCAT": _said("All texts joined; NULL when one is NULL.", "CONCAT('a', 'b', 'c')", "abc"),
    "CONCAT_WS": _said(
        "All texts that are not NULL, with a separator between.", "CONCAT_WS('-', 'a', 'b')", "a-b"
    ),
    "CHAR_LENGTH": _said("The number of characters.", "CHAR_LENGTH('héllo')", "5"),
    "CHARACTER_LENGTH": _said("The number of characters.", "CHARACTER_LENGTH('héllo')", "5"),
    "UPPER": _said("The text in capitals.", "UPPER('sql')", "SQL"),
    "LOWER": _said("The text in small letters.", "LOWER('SQL')", "sql"),
    "INITCAP": _said("Each word with a capital in front.", "INITCAP('flink sql')", "Flink Sql"),
    "REVERSE": _said("The characters from last to first.", "REVERSE('abc')", "cba"),
    "TO_BASE64": _said("The text's bytes in base 64.", "TO_BASE64('hello')", "aGVsbG8="),
    "FROM_BASE64": _said("The text that base 64 encodes.", "FROM_BASE64('aGVsbG8=')", "hello"),
    "TRIM": _said("The text without blanks, or given characters, at its ends.", "TRIM('  a ')", "a"),
    "LTRIM": _said("The text without blanks, or given characters, at its start.", "LTRIM('xxa', 'x')", "a"),
    "RTRIM": _said("The text without blanks, or given characters, at its end.", "RTRIM('axx', 'x')", "a"),
    "BTRIM": _said("The text without blanks, or given characters, at both ends.", "BTRIM('xax', 'x')", "a"),
    "SUBSTRING": _said("A part of a text; the first character is 1.", "SUBSTRING('stream', 2, 3)", "tre"),
    "SUBSTR": _said("A part of a text; the first character is 1.", "SUBSTR('stream', 4)", "eam"),
    "LEFT": _said("The first characters of a text.", "LEFT('stream', 3)", "str"),
    "RIGHT": _said("The last characters of a text.", "RIGHT('stream', 3)", "eam"),
    "REPLACE": _said("The text with each occurrence of a text replaced.", "REPLACE('a-b', '-', '+')", "a+b"),
    "OVERLAY": _said(
        "The text with another put over a part of it.", "OVERLAY('abcd' PLACING 'X' FROM 2 FOR 2)", "aXd"
    ),
    "TRANSLATE": _said(
        "The text with characters replaced one for one.", "TRANSLATE('abc', 'ab', 'xy')", "xyc"
    ),
    "LPAD": _said("The text filled up, or cut, to a length at its start.", "LPAD('7', 3, '0')", "007"),
    "RPAD": _said("The text filled up, or cut, to a length at its end.", "RPAD('7', 3, '0')", "700"),
    "REPEAT": _said("The text repeated a number of times.", "REPEAT('ab', 2)", "abab"),
    "POSITION": _said(
        "Where a text occurs first in another, from 1; 0 when it does not.", "POSITION('b' IN 'abc')", "2"
    ),
    "INSTR": _said("Where a text occurs first, from 1; 0 when it does not.", "INSTR('abc', 'c')", "3"),
    "LOCATE": _said(
        "Where a text occurs first, from 1 or a start; 0 when it does not.", "LOCATE('b', 'abcb', 3)", "4"
    ),
    "SPLIT_INDEX": _said(
        "One of the parts between delimiters; the first is 0.", "SPLIT_INDEX('a/b/c', '/', 1)", "b"
    ),
    "REGEXP_EXTRACT": _said(
        "What a regular expression, or one of its groups, matches first.",
        "REGEXP_EXTRACT('id=42', 'id=([0-9]+)', 1)",
        "42",
    ),
    "REGEXP_REPLACE": _said(
        "The text with each match of a regular expression replaced.",
        "REGEXP_REPLACE('a1b2', '[0-9]', '')",
        "ab",
    ),
    "REGEXP_COUNT": _said("How often a regular expression matches.", "REGEXP_COUNT('a1b2', '[0-9]')", "2"),
    "ASCII": _said("The number of a text's first character.", "ASCII('A')", "65"),
    "CHR": _said("The character of a number.", "CHR(65)", "A"),
    # time
    "EXTRACT": _said("A part of a time or an interval.", "EXTRACT(HOUR FROM TIME '10:20:30')", "10"),
    "YEAR": _said("The year of a date.", "YEAR(DATE '2020-03-04')", "2020"),
    "QUARTER": _said("The quarter of a date, 1 to 4.", "QUARTER(DATE '2020-03-04')", "1"),
    "MONTH": _said("The month of a date, 1 to 12.", "MONTH(DATE '2020-03-04')", "3"),
    "WEEK": _said("The ISO week of a date, 1 to 53.", "WEEK(DATE '2020-03-04')", "10"),
    "DAYOFYEAR": _said("The day of a date in its year, from 1.", "DAYOFYEAR(DATE '2020-03-04')", "64"),
    "DAYOFMONTH": _said("The day of a date in its month, from 1.", "DAYOFMONTH(DATE '2020-03-04')", "4"),
    "DAYOFWEEK": _said("The day of a date in its week, 1 for Sunday.", "DAYOFWEEK(DATE '2020-03-04')", "4"),
    "HOUR": _said("The hour of a time, 0 to 23.", "HOUR(TIMESTAMP '2020-03-04 10:20:30')", "10"),
    "MINUTE": _said("The minute of a time, 0 to 59.", "MINUTE(TIMESTAMP '2020-03-04 10:20:30')", "20"),
    "SECOND": _said("The second of a time, 0 to 59.", "SECOND(TIMESTAMP '2020-03-04 10:20:30')", "30"),
    "DATE_FORMAT": _said(
        "A time as text, by a pattern.",
        "DATE_FORMAT(TIMESTAMP '2020-03-04 10:20:30', 'yyyy/MM/dd')",
        "2020/03/04",
    ),
    "TO_TIMESTAMP": _said(
        "The TIMESTAMP in a text, by a pattern; NULL when the text does not match.",
        "TO_TIMESTAMP('04.03.2020', 'dd.MM.yyyy')",
        "2020-03-04 00:00:00.000",
    ),
    "TO_DATE": _said("The DATE in a text, by a pattern.", "TO_DATE('2020-03-04')", "2020-03-04"),
    "TO_TIMESTAMP_LTZ": _said("A moment from seconds or milliseconds since 1970, or from a text."),
    "FROM_UNIXTIME": _said("Seconds since 1970 as text in the session's time zone, by a pattern."),
    "UNIX_TIMESTAMP": _said("Seconds since 1970 of now, or of the time in a text."),
    "TIMESTAMPADD": _said("A time moved by a number of units."),
    "TIMESTAMPDIFF": _said(
        "Whole units from the first time to the second.",
        "TIMESTAMPDIFF(HOUR, TIMESTAMP '2020-01-01 00:00:00', TIMESTAMP '2020-01-02 01:59:00')",
        "25",
    ),
    "CURRENT_TIMESTAMP": _said("The moment at which the row is computed."),
    "CURRENT_ROW_TIMESTAMP": _said("The moment at which the row is computed."),
    "NOW": _said("The moment at which the row is computed."),
    "LOCALTIMESTAMP": _said("The session's date and time at which the row is computed."),
    "CURRENT_DATE": _said("The session's date at which the row is computed."),
    "CURRENT_TIME": _said("The session's time of day at which the row is computed."),
    "LOCALTIME": _said("The session's time of day at which the row is computed."),
    "PROCTIME": _said("Processing time, as a time attribute of a computed column."),
    # conversion, collections, hashes
    "CAST": _said(
        "The value in another type; a text that does not fit fails the job.", "CAST('12' AS INT)", "12"
    ),
    "TRY_CAST": _said(
        "The value in another type, NULL where it does not fit.", "TRY_CAST('12' AS INT)", "12"
    ),
    "ROW": _said("A row of the values.", "ROW(1, 'a')", "(1, a)"),
    "ARRAY": _said("An array of the values.", "ARRAY[1, 2]", "[1, 2]"),
    "MAP": _said("A map of keys and values.", "MAP['a', 1]", "{a=1}"),
    "CARDINALITY": _said("The number of elements or entries.", "CARDINALITY(ARRAY[1, 2])", "2"),
    "MD5": _said("The MD5 hash in hexadecimal digits.", "MD5('')", "d41d8cd98f00b204e9800998ecf8427e"),
    "SHA1": _said(
        "The SHA-1 hash in hexadecimal digits.", "SHA1('')", "da39a3ee5e6b4b0d3255bfef95601890afd80709"
    ),
    "SHA256": _said("The SHA-256 hash in hexadecimal digits."),
    # aggregates
    "COUNT": _said("The number of rows, or of those in which no value is NULL."),
    "SUM": _said("The sum of the values that are not NULL, in their type; NULL when there is none."),
    "AVG": _said("The mean of the values that are not NULL; of whole numbers it is whole."),
    "MIN": _said("The least value that is not NULL."),
    "MAX": _said("The greatest value that is not NULL."),
    "STDDEV_POP": _said("The standard deviation of a whole population."),
    "STDDEV_SAMP": _said("The standard deviation of a sample."),
    "VAR_POP": _said("The variance of a whole population."),
    "VAR_SAMP": _said("The variance of a sample."),
    "VARIANCE": _said("The variance of a sample, as VAR_SAMP."),
    "FIRST_VALUE": _said("The first value that is not NULL, in order of arrival."),
    "LAST_VALUE": _said("The last value that is not NULL, in order of arrival."),
    "LISTAGG": _said("The texts that are not NULL with a separator, by default a comma, between."),
}
"""Descriptions by SQL name."""

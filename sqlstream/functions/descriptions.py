"""The descriptions that DESCRIBE FUNCTION prints: a sentence per function, and an example with its printed value."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class FunctionDescription:
    """`example` is an expression and `value` its printed result; both are empty where a call has no fixed result."""

    sentence: str
    example: str = ""
    value: str = ""


def _described(sentence: str, example: str = "", value: str = "") -> FunctionDescription:
    return FunctionDescription(sentence, example, value)


DESCRIPTIONS: dict[str, FunctionDescription] = {
    # comparison and conditions
    "STARTSWITH": _described("Whether a text begins with another.", "STARTSWITH('stream', 'str')", "TRUE"),
    "ENDSWITH": _described("Whether a text ends with another.", "ENDSWITH('stream', 'am')", "TRUE"),
    "REGEXP": _described(
        "Whether a part of a text matches a regular expression.", "REGEXP('q12', '[0-9]+')", "TRUE"
    ),
    "COALESCE": _described("The first argument that is not NULL.", "COALESCE(CAST(NULL AS INT), 2)", "2"),
    "IFNULL": _described(
        "The value, or the replacement where it is NULL.", "IFNULL(CAST(NULL AS INT), 0)", "0"
    ),
    "NULLIF": _described("NULL where both values are equal, else the first.", "NULLIF(5, 0)", "5"),
    "IF": _described(
        "The first value where the condition is true, else the second.", "IF(1 < 2, 'a', 'b')", "a"
    ),
    "GREATEST": _described("The greatest argument; NULL when one is NULL.", "GREATEST(1, 3, 2)", "3"),
    "LEAST": _described("The least argument; NULL when one is NULL.", "LEAST(1, 3, 2)", "1"),
    # arithmetic
    "ABS": _described("The number without its sign.", "ABS(-2)", "2"),
    "MOD": _described("The remainder of a division, with the sign of the first number.", "MOD(-7, 3)", "-1"),
    "SIGN": _described("-1, 0 or 1 for a negative number, zero or a positive one.", "SIGN(-7)", "-1"),
    "FLOOR": _described(
        "The number rounded down, or the start of the unit in which a time lies.", "FLOOR(2.7)", "2"
    ),
    "CEIL": _described("The number rounded up, or the start of the next unit of a time.", "CEIL(2.1)", "3"),
    "CEILING": _described("The number rounded up.", "CEILING(2.1)", "3"),
    "ROUND": _described(
        "The number rounded half away from zero to a number of digits.", "ROUND(2.345, 2)", "2.35"
    ),
    "TRUNCATE": _described("The number cut off after a number of digits.", "TRUNCATE(2.349, 2)", "2.34"),
    "POWER": _described("The first number to the power of the second.", "POWER(2, 10)", "1024.0"),
    "SQRT": _described("The square root.", "SQRT(16)", "4.0"),
    "EXP": _described("e to the power of the number.", "EXP(0)", "1.0"),
    "LN": _described("The natural logarithm.", "LN(1)", "0.0"),
    "LOG": _described("The natural logarithm, or that to a base.", "LOG(2, 8)", "3.0"),
    "LOG2": _described("The logarithm to base 2.", "LOG2(8)", "3.0"),
    "LOG10": _described("The logarithm to base 10.", "LOG10(1000)", "3.0"),
    "SIN": _described("The sine of an angle in radians.", "SIN(0)", "0.0"),
    "COS": _described("The cosine of an angle in radians.", "COS(0)", "1.0"),
    "TAN": _described("The tangent of an angle in radians.", "TAN(0)", "0.0"),
    "COT": _described("The cotangent of an angle in radians."),
    "SINH": _described("The hyperbolic sine.", "SINH(0)", "0.0"),
    "COSH": _described("The hyperbolic cosine.", "COSH(0)", "1.0"),
    "TANH": _described("The hyperbolic tangent.", "TANH(0)", "0.0"),
    "ASIN": _described("The arc sine in radians.", "ASIN(0)", "0.0"),
    "ACOS": _described("The arc cosine in radians.", "ACOS(1)", "0.0"),
    "ATAN": _described("The arc tangent in radians.", "ATAN(0)", "0.0"),
    "ATAN2": _described("The angle in radians of the point (numeric2, numeric1).", "ATAN2(0, 1)", "0.0"),
    "DEGREES": _described("Radians as degrees.", "DEGREES(0)", "0.0"),
    "RADIANS": _described("Degrees as radians.", "RADIANS(0)", "0.0"),
    "PI": _described("The number pi."),
    "E": _described("Euler's number."),
    "RAND": _described("A random number of at least 0 and below 1, a new one per row."),
    "RAND_INTEGER": _described("A random whole number of at least 0 and below the bound, a new one per row."),
    "BIN": _described("A whole number in binary digits.", "BIN(12)", "1100"),
    "HEX": _described("A whole number, or the bytes of a text, in hexadecimal digits.", "HEX(255)", "FF"),
    "UUID": _described("A random UUID, a new one per row."),
    # text
    "CONCAT": _described("All texts joined; NULL when one is NULL.", "CONCAT('a', 'b', 'c')", "abc"),
    "CONCAT_WS": _described(
        "All texts that are not NULL, with a separator between.", "CONCAT_WS('-', 'a', 'b')", "a-b"
    ),
    "CHAR_LENGTH": _described("The number of characters.", "CHAR_LENGTH('héllo')", "5"),
    "CHARACTER_LENGTH": _described("The number of characters.", "CHARACTER_LENGTH('héllo')", "5"),
    "UPPER": _described("The text in capitals.", "UPPER('sql')", "SQL"),
    "LOWER": _described("The text in small letters.", "LOWER('SQL')", "sql"),
    "INITCAP": _described("Each word with a capital in front.", "INITCAP('flink sql')", "Flink Sql"),
    "REVERSE": _described("The characters from last to first.", "REVERSE('abc')", "cba"),
    "TO_BASE64": _described("The text's bytes in base 64.", "TO_BASE64('hello')", "aGVsbG8="),
    "FROM_BASE64": _described("The text that base 64 encodes.", "FROM_BASE64('aGVsbG8=')", "hello"),
    "TRIM": _described("The text without blanks, or given characters, at its ends.", "TRIM('  a ')", "a"),
    "LTRIM": _described(
        "The text without blanks, or given characters, at its start.", "LTRIM('xxa', 'x')", "a"
    ),
    "RTRIM": _described(
        "The text without blanks, or given characters, at its end.", "RTRIM('axx', 'x')", "a"
    ),
    "BTRIM": _described(
        "The text without blanks, or given characters, at both ends.", "BTRIM('xax', 'x')", "a"
    ),
    "SUBSTRING": _described(
        "A part of a text; the first character is 1.", "SUBSTRING('stream', 2, 3)", "tre"
    ),
    "SUBSTR": _described("A part of a text; the first character is 1.", "SUBSTR('stream', 4)", "eam"),
    "LEFT": _described("The first characters of a text.", "LEFT('stream', 3)", "str"),
    "RIGHT": _described("The last characters of a text.", "RIGHT('stream', 3)", "eam"),
    "REPLACE": _described(
        "The text with each occurrence of a text replaced.", "REPLACE('a-b', '-', '+')", "a+b"
    ),
    "OVERLAY": _described(
        "The text with another put over a part of it.", "OVERLAY('abcd' PLACING 'X' FROM 2 FOR 2)", "aXd"
    ),
    "TRANSLATE": _described(
        "The text with characters replaced one for one.", "TRANSLATE('abc', 'ab', 'xy')", "xyc"
    ),
    "LPAD": _described("The text filled up, or cut, to a length at its start.", "LPAD('7', 3, '0')", "007"),
    "RPAD": _described("The text filled up, or cut, to a length at its end.", "RPAD('7', 3, '0')", "700"),
    "REPEAT": _described("The text repeated a number of times.", "REPEAT('ab', 2)", "abab"),
    "POSITION": _described(
        "Where a text occurs first in another, from 1; 0 when it does not.", "POSITION('b' IN 'abc')", "2"
    ),
    "INSTR": _described(
        "Where a text occurs the first or a later time, from 1; from a start, backwards for a negative one; 0 when it does not.",
        "INSTR('abcabc', 'c', 1, 2)",
        "6",
    ),
    "LOCATE": _described(
        "Where a text occurs first, from 1 or a start; 0 when it does not.", "LOCATE('b', 'abcb', 3)", "4"
    ),
    "SPLIT_INDEX": _described(
        "One of the parts between delimiters; the first is 0.", "SPLIT_INDEX('a/b/c', '/', 1)", "b"
    ),
    "REGEXP_EXTRACT": _described(
        "What a regular expression, or one of its groups, matches first.",
        "REGEXP_EXTRACT('id=42', 'id=([0-9]+)', 1)",
        "42",
    ),
    "REGEXP_REPLACE": _described(
        "The text with each match of a regular expression replaced.",
        "REGEXP_REPLACE('a1b2', '[0-9]', '')",
        "ab",
    ),
    "REGEXP_COUNT": _described(
        "How often a regular expression matches.", "REGEXP_COUNT('a1b2', '[0-9]')", "2"
    ),
    "ASCII": _described("The number of a text's first character.", "ASCII('A')", "65"),
    "CHR": _described("The character of a number.", "CHR(65)", "A"),
    # time
    "EXTRACT": _described("A part of a time or an interval.", "EXTRACT(HOUR FROM TIME '10:20:30')", "10"),
    "YEAR": _described("The year of a date.", "YEAR(DATE '2020-03-04')", "2020"),
    "QUARTER": _described("The quarter of a date, 1 to 4.", "QUARTER(DATE '2020-03-04')", "1"),
    "MONTH": _described("The month of a date, 1 to 12.", "MONTH(DATE '2020-03-04')", "3"),
    "WEEK": _described("The ISO week of a date, 1 to 53.", "WEEK(DATE '2020-03-04')", "10"),
    "DAYOFYEAR": _described("The day of a date in its year, from 1.", "DAYOFYEAR(DATE '2020-03-04')", "64"),
    "DAYOFMONTH": _described("The day of a date in its month, from 1.", "DAYOFMONTH(DATE '2020-03-04')", "4"),
    "DAYOFWEEK": _described(
        "The day of a date in its week, 1 for Sunday.", "DAYOFWEEK(DATE '2020-03-04')", "4"
    ),
    "HOUR": _described("The hour of a time, 0 to 23.", "HOUR(TIMESTAMP '2020-03-04 10:20:30')", "10"),
    "MINUTE": _described("The minute of a time, 0 to 59.", "MINUTE(TIMESTAMP '2020-03-04 10:20:30')", "20"),
    "SECOND": _described("The second of a time, 0 to 59.", "SECOND(TIMESTAMP '2020-03-04 10:20:30')", "30"),
    "DATE_FORMAT": _described(
        "A time as text, by a pattern.",
        "DATE_FORMAT(TIMESTAMP '2020-03-04 10:20:30', 'yyyy/MM/dd')",
        "2020/03/04",
    ),
    "TO_TIMESTAMP": _described(
        "The TIMESTAMP in a text, by a pattern; NULL when the text does not match.",
        "TO_TIMESTAMP('04.03.2020', 'dd.MM.yyyy')",
        "2020-03-04 00:00:00.000",
    ),
    "TO_DATE": _described("The DATE in a text, by a pattern.", "TO_DATE('2020-03-04')", "2020-03-04"),
    "TO_TIMESTAMP_LTZ": _described("A moment from seconds or milliseconds since 1970, or from a text."),
    "CONVERT_TZ": _described(
        "A time as text in one time zone as text in another.",
        "CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'America/Los_Angeles')",
        "1969-12-31 16:00:00",
    ),
    "CURRENT_DATABASE": _described(
        "The current database of the session.", "CURRENT_DATABASE()", "default_database"
    ),
    "FROM_UNIXTIME": _described("Seconds since 1970 as text in the session's time zone, by a pattern."),
    "UNIX_TIMESTAMP": _described("Seconds since 1970 of now, or of the time in a text."),
    "TIMESTAMPADD": _described("A time moved by a number of units."),
    "TIMESTAMPDIFF": _described(
        "Whole units from the first time to the second.",
        "TIMESTAMPDIFF(HOUR, TIMESTAMP '2020-01-01 00:00:00', TIMESTAMP '2020-01-02 01:59:00')",
        "25",
    ),
    "CURRENT_TIMESTAMP": _described("The moment at which the row is computed."),
    "CURRENT_ROW_TIMESTAMP": _described("The moment at which the row is computed."),
    "NOW": _described("The moment at which the row is computed."),
    "LOCALTIMESTAMP": _described("The session's date and time at which the row is computed."),
    "CURRENT_DATE": _described("The session's date at which the row is computed."),
    "CURRENT_TIME": _described("The session's time of day at which the row is computed."),
    "LOCALTIME": _described("The session's time of day at which the row is computed."),
    "CURRENT_WATERMARK": _described("The watermark that arrived before the row; NULL before the first."),
    "PROCTIME": _described("Processing time, as a time attribute of a computed column."),
    # conversion, collections, hashes
    "CAST": _described(
        "The value in another type; a text that does not fit fails the job.", "CAST('12' AS INT)", "12"
    ),
    "TRY_CAST": _described(
        "The value in another type, NULL where it does not fit.", "TRY_CAST('12' AS INT)", "12"
    ),
    "ROW": _described("A row of the values.", "ROW(1, 'a')", "(1, a)"),
    "ARRAY": _described("An array of the values.", "ARRAY[1, 2]", "[1, 2]"),
    "MAP": _described("A map of keys and values.", "MAP['a', 1]", "{a=1}"),
    "CARDINALITY": _described("The number of elements or entries.", "CARDINALITY(ARRAY[1, 2])", "2"),
    "ARRAY_APPEND": _described(
        "The array with an element at its end.", "ARRAY_APPEND(ARRAY[1, 2], 3)", "[1, 2, 3]"
    ),
    "ARRAY_PREPEND": _described(
        "The array with an element at its beginning.", "ARRAY_PREPEND(ARRAY[1, 2], 0)", "[0, 1, 2]"
    ),
    "ARRAY_CONCAT": _described(
        "The elements of all arrays, one array after another.",
        "ARRAY_CONCAT(ARRAY[1], ARRAY[2, 3])",
        "[1, 2, 3]",
    ),
    "ARRAY_CONTAINS": _described(
        "Whether the array has this element; NULL is looked for like a value.",
        "ARRAY_CONTAINS(ARRAY[1, 2], 2)",
        "TRUE",
    ),
    "ARRAY_POSITION": _described(
        "The position, from 1, of the first such element; 0 when there is none.",
        "ARRAY_POSITION(ARRAY['a', 'b'], 'b')",
        "2",
    ),
    "ARRAY_REMOVE": _described(
        "The array without the elements that equal the second argument.",
        "ARRAY_REMOVE(ARRAY[1, 2, 1], 1)",
        "[2]",
    ),
    "ARRAY_DISTINCT": _described(
        "The array with the first of equal elements only.", "ARRAY_DISTINCT(ARRAY[2, 1, 2])", "[2, 1]"
    ),
    "ARRAY_UNION": _described(
        "The distinct elements of two arrays.", "ARRAY_UNION(ARRAY[1, 2], ARRAY[2, 3])", "[1, 2, 3]"
    ),
    "ARRAY_EXCEPT": _described(
        "The distinct elements of the first array that the second has not.",
        "ARRAY_EXCEPT(ARRAY[1, 2], ARRAY[2])",
        "[1]",
    ),
    "ARRAY_INTERSECT": _described(
        "The distinct elements of the first array that the second has too.",
        "ARRAY_INTERSECT(ARRAY[1, 2], ARRAY[2])",
        "[2]",
    ),
    "ARRAY_REVERSE": _described(
        "The array from its last element to its first.", "ARRAY_REVERSE(ARRAY[1, 2])", "[2, 1]"
    ),
    "ARRAY_SLICE": _described(
        "The elements from one position to another, both included; negative ones count from the end.",
        "ARRAY_SLICE(ARRAY[1, 2, 3], 2)",
        "[2, 3]",
    ),
    "ARRAY_SORT": _described(
        "The elements by size: ascending with NULLs first, or descending (FALSE) with NULLs last.",
        "ARRAY_SORT(ARRAY[2, 3, 1], FALSE)",
        "[3, 2, 1]",
    ),
    "ARRAY_MAX": _described("The greatest element that is not NULL.", "ARRAY_MAX(ARRAY[1, 3, 2])", "3"),
    "ARRAY_MIN": _described("The least element that is not NULL.", "ARRAY_MIN(ARRAY[1, 3, 2])", "1"),
    "ARRAY_JOIN": _described(
        "The texts of an array with a delimiter between; NULLs are left out or replaced.",
        "ARRAY_JOIN(ARRAY['a', 'b'], '-')",
        "a-b",
    ),
    "ELEMENT": _described(
        "The only element of an array; NULL when it is empty, an error when it has several.",
        "ELEMENT(ARRAY[7])",
        "7",
    ),
    "SPLIT": _described(
        "The parts of a text between delimiters; an empty delimiter splits into characters.",
        "SPLIT('a,b', ',')",
        "[a, b]",
    ),
    "MAP_KEYS": _described("The keys of a map.", "MAP_KEYS(MAP['a', 1])", "[a]"),
    "MAP_VALUES": _described("The values of a map.", "MAP_VALUES(MAP['a', 1])", "[1]"),
    "MAP_ENTRIES": _described(
        "The entries of a map as rows of key and value.", "MAP_ENTRIES(MAP['a', 1])", "[(a, 1)]"
    ),
    "MAP_FROM_ARRAYS": _described(
        "The map of an array of keys and one of values.", "MAP_FROM_ARRAYS(ARRAY['a'], ARRAY[1])", "{a=1}"
    ),
    "MAP_UNION": _described(
        "The entries of all maps; of equal keys that of the last.",
        "MAP_UNION(MAP['a', 1], MAP['a', 2])",
        "{a=2}",
    ),
    "STR_TO_MAP": _described(
        "The map in a text: pairs between commas, key and value between equals signs, or by other regular expressions.",
        "STR_TO_MAP('a=1')",
        "{a=1}",
    ),
    "MD5": _described("The MD5 hash in hexadecimal digits.", "MD5('')", "d41d8cd98f00b204e9800998ecf8427e"),
    "SHA1": _described(
        "The SHA-1 hash in hexadecimal digits.", "SHA1('')", "da39a3ee5e6b4b0d3255bfef95601890afd80709"
    ),
    "SHA256": _described("The SHA-256 hash in hexadecimal digits."),
    "OBJECT_OF": _described(
        "An object with these values under their keys, which are literals: a ROW with named fields.",
        "OBJECT_OF('com.example.User', 'name', 'Bob', 'age', 21).name",
        "Bob",
    ),
    "OBJECT_UPDATE": _described(
        "The object or ROW with other values under some of its keys; NULL where the object is.",
        "OBJECT_UPDATE(OBJECT_OF('com.example.User', 'name', 'Bob', 'age', 14), 'age', 30).age",
        "30",
    ),
    # JSON
    "JSON_EXISTS": _described(
        "Whether a path of a JSON text leads to a value.", """JSON_EXISTS('{"a": true}', '$.a')""", "TRUE"
    ),
    "JSON_VALUE": _described(
        "The text, number or BOOLEAN at a path of a JSON text.",
        """JSON_VALUE('{"a": 1.50}', '$.a')""",
        "1.50",
    ),
    "JSON_QUERY": _described(
        "The object or array at a path of a JSON text.", """JSON_QUERY('{"a": [1, 2]}', '$.a')""", "[1,2]"
    ),
    "JSON_LENGTH": _described(
        "The number of elements or members at a path of a JSON text.", "JSON_LENGTH('[1, 2]')", "2"
    ),
    "JSON_TYPE": _described(
        "The kind of the value at a path of a JSON text.", """JSON_TYPE('{"a": 1}', '$.a')""", "number"
    ),
    "JSON_STRING": _described("A value as JSON; NULL for NULL.", "JSON_STRING(ARRAY['a', 'b'])", '["a","b"]'),
    "JSON_OBJECT": _described(
        "A JSON object of keys and values.", "JSON_OBJECT('a' VALUE 1, 'b' VALUE 'x')", '{"a":1,"b":"x"}'
    ),
    "JSON_ARRAY": _described("A JSON array of the values.", "JSON_ARRAY(1, 'x')", '[1,"x"]'),
    "JSON": _described(
        "A JSON text that JSON_OBJECT or JSON_ARRAY inserts as it is.",
        "JSON_ARRAY(JSON('{\"a\": 1}'))",
        '[{"a":1}]',
    ),
    "JSON_QUOTE": _described("A text as a JSON string.", "JSON_QUOTE('a\"b')", '"a\\"b"'),
    "JSON_UNQUOTE": _described("The characters of a JSON string.", """JSON_UNQUOTE('"a"')""", "a"),
    "SHA224": _described("The SHA-224 hash in hexadecimal digits."),
    "SHA384": _described("The SHA-384 hash in hexadecimal digits."),
    "SHA512": _described("The SHA-512 hash in hexadecimal digits."),
    "SHA2": _described(
        "The SHA-2 hash of 224, 256, 384 or 512 bits in hexadecimal digits.",
        "SHA2('', 224)",
        "d14a028c2a3a2bc9476102bb288234c415a2b01f828ea62ac5b3e42f",
    ),
    "ENCODE": _described("A text as bytes of a charset.", "ENCODE('é', 'ISO-8859-1')", "x'e9'"),
    "DECODE": _described(
        "Bytes of a charset as text; malformed ones become U+FFFD.", "DECODE(x'C3A9', 'UTF-8')", "é"
    ),
    "UNHEX": _described(
        "The bytes that hexadecimal digits stand for; NULL for another text.", "UNHEX('4162')", "x'4162'"
    ),
    "IS_VALID_UTF8": _described("Whether bytes are well-formed UTF-8.", "IS_VALID_UTF8(x'80')", "FALSE"),
    "MAKE_VALID_UTF8": _described(
        "Bytes of UTF-8 as text; malformed ones become U+FFFD.", "MAKE_VALID_UTF8(x'4162')", "Ab"
    ),
    "URL_ENCODE": _described("A text as a part of a form's address.", "URL_ENCODE('a b&c')", "a+b%26c"),
    "URL_DECODE": _described(
        "The text in a part of a form's address; NULL where that is malformed.",
        "URL_DECODE('a+b%26c')",
        "a b&c",
    ),
    "PARSE_URL": _described(
        "A part of an address (HOST, PATH, QUERY, REF, PROTOCOL, AUTHORITY, FILE, USERINFO), or a value in its QUERY.",
        "PARSE_URL('http://h.de/p?k=1', 'QUERY', 'k')",
        "1",
    ),
    "INET_ATON": _described(
        "The number of an IPv4 address; NULL for another text.", "INET_ATON('127.0.0.1')", "2130706433"
    ),
    "INET_NTOA": _described(
        "The IPv4 address of a number; NULL outside of their range.", "INET_NTOA(2130706433)", "127.0.0.1"
    ),
    "IS_ALPHA": _described("Whether a text consists of letters.", "IS_ALPHA('Hello')", "TRUE"),
    "IS_DIGIT": _described("Whether a text consists of digits.", "IS_DIGIT('12')", "TRUE"),
    "IS_DECIMAL": _described("Whether a text is a number.", "IS_DECIMAL('-1.5')", "TRUE"),
    "ELT": _described("The value of this number, from 1; NULL for another number.", "ELT(2, 'a', 'b')", "b"),
    "REGEXP_EXTRACT_ALL": _described(
        "The texts of a group (by default the first) of all matches of a regular expression.",
        "REGEXP_EXTRACT_ALL('a1b22', '([0-9]+)')",
        "[1, 22]",
    ),
    "REGEXP_INSTR": _described(
        "The position, from 1, of the first match of a regular expression; 0 without one.",
        "REGEXP_INSTR('ab1', '[0-9]')",
        "3",
    ),
    "REGEXP_SUBSTR": _described(
        "The first match of a regular expression; NULL without one.", "REGEXP_SUBSTR('ab12', '[0-9]+')", "12"
    ),
    "PRINTF": _described(
        "Values in a text with conversions such as %d and %s.", "PRINTF('%03d-%s', 7, 'a')", "007-a"
    ),
    "TYPEOF": _described(
        "The name of the value's type; with TRUE in full, as a catalog keeps it.",
        "TYPEOF('abc')",
        "CHAR(3) NOT NULL",
    ),
    "PARSE_JSON": _described(
        "The VARIANT of a JSON text; other text fails the job.",
        """PARSE_JSON('{"a": [7, 8]}')['a'][1]""",
        "7",
    ),
    "TRY_PARSE_JSON": _described(
        "The VARIANT of a JSON text, NULL for other text.",
        """TRY_PARSE_JSON('{"b": 1, "a": 2}')""",
        '{"a":2,"b":1}',
    ),
    # bitmaps
    "BITMAP_BUILD": _described(
        "The set of the numbers of an array that are not NULL.",
        "BITMAP_TO_STRING(BITMAP_BUILD(ARRAY[3, 1, 3]))",
        "{1,3}",
    ),
    "BITMAP_AND": _described(
        "The values that both bitmaps have.",
        "BITMAP_TO_STRING(BITMAP_AND(BITMAP_BUILD(ARRAY[1, 2]), BITMAP_BUILD(ARRAY[2, 3])))",
        "{2}",
    ),
    "BITMAP_ANDNOT": _described(
        "The values of the first bitmap that the second one lacks.",
        "BITMAP_TO_STRING(BITMAP_ANDNOT(BITMAP_BUILD(ARRAY[1, 2]), BITMAP_BUILD(ARRAY[2, 3])))",
        "{1}",
    ),
    "BITMAP_OR": _described(
        "The values that one of the bitmaps has.",
        "BITMAP_TO_STRING(BITMAP_OR(BITMAP_BUILD(ARRAY[1, 2]), BITMAP_BUILD(ARRAY[2, 3])))",
        "{1,2,3}",
    ),
    "BITMAP_XOR": _described(
        "The values that exactly one of the bitmaps has.",
        "BITMAP_TO_STRING(BITMAP_XOR(BITMAP_BUILD(ARRAY[1, 2]), BITMAP_BUILD(ARRAY[2, 3])))",
        "{1,3}",
    ),
    "BITMAP_CARDINALITY": _described(
        "The number of values of a bitmap.", "BITMAP_CARDINALITY(BITMAP_BUILD(ARRAY[3, 1, 3]))", "2"
    ),
    "BITMAP_FROM_BYTES": _described(
        "The bitmap of bytes in the portable form of 32-bit Roaring bitmaps; other bytes fail the job.",
        "BITMAP_TO_STRING(BITMAP_FROM_BYTES(x'3A3000000100000000000000100000000700'))",
        "{7}",
    ),
    "BITMAP_TO_ARRAY": _described(
        "The values of a bitmap in ascending order without a sign, negative numbers last.",
        "BITMAP_TO_ARRAY(BITMAP_BUILD(ARRAY[-1, 5]))",
        "[5, -1]",
    ),
    "BITMAP_TO_BYTES": _described(
        "A bitmap in the portable form of 32-bit Roaring bitmaps; equal bitmaps have equal bytes.",
        "BITMAP_CARDINALITY(BITMAP_FROM_BYTES(BITMAP_TO_BYTES(BITMAP_BUILD(ARRAY[7]))))",
        "1",
    ),
    "BITMAP_TO_STRING": _described(
        "The values of a bitmap as text without a sign; a text above half a million characters ends with dots.",
        "BITMAP_TO_STRING(BITMAP_BUILD(ARRAY[-1, 5]))",
        "{5,4294967295}",
    ),
    # aggregates
    "BITMAP_BUILD_AGG": _described("The set of the numbers that are not NULL."),
    "BITMAP_BUILD_CARDINALITY_AGG": _described("How many distinct numbers there are, without NULL."),
    "BITMAP_AND_AGG": _described("The values that all bitmaps have."),
    "BITMAP_AND_CARDINALITY_AGG": _described("How many values all bitmaps have."),
    "BITMAP_OR_AGG": _described("The values that any bitmap has."),
    "BITMAP_OR_CARDINALITY_AGG": _described("How many values the bitmaps have together."),
    "BITMAP_XOR_AGG": _described("The values that an odd number of the bitmaps has."),
    "BITMAP_XOR_CARDINALITY_AGG": _described("How many values an odd number of the bitmaps has."),
    "JSON_ARRAYAGG": _described("A JSON array of the values, in order of arrival, by default without NULL."),
    "JSON_OBJECTAGG": _described("A JSON object of keys, each of which occurs once, and values."),
    "APPROX_COUNT_DISTINCT": _described("The number of distinct values that are not NULL, which is exact."),
    "COUNT": _described("The number of rows, or of those in which no value is NULL."),
    "SUM": _described("The sum of the values that are not NULL, in their type; NULL when there is none."),
    "AVG": _described("The mean of the values that are not NULL; of whole numbers it is whole."),
    "MIN": _described("The least value that is not NULL."),
    "MAX": _described("The greatest value that is not NULL."),
    "STDDEV": _described("The standard deviation of a sample, as STDDEV_SAMP."),
    "STDDEV_POP": _described("The standard deviation of a whole population."),
    "STDDEV_SAMP": _described("The standard deviation of a sample."),
    "VAR_POP": _described("The variance of a whole population."),
    "VAR_SAMP": _described("The variance of a sample."),
    "VARIANCE": _described("The variance of a sample, as VAR_SAMP."),
    "FIRST_VALUE": _described("The first value that is not NULL, in order of arrival."),
    "LAST_VALUE": _described("The last value that is not NULL, in order of arrival."),
    "ARRAY_AGG": _described(
        "The values as an array in order of arrival, NULLs too unless IGNORE NULLS says otherwise."
    ),
    "COLLECT": _described("The values that are not NULL as a multiset."),
    "PERCENTILE": _described(
        "The value at a percentage (0 to 1), or at several, of all values by size, interpolated."
    ),
    "LISTAGG": _described("The texts that are not NULL with a separator, by default a comma, between."),
}
"""Descriptions by SQL name."""

# fmt: off
"""SQL's functions, made of their signatures: pytest tests/golden/test_function_stub.py --rewrite."""

from sqlstream.client.dbapi.tables.expressions import Aggregation, Expression, Value

def abs(numeric: Value, /) -> Expression:
    """ABS(numeric): The number without its sign. `ABS(-2)` is `2`."""

def acos(numeric: Value, /) -> Expression:
    """ACOS(numeric): The arc cosine in radians. `ACOS(1)` is `0.0`."""

def approx_count_distinct(value: Value, /, *, distinct: bool = False) -> Aggregation:
    """APPROX_COUNT_DISTINCT(value): The number of distinct values that are not NULL, which is exact.
    `APPROX_COUNT_DISTINCT(v)` is `2`."""

def array(*values: Value) -> Expression:
    """ARRAY[value1 [, value2]*]: An array of the values. `ARRAY[1, 2]` is `[1, 2]`."""

def array_agg(*values: Value, distinct: bool = False) -> Aggregation:
    """ARRAY_AGG(value [IGNORE NULLS]): The values as an array in order of arrival, NULLs too unless IGNORE NULLS says
    otherwise. `ARRAY_AGG(v)` is `[3, 1, NULL, 3]`."""

def array_append(array: Value, element: Value, /) -> Expression:
    """ARRAY_APPEND(array, element): The array with an element at its end. `ARRAY_APPEND(ARRAY[1, 2], 3)` is `[1, 2, 3]`."""

def array_concat(*values: Value) -> Expression:
    """ARRAY_CONCAT(array1 [, array2]*): The elements of all arrays, one array after another. `ARRAY_CONCAT(ARRAY[1], ARRAY[2,
    3])` is `[1, 2, 3]`."""

def array_contains(array: Value, element: Value, /) -> Expression:
    """ARRAY_CONTAINS(array, element): Whether the array has this element; NULL is looked for like a value.
    `ARRAY_CONTAINS(ARRAY[1, 2], 2)` is `TRUE`."""

def array_distinct(array: Value, /) -> Expression:
    """ARRAY_DISTINCT(array): The array with the first of equal elements only. `ARRAY_DISTINCT(ARRAY[2, 1, 2])` is `[2, 1]`."""

def array_except(array1: Value, array2: Value, /) -> Expression:
    """ARRAY_EXCEPT(array1, array2): The distinct elements of the first array that the second has not. `ARRAY_EXCEPT(ARRAY[1,
    2], ARRAY[2])` is `[1]`."""

def array_intersect(array1: Value, array2: Value, /) -> Expression:
    """ARRAY_INTERSECT(array1, array2): The distinct elements of the first array that the second has too.
    `ARRAY_INTERSECT(ARRAY[1, 2], ARRAY[2])` is `[2]`."""

def array_join(array: Value, delimiter: Value, null_text: Value = ..., /) -> Expression:
    """ARRAY_JOIN(array, delimiter[, null_text]): The texts of an array with a delimiter between; NULLs are left out or
    replaced. `ARRAY_JOIN(ARRAY['a', 'b'], '-')` is `a-b`."""

def array_max(array: Value, /) -> Expression:
    """ARRAY_MAX(array): The greatest element that is not NULL. `ARRAY_MAX(ARRAY[1, 3, 2])` is `3`."""

def array_min(array: Value, /) -> Expression:
    """ARRAY_MIN(array): The least element that is not NULL. `ARRAY_MIN(ARRAY[1, 3, 2])` is `1`."""

def array_position(array: Value, element: Value, /) -> Expression:
    """ARRAY_POSITION(array, element): The position, from 1, of the first such element; 0 when there is none.
    `ARRAY_POSITION(ARRAY['a', 'b'], 'b')` is `2`."""

def array_prepend(array: Value, element: Value, /) -> Expression:
    """ARRAY_PREPEND(array, element): The array with an element at its beginning. `ARRAY_PREPEND(ARRAY[1, 2], 0)` is `[0, 1,
    2]`."""

def array_remove(array: Value, element: Value, /) -> Expression:
    """ARRAY_REMOVE(array, element): The array without the elements that equal the second argument. `ARRAY_REMOVE(ARRAY[1, 2,
    1], 1)` is `[2]`."""

def array_reverse(array: Value, /) -> Expression:
    """ARRAY_REVERSE(array): The array from its last element to its first. `ARRAY_REVERSE(ARRAY[1, 2])` is `[2, 1]`."""

def array_slice(array: Value, start: Value, end: Value = ..., /) -> Expression:
    """ARRAY_SLICE(array, start[, end]): The elements from one position to another, both included; negative ones count from the
    end. `ARRAY_SLICE(ARRAY[1, 2, 3], 2)` is `[2, 3]`."""

def array_sort(array: Value, is_ascending: Value = ..., is_null_first: Value = ..., /) -> Expression:
    """ARRAY_SORT(array[, is_ascending[, is_null_first]]): The elements by size: ascending with NULLs first, or descending
    (FALSE) with NULLs last. `ARRAY_SORT(ARRAY[2, 3, 1], FALSE)` is `[3, 2, 1]`."""

def array_union(array1: Value, array2: Value, /) -> Expression:
    """ARRAY_UNION(array1, array2): The distinct elements of two arrays. `ARRAY_UNION(ARRAY[1, 2], ARRAY[2, 3])` is `[1, 2,
    3]`."""

def ascii(string: Value, /) -> Expression:
    """ASCII(string): The number of a text's first character. `ASCII('A')` is `65`."""

def asin(numeric: Value, /) -> Expression:
    """ASIN(numeric): The arc sine in radians. `ASIN(0)` is `0.0`."""

def atan(numeric: Value, /) -> Expression:
    """ATAN(numeric): The arc tangent in radians. `ATAN(0)` is `0.0`."""

def atan2(numeric1: Value, numeric2: Value, /) -> Expression:
    """ATAN2(numeric1, numeric2): The angle in radians of the point (numeric2, numeric1). `ATAN2(0, 1)` is `0.0`."""

def avg(numeric: Value, /, *, distinct: bool = False) -> Aggregation:
    """AVG(numeric): The mean of the values that are not NULL; of whole numbers it is whole. `AVG(v)` is `2`."""

def bin(integer: Value, /) -> Expression:
    """BIN(integer): A whole number in binary digits. `BIN(12)` is `1100`."""

def bitmap_and(bitmap1: Value, bitmap2: Value, /) -> Expression:
    """BITMAP_AND(bitmap1, bitmap2): The values that both bitmaps have. `BITMAP_TO_STRING(BITMAP_AND(BITMAP_BUILD(ARRAY[1, 2]),
    BITMAP_BUILD(ARRAY[2, 3])))` is `{2}`."""

def bitmap_and_agg(bitmap: Value, /, *, distinct: bool = False) -> Aggregation:
    """BITMAP_AND_AGG(bitmap): The values that all bitmaps have. `BITMAP_TO_STRING(BITMAP_AND_AGG(BITMAP_BUILD(ARRAY[v, 2])))`
    is `{2}`."""

def bitmap_and_cardinality_agg(bitmap: Value, /, *, distinct: bool = False) -> Aggregation:
    """BITMAP_AND_CARDINALITY_AGG(bitmap): How many values all bitmaps have. `BITMAP_AND_CARDINALITY_AGG(BITMAP_BUILD(ARRAY[v,
    2]))` is `1`."""

def bitmap_andnot(bitmap1: Value, bitmap2: Value, /) -> Expression:
    """BITMAP_ANDNOT(bitmap1, bitmap2): The values of the first bitmap that the second one lacks.
    `BITMAP_TO_STRING(BITMAP_ANDNOT(BITMAP_BUILD(ARRAY[1, 2]), BITMAP_BUILD(ARRAY[2, 3])))` is `{1}`."""

def bitmap_build(*values: Value) -> Expression:
    """BITMAP_BUILD(array of INT): The set of the numbers of an array that are not NULL.
    `BITMAP_TO_STRING(BITMAP_BUILD(ARRAY[3, 1, 3]))` is `{1,3}`."""

def bitmap_build_agg(integer: Value, /, *, distinct: bool = False) -> Aggregation:
    """BITMAP_BUILD_AGG(integer): The set of the numbers that are not NULL. `BITMAP_TO_STRING(BITMAP_BUILD_AGG(v))` is `{1,3}`."""

def bitmap_build_cardinality_agg(integer: Value, /, *, distinct: bool = False) -> Aggregation:
    """BITMAP_BUILD_CARDINALITY_AGG(integer): How many distinct numbers there are, without NULL.
    `BITMAP_BUILD_CARDINALITY_AGG(v)` is `2`."""

def bitmap_cardinality(bitmap: Value, /) -> Expression:
    """BITMAP_CARDINALITY(bitmap): The number of values of a bitmap. `BITMAP_CARDINALITY(BITMAP_BUILD(ARRAY[3, 1, 3]))` is `2`."""

def bitmap_from_bytes(bytes: Value, /) -> Expression:
    """BITMAP_FROM_BYTES(bytes): The bitmap of bytes in the portable form of 32-bit Roaring bitmaps; other bytes fail the job.
    `BITMAP_TO_STRING(BITMAP_FROM_BYTES(x'3A3000000100000000000000100000000700'))` is `{7}`."""

def bitmap_or(bitmap1: Value, bitmap2: Value, /) -> Expression:
    """BITMAP_OR(bitmap1, bitmap2): The values that one of the bitmaps has. `BITMAP_TO_STRING(BITMAP_OR(BITMAP_BUILD(ARRAY[1,
    2]), BITMAP_BUILD(ARRAY[2, 3])))` is `{1,2,3}`."""

def bitmap_or_agg(bitmap: Value, /, *, distinct: bool = False) -> Aggregation:
    """BITMAP_OR_AGG(bitmap): The values that any bitmap has. `BITMAP_TO_STRING(BITMAP_OR_AGG(BITMAP_BUILD(ARRAY[v, 2])))` is
    `{1,2,3}`."""

def bitmap_or_cardinality_agg(bitmap: Value, /, *, distinct: bool = False) -> Aggregation:
    """BITMAP_OR_CARDINALITY_AGG(bitmap): How many values the bitmaps have together.
    `BITMAP_OR_CARDINALITY_AGG(BITMAP_BUILD(ARRAY[v, 2]))` is `3`."""

def bitmap_to_array(bitmap: Value, /) -> Expression:
    """BITMAP_TO_ARRAY(bitmap): The values of a bitmap in ascending order without a sign, negative numbers last.
    `BITMAP_TO_ARRAY(BITMAP_BUILD(ARRAY[-1, 5]))` is `[5, -1]`."""

def bitmap_to_bytes(bitmap: Value, /) -> Expression:
    """BITMAP_TO_BYTES(bitmap): A bitmap in the portable form of 32-bit Roaring bitmaps; equal bitmaps have equal bytes.
    `BITMAP_CARDINALITY(BITMAP_FROM_BYTES(BITMAP_TO_BYTES(BITMAP_BUILD(ARRAY[7]))))` is `1`."""

def bitmap_to_string(bitmap: Value, /) -> Expression:
    """BITMAP_TO_STRING(bitmap): The values of a bitmap as text without a sign; a text above half a million characters ends
    with dots. `BITMAP_TO_STRING(BITMAP_BUILD(ARRAY[-1, 5]))` is `{5,4294967295}`."""

def bitmap_xor(bitmap1: Value, bitmap2: Value, /) -> Expression:
    """BITMAP_XOR(bitmap1, bitmap2): The values that exactly one of the bitmaps has.
    `BITMAP_TO_STRING(BITMAP_XOR(BITMAP_BUILD(ARRAY[1, 2]), BITMAP_BUILD(ARRAY[2, 3])))` is `{1,3}`."""

def bitmap_xor_agg(bitmap: Value, /, *, distinct: bool = False) -> Aggregation:
    """BITMAP_XOR_AGG(bitmap): The values that an odd number of the bitmaps has.
    `BITMAP_TO_STRING(BITMAP_XOR_AGG(BITMAP_BUILD(ARRAY[v, 2])))` is `{1}`."""

def bitmap_xor_cardinality_agg(bitmap: Value, /, *, distinct: bool = False) -> Aggregation:
    """BITMAP_XOR_CARDINALITY_AGG(bitmap): How many values an odd number of the bitmaps has.
    `BITMAP_XOR_CARDINALITY_AGG(BITMAP_BUILD(ARRAY[v, 2]))` is `1`."""

def btrim(string: Value, chars: Value = ..., /) -> Expression:
    """BTRIM(string[, chars]): The text without blanks, or given characters, at both ends. `BTRIM('xax', 'x')` is `a`."""

def cardinality(*values: Value) -> Expression:
    """CARDINALITY(array, map or multiset): The number of elements or entries. `CARDINALITY(ARRAY[1, 2])` is `2`."""

def ceil(value: Value, unit: str = "", /) -> Expression:
    """CEIL(numeric) or CEIL(timepoint TO unit): The number rounded up, or the start of the next unit of a time. `CEIL(2.1)` is
    `3`."""

def ceiling(*values: Value) -> Expression:
    """CEILING(numeric): The number rounded up. `CEILING(2.1)` is `3`."""

def char_length(string: Value, /) -> Expression:
    """CHAR_LENGTH(string): The number of characters. `CHAR_LENGTH('héllo')` is `5`."""

def character_length(string: Value, /) -> Expression:
    """CHARACTER_LENGTH(string): The number of characters. `CHARACTER_LENGTH('héllo')` is `5`."""

def chr(integer: Value, /) -> Expression:
    """CHR(integer): The character of a number. `CHR(65)` is `A`."""

def coalesce(*values: Value) -> Expression:
    """COALESCE(value1 [, value2]*): The first argument that is not NULL. `COALESCE(CAST(NULL AS INT), 2)` is `2`."""

def collect(value: Value, /, *, distinct: bool = False) -> Aggregation:
    """COLLECT(value): The values that are not NULL as a multiset. `COLLECT(v)` is `{3=2, 1=1}`."""

def concat(*values: Value) -> Expression:
    """CONCAT(string1, string2, ...): All texts joined; NULL when one is NULL. `CONCAT('a', 'b', 'c')` is `abc`."""

def concat_ws(*values: Value) -> Expression:
    """CONCAT_WS(separator, string1, ...): All texts that are not NULL, with a separator between. `CONCAT_WS('-', 'a', 'b')` is
    `a-b`."""

def convert_tz(string: Value, from_zone: Value, to_zone: Value, /) -> Expression:
    """CONVERT_TZ(string, from_zone, to_zone): A time as text in one time zone as text in another. `CONVERT_TZ('1970-01-01
    00:00:00', 'UTC', 'America/Los_Angeles')` is `1969-12-31 16:00:00`."""

def cos(numeric: Value, /) -> Expression:
    """COS(numeric): The cosine of an angle in radians. `COS(0)` is `1.0`."""

def cosh(numeric: Value, /) -> Expression:
    """COSH(numeric): The hyperbolic cosine. `COSH(0)` is `1.0`."""

def cot(numeric: Value, /) -> Expression:
    """COT(numeric): The cotangent of an angle in radians. `COT(1)` is `0.6420926159343306`."""

def count(*values: Value, distinct: bool = False) -> Aggregation:
    """COUNT(*) or COUNT(value, …): The number of rows, or of those in which no value is NULL. `COUNT(v)` is `3`."""

def cume_dist() -> Aggregation:
    """CUME_DIST(): The share of the rows of a partition that come before a row or are equal to it."""

def current_database() -> Expression:
    """CURRENT_DATABASE(): The current database of the session. `CURRENT_DATABASE()` is `default_database`."""

def current_date() -> Expression:
    """CURRENT_DATE: The session's date at which the row is computed. `CURRENT_DATE > DATE '2020-01-01'` is `TRUE`."""

def current_row_timestamp() -> Expression:
    """CURRENT_ROW_TIMESTAMP: The moment at which the row is computed. `CURRENT_ROW_TIMESTAMP() = NOW()` is `TRUE`."""

def current_time() -> Expression:
    """CURRENT_TIME: The session's time of day at which the row is computed. `CURRENT_TIME = LOCALTIME` is `TRUE`."""

def current_timestamp() -> Expression:
    """CURRENT_TIMESTAMP: The moment at which the row is computed. `CURRENT_TIMESTAMP = NOW()` is `TRUE`."""

def current_watermark(rowtime: Value, /) -> Expression:
    """CURRENT_WATERMARK(rowtime): The watermark that arrived before the row; NULL before the first."""

def date_format(timestamp: Value, pattern: Value, /) -> Expression:
    """DATE_FORMAT(timestamp, pattern): A time as text, by a pattern. `DATE_FORMAT(TIMESTAMP '2020-03-04 10:20:30',
    'yyyy/MM/dd')` is `2020/03/04`."""

def dayofmonth(date: Value, /) -> Expression:
    """DAYOFMONTH(date): The day of a date in its month, from 1. `DAYOFMONTH(DATE '2020-03-04')` is `4`."""

def dayofweek(date: Value, /) -> Expression:
    """DAYOFWEEK(date): The day of a date in its week, 1 for Sunday. `DAYOFWEEK(DATE '2020-03-04')` is `4`."""

def dayofyear(date: Value, /) -> Expression:
    """DAYOFYEAR(date): The day of a date in its year, from 1. `DAYOFYEAR(DATE '2020-03-04')` is `64`."""

def decode(bytes: Value, charset: Value, /) -> Expression:
    """DECODE(bytes, charset): Bytes of a charset as text; malformed ones become U+FFFD. `DECODE(x'C3A9', 'UTF-8')` is `é`."""

def degrees(numeric: Value, /) -> Expression:
    """DEGREES(numeric): Radians as degrees. `DEGREES(0)` is `0.0`."""

def dense_rank() -> Aggregation:
    """DENSE_RANK(): The place of a row in its partition, from 1; equal rows share one, and none is left out."""

def e() -> Expression:
    """E(): Euler's number. `E()` is `2.718281828459045`."""

def element(array: Value, /) -> Expression:
    """ELEMENT(array): The only element of an array; NULL when it is empty, an error when it has several. `ELEMENT(ARRAY[7])`
    is `7`."""

def elt(*values: Value) -> Expression:
    """ELT(index, value1 [, value2]*): The value of this number, from 1; NULL for another number. `ELT(2, 'a', 'b')` is `b`."""

def encode(string: Value, charset: Value, /) -> Expression:
    """ENCODE(string, charset): A text as bytes of a charset. `ENCODE('é', 'ISO-8859-1')` is `x'e9'`."""

def endswith(string: Value, suffix: Value, /) -> Expression:
    """ENDSWITH(string, suffix): Whether a text ends with another. `ENDSWITH('stream', 'am')` is `TRUE`."""

def exp(numeric: Value, /) -> Expression:
    """EXP(numeric): e to the power of the number. `EXP(0)` is `1.0`."""

def extract(unit: str, temporal: Value, /) -> Expression:
    """EXTRACT(unit FROM temporal): A part of a time or an interval. `EXTRACT(HOUR FROM TIME '10:20:30')` is `10`."""

def first_value(value: Value, /, *, distinct: bool = False) -> Aggregation:
    """FIRST_VALUE(value): The first value that is not NULL, in order of arrival. `FIRST_VALUE(v)` is `3`."""

def floor(value: Value, unit: str = "", /) -> Expression:
    """FLOOR(numeric) or FLOOR(timepoint TO unit): The number rounded down, or the start of the unit in which a time lies.
    `FLOOR(2.7)` is `2`."""

def from_base64(string: Value, /) -> Expression:
    """FROM_BASE64(string): The text that base 64 encodes. `FROM_BASE64('aGVsbG8=')` is `hello`."""

def from_unixtime(seconds: Value, pattern: Value = ..., /) -> Expression:
    """FROM_UNIXTIME(seconds[, pattern]): Seconds since 1970 as text in the session's time zone, by a pattern.
    `UNIX_TIMESTAMP(FROM_UNIXTIME(60))` is `60`."""

def greatest(*values: Value) -> Expression:
    """GREATEST(value1[, value2]*): The greatest argument; NULL when one is NULL. `GREATEST(1, 3, 2)` is `3`."""

def hex(integer: Value, /) -> Expression:
    """HEX(integer) or HEX(string): A whole number, or the bytes of a text, in hexadecimal digits. `HEX(255)` is `FF`."""

def hour(timestamp: Value, /) -> Expression:
    """HOUR(timestamp): The hour of a time, 0 to 23. `HOUR(TIMESTAMP '2020-03-04 10:20:30')` is `10`."""

def if_(condition: Value, value1: Value, value2: Value, /) -> Expression:
    """IF(condition, value1, value2): The first value where the condition is true, else the second. `IF(1 < 2, 'a', 'b')` is
    `a`."""

def ifnull(value: Value, replacement: Value, /) -> Expression:
    """IFNULL(value, replacement): The value, or the replacement where it is NULL. `IFNULL(CAST(NULL AS INT), 0)` is `0`."""

def inet_aton(string: Value, /) -> Expression:
    """INET_ATON(string): The number of an IPv4 address; NULL for another text. `INET_ATON('127.0.0.1')` is `2130706433`."""

def inet_ntoa(number: Value, /) -> Expression:
    """INET_NTOA(number): The IPv4 address of a number; NULL outside of their range. `INET_NTOA(2130706433)` is `127.0.0.1`."""

def initcap(string: Value, /) -> Expression:
    """INITCAP(string): Each word with a capital in front. `INITCAP('flink sql')` is `Flink Sql`."""

def instr(string: Value, search: Value, start: Value = ..., appearance: Value = ..., /) -> Expression:
    """INSTR(string, search[, start[, appearance]]): The position, from 1, of the first or given occurrence of a text; 0
    without one. A negative start searches backwards. `INSTR('abcabc', 'c', 1, 2)` is `6`."""

def is_alpha(string: Value, /) -> Expression:
    """IS_ALPHA(string): Whether a text consists of letters. `IS_ALPHA('Hello')` is `TRUE`."""

def is_decimal(string: Value, /) -> Expression:
    """IS_DECIMAL(string): Whether a text is a number. `IS_DECIMAL('-1.5')` is `TRUE`."""

def is_digit(string: Value, /) -> Expression:
    """IS_DIGIT(string): Whether a text consists of digits. `IS_DIGIT('12')` is `TRUE`."""

def is_valid_utf8(bytes: Value, /) -> Expression:
    """IS_VALID_UTF8(bytes): Whether bytes are well-formed UTF-8. `IS_VALID_UTF8(x'80')` is `FALSE`."""

def json(*values: Value) -> Expression:
    """JSON(text), inside of JSON_OBJECT or JSON_ARRAY: A JSON text that JSON_OBJECT or JSON_ARRAY inserts as it is.
    `JSON_ARRAY(JSON('{"a": 1}'))` is `[{"a":1}]`."""

def json_array(*values: Value) -> Expression:
    """JSON_ARRAY(value, … [{NULL | ABSENT} ON NULL]): A JSON array of the values. `JSON_ARRAY(1, 'x')` is `[1,"x"]`."""

def json_arrayagg(*values: Value, distinct: bool = False) -> Aggregation:
    """JSON_ARRAYAGG(value [{NULL | ABSENT} ON NULL]): A JSON array of the values, in order of arrival, by default without
    NULL. `JSON_ARRAYAGG(v)` is `[3,1,3]`."""

def json_exists(*values: Value) -> Expression:
    """JSON_EXISTS(json, path [{TRUE | FALSE | UNKNOWN | ERROR} ON ERROR]): Whether a path of a JSON text leads to a value.
    `JSON_EXISTS('{"a": true}', '$.a')` is `TRUE`."""

def json_length(json: Value, path: Value = ..., /) -> Expression:
    """JSON_LENGTH(json[, path]): The number of elements or members at a path of a JSON text. `JSON_LENGTH('[1, 2]')` is `2`."""

def json_object(*values: Value) -> Expression:
    """JSON_OBJECT([KEY] key VALUE value, … [{NULL | ABSENT} ON NULL]): A JSON object of keys and values. `JSON_OBJECT('a'
    VALUE 1, 'b' VALUE 'x')` is `{"a":1,"b":"x"}`."""

def json_objectagg(*values: Value, distinct: bool = False) -> Aggregation:
    """JSON_OBJECTAGG([KEY] key VALUE value [{NULL | ABSENT} ON NULL]): A JSON object of keys, each of which occurs once, and
    values. `JSON_OBJECTAGG(KEY 'n' VALUE v) FILTER (WHERE v = 1)` is `{"n":1}`."""

def json_query(*values: Value) -> Expression:
    """JSON_QUERY(json, path [RETURNING type] [{WITHOUT | WITH [CONDITIONAL | UNCONDITIONAL]} [ARRAY] WRAPPER] [{NULL | EMPTY
    ARRAY | EMPTY OBJECT | ERROR} ON EMPTY] [… ON ERROR]): The object or array at a path of a JSON text. `JSON_QUERY('{"a":
    [1, 2]}', '$.a')` is `[1,2]`."""

def json_quote(string: Value, /) -> Expression:
    """JSON_QUOTE(string): A text as a JSON string. `JSON_QUOTE('a"b')` is `"a\\"b"`."""

def json_string(value: Value, /) -> Expression:
    """JSON_STRING(value): A value as JSON; NULL for NULL. `JSON_STRING(ARRAY['a', 'b'])` is `["a","b"]`."""

def json_type(json: Value, path: Value = ..., /) -> Expression:
    """JSON_TYPE(json[, path]): The kind of the value at a path of a JSON text. `JSON_TYPE('{"a": 1}', '$.a')` is `number`."""

def json_unquote(string: Value, /) -> Expression:
    """JSON_UNQUOTE(string): The characters of a JSON string. `JSON_UNQUOTE('"a"')` is `a`."""

def json_value(*values: Value) -> Expression:
    """JSON_VALUE(json, path [RETURNING type] [{NULL | ERROR | DEFAULT value} ON EMPTY] [… ON ERROR]): The text, number or
    BOOLEAN at a path of a JSON text. `JSON_VALUE('{"a": 1.50}', '$.a')` is `1.50`."""

def lag(value: Value, offset: Value = ..., default: Value = ..., /) -> Aggregation:
    """LAG(value[, offset[, default]]): The value that many rows earlier, by default one; else the default, or NULL."""

def last_value(value: Value, /, *, distinct: bool = False) -> Aggregation:
    """LAST_VALUE(value): The last value that is not NULL, in order of arrival. `LAST_VALUE(v)` is `3`."""

def lead(value: Value, offset: Value = ..., default: Value = ..., /) -> Aggregation:
    """LEAD(value[, offset[, default]]): The value that many rows later, by default one; else the default, or NULL."""

def least(*values: Value) -> Expression:
    """LEAST(value1[, value2]*): The least argument; NULL when one is NULL. `LEAST(1, 3, 2)` is `1`."""

def left(string: Value, length: Value, /) -> Expression:
    """LEFT(string, length): The first characters of a text. `LEFT('stream', 3)` is `str`."""

def listagg(string: Value, separator: Value = ..., /, *, distinct: bool = False) -> Aggregation:
    """LISTAGG(string[, separator]): The texts that are not NULL with a separator, by default a comma, between. `LISTAGG(CAST(v
    AS STRING))` is `3,1,3`."""

def ln(numeric: Value, /) -> Expression:
    """LN(numeric): The natural logarithm. `LN(1)` is `0.0`."""

def localtime() -> Expression:
    """LOCALTIME: The session's time of day at which the row is computed. `LOCALTIME >= TIME '00:00:00'` is `TRUE`."""

def localtimestamp() -> Expression:
    """LOCALTIMESTAMP: The session's date and time at which the row is computed. `CAST(LOCALTIMESTAMP AS DATE) = CURRENT_DATE`
    is `TRUE`."""

def locate(search: Value, string: Value, start: Value = ..., /) -> Expression:
    """LOCATE(search, string[, start]): Where a text occurs first, from 1 or a start; 0 when it does not. `LOCATE('b', 'abcb',
    3)` is `4`."""

def log(*values: Value) -> Expression:
    """LOG([base,] numeric): The natural logarithm, or that to a base. `LOG(2, 8)` is `3.0`."""

def log10(numeric: Value, /) -> Expression:
    """LOG10(numeric): The logarithm to base 10. `LOG10(1000)` is `3.0`."""

def log2(numeric: Value, /) -> Expression:
    """LOG2(numeric): The logarithm to base 2. `LOG2(8)` is `3.0`."""

def lower(string: Value, /) -> Expression:
    """LOWER(string): The text in small letters. `LOWER('SQL')` is `sql`."""

def lpad(string: Value, length: Value, pad: Value, /) -> Expression:
    """LPAD(string, length, pad): The text filled up, or cut, to a length at its start. `LPAD('7', 3, '0')` is `007`."""

def ltrim(string: Value, chars: Value = ..., /) -> Expression:
    """LTRIM(string[, chars]): The text without blanks, or given characters, at its start. `LTRIM('xxa', 'x')` is `a`."""

def make_valid_utf8(bytes: Value, /) -> Expression:
    """MAKE_VALID_UTF8(bytes): Bytes of UTF-8 as text; malformed ones become U+FFFD. `MAKE_VALID_UTF8(x'4162')` is `Ab`."""

def map(*values: Value) -> Expression:
    """MAP[key1, value1 [, key2, value2]*]: A map of keys and values. `MAP['a', 1]` is `{a=1}`."""

def map_entries(map: Value, /) -> Expression:
    """MAP_ENTRIES(map): The entries of a map as rows of key and value. `MAP_ENTRIES(MAP['a', 1])` is `[(a, 1)]`."""

def map_from_arrays(keys: Value, values: Value, /) -> Expression:
    """MAP_FROM_ARRAYS(keys, values): The map of an array of keys and one of values. `MAP_FROM_ARRAYS(ARRAY['a'], ARRAY[1])` is
    `{a=1}`."""

def map_keys(map: Value, /) -> Expression:
    """MAP_KEYS(map): The keys of a map. `MAP_KEYS(MAP['a', 1])` is `[a]`."""

def map_union(*values: Value) -> Expression:
    """MAP_UNION(map1 [, map2]*): The entries of all maps; of equal keys that of the last. `MAP_UNION(MAP['a', 1], MAP['a',
    2])` is `{a=2}`."""

def map_values(map: Value, /) -> Expression:
    """MAP_VALUES(map): The values of a map. `MAP_VALUES(MAP['a', 1])` is `[1]`."""

def max(value: Value, /, *, distinct: bool = False) -> Aggregation:
    """MAX(value): The greatest value that is not NULL. `MAX(v)` is `3`."""

def md5(string: Value, /) -> Expression:
    """MD5(string): The MD5 hash in hexadecimal digits. `MD5('')` is `d41d8cd98f00b204e9800998ecf8427e`."""

def min(value: Value, /, *, distinct: bool = False) -> Aggregation:
    """MIN(value): The least value that is not NULL. `MIN(v)` is `1`."""

def minute(timestamp: Value, /) -> Expression:
    """MINUTE(timestamp): The minute of a time, 0 to 59. `MINUTE(TIMESTAMP '2020-03-04 10:20:30')` is `20`."""

def mod(numeric1: Value, numeric2: Value, /) -> Expression:
    """MOD(numeric1, numeric2): The remainder of a division, with the sign of the first number. `MOD(-7, 3)` is `-1`."""

def month(date: Value, /) -> Expression:
    """MONTH(date): The month of a date, 1 to 12. `MONTH(DATE '2020-03-04')` is `3`."""

def now() -> Expression:
    """NOW: The moment at which the row is computed. `NOW() = CURRENT_TIMESTAMP` is `TRUE`."""

def nth_value(value: Value, n: Value, /) -> Aggregation:
    """NTH_VALUE(value, n): The value of the nth row of the frame; NULL when it has fewer."""

def ntile(buckets: Value, /) -> Aggregation:
    """NTILE(buckets): The number, from 1, of the bucket of a row: a partition is cut into buckets of equal size."""

def nullif(value1: Value, value2: Value, /) -> Expression:
    """NULLIF(value1, value2): NULL where both values are equal, else the first. `NULLIF(5, 0)` is `5`."""

def object_of(*values: Value) -> Expression:
    """OBJECT_OF(class_name[, key, value]*): An object with these values under their keys, which are literals: a ROW with named
    fields. `OBJECT_OF('com.example.User', 'name', 'Bob', 'age', 21).name` is `Bob`."""

def object_update(*values: Value) -> Expression:
    """OBJECT_UPDATE(object, key, value[, key, value]*): The object or ROW with other values under some of its keys; NULL where
    the object is. `OBJECT_UPDATE(OBJECT_OF('com.example.User', 'name', 'Bob', 'age', 14), 'age', 30).age` is `30`."""

def overlay(string: Value, placing: Value, start: Value, length: Value = None, /) -> Expression:
    """OVERLAY(string PLACING string FROM start [FOR length]): The text with another put over a part of it. `OVERLAY('abcd'
    PLACING 'X' FROM 2 FOR 2)` is `aXd`."""

def parse_json(json: Value, allow_duplicate_keys: Value = ..., /) -> Expression:
    """PARSE_JSON(json[, allow_duplicate_keys]): The VARIANT of a JSON text; other text fails the job. `PARSE_JSON('{"a": [7,
    8]}')['a'][1]` is `7`."""

def parse_url(url: Value, part: Value, key: Value = ..., /) -> Expression:
    """PARSE_URL(url, part[, key]): A part of an address (HOST, PATH, QUERY, REF, PROTOCOL, AUTHORITY, FILE, USERINFO), or a
    value in its QUERY. `PARSE_URL('http://h.de/p?k=1', 'QUERY', 'k')` is `1`."""

def percent_rank() -> Aggregation:
    """PERCENT_RANK(): RANK as a share, from 0 to 1: (rank - 1) / (rows of the partition - 1)."""

def percentile(numeric: Value, percentage: Value, frequency: Value = ..., /, *, distinct: bool = False) -> Aggregation:
    """PERCENTILE(numeric, percentage[, frequency]): The value at a percentage (0 to 1), or at several, of all values by size,
    interpolated. `PERCENTILE(v, 0.25)` is `2.0`."""

def pi() -> Expression:
    """PI(): The number pi. `PI()` is `3.141592653589793`."""

def position(string: Value, within: Value, /) -> Expression:
    """POSITION(string1 IN string2): Where a text occurs first in another, from 1; 0 when it does not. `POSITION('b' IN 'abc')`
    is `2`."""

def power(numeric1: Value, numeric2: Value, /) -> Expression:
    """POWER(numeric1, numeric2): The first number to the power of the second. `POWER(2, 10)` is `1024.0`."""

def printf(*values: Value) -> Expression:
    """PRINTF(format [, value]*): Values in a text with conversions such as %d and %s. `PRINTF('%03d-%s', 7, 'a')` is `007-a`."""

def proctime() -> Expression:
    """PROCTIME(): Processing time, as a time attribute of a computed column."""

def quarter(date: Value, /) -> Expression:
    """QUARTER(date): The quarter of a date, 1 to 4. `QUARTER(DATE '2020-03-04')` is `1`."""

def radians(numeric: Value, /) -> Expression:
    """RADIANS(numeric): Degrees as radians. `RADIANS(0)` is `0.0`."""

def rand(*values: Value) -> Expression:
    """RAND([seed]): A random number of at least 0 and below 1, a new one per row. `RAND() < 1` is `TRUE`."""

def rand_integer(*values: Value) -> Expression:
    """RAND_INTEGER([seed, ]bound): A random whole number of at least 0 and below the bound, a new one per row.
    `RAND_INTEGER(1)` is `0`."""

def rank() -> Aggregation:
    """RANK(): The place of a row in its partition, from 1; equal rows share one, and the next is left out."""

def regexp(string: Value, regex: Value, /) -> Expression:
    """REGEXP(string, regex): Whether a part of a text matches a regular expression. `REGEXP('q12', '[0-9]+')` is `TRUE`."""

def regexp_count(string: Value, regex: Value, /) -> Expression:
    """REGEXP_COUNT(string, regex): How often a regular expression matches. `REGEXP_COUNT('a1b2', '[0-9]')` is `2`."""

def regexp_extract(string: Value, regex: Value, group: Value = ..., /) -> Expression:
    """REGEXP_EXTRACT(string, regex[, group]): What a regular expression, or one of its groups, matches first.
    `REGEXP_EXTRACT('id=42', 'id=([0-9]+)', 1)` is `42`."""

def regexp_extract_all(string: Value, regex: Value, group: Value = ..., /) -> Expression:
    """REGEXP_EXTRACT_ALL(string, regex[, group]): The texts of a group (by default the first) of all matches of a regular
    expression. `REGEXP_EXTRACT_ALL('a1b22', '([0-9]+)')` is `[1, 22]`."""

def regexp_instr(string: Value, regex: Value, /) -> Expression:
    """REGEXP_INSTR(string, regex): The position, from 1, of the first match of a regular expression; 0 without one.
    `REGEXP_INSTR('ab1', '[0-9]')` is `3`."""

def regexp_replace(string: Value, regex: Value, replacement: Value, /) -> Expression:
    """REGEXP_REPLACE(string, regex, replacement): The text with each match of a regular expression replaced.
    `REGEXP_REPLACE('a1b2', '[0-9]', '')` is `ab`."""

def regexp_substr(string: Value, regex: Value, /) -> Expression:
    """REGEXP_SUBSTR(string, regex): The first match of a regular expression; NULL without one. `REGEXP_SUBSTR('ab12',
    '[0-9]+')` is `12`."""

def repeat(string: Value, times: Value, /) -> Expression:
    """REPEAT(string, times): The text repeated a number of times. `REPEAT('ab', 2)` is `abab`."""

def replace(string: Value, search: Value, replacement: Value, /) -> Expression:
    """REPLACE(string, search, replacement): The text with each occurrence of a text replaced. `REPLACE('a-b', '-', '+')` is
    `a+b`."""

def reverse(string: Value, /) -> Expression:
    """REVERSE(string): The characters from last to first. `REVERSE('abc')` is `cba`."""

def right(string: Value, length: Value, /) -> Expression:
    """RIGHT(string, length): The last characters of a text. `RIGHT('stream', 3)` is `eam`."""

def round(numeric: Value, digits: Value = ..., /) -> Expression:
    """ROUND(numeric[, digits]): The number rounded half away from zero to a number of digits. `ROUND(2.345, 2)` is `2.35`."""

def row(*values: Value) -> Expression:
    """ROW(value1 [, value2]*): A row of the values. `ROW(1, 'a')` is `(1, a)`."""

def row_number() -> Aggregation:
    """ROW_NUMBER(): The place of a row in its partition, from 1; each row has its own."""

def rpad(string: Value, length: Value, pad: Value, /) -> Expression:
    """RPAD(string, length, pad): The text filled up, or cut, to a length at its end. `RPAD('7', 3, '0')` is `700`."""

def rtrim(string: Value, chars: Value = ..., /) -> Expression:
    """RTRIM(string[, chars]): The text without blanks, or given characters, at its end. `RTRIM('axx', 'x')` is `a`."""

def second(timestamp: Value, /) -> Expression:
    """SECOND(timestamp): The second of a time, 0 to 59. `SECOND(TIMESTAMP '2020-03-04 10:20:30')` is `30`."""

def sha1(string: Value, /) -> Expression:
    """SHA1(string): The SHA-1 hash in hexadecimal digits. `SHA1('')` is `da39a3ee5e6b4b0d3255bfef95601890afd80709`."""

def sha2(string: Value, bits: Value, /) -> Expression:
    """SHA2(string, bits): The SHA-2 hash of 224, 256, 384 or 512 bits in hexadecimal digits. `SHA2('', 224)` is
    `d14a028c2a3a2bc9476102bb288234c415a2b01f828ea62ac5b3e42f`."""

def sha224(string: Value, /) -> Expression:
    """SHA224(string): The SHA-224 hash in hexadecimal digits. `SHA224('')` is
    `d14a028c2a3a2bc9476102bb288234c415a2b01f828ea62ac5b3e42f`."""

def sha256(string: Value, /) -> Expression:
    """SHA256(string): The SHA-256 hash in hexadecimal digits. `SHA256('')` is
    `e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855`."""

def sha384(string: Value, /) -> Expression:
    """SHA384(string): The SHA-384 hash in hexadecimal digits. `LEFT(SHA384(''), 8)` is `38b060a7`."""

def sha512(string: Value, /) -> Expression:
    """SHA512(string): The SHA-512 hash in hexadecimal digits. `LEFT(SHA512(''), 8)` is `cf83e135`."""

def sign(numeric: Value, /) -> Expression:
    """SIGN(numeric): -1, 0 or 1 for a negative number, zero or a positive one. `SIGN(-7)` is `-1`."""

def sin(numeric: Value, /) -> Expression:
    """SIN(numeric): The sine of an angle in radians. `SIN(0)` is `0.0`."""

def sinh(numeric: Value, /) -> Expression:
    """SINH(numeric): The hyperbolic sine. `SINH(0)` is `0.0`."""

def split(string: Value, delimiter: Value, /) -> Expression:
    """SPLIT(string, delimiter): The parts of a text between delimiters; an empty delimiter splits into characters.
    `SPLIT('a,b', ',')` is `[a, b]`."""

def split_index(string: Value, delimiter: Value, index: Value, /) -> Expression:
    """SPLIT_INDEX(string, delimiter, index): One of the parts between delimiters; the first is 0. `SPLIT_INDEX('a/b/c', '/',
    1)` is `b`."""

def sqrt(numeric: Value, /) -> Expression:
    """SQRT(numeric): The square root. `SQRT(16)` is `4.0`."""

def startswith(string: Value, prefix: Value, /) -> Expression:
    """STARTSWITH(string, prefix): Whether a text begins with another. `STARTSWITH('stream', 'str')` is `TRUE`."""

def stddev(numeric: Value, /, *, distinct: bool = False) -> Aggregation:
    """STDDEV(numeric): The standard deviation of a sample, as STDDEV_SAMP. `STDDEV(v * 3)` is `3.4641016151377544`."""

def stddev_pop(numeric: Value, /, *, distinct: bool = False) -> Aggregation:
    """STDDEV_POP(numeric): The standard deviation of a whole population. `STDDEV_POP(v)` is `0.9428090415820634`."""

def stddev_samp(numeric: Value, /, *, distinct: bool = False) -> Aggregation:
    """STDDEV_SAMP(numeric): The standard deviation of a sample. `STDDEV_SAMP(v * 3)` is `3.4641016151377544`."""

def str_to_map(string: Value, pair_delimiter: Value = ..., value_delimiter: Value = ..., /) -> Expression:
    """STR_TO_MAP(string[, pair_delimiter, value_delimiter]): The map in a text: pairs between commas, key and value between
    equals signs, or by other regular expressions. `STR_TO_MAP('a=1')` is `{a=1}`."""

def substr(string: Value, start: Value, length: Value = ..., /) -> Expression:
    """SUBSTR(string, start[, length]): A part of a text; the first character is 1. `SUBSTR('stream', 4)` is `eam`."""

def substring(string: Value, start: Value, length: Value = ..., /) -> Expression:
    """SUBSTRING(string, start[, length]): A part of a text; the first character is 1. `SUBSTRING('stream', 2, 3)` is `tre`."""

def sum(numeric: Value, /, *, distinct: bool = False) -> Aggregation:
    """SUM(numeric): The sum of the values that are not NULL, in their type; NULL when there is none. `SUM(v)` is `7`."""

def tan(numeric: Value, /) -> Expression:
    """TAN(numeric): The tangent of an angle in radians. `TAN(0)` is `0.0`."""

def tanh(numeric: Value, /) -> Expression:
    """TANH(numeric): The hyperbolic tangent. `TANH(0)` is `0.0`."""

def timestampadd(unit: str, count: Value, timepoint: Value, /) -> Expression:
    """TIMESTAMPADD(unit, count, timepoint): A time moved by a number of units. `TIMESTAMPADD(DAY, 2, DATE '2020-02-28')` is
    `2020-03-01`."""

def timestampdiff(unit: str, timepoint1: Value, timepoint2: Value, /) -> Expression:
    """TIMESTAMPDIFF(unit, timepoint1, timepoint2): Whole units from the first time to the second. `TIMESTAMPDIFF(HOUR,
    TIMESTAMP '2020-01-01 00:00:00', TIMESTAMP '2020-01-02 01:59:00')` is `25`."""

def to_base64(string: Value, /) -> Expression:
    """TO_BASE64(string): The text's bytes in base 64. `TO_BASE64('hello')` is `aGVsbG8=`."""

def to_date(string: Value, pattern: Value = ..., /) -> Expression:
    """TO_DATE(string[, pattern]): The DATE in a text, by a pattern. `TO_DATE('2020-03-04')` is `2020-03-04`."""

def to_timestamp(string: Value, pattern: Value = ..., /) -> Expression:
    """TO_TIMESTAMP(string[, pattern]): The TIMESTAMP in a text, by a pattern; NULL when the text does not match.
    `TO_TIMESTAMP('04.03.2020', 'dd.MM.yyyy')` is `2020-03-04 00:00:00.000`."""

def to_timestamp_ltz(*values: Value) -> Expression:
    """TO_TIMESTAMP_LTZ(epoch[, precision]) or TO_TIMESTAMP_LTZ(string[, pattern[, time zone]]): A moment from seconds or
    milliseconds since 1970, or from a text. `EXTRACT(EPOCH FROM TO_TIMESTAMP_LTZ(60, 0))` is `60`."""

def translate(string: Value, from_: Value, to: Value, /) -> Expression:
    """TRANSLATE(string, from, to): The text with characters replaced one for one. `TRANSLATE('abc', 'ab', 'xy')` is `xyc`."""

def trim(string: Value, chars: Value = None, /, *, side: str = "BOTH") -> Expression:
    """TRIM([BOTH | LEADING | TRAILING] [chars FROM] string): The text without blanks, or given characters, at its ends.
    `TRIM('  a ')` is `a`."""

def truncate(numeric: Value, digits: Value = ..., /) -> Expression:
    """TRUNCATE(numeric[, digits]): The number cut off after a number of digits. `TRUNCATE(2.349, 2)` is `2.34`."""

def try_parse_json(json: Value, allow_duplicate_keys: Value = ..., /) -> Expression:
    """TRY_PARSE_JSON(json[, allow_duplicate_keys]): The VARIANT of a JSON text, NULL for other text. `TRY_PARSE_JSON('{"b": 1,
    "a": 2}')` is `{"a":2,"b":1}`."""

def typeof(value: Value, is_serializable: Value = ..., /) -> Expression:
    """TYPEOF(value[, is_serializable]): The name of the value's type; with TRUE in full, as a catalog keeps it.
    `TYPEOF('abc')` is `CHAR(3) NOT NULL`."""

def unhex(string: Value, /) -> Expression:
    """UNHEX(string): The bytes that hexadecimal digits stand for; NULL for another text. `UNHEX('4162')` is `x'4162'`."""

def unix_timestamp(string: Value = ..., pattern: Value = ..., /) -> Expression:
    """UNIX_TIMESTAMP(string[, pattern]): Seconds since 1970 of now, or of the time in a text. `UNIX_TIMESTAMP('1970-01-02
    00:00:00') - UNIX_TIMESTAMP('1970-01-01 00:00:00')` is `86400`."""

def upper(string: Value, /) -> Expression:
    """UPPER(string): The text in capitals. `UPPER('sql')` is `SQL`."""

def url_decode(string: Value, /) -> Expression:
    """URL_DECODE(string): The text in a part of a form's address; NULL where that is malformed. `URL_DECODE('a+b%26c')` is `a
    b&c`."""

def url_encode(string: Value, /) -> Expression:
    """URL_ENCODE(string): A text as a part of a form's address. `URL_ENCODE('a b&c')` is `a+b%26c`."""

def uuid() -> Expression:
    """UUID(): A random UUID, a new one per row. `CHAR_LENGTH(UUID())` is `36`."""

def var_pop(numeric: Value, /, *, distinct: bool = False) -> Aggregation:
    """VAR_POP(numeric): The variance of a whole population. `VAR_POP(v * 3)` is `8.0`."""

def var_samp(numeric: Value, /, *, distinct: bool = False) -> Aggregation:
    """VAR_SAMP(numeric): The variance of a sample. `VAR_SAMP(v * 3)` is `12.0`."""

def variance(numeric: Value, /, *, distinct: bool = False) -> Aggregation:
    """VARIANCE(numeric): The variance of a sample, as VAR_SAMP. `VARIANCE(v * 3)` is `12.0`."""

def week(date: Value, /) -> Expression:
    """WEEK(date): The ISO week of a date, 1 to 53. `WEEK(DATE '2020-03-04')` is `10`."""

def year(date: Value, /) -> Expression:
    """YEAR(date): The year of a date. `YEAR(DATE '2020-03-04')` is `2020`."""

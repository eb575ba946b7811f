"""The options of the connectors `http`, `http-sink` and `rest-lookup`, named as in Flink's HTTP connector."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from sqlstream.errors import UserError, did_you_mean
from sqlstream.runtime.connectors.message_rows import check_format
from sqlstream.runtime.connectors.rejected_rows import REJECTED_MESSAGES_OPTIONS
from sqlstream.runtime.connectors.staged_rows import staging_option, staging_path
from sqlstream.runtime.formats import format_of
from sqlstream.runtime.host.http_addresses import Certificates, check_url
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec
from sqlstream.spi.connector import OptionDescriptor, OptionType
from sqlstream.spi.lookup import LOOKUP_OPTIONS, CacheKind, LookupOptions
from sqlstream.spi.table_options import (
    FRAMING_HEADERS,
    HEADER_NAME,
    descriptors_of,
    option,
    parse_options,
)

EARLIER_PREFIX = "gid.connector."
"""Stands before `http.` in the options of the connector that Flink's has been made from."""

_STATUS = re.compile(r"(!?)([1-5])(\d\d|XX)", re.IGNORECASE)
CERTIFICATE_OPTIONS = ("http.security.cert.server", "http.security.cert.client", "http.security.key.client")


@dataclass(frozen=True, kw_only=True)
class SharedOptions:
    """What all tables have."""

    url: str = option("url", OptionType.STRING, "The address that is called.", is_required=True)
    authorities: str | None = option(
        CERTIFICATE_OPTIONS[0],
        OptionType.STRING,
        "Files with certificates of authorities that are trusted besides the system's, separated by commas.",
    )
    certificate: str | None = option(
        CERTIFICATE_OPTIONS[1], OptionType.STRING, "A file with a certificate that the server is shown."
    )
    key: str | None = option(CERTIFICATE_OPTIONS[2], OptionType.STRING, "A file with the key of it.")
    bytes_max: int = option(
        "http.response.max-size",
        OptionType.MEMORY_SIZE,
        "The largest answer that is taken.",
        "64 mb",
        minimum=1,
    )

    @property
    def certificates(self) -> Certificates:
        return Certificates(self.authorities, self.certificate, self.key)


@dataclass(frozen=True, kw_only=True)
class ReadOptions(SharedOptions):
    """Of a table that is read by requests."""

    interval_ms: int | None = option(
        "http.source.poll.interval",
        OptionType.DURATION,
        "How long after the last page to ask again; without it a table ends there.",
        minimum=1,
    )
    rows_path: str | None = option(
        "http.source.rows.path",
        OptionType.STRING,
        "Where the rows are in an answer of JSON, as `data.items`; without it, the answer is a list of them, or one a line.",
    )
    cursor_column: str | None = option(
        "http.source.cursor.column",
        OptionType.STRING,
        "The column whose value in the last row says where the next request goes on.",
    )
    cursor_path: str | None = option(
        "http.source.cursor.path",
        OptionType.STRING,
        "Where an answer of JSON says how to go on, as `meta.next`: a value of the parameter, or an address.",
    )
    cursor_parameter: str | None = option(
        "http.source.cursor.parameter",
        OptionType.STRING,
        "The parameter of requests that says where to go on; by default named as the column, or `cursor`.",
    )
    cursor_start: str | None = option(
        "http.source.cursor.start", OptionType.STRING, "The value of it in the first request."
    )
    read_timeout_s: int = option(
        "http.source.request.timeout",
        OptionType.INTEGER,
        "How many seconds a request may take.",
        "30",
        minimum=1,
    )
    read_retries: int = option(
        "http.source.max-retries",
        OptionType.INTEGER,
        "How often a request is tried again that failed, or was answered with 429 or 5xx.",
        "3",
        minimum=0,
    )
    read_headers: str | None = option("http.source.header.*", OptionType.STRING, "A header of requests.")


@dataclass(frozen=True, kw_only=True)
class RequestOptions(SharedOptions):
    """Of a table that is looked up."""

    lookup_method: str = option(
        "lookup-method",
        OptionType.ENUM,
        "How to ask for a key: GET with parameters, or with a body of JSON.",
        "GET",
        choices=("GET", "POST", "PUT"),
    )
    is_concurrent: bool = option(
        "asyncPolling",
        OptionType.BOOLEAN,
        "Whether several keys are asked for at once.",
        "false",
    )
    lookup_threads: int = option(
        "http.source.lookup.request.thread-pool.size",
        OptionType.INTEGER,
        "How many at once.",
        "8",
        minimum=1,
    )
    lookup_timeout_s: int = option(
        "http.source.lookup.request.timeout",
        OptionType.INTEGER,
        "How many seconds a request may take.",
        "30",
        minimum=1,
    )
    result_type: str = option(
        "http.source.lookup.result-type",
        OptionType.ENUM,
        "Whether an answer is a row or a list of rows.",
        "single-value",
        choices=("single-value", "array"),
    )
    success_codes: str = option(
        "http.source.lookup.success-codes",
        OptionType.STRING,
        "The status of an answer with rows, as `2XX,!204`.",
        "2XX",
    )
    ignored_codes: str = option(
        "http.source.lookup.ignored-response-codes",
        OptionType.STRING,
        "The status of an answer for a key without rows, as `404`.",
        "",
    )
    retry_codes: str = option(
        "http.source.lookup.retry-codes",
        OptionType.STRING,
        "The status of an answer after which it is tried again, as `lookup.max-retries` says.",
        "500,503,504",
    )
    query_fields: str | None = option(
        "http.request.query-param-fields",
        OptionType.STRING,
        "The key columns that are parameters, separated by semicolons.",
    )
    body_fields: str | None = option(
        "http.request.body-fields",
        OptionType.STRING,
        "The key columns that are fields of the body, separated by semicolons.",
    )
    url_map: str | None = option(
        "http.request.url-map",
        OptionType.STRING,
        "The key columns that stand in the address: with `id:order`, `{order}` is the value of `id`.",
    )
    lookup_headers: str | None = option(
        "http.source.lookup.header.*", OptionType.STRING, "A header of requests for keys."
    )

    @property
    def url_names(self) -> dict[str, str]:
        """Columns by their names in the address: `{id}` is the column `id` where nothing else is said."""
        named = dict.fromkeys(re.findall(r"\{(\w+)\}", self.url), "")
        pairs = [p.partition(":") for p in (self.url_map or "").split(",") if p.strip()]
        of_names = {name.strip(): column.strip() for column, _, name in pairs}
        return {name: of_names.get(name, name) for name in {**named, **of_names}}


@dataclass(frozen=True, kw_only=True)
class WriteOptions(SharedOptions):
    """Of a table that is written."""

    method: str = option(
        "insert-method", OptionType.ENUM, "How rows are sent.", "POST", choices=("POST", "PUT")
    )
    mode: str = option(
        "http.sink.writer.request.mode",
        OptionType.ENUM,
        "Whether a request has many rows or one.",
        "batch",
        choices=("batch", "single"),
    )
    batch_rows: int = option(
        "http.sink.request.batch.size",
        OptionType.INTEGER,
        "The most rows of a request.",
        "500",
        minimum=1,
    )
    write_timeout_s: int = option(
        "http.sink.request.timeout",
        OptionType.INTEGER,
        "How many seconds a request may take.",
        "30",
        minimum=1,
    )
    write_retries: int = option(
        "http.sink.max-retries",
        OptionType.INTEGER,
        "How often a request is tried again that failed, or was answered with 429 or 5xx.",
        "10",
        minimum=0,
    )
    write_headers: str | None = option("http.sink.header.*", OptionType.STRING, "A header of requests.")
    delivery_guarantee: str = option(
        "sink.delivery-guarantee",
        OptionType.ENUM,
        "Whether rows are sent as they come, or by the commits of checkpoints, which repeat requests only with their keys.",
        "at-least-once",
        choices=("at-least-once", "exactly-once"),
    )
    staging_directory: str | None = staging_option()

    @property
    def rows_max(self) -> int:
        """Of a request."""
        return self.batch_rows if self.mode == "batch" else 1

    @property
    def staging_path(self) -> str:
        """What directories of staged rows are named after."""
        digest = hashlib.sha256(self.url.encode()).hexdigest()[:12]
        return staging_path(self.staging_directory, f"http-{digest}")


def _twins(options: tuple[OptionDescriptor, ...]) -> tuple[OptionDescriptor, ...]:
    """With those of the earlier connector, which are called differently."""
    import msgspec

    earlier = [
        msgspec.structs.replace(o, key=EARLIER_PREFIX + o.key, description=f"The same as `{o.key}`.")
        for o in options
        if o.key.startswith("http.")
    ]
    return (*options, *earlier)


def _merged(*groups: tuple[OptionDescriptor, ...]) -> tuple[OptionDescriptor, ...]:
    return tuple({o.key: o for group in groups for o in group}.values())


_READ, _LOOKUP, _WRITE = map(descriptors_of, (ReadOptions, RequestOptions, WriteOptions))
HTTP_OPTIONS = _merged(_READ, _LOOKUP, _WRITE, LOOKUP_OPTIONS, REJECTED_MESSAGES_OPTIONS)
SINK_OPTIONS = _twins(_WRITE)
LOOKUP_ONLY_OPTIONS = (*_twins(_LOOKUP), *LOOKUP_OPTIONS)


def plain(options: Mapping[str, str]) -> dict[str, str]:
    """With the names of the options as they are today."""
    return {k.removeprefix(EARLIER_PREFIX): v for k, v in options.items()}


def write_options(spec: SinkSpec) -> WriteOptions:
    return parse_options(WriteOptions, plain(spec.options))


def headers_of(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Those of a table's requests. A user with a password is made into what servers understand, as in Flink."""
    given = {k.removeprefix(prefix): v for k, v in options.items() if k.startswith(prefix)}
    return {name: _authorization(v) if name.lower() == "authorization" else v for name, v in given.items()}


def _authorization(value: str) -> str:
    is_login = ":" in value and " " not in value
    return f"Basic {base64.b64encode(value.encode()).decode()}" if is_login else value


def check(table: str, schema: Schema, options: Mapping[str, str]) -> None:
    """UserError SS4002, SS4003, SS4005 for options that do not fit each other, and SS4006 for columns that the format cannot
    carry."""
    try:
        _check(table, schema, options)
    except UserError as error:
        if EARLIER_PREFIX + error.option in options:
            error.option = EARLIER_PREFIX + error.option
        raise


def _check(table: str, schema: Schema, options: Mapping[str, str]) -> None:
    given = plain(options)
    doubled = next(
        (k for k in options if k.startswith(EARLIER_PREFIX) and k[len(EARLIER_PREFIX) :] in options), None
    )
    if doubled is not None:
        raise UserError(
            "SS4003", f'option "{doubled}" is given twice, by two names', option=doubled, hint="leave one out"
        )
    read, lookup = parse_options(ReadOptions, given), parse_options(RequestOptions, given)
    check_url(re.sub(r"\{\w+\}", "x", read.url))
    check_headers(given)
    check_format(schema, given)
    _check_cursor(table, schema, read, given)
    _check_lookup(table, schema, lookup, given)
    check_certificates(lookup)
    write = parse_options(WriteOptions, given)
    if not _joins_rows(given["format"]) and write.mode == "batch" and "http.sink.request.batch.size" in given:
        raise UserError(
            "SS4003",
            f'format "{given["format"]}" has a row in each request',
            option="http.sink.request.batch.size",
            hint="leave 'http.sink.request.batch.size' out, or write 'format' = 'json'",
        )


def check_certificates(given: SharedOptions) -> None:
    """UserError SS4005 for a certificate without its key, or the reverse."""
    if (given.certificate is None) != (given.key is None):
        one, other = CERTIFICATE_OPTIONS[1:] if given.key is None else CERTIFICATE_OPTIONS[:0:-1]
        raise UserError(
            "SS4005", f'option "{one}" needs the option "{other}"', option=one, hint=f"add '{other}' = '…'"
        )


def check_headers(options: Mapping[str, str]) -> None:
    """UserError SS4002 for headers that no request can have."""
    for key, value in options.items():
        name = key.partition(".header.")[2]
        if ".header." not in key:
            continue
        if not HEADER_NAME.fullmatch(name):
            raise UserError(
                "SS4002", f'option "{key}" names no header', option=key, hint="write such as 'X-Api-Key'"
            )
        if name.lower() in FRAMING_HEADERS:
            raise UserError(
                "SS4002",
                f'option "{key}" cannot be set: how a request is sent is up to the connector',
                hint="leave it out",
                option=key,
            )
        if not value.isascii() or not value.isprintable():
            raise UserError(
                "SS4002",
                f'the value of option "{key}" cannot be sent: it has line ends or letters beyond ASCII',
                option=key,
                hint="write it as its server wants it, such as percent-encoded",
            )


def _joins_rows(identifier: str) -> bool:
    return format_of(identifier).descriptor.is_text


def _check_cursor(table: str, schema: Schema, read: ReadOptions, given: Mapping[str, str]) -> None:
    if read.cursor_column is not None and read.cursor_path is not None:
        raise UserError(
            "SS4003",
            'a table takes one of the options "http.source.cursor.column" and "http.source.cursor.path"',
            option="http.source.cursor.path",
            hint="leave one of them out",
        )
    if read.cursor_column is not None and read.cursor_column not in schema.names:
        raise UserError(
            "SS4002",
            f'option "http.source.cursor.column" names "{read.cursor_column}", which is no column of table "{table}"',
            option="http.source.cursor.column",
            hint=did_you_mean(read.cursor_column, list(schema.names))
            or f"its columns are {', '.join(schema.names)}",
        )
    if read.cursor_column is None and read.cursor_path is None:
        for key in ("http.source.cursor.parameter", "http.source.cursor.start"):
            if key in given:
                raise UserError(
                    "SS4005",
                    f'option "{key}" needs to know where the next value is',
                    option=key,
                    hint="add 'http.source.cursor.column' = '…' or 'http.source.cursor.path' = '…'",
                )
    for key in ("http.source.rows.path", "http.source.cursor.path"):
        if key in given and not given["format"].endswith("json"):
            raise UserError(
                "SS4003",
                f'option "{key}" has no use with format "{given["format"]}"',
                option=key,
                hint="write 'format' = 'json', or leave it out",
            )


def _check_lookup(table: str, schema: Schema, lookup: RequestOptions, given: Mapping[str, str]) -> None:
    if LookupOptions.of(given).cache is CacheKind.FULL:
        raise UserError(
            "SS4003",
            f'table "{table}" is asked for keys, and cannot be loaded as a whole',
            option="lookup.cache",
            hint="use the lookup cache PARTIAL or NONE",
        )
    for key in ("success-codes", "ignored-response-codes", "retry-codes"):
        status_codes(f"http.source.lookup.{key}", given.get(f"http.source.lookup.{key}", ""))
    named = {
        "http.request.query-param-fields": _names(lookup.query_fields),
        "http.request.body-fields": _names(lookup.body_fields),
        "url" if lookup.url_map is None else "http.request.url-map": list(lookup.url_names.values()),
    }
    absences = ((key, name) for key, names in named.items() for name in names if name not in schema.names)
    key, absent = next(absences, ("", ""))
    if key:
        raise UserError(
            "SS4002",
            f'a request of table "{table}" needs "{absent}", which is no column of it',
            option=key,
            hint=did_you_mean(absent, list(schema.names)) or f"its columns are {', '.join(schema.names)}",
        )
    if lookup.body_fields is not None and lookup.lookup_method == "GET":
        raise UserError(
            "SS4003",
            "option \"http.request.body-fields\" has no use with 'lookup-method' = 'GET'",
            option="http.request.body-fields",
            hint="set 'lookup-method' = 'POST'",
        )


def _names(text: str | None) -> list[str]:
    return [n.strip() for n in (text or "").split(";") if n.strip()]


def field_names(text: str | None) -> tuple[str, ...]:
    """Of an option that names columns."""
    return tuple(_names(text))


def status_codes(key: str, text: str) -> frozenset[int]:
    """Those that a text such as `2XX,404,!204` names. UserError SS4002 for another text."""
    taken, left_out = set[int](), set[int]()
    for part in filter(None, (p.strip() for p in text.split(","))):
        match = _STATUS.fullmatch(part)
        if match is None:
            raise UserError(
                "SS4002",
                f'option "{key}" takes status codes, not "{part}"',
                option=key,
                hint="write such as '2XX,404,!204'",
            )
        first = int(match[2]) * 100
        codes = range(first, first + 100) if match[3].upper() == "XX" else [first + int(match[3])]
        (left_out if match[1] else taken).update(codes)
    return frozenset(taken - left_out)

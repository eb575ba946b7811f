"""Tables whose files lie in S3, or in a store with its protocol."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlstream.errors import UserError
from sqlstream.runtime.connectors.files.file_paths import is_in_store
from sqlstream.spi.connector import REJECTED_ROWS_PATH, OptionType
from sqlstream.spi.files import Files
from sqlstream.spi.table_options import descriptors_of, option, parse_options

_ENDPOINT = re.compile(r"(?:(https?)://)?([^\s/?#@]+)/?")
_CONNECT_TIMEOUT_S = 10
_REQUEST_TIMEOUT_S = 60
_TRIES_MAX = 3
_STORES_MAX = 16


@dataclass(frozen=True, kw_only=True)
class S3Options:
    """Without keys the store is asked anonymously."""

    endpoint: str | None = option(
        "s3.endpoint",
        OptionType.STRING,
        "The store, as http://host:port or https://host, for a path s3://…; by default Amazon's.",
    )
    region: str = option("s3.endpoint.region", OptionType.STRING, "The region of the store.", "us-east-1")
    access_key: str | None = option(
        "s3.access-key",
        OptionType.STRING,
        "The access key of the user. Without keys the store is asked anonymously.",
    )
    secret_key: str | None = option(
        "s3.secret-key", OptionType.STRING, "The secret key that belongs to the access key."
    )


def check_store(table: str, options: Mapping[str, str]) -> None:
    """UserError SS4002, SS4003 and SS4005 for options of S3 that do not fit the path or each other."""
    given = [descriptor.key for descriptor in descriptors_of(S3Options) if descriptor.key in options]
    if not is_in_store(options["path"]):
        if given:
            raise UserError(
                "SS4003",
                f'option "{given[0]}" of table "{table}" has no use: the path "{options["path"]}" is of this machine',
                option=given[0],
                hint="leave it out, or write a path such as s3://bucket/directory",
            )
        return
    pair = ("s3.access-key", "s3.secret-key")
    missing = [key for key in pair if not options.get(key)]
    if len(missing) == 1:
        raise UserError(
            "SS4005",
            f'option "{missing[0]}" of table "{table}" is missing',
            option=next(key for key in pair if key in options),
            hint="give both keys, or none to ask the store anonymously",
        )
    if len(missing) == 2 and any(key in options for key in pair):
        raise UserError(
            "SS4002",
            f'the keys of table "{table}" are empty',
            option=next(key for key in pair if key in options),
            hint="give both keys, or leave both out to ask the store anonymously",
        )
    if "s3.endpoint" in options and _ENDPOINT.fullmatch(options["s3.endpoint"]) is None:
        raise UserError(
            "SS4002",
            f'option "s3.endpoint" of table "{table}" is no address of a store',
            option="s3.endpoint",
            hint="write one such as http://localhost:9000",
        )
    if options.get(REJECTED_ROWS_PATH):
        raise UserError(
            "SS4003",
            f'option "{REJECTED_ROWS_PATH}" of table "{table}" has no use: rows of files in a store are not kept',
            option=REJECTED_ROWS_PATH,
            hint="leave it out: rows that could not be decoded are counted, and the first ones shown",
        )


def files_of(options: Mapping[str, str], files: Files) -> Files:
    """The files of a table: those of its store, or the given ones for a path of this machine. UserError SS5031 where tables may
    not lie on other servers."""
    if not is_in_store(options["path"]):
        return files
    files.require_database_servers()
    return s3_files(parse_options(S3Options, options))


def s3_files(options: S3Options) -> Files:
    """The files of a store."""
    from sqlstream.runtime.host.store_files import StoreFiles

    return StoreFiles(_store(options), "s3")


@functools.lru_cache(_STORES_MAX)
def _store(options: S3Options) -> Any:
    """Nothing of the surroundings of this process logs in: no variable AWS_…, no file of the user, no role of the machine."""
    from pyarrow import fs

    login: dict[str, Any] = {"anonymous": True}
    if options.access_key:
        login = {"access_key": options.access_key, "secret_key": options.secret_key}
    place: dict[str, Any] = {}
    if (found := _ENDPOINT.fullmatch(options.endpoint or "")) is not None:
        place = {"endpoint_override": found.group(2), "scheme": found.group(1) or "https"}
    return fs.S3FileSystem(
        **login,
        **place,
        region=options.region,
        connect_timeout=_CONNECT_TIMEOUT_S,
        request_timeout=_REQUEST_TIMEOUT_S,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_TRIES_MAX),
    )

"""Records in S3, one object each, or in a store with its protocol that checks the conditions of a write."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
from collections.abc import Iterator

from sqlstream.client.server.leaders.record_store import Conflict, Record
from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.host.file_systems import endpoint_of
from sqlstream.runtime.host.process import hush

_TIMEOUT_S = 10
_CONFLICTS = ("412", "PreconditionFailed", "404", "NoSuchKey")
_PROBE = "probe"


@dataclasses.dataclass(frozen=True)
class S3Login:
    """Where the store is, Amazon's unless `endpoint` is given, and who asks; without keys anonymously."""

    endpoint: str = ""
    region: str = "us-east-1"
    access_key: str = ""
    secret_key: str = ""


class S3Store:
    """A record is an object, and its version the tag that the store gives it: a write names the one that it expects
    (If-Match), or expects none (If-None-Match: *). Implements `RecordStore`. State: connections."""

    bytes_max = 1 << 28

    def __init__(self, path: str, login: S3Login) -> None:
        """`path` is s3://bucket/prefix. UserError SS6083 for a store that writes whatever it is to expect, SS6084 without the
        library; ExternalError SS6080."""
        try:
            from botocore import UNSIGNED
            from botocore.config import Config
            from botocore.session import Session
        except ImportError as error:
            raise UserError("SS6084", "botocore, by which S3 is written, is not installed") from error
        hush("botocore", "urllib3")
        endpoint = endpoint_of(login.endpoint)
        self._bucket, _, prefix = path.removeprefix("s3://").partition("/")
        self._prefix = f"{prefix.strip('/')}/"
        self._place = path
        config = Config(
            connect_timeout=_TIMEOUT_S,
            read_timeout=_TIMEOUT_S,
            retries={"max_attempts": 0},
            s3={"addressing_style": "path"} if endpoint else {},
            request_checksum_calculation="when_required",
            # Nothing of the surroundings of this process leads elsewhere.
            ignore_configured_endpoint_urls=True,
            **({} if login.access_key else {"signature_version": UNSIGNED}),
        )
        with self._failing():
            self._client = Session().create_client(
                "s3",
                region_name=login.region,
                endpoint_url="://".join(endpoint) if endpoint else None,
                aws_access_key_id=login.access_key or None,
                aws_secret_access_key=login.secret_key or None,
                config=config,
            )
        self._check()

    def _check(self) -> None:
        key = f"{_PROBE}-{secrets.token_hex(8)}"
        try:
            version = self.write(key, b"1", None)
            for expected in (None, "0" * 32):
                try:
                    self.write(key, b"2", expected)
                except Conflict:
                    continue
                raise UserError(
                    "SS6083", f'the store of "{self._place}" writes an object that is not the one to expect'
                )
            self.write(key, b"3", version)
        finally:
            with contextlib.suppress(ExternalError):
                self.remove(key)

    def read(self, key: str) -> Record | None:
        from botocore.exceptions import ClientError

        with self._failing():
            try:
                found = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)
            except ClientError as error:
                if _code(error) in ("404", "NoSuchKey"):
                    return None
                raise
            return Record(found["Body"].read(), found["ETag"].strip('"'))

    def write(self, key: str, data: bytes, expected: str | None) -> str:
        from botocore.exceptions import ClientError

        condition = {"IfNoneMatch": "*"} if expected is None else {"IfMatch": f'"{expected}"'}
        with self._failing():
            try:
                written = self._client.put_object(
                    Bucket=self._bucket, Key=self._prefix + key, Body=data, **condition
                )
            except ClientError as error:
                if _code(error) in _CONFLICTS:
                    raise Conflict from error
                raise
            return str(written["ETag"].strip('"'))

    def remove(self, key: str) -> None:
        with self._failing():
            self._client.delete_object(Bucket=self._bucket, Key=self._prefix + key)

    def keys(self) -> list[str]:
        found: list[str] = []
        with self._failing():
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix):
                found += [item["Key"].removeprefix(self._prefix) for item in page.get("Contents", ())]
        return [key for key in found if not key.startswith(_PROBE)]

    def close(self) -> None:
        self._client.close()

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except (BotoCoreError, ClientError) as error:
            raise ExternalError("SS6080", f'the store of "{self._place}" fails: {error}') from error


def _code(error: Exception) -> str:
    response = getattr(error, "response", {})
    return str(response.get("Error", {}).get("Code", ""))

"""A registry of schemas that speaks Confluent's protocol: schemas by id, and ids by schema."""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import ssl
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlstream.errors import ExternalError, SqlStreamError, UserError
from sqlstream.runtime.host.files import LocalFiles, file_error
from sqlstream.runtime.host.http_addresses import is_address
from sqlstream.secrets import without_secrets
from sqlstream.spi.connector import OptionType
from sqlstream.spi.files import Files
from sqlstream.spi.table_options import option, parse_options
from sqlstream.terminal_text import shortened

if TYPE_CHECKING:
    from sqlstream.runtime.host.http_client import Answer

_TIMEOUT_S = 10
_ANSWER_BYTES_MAX = 16 << 20
_REFERENCES_MAX = 200
_KINDS = {"AVRO": "Avro", "JSON": "JSON", "PROTOBUF": "Protocol Buffers"}
_TEXT_CHARACTERS_MAX = 200
_CONTENT = b"application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True, kw_only=True)
class RegistryOptions:
    """The options of a format whose schemas are in a registry."""

    url: str = option(
        "url",
        OptionType.STRING,
        "The address of the registry; several, of which one answers, separated by commas.",
        is_required=True,
    )
    subject: str | None = option(
        "subject",
        OptionType.STRING,
        "Where the schema of written messages is registered; `<topic>-value` or `<topic>-key` unless it is given.",
    )
    basic_source: str = option(
        "basic-auth.credentials-source",
        OptionType.ENUM,
        "Where user and password are: in `basic-auth.user-info`, or in the address.",
        "URL",
        choices=("USER_INFO", "URL"),
    )
    user_info: str | None = option(
        "basic-auth.user-info", OptionType.STRING, "User and password, with a colon between them."
    )
    bearer_source: str = option(
        "bearer-auth.credentials-source",
        OptionType.ENUM,
        "Where the token is: in `bearer-auth.token`.",
        "STATIC_TOKEN",
        choices=("STATIC_TOKEN",),
    )
    truststore: str | None = option(
        "ssl.truststore.location",
        OptionType.STRING,
        "A file of PEM with the certificates that are trusted, instead of those that the system trusts.",
    )
    keystore: str | None = option(
        "ssl.keystore.location",
        OptionType.STRING,
        "A file of PEM with the certificate and the private key that are shown to the registry.",
    )
    keystore_password: str | None = option(
        "ssl.keystore.password", OptionType.STRING, "The password of the private key."
    )
    token: str | None = option(
        "bearer-auth.token", OptionType.STRING, "The token that the registry asks for."
    )


FILE_OPTIONS = ("ssl.truststore.location", "ssl.keystore.location")


class RegisteredSchema(NamedTuple):
    """The id and the text of a schema, the texts that it refers to by their names, and, of Protocol Buffers, the place of the
    message in it."""

    number: int
    text: str
    references: Mapping[str, str]
    places: tuple[int, ...] = ()


class Registry:
    """Asks a registry. Schemas never change, so each is asked for once. State: those that are known."""

    def __init__(self, options: dict[str, str], kind: str) -> None:
        """Of schemas of a kind: `AVRO`, `JSON` or `PROTOBUF`. UserError SS4002, SS4003, SS4005 for options that do not fit
        each other."""
        given = parse_options(RegistryOptions, options)
        self._places = [_place(url.strip(), given) for url in given.url.split(",")]
        self.subject = given.subject
        self._tls = _Tls(given)
        self.files: Files = LocalFiles()
        """Says which addresses may be called."""
        self._kind = kind
        self._schemas: dict[int, RegisteredSchema] = {}

    def schema(self, number: int) -> RegisteredSchema:
        """The schema of an id. UserError SS5322 when there is none, SS5324 when it is none of this kind."""
        if number not in self._schemas:
            what = f"the schema {number}"
            answer = self._asked(f"/schemas/ids/{number}", None, what)
            self._schemas[number] = self._schema_of(answer, number, what)
        return self._schemas[number]

    def registered(self, text: str) -> int:
        """The id of a schema under the subject, where it is registered if it is new."""
        assert self.subject is not None
        kind = {} if self._kind == "AVRO" else {"schemaType": self._kind}
        body = json.dumps({"schema": text, **kind}).encode()
        path = f"/subjects/{urllib.parse.quote(self.subject, safe='')}/versions"
        found = self._asked(path, body, f'the subject "{self.subject}"')
        number = found.get("id") if isinstance(found, dict) else None
        if not isinstance(number, int) or not 0 <= number < 2**31:
            raise ExternalError("SS5321", f'the registry gives no id for the subject "{self.subject}"')
        return number

    def _schema_of(self, answer: Any, number: int, what: str) -> RegisteredSchema:
        kind = answer.get("schemaType", "AVRO") if isinstance(answer, dict) else "AVRO"
        if kind != self._kind:
            raise UserError("SS5324", f"{what} of the registry is one of {kind}, not of {_KINDS[self._kind]}")
        text = answer.get("schema") if isinstance(answer, dict) else None
        if not isinstance(text, str):
            raise UserError("SS5324", f"{what} of the registry has no text")
        references = answer.get("references") or ()
        if references and self._kind == "AVRO":
            raise UserError("SS5324", f"{what} of the registry refers to others, which are not read")
        return RegisteredSchema(number, text, self._references(references, what))

    def _references(self, references: Sequence[Any], what: str) -> dict[str, str]:
        """The texts of the schemas that one refers to, and that these do, by the names that they have there."""
        found: dict[str, str] = {}
        open_ = list(references)
        while open_:
            one = open_.pop()
            name, subject, version = (one.get(key) for key in ("name", "subject", "version"))
            if name in found:
                continue
            if len(found) == _REFERENCES_MAX:
                raise UserError(
                    "SS5324", f"{what} of the registry refers to more than {_REFERENCES_MAX} others"
                )
            path = f"/subjects/{urllib.parse.quote(str(subject), safe='')}/versions/{urllib.parse.quote(str(version), safe='')}"
            referred = self._asked(path, None, f'version {version} of the subject "{subject}"')
            found[str(name)] = str(referred.get("schema", ""))
            open_ += referred.get("references") or ()
        return found

    def _asked(self, path: str, body: bytes | None, what: str) -> Any:
        """The answer of the first address that has one."""
        from sqlstream.runtime.host.http_client import HttpClient, Request

        failure: Exception | None = None
        protocol = {"accept": _CONTENT} | ({} if body is None else {"content-type": _CONTENT})
        method = "GET" if body is None else "POST"
        with contextlib.closing(HttpClient(self.files, self._tls, _TIMEOUT_S, _ANSWER_BYTES_MAX)) as client:
            for url, headers in self._places:
                try:
                    answer = client.call(Request(method, f"{url}{path}", headers, body, protocol))
                    if answer.status < 300:
                        return json.loads(answer.body)
                except (ExternalError, ValueError, RecursionError) as error:
                    failure = error
                    continue
                if answer.status < 500 and answer.status != 429:
                    raise _refusal(answer, what)
                failure = ValueError(f"it answers with status {answer.status}")
        said = failure.message if isinstance(failure, SqlStreamError) else str(failure)
        raise ExternalError(
            "SS5321",
            f"the registry of schemas cannot be asked for {what}",
            detail=shortened(said, _TEXT_CHARACTERS_MAX),
            hint="check the option 'url' of the format, and that the registry runs; the job tries again",
        ) from failure


def _place(url: str, given: RegistryOptions) -> tuple[str, dict[str, str]]:
    """An address without its login, and the headers of requests."""
    parts = urllib.parse.urlsplit(url)
    at = parts.netloc.rpartition("@")
    address = urllib.parse.urlunsplit((parts.scheme, at[2], parts.path.rstrip("/"), "", ""))
    if not is_address(address):
        raise UserError(
            "SS4002",
            f'option "url" is no address of a registry: "{without_secrets(url)}"',
            option="url",
            hint="write such as 'http://localhost:8081'",
        )
    login = given.user_info
    if given.basic_source == "USER_INFO" and login is None:
        raise UserError(
            "SS4005",
            "'basic-auth.credentials-source' = 'USER_INFO' needs user and password",
            option="basic-auth.credentials-source",
            hint="add 'basic-auth.user-info' = 'user:password'",
        )
    if given.basic_source == "URL" and login is not None:
        raise UserError(
            "SS4003",
            "option \"basic-auth.user-info\" has no use with 'basic-auth.credentials-source' = 'URL'",
            option="basic-auth.user-info",
            hint="set 'basic-auth.credentials-source' = 'USER_INFO'",
        )
    if login is None and at[0]:
        login = urllib.parse.unquote(at[0])
    headers = {}
    if login is not None:
        headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    if given.token is not None:
        if headers:
            raise UserError(
                "SS4003",
                "a registry takes a user or a token, not both",
                option="bearer-auth.token",
                hint="leave one of them out",
            )
        if not given.token.isascii() or not given.token.isprintable():
            raise UserError(
                "SS4002",
                'option "bearer-auth.token" has letters that no token has',
                option="bearer-auth.token",
                hint="write the token alone, without line ends",
            )
        headers["Authorization"] = f"Bearer {given.token}"
    return address, headers


class _Tls:
    def __init__(self, given: RegistryOptions) -> None:
        self._given = given

    @property
    def has_files(self) -> bool:
        return self._given.truststore is not None or self._given.keystore is not None

    def context(self, files: Files) -> ssl.SSLContext:
        """UserError SS4002 for a file that is none of PEM, ExternalError SS5002 for one that cannot be read."""
        if not self.has_files:
            return _default_context()
        context = ssl.create_default_context()
        for key, path in zip(FILE_OPTIONS, (self._given.truststore, self._given.keystore), strict=True):
            if path is None:
                continue
            try:
                if key == FILE_OPTIONS[0]:
                    context = ssl.create_default_context(cafile=path)
                else:
                    context.load_cert_chain(path, password=self._given.keystore_password or "")
            except ssl.SSLError as error:
                raise UserError(
                    "SS4002",
                    f'option "{key}" names "{path}", which cannot be read as PEM: {error.reason or error}',
                    option=key,
                    hint="name a file of PEM; stores of Java are to be exported to one",
                ) from error
            except OSError as error:
                raise file_error("read", path, error) from error
        return context


@functools.cache
def _default_context() -> ssl.SSLContext:
    """What the system trusts, read once: that takes 20 ms, and each schema that is asked for has a client of its own."""
    return ssl.create_default_context()


def _refusal(answer: Answer, what: str) -> SqlStreamError:
    try:
        said = json.loads(answer.body)["message"]
    except (ValueError, LookupError, TypeError, RecursionError):
        said = f"it answers with status {answer.status}"
    detail = shortened(str(said), _TEXT_CHARACTERS_MAX)
    if answer.status in (401, 403):
        return ExternalError("SS5323", f"the registry of schemas refuses access to {what}", detail=detail)
    if answer.status == 404:
        return UserError("SS5322", f"the registry of schemas does not have {what}", detail=detail)
    return UserError("SS5324", f"the registry of schemas refuses {what}", detail=detail)

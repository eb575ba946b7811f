"""The provider `triton` of models: its options, named as Flink's, and what it asks of INPUT and OUTPUT."""

from __future__ import annotations

import json
import sys
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.model_servers import FLOATS, ServerOptions, check_endpoint, check_header, refuse_useless
from sqlstream.schema import Schema
from sqlstream.spi.connector import OptionType
from sqlstream.spi.table_options import FRAMING_HEADERS, HEADER_NAME, option, parse_options
from sqlstream.types import TypeRoot


@dataclass(frozen=True, kw_only=True)
class TritonOptions(ServerOptions):
    """Of provider `triton`."""

    model_name: str = option(
        "model-name", OptionType.STRING, "The name that the server has for the model.", is_required=True
    )
    model_version: str = option(
        "model-version",
        OptionType.STRING,
        "The version of it; latest: the one that the server chooses.",
        "latest",
    )
    request_timeout_ms: int = option(
        "timeout", OptionType.DURATION, "How long the server may take for one request.", "30 s", minimum=1
    )
    batch_size: int = option(
        "batch-size",
        OptionType.INTEGER,
        "The most rows of a request: at most the max_batch_size of the model.",
        "1024",
        minimum=1,
    )
    is_binary: bool = option(
        "binary-data",
        OptionType.BOOLEAN,
        "Whether tensors are sent and asked for as bytes (Triton's extension), and not as JSON.",
        "true",
    )
    is_flat: bool = option(
        "flatten-batch-dim",
        OptionType.BOOLEAN,
        "Whether the tensors of the model have no dimension of rows: a request has one row then.",
        "false",
    )
    priority: int | None = option(
        "priority", OptionType.INTEGER, "The priority of requests, from 0 to 255.", minimum=0
    )
    compression: str | None = option(
        "compression", OptionType.ENUM, "How the bodies of requests are compressed.", choices=("gzip",)
    )
    auth_token: str | None = option("auth-token", OptionType.STRING, "What requests carry as a bearer token.")
    custom_headers: str | None = option(
        "custom-headers", OptionType.STRING, "Further headers of requests, as `X-Team:a,X-Cost-Centre:b`."
    )
    retries_max: int = option(
        "max-retries", OptionType.INTEGER, "How often a request is sent again.", "0", minimum=0
    )
    pause_ms: int = option(
        "retry-initial-backoff",
        OptionType.DURATION,
        "The pause before it is sent again; each further one is twice as long.",
        "100 ms",
        minimum=1,
    )
    pause_max_ms: int = option(
        "retry-max-backoff", OptionType.DURATION, "The longest of these pauses.", "30 s", minimum=1
    )
    default_value: str | None = option(
        "default-value",
        OptionType.STRING,
        "What rows get whose request fails: a value of the only output (an ARRAY in JSON), or null; without it the job fails.",
    )

    @property
    def url(self) -> str:
        """Of the model. The endpoint may end before or behind `/v2/models`."""
        place = self.endpoint.rstrip("/").removesuffix("/models").removesuffix("/v2")
        name, version = (urllib.parse.quote(text, "") for text in (self.model_name, self.model_version))
        return f"{place}/v2/models/{name}" + ("" if version == "latest" else f"/versions/{version}")

    @property
    def headers(self) -> dict[str, str]:
        """Of each request."""
        pairs = [pair.partition(":") for pair in (self.custom_headers or "").split(",") if pair.strip()]
        found = {name.strip(): value.strip() for name, _, value in pairs}
        if self.auth_token is not None:
            found["authorization"] = f"Bearer {self.auth_token.removeprefix('Bearer ')}"
        return found


_STATEFUL = "leave it out: rows go to the server several at once, and again after failures, which a stateful model cannot take"
_PAUSES = "leave it out, and say by 'max-retries' how often a request is sent again, after pauses that double"
TRITON_REFUSED = {
    **dict.fromkeys(
        ("sequence-id", "sequence-id-auto-increment", "sequence-start", "sequence-end"), _STATEFUL
    ),
    **dict.fromkeys(
        (
            "health-check-enabled",
            "health-check-interval",
            "circuit-breaker-enabled",
            "circuit-breaker-failure-threshold",
            "circuit-breaker-timeout",
            "circuit-breaker-half-open-requests",
        ),
        _PAUSES,
    ),
}
_NUMBERS = frozenset(
    {
        *FLOATS,
        *(TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT),
    }
)
_OWN_HEADERS = FRAMING_HEADERS | {
    *("accept-encoding", "content-encoding", "content-type", "host"),
    "inference-header-content-length",
}


def check_triton(inputs: Schema, outputs: Schema, options: Mapping[str, str]) -> None:
    """UserError SS4002, SS4003 for options that do not fit together, SS3464 for columns that no tensor holds."""
    given = parse_options(TritonOptions, options)
    check_endpoint(given.endpoint)
    for field in (*inputs.fields, *outputs.fields):
        element = field.type.element if field.type.root is TypeRoot.ARRAY else field.type
        if element is None or not (sql.is_string(element) or element.root in _NUMBERS):
            message = f'column "{field.name}" of provider "triton" cannot be {field.type}'
            hint = (
                "declare STRING, BOOLEAN, a whole number up to BIGINT, FLOAT or DOUBLE, or an ARRAY of them"
            )
            raise UserError("SS3464", message, hint=hint)
    for name, value in given.headers.items():
        key = "auth-token" if name == "authorization" and given.auth_token is not None else "custom-headers"
        check_header(key, value)
        if name.lower() in _OWN_HEADERS:
            message = (
                f'option "custom-headers" cannot set "{name}": how a request is sent is up to the provider'
            )
            raise UserError("SS4002", message, option=key, hint="leave it out")
        if HEADER_NAME.fullmatch(name) is None or not value:
            message = 'option "custom-headers" is a list of names and values'
            raise UserError("SS4002", message, option=key, hint="write 'X-Team:a,X-Cost-Centre:b'")
    if given.priority is not None and given.priority > 255:
        message = f'option "priority" must be at most 255, not {given.priority}'
        raise UserError("SS4002", message, option="priority", hint="give a smaller number")
    if given.is_flat:
        refuse_useless(options, ("batch-size",), 'with "flatten-batch-dim"')
    if not given.retries_max:
        refuse_useless(options, ("retry-initial-backoff", "retry-max-backoff"), 'without "max-retries"')
    if given.pause_max_ms < given.pause_ms:
        message = 'option "retry-max-backoff" is shorter than "retry-initial-backoff"'
        key = "retry-max-backoff" if "retry-max-backoff" in options else "retry-initial-backoff"
        raise UserError("SS4002", message, option=key, hint="give a longer one")
    default_of(given.default_value, outputs)


def default_of(text: str | None, outputs: Schema) -> Any:
    """The value that option "default-value" stands for; None for NULL. UserError SS4002 for one that the output cannot have."""
    if text is None or text == "null":
        return None
    if len(outputs) != 1:
        message = f'option "default-value" is a value of one output, and the model has {len(outputs)}'
        raise UserError("SS4002", message, option="default-value", hint="write 'default-value' = 'null'")
    wanted = outputs.types[0]
    if sql.is_string(wanted):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    values = value if wanted.root is TypeRoot.ARRAY else [value]
    element = wanted.element if wanted.root is TypeRoot.ARRAY else wanted
    if not isinstance(values, list) or not all(_is_of(v, element) for v in values):
        message = f'option "default-value" is no {wanted.with_nullable(True)}: "{text}"'
        hint = "write such as '-1', '[0.0, 0.0]' or 'null'"
        raise UserError("SS4002", message, option="default-value", hint=hint)
    if element is not None and element.root in FLOATS:
        values = [float(v) for v in values]
    return values if wanted.root is TypeRoot.ARRAY else values[0]


def _is_of(value: object, wanted: sql.LogicalType | None) -> bool:
    assert wanted is not None
    if sql.is_string(wanted):
        return isinstance(value, str)
    if wanted.root is TypeRoot.BOOLEAN:
        return isinstance(value, bool)
    if wanted.root in FLOATS:
        if isinstance(value, int):
            return not isinstance(value, bool) and abs(value) <= sys.float_info.max
        return isinstance(value, float)
    bits = {TypeRoot.TINYINT: 7, TypeRoot.SMALLINT: 15, TypeRoot.INTEGER: 31}.get(wanted.root, 63)
    return isinstance(value, int) and not isinstance(value, bool) and -(2**bits) <= value < 2**bits

"""Providers of models that ask servers, and `openai` among them: options with Flink's names, and what INPUT and OUTPUT may be."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.schema import Schema
from sqlstream.secrets import masked
from sqlstream.spi.connector import OptionType
from sqlstream.spi.table_options import option, parse_options
from sqlstream.types import TypeRoot

REQUESTS_PER_SECOND, TOKENS_PER_MINUTE = "limit.requests-per-second", "limit.tokens-per-minute"
TOKEN_BUDGET, BUDGET_ACTION = "budget.tokens", "budget.action"
CONCURRENT_MAX = 1_000


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """What all servers of models have."""

    endpoint: str = option(
        "endpoint", OptionType.STRING, "The address of the server, http or https.", is_required=True
    )
    requests_per_second: float | None = option(
        REQUESTS_PER_SECOND,
        OptionType.DOUBLE,
        "The most requests that all subtasks begin in a second.",
        minimum=0.001,
    )
    bytes_max: int = option(
        "response.max-size", OptionType.MEMORY_SIZE, "The largest answer that is taken.", "64 mb", minimum=1
    )


@dataclass(frozen=True, kw_only=True)
class OpenAiOptions(ServerOptions):
    """Of provider `openai`."""

    api_key: str = option(
        "api-key", OptionType.STRING, "The key that requests carry as a bearer token.", is_required=True
    )
    model: str = option(
        "model", OptionType.STRING, "The name that the server has for the model.", is_required=True
    )
    on_error: str = option(
        "error-handling-strategy",
        OptionType.ENUM,
        "What a request that fails leads to: it is sent again, the job fails, or its rows get NULL.",
        "RETRY",
        choices=("RETRY", "FAILOVER", "IGNORE"),
    )
    retries_max: int = option(
        "retry-num", OptionType.INTEGER, "How often a request is sent again.", "100", minimum=0
    )
    on_last_error: str = option(
        "retry-fallback-strategy",
        OptionType.ENUM,
        "What a request leads to that was sent again as often.",
        "FAILOVER",
        choices=("FAILOVER", "IGNORE"),
    )
    request_timeout_ms: int = option(
        "request-timeout",
        OptionType.DURATION,
        "How long the server may take for one request.",
        "60 s",
        minimum=1,
    )
    batch_size: int = option(
        "batch-size",
        OptionType.INTEGER,
        "The most texts of a request for embeddings; a chat has one.",
        "64",
        minimum=1,
    )
    tokens_per_minute: int | None = option(
        TOKENS_PER_MINUTE,
        OptionType.LONG,
        "The most tokens that all subtasks use in a minute.",
        minimum=1,
    )
    token_budget: int | None = option(
        TOKEN_BUDGET,
        OptionType.LONG,
        "The tokens that the job may use in all; no request is begun behind them.",
        minimum=1,
    )
    on_budget: str = option(
        BUDGET_ACTION,
        OptionType.ENUM,
        "What rows lead to once the budget is used up: the job fails, or they get NULL.",
        "FAILOVER",
        choices=("FAILOVER", "IGNORE"),
    )
    system_prompt: str = option(
        "system-prompt",
        OptionType.STRING,
        "The message of the system in a chat.",
        "You are a helpful assistant.",
    )
    temperature: float | None = option(
        "temperature", OptionType.DOUBLE, "How much chance there is in an answer, from 0 on.", minimum=0
    )
    top_p: float | None = option(
        "top-p", OptionType.DOUBLE, "The share of likely tokens that are chosen from.", minimum=0
    )
    stop: str | None = option(
        "stop", OptionType.STRING, "Texts that an answer ends before, with commas between."
    )
    max_tokens: int | None = option("max-tokens", OptionType.LONG, "The most tokens of an answer.", minimum=1)
    presence_penalty: float | None = option(
        "presence-penalty",
        OptionType.DOUBLE,
        "From -2 to 2: above 0, an answer rather takes up what it has not yet said.",
        minimum=-2,
    )
    seed: int | None = option(
        "seed", OptionType.LONG, "With it the server tries to answer the same request alike."
    )
    response_format: str | None = option(
        "response-format",
        OptionType.ENUM,
        "What an answer is: text, or a JSON object.",
        choices=("text", "json_object"),
    )
    dimension: int | None = option("dimension", OptionType.LONG, "The length of embeddings.", minimum=1)

    @property
    def is_chat(self) -> bool:
        return self.endpoint.rstrip("/").endswith(_CHAT)


_CHAT, _EMBEDDINGS = "/chat/completions", "/embeddings"
_OF_CHAT = (
    *("system-prompt", "temperature", "top-p", "stop", "max-tokens", "presence-penalty", "seed"),
    "response-format",
)
_OF_EMBEDDINGS = ("dimension", "batch-size")

OPENAI_REFUSED = {
    "max-context-size": "shorten texts in the query: LEFT(text, 8000)",
    "context-overflow-action": "shorten texts in the query: LEFT(text, 8000)",
    "n": "leave it out: a row gets one answer",
}
"""Options of Flink's that are not built, each with what to do instead."""


def check_openai(inputs: Schema, outputs: Schema, options: Mapping[str, str]) -> None:
    """UserError SS4002, SS4003 for options that do not fit together, SS3464 for columns that such a model does not have."""
    given = parse_options(OpenAiOptions, options)
    check_endpoint(given.endpoint)
    path = given.endpoint.rstrip("/")
    if not path.endswith((_CHAT, _EMBEDDINGS)):
        raise UserError(
            "SS4002",
            f'option "endpoint" does not say whether the model chats or embeds: "{masked("endpoint", given.endpoint)}"',
            option="endpoint",
            hint=f"write the whole address, such as 'https://api.openai.com/v1{_CHAT}' or …{_EMBEDDINGS}",
        )
    task, others = ("a chat", _OF_EMBEDDINGS) if given.is_chat else ("embeddings", _OF_CHAT)
    refuse_useless(options, others, f"for {task}")
    if given.on_error != "RETRY":
        refuse_useless(options, ("retry-num", "retry-fallback-strategy"), "without retries")
    if given.token_budget is None:
        refuse_useless(options, (BUDGET_ACTION,), f'without "{TOKEN_BUDGET}"')
    for key, most in (("temperature", 10), ("top-p", 1), ("presence-penalty", 2)):
        # No comparison holds of NaN.
        if key in options and not float(options[key]) <= most:
            message = f'option "{key}" must be at most {most}, not {options[key]}'
            raise UserError("SS4002", message, option=key, hint="give a smaller number")
    check_header("api-key", given.api_key)
    _check_columns("INPUT", inputs, sql.is_string, "one STRING: the text that the model is given")
    if given.is_chat:
        _check_columns("OUTPUT", outputs, sql.is_string, "one STRING: the answer")
    else:
        _check_columns("OUTPUT", outputs, _is_vector, "one ARRAY<FLOAT>: the embedding")


FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)


def _is_vector(column: sql.LogicalType) -> bool:
    element = column.element
    return element is not None and column.root is TypeRoot.ARRAY and element.root in FLOATS


def _check_columns(
    clause: str, columns: Schema, fits: Callable[[sql.LogicalType], bool], wanted: str
) -> None:
    if len(columns) != 1 or not fits(columns.types[0]):
        shown = ", ".join(f"{field.name} {field.type}" for field in columns.fields)
        message = f'{clause} of provider "openai" is {wanted}, not ({shown})'
        raise UserError("SS3464", message, hint=f"declare {wanted.partition(':')[0]}")


def refuse_useless(options: Mapping[str, str], keys: tuple[str, ...], when: str) -> None:
    useless = next((key for key in keys if key in options), None)
    if useless is not None:
        message = f'option "{useless}" has no use {when}'
        raise UserError("SS4003", message, option=useless, hint="leave it out")


def check_endpoint(url: str) -> None:
    """UserError SS4002 for a text that is no address of a server, or has a password in it."""
    try:
        parts = urllib.parse.urlsplit(url)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_whole = False
    is_plain = url.isascii() and url.isprintable() and " " not in url and "#" not in url
    if not is_whole or not is_plain or parts.username is not None or parts.password is not None:
        raise UserError(
            "SS4002",
            f'option "endpoint" is no address of a server: "{masked("endpoint", url)}"',
            option="endpoint",
            hint="write such as 'https://api.openai.com/v1/embeddings', without a user or password",
        )


def check_header(key: str, value: str) -> None:
    """UserError SS4002 for a value that no header of a request can have."""
    if not (value.isascii() and value.isprintable()):
        message = f'option "{key}" holds a character that no header can have'
        raise UserError("SS4002", message, option=key, hint="write letters, digits and signs of ASCII alone")

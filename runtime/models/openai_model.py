"""Models behind the protocol of OpenAI: a chat for each text, or the embeddings of many at once."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import ExternalError, UserError
from sqlstream.model_servers import OpenAiOptions
from sqlstream.models import ModelRef
from sqlstream.runtime.host.http_client import Request
from sqlstream.runtime.models.model_server import ModelServer, Pace, Trials, no_answer
from sqlstream.runtime.models.providers import Answered, Asking
from sqlstream.spi.table_options import parse_options

logger = logging.getLogger(__name__)

_CHARACTERS_OF_TOKEN = 4
"""What a token has about, in a text that nobody has counted."""
_TOKENS_MAX = 1 << 31
"""More than any request uses: a wait for the pace of so many would not end."""


class _Usage(msgspec.Struct):
    total_tokens: Annotated[int, msgspec.Meta(le=_TOKENS_MAX)] = 0


class _Message(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Message


class _Chat(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage | None = None


class _Embedding(msgspec.Struct):
    index: int
    embedding: list[float]


class _Embeddings(msgspec.Struct):
    data: list[_Embedding]
    usage: _Usage | None = None


class OpenAiModel:
    """Implements `RemoteModel`. State: that of the server."""

    def __init__(self, ref: ModelRef, asking: Asking) -> None:
        options = self._options = parse_options(OpenAiOptions, ref.options)
        self._ref = ref
        self._output = to_arrow_schema(ref.outputs).field(0).type
        self.rows_max = 1 if options.is_chat else options.batch_size
        self.token_budget = options.token_budget
        self.fails_beyond_budget = options.on_budget == "FAILOVER"
        is_retried = options.on_error == "RETRY"
        self._ignores = (options.on_last_error if is_retried else options.on_error) == "IGNORE"
        requests, tokens = options.requests_per_second, options.tokens_per_minute
        self._server = ModelServer(
            ref.name,
            asking.files,
            Trials(
                options.retries_max if is_retried else 0,
                options.request_timeout_ms / 1000,
                asking.timeout_ms / 1000,
            ),
            options.bytes_max,
            asking.concurrent_max,
            Pace(requests / asking.parallelism) if requests is not None else None,
            Pace(tokens / 60 / asking.parallelism) if tokens is not None else None,
        )

    def ask(self, batch: pa.RecordBatch) -> Answered:
        texts = batch.column(0).to_pylist()
        expected = sum(len(text) // _CHARACTERS_OF_TOKEN + 1 for text in texts)
        expected += self._options.max_tokens or 0
        try:
            answer = self._server.ask(self._request(texts), expected)
            column, tokens = self._read(answer.body, len(texts))
        except (ExternalError, UserError) as error:
            if not self._ignores or self._server.is_cancelled:
                raise
            logger.warning("%d rows get NULL: %s", len(texts), error.message)
            return Answered([pa.nulls(len(texts), self._output)], failed=len(texts))
        used = expected if tokens is None else tokens
        self._server.used(used, expected)
        return Answered([column], tokens=used)

    def _request(self, texts: list[str]) -> Request:
        options = self._options
        headers = {"authorization": f"Bearer {options.api_key}", "content-type": "application/json"}
        body: dict[str, Any] = {"model": options.model}
        if options.is_chat:
            body["messages"] = [
                {"role": "system", "content": options.system_prompt},
                {"role": "user", "content": texts[0]},
            ]
            given = {
                "temperature": options.temperature,
                "top_p": options.top_p,
                "stop": options.stop.split(",") if options.stop is not None else None,
                "max_tokens": options.max_tokens,
                "presence_penalty": options.presence_penalty,
                "seed": options.seed,
                "response_format": {"type": options.response_format} if options.response_format else None,
            }
        else:
            body["input"] = texts
            given = {"dimensions": options.dimension}
        body |= {name: value for name, value in given.items() if value is not None}
        return Request("POST", options.endpoint, headers, msgspec.json.encode(body))

    def _read(self, body: bytes, rows: int) -> tuple[pa.Array, int | None]:
        """The values of the rows, and the tokens where the server says how many. UserError SS5443."""
        try:
            if self._options.is_chat:
                chat = msgspec.json.decode(body, type=_Chat)
                if not chat.choices:
                    raise no_answer(self._ref.name, "no choice")
                column = pa.array([chat.choices[0].message.content], self._output)
                return column, _tokens(chat.usage)
            found = msgspec.json.decode(body, type=_Embeddings)
        except (msgspec.DecodeError, RecursionError, pa.ArrowException) as error:
            raise no_answer(self._ref.name, f"what is no answer of this protocol: {error}") from error
        return self._vectors(found.data, rows), _tokens(found.usage)

    def _vectors(self, found: list[_Embedding], rows: int) -> pa.Array:
        found = sorted(found, key=lambda one: one.index)
        if [one.index for one in found] != list(range(rows)):
            raise no_answer(self._ref.name, f"{len(found)} embeddings for {rows} texts, or others than asked")
        wanted = self._options.dimension
        if wanted is not None and any(len(one.embedding) != wanted for one in found):
            raise no_answer(self._ref.name, f'embeddings of other lengths than "dimension", {wanted}')
        lengths = [len(one.embedding) for one in found]
        values = np.array([value for one in found for value in one.embedding], dtype=np.float64)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        return pa.ListArray.from_arrays(
            offsets, pa.array(values).cast(self._output.value_type), type=self._output
        )

    def abort(self) -> None:
        self._server.abort()

    def close(self) -> None:
        self._server.close()


def _tokens(usage: _Usage | None) -> int | None:
    return max(usage.total_tokens, 0) if usage is not None else None

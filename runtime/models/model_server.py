"""Requests to the server of a model: within its limits, sent again where that can help, with errors that name the model."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass

from sqlstream.errors import ExternalError, SqlStreamError, UserError
from sqlstream.runtime.host.clock import steady_s
from sqlstream.runtime.host.http_addresses import Certificates
from sqlstream.runtime.host.http_client import Answer, HttpClient, Request, Retries
from sqlstream.spi.files import Files


class Pace:
    """At most `per_s` units begin in a second, one after the other. Threads share it. State: when the next may begin."""

    def __init__(self, per_s: float, now_s: Callable[[], float] = steady_s) -> None:
        self._per_s, self._now_s = per_s, now_s
        self._next_s = -math.inf
        self._lock = threading.Lock()

    def take(self, units: float) -> float:
        """The seconds to wait before so many units begin, which are taken."""
        with self._lock:
            now_s = self._now_s()
            begins_s = max(now_s, self._next_s)
            self._next_s = begins_s + units / self._per_s
            return begins_s - now_s

    def correct(self, units: float) -> None:
        """What was taken was so many more, or fewer."""
        with self._lock:
            self._next_s += units / self._per_s


@dataclass(frozen=True)
class Trials:
    """How often a request is sent again, with what pauses, and how long it may take by itself and with all that."""

    retries_max: int
    request_s: float
    all_s: float
    pause_s: float = 0.1
    pause_max_s: float = 10.0


class ModelServer:
    """The server of model `name`. Several threads ask it. State: connections, and how fast it may be asked."""

    def __init__(
        self,
        name: str,
        files: Files,
        trials: Trials,
        bytes_max: int,
        connections_max: int,
        requests: Pace | None,
        tokens: Pace | None = None,
    ) -> None:
        """`files` say which addresses may be called. UserError SS5341 where none may."""
        files.require_database_servers()
        self._name, self._trials, self._requests, self._tokens = name, trials, requests, tokens
        self._is_cancelled = threading.Event()
        self._client = HttpClient(files, Certificates(), trials.request_s, bytes_max, connections_max)

    def ask(self, request: Request, tokens: int = 0) -> Answer:
        """The answer of a success, to a request that may use so many tokens. ExternalError SS5440, SS5441; UserError SS5341,
        SS5442, SS5443."""
        trials = self._trials
        retries = Retries(
            trials.retries_max,
            self._is_cancelled,
            trials.pause_s,
            trials.pause_max_s,
            steady_s() + trials.all_s,
        )
        try:
            return retries.answered(
                _Turns(self, retries, tokens), request, lambda answer: answer.status == 200
            )
        except (ExternalError, UserError) as error:
            raise self._named(error) from error

    @property
    def is_cancelled(self) -> bool:
        """Whether requests fail because their job has ended: no row may get anything else instead."""
        return self._is_cancelled.is_set()

    def used(self, tokens: int, expected: int) -> None:
        """A request has used so many tokens."""
        if self._tokens is not None:
            self._tokens.correct(tokens - expected)

    def call(self, request: Request, tokens: int, retries: Retries) -> Answer:
        """One request, when it is its turn. That wait is none for the server, and no part of the request's time."""
        waits_s = self._requests.take(1) if self._requests is not None else 0.0
        if self._tokens is not None:
            waits_s = max(waits_s, self._tokens.take(tokens))
        if waits_s > 0:
            retries.until_s += waits_s
            self._is_cancelled.wait(waits_s)
        left_s = max(retries.until_s - steady_s(), 0.001)
        return self._client.call(request, min(left_s, self._trials.request_s))

    def _named(self, error: ExternalError | UserError) -> SqlStreamError:
        message = f'model "{self._name}": {error.message}'
        match error.code:
            case "SS5342":
                return ExternalError("SS5440", message, detail=error.detail)
            case "SS5343":
                return ExternalError("SS5441", message, detail=error.detail)
            case "SS5344":
                return UserError("SS5442", message, detail=error.detail)
            case "SS5345":
                hint = "raise 'response.max-size' of the model"
                return UserError("SS5443", message, detail=error.detail, hint=hint)
            case _:
                return error

    def abort(self) -> None:
        """End what is under way, and refuse what comes. Any thread may call it."""
        self._is_cancelled.set()
        self._client.abort()

    def close(self) -> None:
        self._is_cancelled.set()
        self._client.close()


@dataclass(frozen=True)
class _Turns:
    """Implements `Calls` for one request and what is sent again of it."""

    server: ModelServer
    retries: Retries
    tokens: int

    def call(self, request: Request) -> Answer:
        return self.server.call(request, self.tokens, self.retries)


def no_answer(name: str, what: str) -> UserError:
    """SS5443, to be raised, for an answer that is not what the model declares."""
    return UserError(
        "SS5443",
        f'the server of model "{name}" answers with {what}',
        hint="compare INPUT, OUTPUT and the options of the model with what the server computes",
    )

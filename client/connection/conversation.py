"""What is asked of a server and what follows from its answers, apart from who sends it: a thread, or an event loop.

A conversation is a generator: it yields the next `Call` or `Pause`, is sent the answer of a call or thrown its error, and returns
what came of it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sqlstream.errors import SqlStreamError

if TYPE_CHECKING:
    from sqlstream.client.connection.http import AsyncHttpClient, HttpClient

Outcome = TypeVar("Outcome")


@dataclasses.dataclass(frozen=True)
class Call:
    """One request, as for `HttpClient.call`."""

    method: str
    path: str
    body: Any = None
    parameters: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Pause:
    """Time to let pass before the next call."""

    seconds: float


Conversation = Generator[Call | Pause, Any, Outcome]


def converse(client: HttpClient, conversation: Conversation[Outcome]) -> Outcome:
    """Hold a conversation on this thread. Errors are those that the conversation lets pass."""
    steps = _Steps(conversation)
    while (asked := steps.asked) is not None:
        if isinstance(asked, Pause):
            time.sleep(asked.seconds)
            steps.answer(None)
            continue
        try:
            answer = client.call(asked.method, asked.path, asked.body, **asked.parameters)
        except SqlStreamError as error:
            steps.fail(error)
        else:
            steps.answer(answer)
    return steps.outcome


async def converse_async(client: AsyncHttpClient, conversation: Conversation[Outcome]) -> Outcome:
    """`converse` on an event loop."""
    steps = _Steps(conversation)
    while (asked := steps.asked) is not None:
        if isinstance(asked, Pause):
            await asyncio.sleep(asked.seconds)
            steps.answer(None)
            continue
        try:
            answer = await client.call(asked.method, asked.path, asked.body, **asked.parameters)
        except SqlStreamError as error:
            steps.fail(error)
        else:
            steps.answer(answer)
    return steps.outcome


class _Steps(Generic[Outcome]):
    """A conversation up to what it asks next; `asked` is None once `outcome` is known."""

    outcome: Outcome

    def __init__(self, conversation: Conversation[Outcome]) -> None:
        self._conversation = conversation
        self.asked: Call | Pause | None = None
        self.answer(None)

    def answer(self, answer: Any) -> None:
        try:
            self.asked = self._conversation.send(answer)
        except StopIteration as end:
            self.asked, self.outcome = None, end.value

    def fail(self, error: SqlStreamError) -> None:
        try:
            self.asked = self._conversation.throw(error)
        except StopIteration as end:
            self.asked, self.outcome = None, end.value

"""The files of a process that dies at a chosen call, to see what is left of a commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

from sqlstream.runtime.host.files import LocalFiles


class Died(BaseException):
    """The process is killed at this point: no handler of an error cleans up."""


class Process:
    """Counts the calls that a process makes of the world outside, and kills it within one of them. State: the calls left, and
    whether it is dead: then no call has an effect."""

    def __init__(self, calls: int | None) -> None:
        self._left = calls
        self.is_dead = False

    def call(self) -> None:
        if self._left is not None:
            self._left -= 1
            self.is_dead = self.is_dead or self._left < 0
        if self.is_dead:
            raise Died


class MortalFiles(LocalFiles):
    """The files of a process on this machine. It may die, or fail, before and after each call that changes something."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def _counted(self, change: Callable[[], Any]) -> Any:
        self._process.call()
        result = change()
        self._process.call()
        return result

    def open_write(self, path: str) -> BinaryIO:
        return self._counted(lambda: super(MortalFiles, self).open_write(path))

    def sync(self, stream: BinaryIO) -> None:
        self._counted(lambda: super(MortalFiles, self).sync(stream))

    def publish(self, staged: str, final: str) -> None:
        self._counted(lambda: super(MortalFiles, self).publish(staged, final))

    def remove(self, path: str) -> None:
        self._counted(lambda: super(MortalFiles, self).remove(path))

    def remove_directory_if_empty(self, path: str) -> None:
        self._counted(lambda: super(MortalFiles, self).remove_directory_if_empty(path))

    def make_directories(self, path: str) -> None:
        self._counted(lambda: super(MortalFiles, self).make_directories(path))

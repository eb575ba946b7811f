"""What a statement knows of the files that it reads by their path."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlstream.catalog import FileDefinition, InferredTable
from sqlstream.spi.inference import FileInference


@dataclasses.dataclass
class FileDefinitions:
    """State: the definitions so far, one for each path and options beside it. Without `inference` there are no others."""

    inference: FileInference | None = None
    known: tuple[FileDefinition, ...] = ()

    def find(self, path: str, given: Mapping[str, str]) -> InferredTable | None:
        return next((f.table for f in self.known if f.path == path and f.given == given), None)

    def add(self, definition: FileDefinition) -> None:
        self.known += (definition,)

"""Files that go with a job, by what is in them: models, dictionaries, certificates."""

from __future__ import annotations

from typing import Annotated

import msgspec

from sqlstream.bounds import Count

Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
"""A SHA-256 in hex: the name under which every process keeps the file."""

PART_BYTES = 1 << 20
"""What one message has of a file."""

NAME_CHARACTERS_MAX = 255
FILE_BYTES_MAX = 2**63 - 1
"""The largest size that a message can name; settings allow less."""


ARTIFACT = "artifact:"
"""Before the name of such a file, where an option of a table otherwise has a path."""


PYTHON = ":python"
"""The names of archives of modules begin with this, which no user can write."""


class Artifact(msgspec.Struct, frozen=True):
    """A file that the functions of a job find by `name` (Flink: the distributed cache)."""

    name: str
    digest: Digest
    size: Count

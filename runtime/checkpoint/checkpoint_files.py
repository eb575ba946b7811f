"""The store that a directory of checkpoints lies in: the local disk, or S3."""

from __future__ import annotations

from collections.abc import Mapping

from runtime.connectors.file_paths import is_in_store
from runtime.connectors.s3 import s3_files
from runtime.host.private_files import PrivateFiles
from sqlstream.spi.files import Files


def checkpoint_files(directory: str, config: Mapping[str, str]) -> Files:
    """The files of a directory or of a path s3://…, for which the job's settings `s3.endpoint`, `s3.access-key` and so on say
    where the store is and who asks."""
    return s3_files(config) if is_in_store(directory) else PrivateFiles()

"""The store that a directory of checkpoints lies in: the local disk, or S3."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream import config as options
from sqlstream.errors import UserError
from sqlstream.runtime.connectors.file_paths import is_in_store
from sqlstream.runtime.connectors.s3 import S3Options, s3_files
from sqlstream.runtime.host.private_files import PrivateFiles
from sqlstream.spi.files import Files


def checkpoint_files(directory: str, config: Mapping[str, str]) -> Files:
    """The files of a directory or of a path s3://…, for which the job's settings `s3.endpoint`, `s3.access-key` and so on say
    where the store is and who asks. UserError SS4005 when one of the two keys is missing."""
    if not is_in_store(directory):
        return PrivateFiles()
    store = S3Options(
        endpoint=options.get(config, "s3.endpoint"),
        region=options.get(config, "s3.endpoint.region"),
        access_key=options.get(config, "s3.access-key"),
        secret_key=options.get(config, "s3.secret-key"),
    )
    if bool(store.access_key) is not bool(store.secret_key):
        raise UserError(
            "SS4005",
            f'setting "s3.{"secret" if store.access_key else "access"}-key" for "{directory}" is missing',
            hint="give both keys, or none to ask the store anonymously",
        )
    return s3_files(store)

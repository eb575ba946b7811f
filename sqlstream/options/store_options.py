"""The settings by which checkpoints and savepoints at paths s3://… are reached; tables have options of the same names."""

from __future__ import annotations

from sqlstream.config_option import ConfigOption, ConfigType

_S = ConfigType.STRING

STORE_OPTIONS: tuple[ConfigOption, ...] = (
    ConfigOption("s3.endpoint", _S, "",
                 "The store of checkpoints and savepoints at s3://…, as http://host:port or https://host; empty is Amazon's."),
    ConfigOption("s3.endpoint.region", _S, "us-east-1", "The region of that store."),
    ConfigOption("s3.access-key", _S, "", "The access key of the user of that store. Without keys it is asked anonymously."),
    ConfigOption("s3.secret-key", _S, "", "The secret key that belongs to s3.access-key."),
)  # fmt: skip

"""Reading the expired rows of jobs that end meanwhile."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sqlstream.errors import UserError
from sqlstream.expired_rows import COLUMNS, CONNECTOR, READ, KeptPlace, KeptRows
from sqlstream.runtime.connectors.expired_rows import ExpiredRowsConnector
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext


@pytest.mark.parametrize("name", ["job-1/chk-7", "savepoint-1"])
def test_a_job_whose_checkpoints_are_gone_is_named(tmp_path: Path, name: str) -> None:
    place = KeptPlace("job-1", str(tmp_path / name))
    options = {READ: msgspec.json.encode(KeptRows("1f", {}, (place,))).decode()}
    schema = Schema.of(*[(field.name, field.type) for field, _ in COLUMNS])
    spec = SourceSpec("t$expired", CONNECTOR, options, schema, schema.names)
    context = ConnectorContext("job", "v", 0, 1, 0, 100, {}, lambda: 0, lambda name, n: None, None)
    reader = ExpiredRowsConnector().source(spec, context, [msgspec.to_builtins(place)])
    with pytest.raises(UserError, match='the checkpoints of job "job-1" are gone') as raised:
        reader.poll()
    assert raised.value.code == "SS3574"

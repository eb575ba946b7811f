"""What `sqlstream taskmanager` says of its settings."""

from __future__ import annotations

from pathlib import Path

from sqlstream.client.commands.taskmanager import _notes
from sqlstream.client.configuration import load_configuration


def test_what_a_task_manager_is_given_in_vain_it_says(tmp_path: Path) -> None:
    shared = tmp_path / "sqlstream.yaml"
    shared.write_text("rest.port: 8085\nparallelism.default: 2\ntaskmanager.memory.process.size: 4 gb\n")
    words = [
        "taskmanager.rpc.port=50100",
        "pipeline.name=a",
        "sqlstream.log.level=DEBUG",
        "taskmanager.host=a",
    ]
    variables = {"SQLSTREAM_JOIN": "head:6124", "SQLSTREAM_JOIN_TOKEN": "secret", "SQLSTREAM_TOKN": "x"}
    found = [note.partition(":")[2] for note in _notes(load_configuration(str(shared), words, variables))]
    assert [text.split("'")[1] if "'" in text else text.split()[3] for text in found] == [
        "SQLSTREAM_TOKN",
        "taskmanager.memory.process.size",
        "taskmanager.rpc.port",
        "pipeline.name",
    ]
    assert found[-1] == (
        " 'pipeline.name' has no effect on a TaskManager: give it to the server, or SET it for its jobs"
    )

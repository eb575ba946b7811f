"""Settings: what they take, and that each one is read by something."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from sqlstream.client.sessions.target_session import local_session
from sqlstream.config import OPTIONS, option
from sqlstream.errors import UserError
from sqlstream.planner.dialect.parser import parse_script
from sqlstream.runtime.taskmanager.registration import TaskExecutorConfig
from sqlstream.runtime.taskmanager.task_manager_options import (
    TaskManagerOptions,
    decode_options,
    encode_options,
    executor_config,
)

ROOT = Path(__file__).resolve().parents[3]
READERS = {"get", "setting", "value"}
"""Functions that give out the value of a setting by its key."""

CONSTANTS = {"resend_ms", "first_incarnation"}
"""Fields of a TaskExecutor that no setting decides."""


def read_keys() -> set[str]:
    """Keys that stand in a call that reads a setting; naming one elsewhere is not reading it."""
    found = set()
    for package in ("client", "planner", "runtime", "sqlstream/graph"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text()
            if not any(f"{reader}(" in text for reader in READERS):
                continue
            tree = ast.parse(text)
            constants = {
                target.id: node.value.value
                for node in tree.body
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
                name = (
                    call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                )
                if name in READERS:
                    found |= {constants.get(a.id) for a in call.args if isinstance(a, ast.Name)}
                    found |= {a.value for a in call.args if isinstance(a, ast.Constant)}
    return {key for key in found if isinstance(key, str)}


def test_every_setting_is_read_somewhere() -> None:
    assert set(OPTIONS) - read_keys() == set()


def test_every_setting_of_a_task_executor_reaches_it() -> None:
    given = TaskManagerOptions("tm", "unix:/d/jm", "token", 7, 11, 13, 17)
    decoded = decode_options(encode_options(given))
    config = executor_config(
        decoded.resource_id,
        "unix:/d/tm",
        decoded.slots,
        decoded.cancellation_timeout_ms,
        decoded.registration_timeout_ms,
    )
    assert (config.resource_id, config.address, config.slots) == ("tm", "unix:/d/tm", 7)
    assert (config.cancellation_timeout_ms, config.registration_timeout_ms) == (13, 17)
    defaults = TaskExecutorConfig("", "", 0)
    same = {f for f in defaults.__dataclass_fields__ if getattr(config, f) == getattr(defaults, f)}
    assert same == CONSTANTS


def test_a_mode_that_nobody_knows_is_no_promise() -> None:
    with pytest.raises(UserError, match=r'cannot be "FAST"$'):
        option("execution.runtime-mode").parse("FAST")


def test_what_a_cluster_or_server_starts_with_is_no_setting_of_a_session() -> None:
    ours, flinks = parse_script("SET 'sqlstream.log.level' = 'INFO'; SET 'rest.port' = '1'")
    hint = "put it into sqlstream.yaml, or start the {} with -D {}=VALUE"
    with local_session() as session:
        with pytest.raises(UserError, match=r'"sqlstream\.log\.level" belongs to the cluster') as caught:
            session.execute(ours)
        result = session.execute(flinks)
        assert "rest.port" not in session.config
    assert (caught.value.code, caught.value.span is not None) == ("SS4007", True)
    assert caught.value.hint == hint.format("cluster", "sqlstream.log.level")
    assert getattr(result, "note", "") == (
        "note: 'rest.port' has no effect here: it belongs to the server, and is in force from its start; "
        + hint.format("server", "rest.port")
    )

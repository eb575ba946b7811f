"""The properties that a client of Flink sends."""

from __future__ import annotations

import pytest

from client.gateway.settings import shown_properties, split_properties
from sqlstream.errors import UserError


def test_settings_of_the_session_apply_and_all_others_are_kept() -> None:
    sent = {
        "parallelism.default": "2",
        "table.exec.mini-batch.enabled": "true",
        "taskmanager.numberOfTaskSlots": "64",
        "rest.port": "8081",
        "jobmanager.memory.process.size": "1600m",
        "env.java.opts.all": "--add-exports",
    }
    applied, kept = split_properties(sent)
    assert applied == {"parallelism.default": "2"}
    assert applied | kept == sent


def test_a_setting_that_cannot_be_obeyed_is_refused() -> None:
    with pytest.raises(UserError, match=r'"execution\.runtime-mode" cannot be "BATCH"'):
        split_properties({"execution.runtime-mode": "BATCH"})


def test_secrets_are_shown_to_nobody() -> None:
    assert shown_properties({"s3.secret-key": "k", "a": "1"}, {"a": "2"}) == {
        "s3.secret-key": "******",
        "a": "2",
    }

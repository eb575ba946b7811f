"""The properties that a client of Flink sends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sqlstream.client.gateway.options import GatewayOptions
from sqlstream.client.gateway.settings import shown_properties, split_properties, statement_settings
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
    with pytest.raises(UserError, match=r'"execution\.checkpointing\.storage" cannot be "jobmanager"'):
        split_properties({"execution.checkpointing.storage": "jobmanager"})


def test_a_key_of_ours_that_there_is_not_is_refused() -> None:
    with pytest.raises(UserError) as refused:
        split_properties({"sqlstream.verify.keys-mx": "1"})
    assert (refused.value.code, refused.value.hint) == ("SS4001", 'did you mean "sqlstream.verify.keys-max"?')


def test_settings_of_spark_sql_apply_to_a_session_and_to_a_statement() -> None:
    sent = {"spark.sql.shuffle.partitions": "3", "taskmanager.numberOfTaskSlots": "64"}
    assert split_properties(sent) == (
        {"spark.sql.shuffle.partitions": "3"},
        {"taskmanager.numberOfTaskSlots": "64"},
    )
    assert statement_settings({"spark.sql.shuffle.partitions": "3"}) == {"spark.sql.shuffle.partitions": "3"}


@pytest.mark.parametrize("settings", [split_properties, statement_settings])
@pytest.mark.parametrize("key", ["spark.master", "spark.sql.extensions"])
def test_what_spark_starts_with_is_refused(settings: Callable[[dict[str, str]], object], key: str) -> None:
    with pytest.raises(UserError) as refused:
        settings({key: "mine"})
    assert refused.value.code == "SS4055"


def test_secrets_are_shown_to_nobody() -> None:
    assert shown_properties({"s3.secret-key": "k", "a": "1"}, {"a": "2"}) == {
        "s3.secret-key": "******",
        "a": "2",
    }


def test_a_body_in_json_is_as_large_as_a_statement_needs() -> None:
    assert GatewayOptions().request_bytes_max == 3 * (1024 * 1024 + 256 * 1024) + 65536
    assert GatewayOptions(body_bytes_max=2048).request_bytes_max == 2048

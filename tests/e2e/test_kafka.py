"""Tables of Kafka against a broker: what is read and written, by any number of readers, across restarts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka_harness import Broker, running_broker, table

from sqlstream.testing import Check, ConnectorCase, checks

COLUMNS = {"n": "BIGINT", "name": "STRING"}
VALUES = ("NULLIF(n, 3)", "'row ' || CAST(n AS STRING)")
_BROKERS: list[Broker] = []


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("kafka")) as started:
        _BROKERS.append(started)
        yield started
        _BROKERS.clear()


def _table_in(place: Path, **others: str) -> dict[str, str]:
    """A table whose topic belongs to a directory; without a broker only the options count."""
    if not _BROKERS:
        return {"sink.delivery-guarantee": "exactly-once"}
    broker = _BROKERS[-1]
    name = "t" + re.sub(r"\W", "_", str(place))[-100:]
    if not (place / "topic").exists():
        broker.create(name, 3)
        (place / "topic").touch()
    exact = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": name}
    staging = {"sink.staging-directory": str(place / "staging")}
    return {**broker.options(name), **exact, **staging, **others}


KIT = checks(
    ConnectorCase(
        "kafka",
        COLUMNS,
        _table_in,
        VALUES,
        refused=(
            ({"scan.startup.mode": "timestamp"}, "SS4005"),
            ({"properties.no.such": "1"}, "SS4002"),
            ({"properties.enable.auto.commit": "true"}, "SS4003"),
            ({"format": "parquet"}, "SS4003"),
        ),
    )
)


@pytest.mark.parametrize("check", [check for check in KIT if not check.is_slow], ids=str)
def test_the_engine_can_use_it(check: Check, broker: Broker, tmp_path: Path) -> None:
    check(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("check", [check for check in KIT if check.is_slow], ids=str)
def test_the_engine_can_use_it_although_processes_are_killed(
    check: Check, broker: Broker, tmp_path: Path
) -> None:
    check(tmp_path)

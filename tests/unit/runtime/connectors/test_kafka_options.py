"""Options and properties of connector `kafka`: what they become, and what is refused."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

import pyarrow as pa
import pytest

from sqlstream.cancellation import given_up_by
from sqlstream.errors import ExternalError, SqlStreamError, UserError
from sqlstream.runtime.connectors.kafka.connector import Kafka
from sqlstream.runtime.connectors.kafka.options import FormatOptions, KafkaOptions
from sqlstream.runtime.connectors.kafka.producer import Messages, Producer, Target
from sqlstream.runtime.connectors.kafka.properties import settings_of
from sqlstream.schema import Schema
from sqlstream.testing.check import rows_of
from sqlstream.types import BIGINT, STRING

TABLE = {
    "connector": "kafka",
    "topic": "t",
    "properties.bootstrap.servers": "localhost:9092",
    "scan.startup.mode": "earliest-offset",
    "format": "json",
}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"topic-pattern": "t.*"}, "SS4003"),
        ({"scan.startup.mode": "group-offsets"}, "SS4005"),
        ({"scan.bounded.mode": "group-offsets"}, "SS4005"),
        ({"scan.startup.mode": "timestamp"}, "SS4005"),
        ({"scan.startup.mode": "specific-offsets"}, "SS4005"),
        ({"scan.startup.timestamp-millis": "1"}, "SS4003"),
        ({"scan.bounded.specific-offsets": "partition:0,offset:1"}, "SS4003"),
        ({"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "0:1"}, "SS4002"),
        (
            {
                "scan.startup.mode": "specific-offsets",
                "scan.startup.specific-offsets": "partition:0,offset:1;partition:0,offset:2",
            },
            "SS4002",
        ),
        (
            {
                "scan.startup.mode": "specific-offsets",
                "scan.startup.specific-offsets": f"partition:0,offset:{2**63}",
            },
            "SS4002",
        ),
        ({"key.fields": "a"}, "SS4005"),
        ({"key.format": "json"}, "SS4005"),
        ({"key.format": "json", "key.fields": "a", "key.fields-prefix": "k_"}, "SS4005"),
        (
            {
                "key.format": "json",
                "key.fields": "a",
                "key.fields-prefix": "k_",
                "value.fields-include": "EXCEPT_KEY",
            },
            "SS4002",
        ),
        ({"sink.delivery-guarantee": "exactly-once"}, "SS4005"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, str], code: str) -> None:
    with pytest.raises(UserError) as raised:
        KafkaOptions.of({**TABLE, **options})
    assert raised.value.code == code


def test_a_table_names_a_topic_or_a_pattern() -> None:
    with pytest.raises(UserError, match="one of the options"):
        KafkaOptions.of({key: value for key, value in TABLE.items() if key != "topic"})
    assert KafkaOptions.of({**TABLE, "topic": "a; b ;"}).topics == ("a", "b")
    for option, text in (
        ("topic", " ;"),
        ("topic", "a;b c"),
        ("topic", ".."),
        ("properties.bootstrap.servers", " "),
    ):
        with pytest.raises(UserError, match="SS4002") as raised:
            KafkaOptions.of({**TABLE, option: text})
        assert raised.value.option == option


def test_offsets_are_by_partition() -> None:
    text = "partition:0,offset:42; partition:1,offset:300"
    options = {"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": text}
    assert KafkaOptions.of({**TABLE, **options}).offsets == {0: 42, 1: 300}


def test_key_fields_are_named_without_their_prefix_in_the_key() -> None:
    keys = {"key.format": "json", "key.fields": "k_id", "key.fields-prefix": "k_"}
    options = KafkaOptions.of({**TABLE, **keys, "value.fields-include": "EXCEPT_KEY"})
    schema = Schema.of(("k_id", BIGINT), ("id", STRING))
    assert options.key_schema(schema).names == ("id",)
    assert options.value_schema(schema).names == ("id",)
    assert options.value_schema(schema).types == (STRING,)


def settings(**properties: str) -> dict[str, str]:
    found = settings_of({f"properties.{k.replace('__', '.')}": v for k, v in properties.items()})
    return {key: value for key, value in found.items() if key != "log_level"}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"fetch__max__wait__ms": "10"}, {"fetch.wait.max.ms": "10"}),
        ({"max__request__size": "2000"}, {"message.max.bytes": "2000"}),
        ({"max__poll__records": "10"}, {}),
        ({"auto__offset__reset": "none"}, {"auto.offset.reset": "error"}),
        ({"ssl__endpoint__identification__algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        (
            {
                "sasl__jaas__config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
                ' username="ada" password="it\'s \\"secret\\"";'
            },
            {"sasl.username": "ada", "sasl.password": 'it\'s "secret"'},
        ),
        (
            {"ssl__truststore__type": "PEM", "ssl__truststore__location": "/ca.pem"},
            {"ssl.ca.location": "/ca.pem"},
        ),
        (
            {"ssl__keystore__type": "PKCS12", "ssl__keystore__location": "/k.p12"},
            {"ssl.keystore.location": "/k.p12"},
        ),
    ],
)
def test_properties_of_java_s_clients_are_translated(given: dict[str, str], found: dict[str, str]) -> None:
    assert settings(**given) == found


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"no__such__property": "1"}, "SS4002"),
        ({"fetch__min__bytes": "many"}, "SS4002"),
        ({"enable__auto__offset__store": "true"}, "SS4003"),
        ({"value__deserializer": "org.X"}, "SS4003"),
        ({"plugin__library__paths": "/tmp/x.so"}, "SS4003"),
        ({"sasl__kerberos__kinit__cmd": "rm"}, "SS4003"),
        ({"sasl__oauthbearer__token__endpoint__url": "http://x"}, "SS4003"),
        ({"ssl__engine__location": "/tmp/x.so"}, "SS4003"),
        ({"ssl__truststore__location": "/ca.jks"}, "SS4003"),
        ({"sasl__jaas__config": "com.sun.security.auth.module.Krb5LoginModule required;"}, "SS4002"),
    ],
)
def test_properties_that_cannot_be_kept_are_refused(given: dict[str, str], code: str) -> None:
    with pytest.raises(UserError) as raised:
        settings(**given)
    assert raised.value.code == code


def test_files_of_formats_are_files_of_the_table() -> None:
    stores = {
        "value.avro-confluent.ssl.truststore.location": "ca.pem",
        "properties.ssl.ca.location": "/b.pem",
    }
    given = {**stores, "topic": "t", "value.format": "avro-confluent", "key.format": "raw"}
    assert Kafka().paths(given) == ("/b.pem", "ca.pem")
    absolute = Kafka().with_absolute_paths(given, "/home")
    assert absolute == {**given, "value.avro-confluent.ssl.truststore.location": "/home/ca.pem"}


@pytest.mark.parametrize(
    ("topic", "given", "found"),
    [
        ({"topic": "t"}, {}, ("t-value", "t-key")),
        ({"topic": "t"}, {"value.avro-confluent.subject": "s"}, ("s", "t-key")),
        ({"topic-pattern": "t.*"}, {}, (None, None)),
    ],
)
def test_subjects_are_named_after_the_topic(
    topic: dict[str, str], given: dict[str, str], found: tuple[str | None, str | None]
) -> None:
    options = {**topic, **given, "value.format": "avro-confluent", "key.format": "avro-confluent"}
    forms = [FormatOptions.of(side, options) for side in ("value", "key")]
    assert tuple(form.options.get("subject") for form in forms if form is not None) == found


def test_a_table_without_a_group_can_be_written_and_not_read() -> None:
    options = KafkaOptions.of({key: value for key, value in TABLE.items() if key != "scan.startup.mode"})
    with pytest.raises(UserError, match="needs a consumer group"):
        options.check_read()
    KafkaOptions.of(TABLE).check_read()


def test_offsets_are_committed_by_checkpoints_or_without_them_when_that_is_wanted() -> None:
    auto = {"properties.enable.auto.commit": "true"}
    with pytest.raises(UserError, match=r"enable\.auto\.commit' = 'true' needs a consumer group"):
        KafkaOptions.of(TABLE | auto).check_read()
    group = TABLE | {"properties.group.id": "shop"}
    hourly = {"execution.checkpointing.interval": "1 h"}
    told = [
        (options.commits_with(config), options.auto_commit_ms(config))
        for options in map(KafkaOptions.of, (TABLE, group, group | auto))
        for config in (hourly, {})
    ]
    assert told == [(False, None), (False, None), (True, None), (False, None), (True, None), (True, 5000)]
    assert settings_of(group | auto) == settings_of(group)


STRINGS = "org.apache.kafka.common.serialization.StringDeserializer"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("commit.offsets.on.checkpoint", "true"),
        ("value.deserializer", STRINGS),
        ("zookeeper.connect", "localhost:2181"),
        ("buffer.memory", "33554432"),
    ],
)
def test_properties_that_say_what_holds_anyway_are_taken(name: str, value: str) -> None:
    assert settings_of({f"properties.{name}": value}) == settings_of({})


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("commit.offsets.on.checkpoint", "false", "leave 'properties.group.id' out"),
        ("value.deserializer", "shop.OrderDeserializer", "set 'format'"),
        ("flink.partition-discovery.interval-millis", "1000", "scan.topic-partition-discovery.interval"),
        ("schema.registry.url", "http://localhost:8081", "'<format>.url'"),
    ],
)
def test_properties_that_mean_something_else_are_refused(name: str, value: str, hint: str) -> None:
    with pytest.raises(UserError) as raised:
        settings_of({f"properties.{name}": value})
    assert raised.value.code == "SS4003"
    assert hint in raised.value.hint


def test_explain_says_what_is_guaranteed() -> None:
    common = (
        "'properties.bootstrap.servers' = 'x:1', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset'"
    )
    exactly = "'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'shop'"
    made = [
        f"CREATE TABLE a (n BIGINT) WITH ('connector' = 'kafka', 'topic' = 'a', {common})",
        f"CREATE TABLE b (n BIGINT) WITH ('connector' = 'kafka', 'topic' = 'b', {common}, {exactly})",
    ]
    plans = [
        str(rows_of([*made, f"EXPLAIN {statement}"]))
        for statement in (
            "INSERT INTO b SELECT n FROM a",
            "INSERT INTO a SELECT n FROM b /*+ OPTIONS('properties.isolation.level' = 'read_uncommitted') */",
        )
    ]
    assert "isolation=read_committed" in plans[0]
    assert "guarantee=exactly-once, transactions=shop" in plans[0]
    assert "isolation=read_uncommitted" in plans[1]
    assert "guarantee=at-least-once)" in plans[1]


def test_a_misspelled_property_is_corrected() -> None:
    with pytest.raises(UserError) as raised:
        settings_of({"properties.bootstrap.server": "x:1"})
    assert raised.value.hint == 'did you mean "bootstrap.servers"?'


@pytest.mark.parametrize(
    "settings",
    [
        {"acks": "1"},
        {"request.required.acks": "0"},
        {"retries": "0"},
        {"max.in.flight.requests.per.connection": "9"},
    ],
)
def test_properties_of_the_user_turn_off_what_excludes_them(settings: dict[str, str]) -> None:
    producer = Producer(settings_of({f"properties.{key}": value for key, value in settings.items()}))
    producer.close()
    both = {**settings_of({}), **settings, "enable.idempotence": "true"}
    with pytest.raises(UserError, match=r"SS4002.*cannot be used"):
        Producer(both)


def test_a_name_that_no_topic_has_is_an_error() -> None:
    producer = Producer(settings_of({}))
    try:
        with pytest.raises(SqlStreamError, match=r"SS4002.*the library refuses"):
            producer.send("t" * 600, Messages(pa.array([b"x"])))
    finally:
        producer.close()


@pytest.mark.parametrize("mode", ["UNBOUNDED", "Unbounded"])
def test_words_of_options_are_known_in_any_case(mode: str) -> None:
    options = {**TABLE, "scan.bounded.mode": mode}
    assert not KafkaOptions.of(options).is_bounded
    assert not Kafka.descriptor.reading.boundedness.is_bounded(options)


NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


def sent_nowhere(settings: dict[str, str], send: Callable[[Producer], None]) -> ExternalError:
    """The error of a producer that reaches no broker."""
    producer = Producer({**settings_of({}), **NOWHERE, **settings})
    with contextlib.closing(producer), pytest.raises(ExternalError) as raised:
        send(producer)
    return raised.value


def test_what_could_not_be_delivered_is_in_no_message() -> None:
    def send(producer: Producer) -> None:
        producer.send("t", Messages(pa.array([b"Ada's card"]), pa.array([b"key"])))
        producer.flush()

    error = sent_nowhere({"message.timeout.ms": "100"}, send)
    assert (error.code, error.detail) == ("SS5301", "Local: Message timed out")


@pytest.mark.parametrize(
    ("settings", "spread", "taken"),
    [
        ({"batch.num.messages": "10"}, 1, 10),
        ({"batch.num.messages": "10"}, 3, 30),
        ({"batch.num.messages": "0x0a", "enable.idempotence": "TRUE"}, 1, 10),
        ({"batch.num.messages": "10", "enable.idempotence": "false"}, 1, 40),
    ],
)
def test_an_idempotent_producer_queues_a_request_of_each_partition(
    settings: dict[str, str], spread: int, taken: int
) -> None:
    class Waits(Exception):
        pass

    def send(producer: Producer) -> None:
        checks = 0

        def check() -> None:
            nonlocal checks
            checks += 1
            if checks > 1:
                raise Waits

        producer.send("t", Messages(pa.array([b"x"])), Target(spread=spread), check)

    queued: list[int] = []
    with (
        contextlib.closing(Producer({**settings_of({}), **NOWHERE, **settings})) as producer,
        contextlib.suppress(Waits),
    ):
        for number in range(40):
            send(producer)
            queued.append(number)
    assert len(queued) == taken


def test_a_commit_that_nobody_waits_for_waits_for_no_broker() -> None:
    given_up = threading.Event()
    given_up.set()
    begun_s = time.monotonic()
    with given_up_by(given_up):
        error = sent_nowhere({"transactional.id": "i"}, Producer.begin)
    assert error.message.startswith('transactional id "i" cannot be reached')
    assert time.monotonic() - begun_s < 30


def test_a_property_that_is_refused_is_shown_where_it_stands() -> None:
    with pytest.raises(UserError) as raised:
        settings_of({"properties.request.timeout.ms": "soon"})
    assert raised.value.option == "properties.request.timeout.ms"

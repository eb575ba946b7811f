"""Properties of Kafka's clients, as users of Java's write them, and as librdkafka takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlstream.errors import UserError
from sqlstream.runtime.connectors.kafka import library

PROPERTIES = "properties."

_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
    "max.request.size": "message.max.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "delivery.timeout.ms": "message.timeout.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "metadata.max.age.ms": "topic.metadata.refresh.interval.ms",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
"""Java's name, and librdkafka's for the same thing."""

_OURS = {
    "key.serializer": "set 'key.format'",
    "value.serializer": "set 'format'",
    "key.deserializer": "set 'key.format'",
    "value.deserializer": "set 'format'",
    "enable.auto.offset.store": "offsets are committed after each checkpoint, if there is a group",
    "enable.partition.eof": "leave it out",
    "transactional.id": "set 'sink.transactional-id-prefix'",
    "partition.assignment.strategy": "partitions are assigned by the job",
    "commit.offsets.on.checkpoint": "leave 'properties.group.id' out: without a group no offsets are committed",
    "flink.partition-discovery.interval-millis": "set 'scan.topic-partition-discovery.interval'",
    "schema.registry.url": "schemas belong to the format: '<format>.url'",
    "basic.auth.credentials.source": "schemas belong to the format: '<format>.basic-auth.credentials-source'",
    "basic.auth.user.info": "schemas belong to the format: '<format>.basic-auth.user-info'",
}
"""What the connector sets itself, and what to do instead."""

_SERIALIZER = re.compile(r"org\.apache\.kafka\.common\.serialization\.(String|ByteArray)(Des|S)erializer")
_AS_IT_IS = {
    "commit.offsets.on.checkpoint": re.compile("true"),
    **dict.fromkeys(
        ("key.serializer", "value.serializer", "key.deserializer", "value.deserializer"), _SERIALIZER
    ),
}
"""The values of these that say what holds anyway: messages are bytes, which the formats read."""

OF_COMMITS = (f"{PROPERTIES}enable.auto.commit", f"{PROPERTIES}auto.commit.interval.ms")
"""Options of the connector, which commits offsets itself."""

FILE_PROPERTIES = (
    *("ssl.ca.location", "ssl.crl.location", "ssl.certificate.location", "ssl.key.location"),
    *("ssl.keystore.location", "ssl.truststore.location", "sasl.kerberos.keytab", "https.ca.location"),
)
"""What names files."""

_FOREIGN_CODE = ("plugin.library.paths", "ssl.engine.location", "ssl.providers", "sasl.kerberos.kinit.cmd")
"""What would have the library run code that is none of ours."""

_FORBIDDEN = re.compile(r"sasl\.oauthbearer\..*|.*_cb|opaque|interceptors|log\..*|debug")
"""Other properties that load files and talk to servers by themselves, or belong to programs."""

_USELESS = (
    *("max.poll.records", "client.dns.lookup", "metric.reporters", "partition.discovery.interval.ms"),
    *("buffer.memory", "max.block.ms", "default.api.timeout.ms", "exclude.internal.topics"),
    *("client.id.prefix", "register.consumer.metrics", "zookeeper.connect"),
    "sasl.login.callback.handler.class",
)
"""What has a meaning for Java's clients, and none here: how they batch and wait, and what they report."""

_LOGIN = re.compile(r"^\s*[\w.]*\.(Plain|Scram)LoginModule\s+\w+\s+(.*?);?\s*$", re.DOTALL)
_LOGIN_VALUE = re.compile(r"(\w+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|(\S+))")


def settings_of(options: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's settings of a table. UserError SS4002, SS4003 for a property that it does not have."""
    found: dict[str, str] = {}
    for key, value in options.items():
        if not key.startswith(PROPERTIES) or key in OF_COMMITS:
            continue
        name = key.removeprefix(PROPERTIES)
        if (as_it_is := _AS_IT_IS.get(name)) is not None and as_it_is.fullmatch(value.strip()):
            continue
        if name in _OURS:
            raise UserError(
                "SS4003",
                f'property "{name}" cannot be set: the connector sets it',
                option=key,
                hint=_OURS[name],
            )
        if name in _FOREIGN_CODE or _FORBIDDEN.fullmatch(name):
            raise UserError(
                "SS4003", f'property "{name}" cannot be set here', option=key, hint="leave it out"
            )
        if name in _USELESS:
            continue
        if name == "sasl.jaas.config":
            found |= _login(value)
        elif name.startswith(("ssl.truststore.", "ssl.keystore.")) and name not in _RENAMED:
            found |= _store(name, value, options)
        else:
            found[_RENAMED.get(name, name)] = _translated(name, value)
            _check(key, _RENAMED.get(name, name), found[_RENAMED.get(name, name)])
    library.check_settings(found)
    return {"log_level": "0", **found}


def _check(option: str, name: str, value: str) -> None:
    """UserError SS4002, at its option, for a property that the library does not take."""
    try:
        library.check_settings({name: value})
    except UserError as error:
        error.option = option
        raise


def _translated(name: str, value: str) -> str:
    if name == "ssl.endpoint.identification.algorithm":
        return value.strip() or "none"
    if name == "auto.offset.reset":
        return {"none": "error"}.get(value.strip().lower(), value)
    return value


def _login(value: str) -> dict[str, str]:
    """User and password of Java's login modules."""
    match = _LOGIN.match(value)
    values = {}
    if match is not None:
        for name, quoted, single, plain in _LOGIN_VALUE.findall(match[2]):
            values[name] = re.sub(r"\\(.)", r"\1", quoted) or single or plain
    if "username" not in values or "password" not in values:
        raise UserError(
            "SS4002",
            'property "sasl.jaas.config" has no user and password of a PlainLoginModule or ScramLoginModule',
            option=f"{PROPERTIES}sasl.jaas.config",
            hint=f"set '{PROPERTIES}sasl.username' and '{PROPERTIES}sasl.password' instead",
        )
    return {"sasl.username": values["username"], "sasl.password": values["password"]}


def _store(name: str, value: str, options: Mapping[str, str]) -> dict[str, str]:
    """Java's stores of keys: librdkafka reads certificates as PEM, and keys as PEM or PKCS#12."""
    store, _, what = name.removeprefix("ssl.").partition(".")
    kind = options.get(f"{PROPERTIES}ssl.{store}.type", "JKS").upper()
    if what == "type" and kind in ("PEM", "PKCS12"):
        return {}
    is_pem, is_key = kind == "PEM", store == "keystore"
    if what == "location" and is_pem and not is_key:
        return {"ssl.ca.location": value}
    if what == "location" and is_pem:
        return {"ssl.certificate.location": value, "ssl.key.location": value}
    if what in ("location", "password") and kind == "PKCS12" and is_key:
        return {name: value}
    raise UserError(
        "SS4003",
        f'property "{name}": a {store} of type {kind} cannot be read',
        option=PROPERTIES + name,
        hint="set 'properties.ssl.ca.location' to a file of certificates as PEM"
        if not is_key
        else "set 'properties.ssl.keystore.type' = 'PKCS12', or ssl.certificate.location and ssl.key.location to files of PEM",
    )

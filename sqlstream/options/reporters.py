"""Reporters of metrics and traces: Flink's keys `metrics.reporter.NAME.…` and `traces.reporter.NAME.…`, whose names are free."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from sqlstream.config_option import ConfigOption, ConfigType, Scope
from sqlstream.errors import UserError

_KEY = re.compile(r"(metrics|traces)\.reporter\.([A-Za-z0-9_-]{1,64})\.(.+)")

PROMETHEUS = "org.apache.flink.metrics.prometheus.PrometheusReporterFactory"
_OTLP = {
    "metrics": "org.apache.flink.metrics.otel.OpenTelemetryMetricReporterFactory",
    "traces": "org.apache.flink.traces.otel.OpenTelemetryTraceReporterFactory",
}

_B, _E, _D, _S = ConfigType.BOOLEAN, ConfigType.ENUM, ConfigType.DURATION, ConfigType.STRING
_PARAMETERS = {
    "exporter.endpoint": (_S, "", "Where a collector takes OTLP by HTTP, such as http://localhost:4318.", ()),
    "exporter.protocol": (_E, "HTTP", "How the collector is reached.", ("HTTP",)),
    "exporter.compression": (_E, "none", "Whether what is sent is compressed.", ("none", "gzip")),
    "exporter.timeout": (_D, "10 s", "How long the collector may take for an answer.", ()),
    "service.name": (_S, "sqlstream", "The name of the service in what is sent.", ()),
    "service.version": (
        _S,
        "",
        "The version of the service in what is sent; empty for that of sqlstream.",
        (),
    ),
    "interval": (_D, "10 s", "How often metrics are sent.", ()),
}

REPORTER_OPTIONS: tuple[ConfigOption, ...] = tuple(
    ConfigOption(f"{kind}.reporters", _S, "",
                 f"The names of the reporters of {kind} that are started, with commas between them; empty starts all.",
                 scope=Scope.SERVER)
    for kind in _OTLP
)  # fmt: skip


class OtlpReporter(NamedTuple):
    """What is sent to one collector: `kind` is metrics or traces."""

    kind: str
    name: str
    endpoint: str
    is_compressed: bool
    timeout_ms: int
    service_name: str
    service_version: str
    interval_ms: int


def reporter_option(key: str) -> ConfigOption | None:
    """The option of a reporter's key that is read; None for another key.

    >>> reporter_option("traces.reporter.otel.exporter.timeout").default, reporter_option("metrics.reporter.prom.port")
    ('10 s', None)
    """
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    kind, _, parameter = match.groups()
    if parameter == "factory.class":
        choices = (_OTLP[kind], *((PROMETHEUS,) if kind == "metrics" else ()))
        return ConfigOption(key, _E, "", f"What reports {kind}.", choices=choices, scope=Scope.SERVER)
    if parameter not in _PARAMETERS:
        return None
    type_, default, description, choices = _PARAMETERS[parameter]
    refused = ("gRPC",) if parameter == "exporter.protocol" else ()
    minimum = 1 if type_ is _D else None
    return ConfigOption(
        key, type_, default, description, choices, refused, minimum=minimum, scope=Scope.SERVER
    )


def otlp_reporters(config: Mapping[str, str], names: Mapping[str, str]) -> tuple[OtlpReporter, ...]:
    """Those that are configured; `names` are the values of `metrics.reporters` and `traces.reporters`. UserError SS6121 for one
    without a factory or an endpoint, and for a parameter of theirs that has no effect here."""
    given: dict[tuple[str, str], dict[str, str]] = {}
    for key, value in config.items():
        if (match := _KEY.fullmatch(key)) is not None:
            given.setdefault((match[1], match[2]), {})[match[3]] = value
    found = []
    for (kind, name), parameters in sorted(given.items()):
        started = [each.strip() for each in re.split("[,;]", names.get(kind, "")) if each.strip()]
        is_otlp = "otel" in parameters.get("factory.class", "").lower()
        if is_otlp and (not started or name in started):
            found.append(_otlp_reporter(kind, name, parameters))
    return tuple(found)


def _otlp_reporter(kind: str, name: str, given: Mapping[str, str]) -> OtlpReporter:
    prefix = f"{kind}.reporter.{name}"
    for parameter in given:
        if reporter_option(f"{prefix}.{parameter}") is None:
            known = ", ".join(_PARAMETERS)
            raise UserError(
                "SS6121", f'option "{prefix}.{parameter}" is not built', hint=f"an OTLP reporter has {known}"
            )
    values = {}
    for parameter in _PARAMETERS:
        read = reporter_option(f"{prefix}.{parameter}")
        assert read is not None
        values[parameter] = read.parse(given.get(parameter, read.default))
    endpoint = values["exporter.endpoint"]
    if re.fullmatch(r"https?://[^/\s]+(/\S*)?", endpoint) is None:
        raise UserError(
            "SS6121",
            f'option "{prefix}.exporter.endpoint" is no address of a collector',
            hint="write one such as http://localhost:4318",
        )
    if re.fullmatch(r"https?://[^/]+/?", endpoint):
        endpoint = f"{endpoint.rstrip('/')}/v1/{kind}"
    return OtlpReporter(
        kind,
        name,
        endpoint,
        values["exporter.compression"] == "gzip",
        values["exporter.timeout"],
        values["service.name"],
        values["service.version"],
        values["interval"],
    )

"""Which routes each version of the gateway's REST has."""

from __future__ import annotations

import re

from gateway_harness import Running

from sqlstream.client.gateway.routes import gateway_app

FIRST = {
    "GET /info", "GET /api_versions", "POST /sessions", "GET /sessions/{}", "DELETE /sessions/{}",
    "POST /sessions/{}/heartbeat", "POST /sessions/{}/statements", "GET /sessions/{}/operations/{}/status",
    "POST /sessions/{}/operations/{}/cancel", "DELETE /sessions/{}/operations/{}/close",
    "GET /sessions/{}/operations/{}/result/{}", "GET /sessions/{}/operations/{}/result/stream",
}  # fmt: skip
"""Those of all versions, without the names of parameters."""

SECOND = FIRST | {"POST /sessions/{}/configure-session", "GET /sessions/{}/complete-statement"}


def test_a_version_has_the_routes_that_came_with_it_and_with_those_before(gateway: Running) -> None:
    service, _ = gateway
    found: dict[str, set[str]] = {}
    for path, methods in gateway_app(service).openapi()["paths"].items():
        _, version, rest = path.split("/", 2)
        routes = {f"{method.upper()} /{re.sub('{[^}]*}', '{}', rest)}" for method in methods}
        found.setdefault(version, set()).update(routes)
    assert found == {"v1": FIRST, "v2": SECOND, "v3": SECOND, "v4": SECOND | {"POST /sessions/{}/scripts"}}

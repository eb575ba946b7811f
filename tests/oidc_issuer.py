"""A small issuer of OpenID Connect on loopback, whose keys can be changed."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey


class OidcIssuer:
    """Answers discovery and keys from `with` to its end; `tokens` are signed with the newest key. State: keys, and how often they
    were asked for."""

    def __init__(self) -> None:
        self.keys: list[Any] = [RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})]
        self.asked = 0
        self.is_down = False
        self.claimed: str | None = None
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked += 1
                if issuer.is_down:
                    self.send_error(503)
                    return
                body = {
                    "/.well-known/openid-configuration": {
                        "issuer": issuer.claimed or issuer.url,
                        "jwks_uri": f"{issuer.url}/keys",
                    },
                    "/keys": {"keys": [k.as_dict(private=False) for k in issuer.keys]},
                }[self.path]
                data = json.dumps(body).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *words: Any) -> None:
                return None

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> OidcIssuer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def rotate(self) -> None:
        """Another key, of another kind, takes the place of all others."""
        self.keys = [ECKey.generate_key("P-256", {"kid": f"key-{len(self.keys)}-{time.monotonic_ns()}"})]

    def token(self, key: Any = None, header: dict[str, Any] | None = None, **claims: Any) -> str:
        key = key or self.keys[-1]
        algorithm = "ES256" if isinstance(key, ECKey) else "RS256"
        whole = {"iss": self.url, "aud": "sqlstream", "sub": "ann", "exp": int(time.time()) + 300, **claims}
        head = {"alg": algorithm, "kid": self.keys[-1].kid, **(header or {})}
        return jwt.encode(
            {name: value for name, value in head.items() if value is not None},
            {name: value for name, value in whole.items() if value is not None},
            key,
        )

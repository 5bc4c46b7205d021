"""An OAuth 2.0 authorization server: Authlib's, with one client, in this process and over TLS.

It is somebody else's reading of the standards: it decodes the client's credentials, leaves out a
scope that the client has no right to, and signs tokens (RFC 9068) whose keys it publishes.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import ClientMixin, grants
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from flask import Flask, Response, request
from joserfc.jwk import KeySet, RSAKey
from werkzeug.serving import WSGIRequestHandler, make_server

from tests.support.certificates import Issued

ISSUER = "https://idp.example"

CLIENT_ID = "retentiond"

CLIENT_SECRET = "p:ä%2B+/ &=%"
"""Nothing of it survives a server and a client that disagree on its encoding."""

SCOPE = "kafka"

AUDIENCE = "orders-cluster"


class Client(ClientMixin):  # type: ignore[misc]  # untyped base
    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == CLIENT_SECRET

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "client_secret_basic"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "client_credentials"

    def get_allowed_scope(self, scope: str) -> str:
        return " ".join(each for each in scope.split() if each == SCOPE)

    def get_client_id(self) -> str:
        return CLIENT_ID


class Tokens(JWTBearerTokenGenerator):  # type: ignore[misc]  # untyped base
    """``lifetime_s`` of the tokens to come."""

    def __init__(self, keys: KeySet) -> None:
        self.lifetime_s = 3600
        super().__init__(ISSUER, expires_generator=lambda *_: self.lifetime_s)
        self._keys = keys

    def get_jwks(self) -> KeySet:
        return self._keys

    def get_audiences(self, client: object, user: object, scope: object) -> str:
        return str(request.form.get("audience", AUDIENCE))


class OAuthServer:
    """``keys``: what brokers check tokens by. ``answered`` has the status of each answer."""

    def __init__(self) -> None:
        self._keys = KeySet([RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})])
        self.keys: str = json.dumps(self._keys.as_dict(private=False))
        self.tokens = Tokens(self._keys)
        self.answered: list[int] = []
        self.url = ""

    def app(self) -> Flask:
        app = Flask("idp")
        server = AuthorizationServer(
            app,
            query_client=lambda name: Client() if name == CLIENT_ID else None,
            save_token=lambda token, request: None,
        )
        server.register_grant(grants.ClientCredentialsGrant)
        server.register_token_generator("default", self.tokens)

        @app.post("/token")
        def token() -> Any:
            response: Response = server.create_token_response()
            self.answered.append(response.status_code)
            return response

        return app


class _Quiet(WSGIRequestHandler):
    def log(self, *_: object) -> None:
        """stderr is the tests'."""


@contextmanager
def oauth_server(issued: Issued) -> Iterator[OAuthServer]:
    made = OAuthServer()
    tls = (str(issued.certificate), str(issued.key))
    server = make_server(
        "127.0.0.1", 0, made.app(), threaded=True, request_handler=_Quiet, ssl_context=tls
    )
    made.url = f"https://127.0.0.1:{server.port}/token"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

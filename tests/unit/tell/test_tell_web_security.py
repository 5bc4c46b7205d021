"""The one port with a certificate and passwords, asked over real connections."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import bcrypt
import httpx
import pytest
from prometheus_client.registry import CollectorRegistry
from structlog.testing import capture_logs

from retentiond.config import Http
from retentiond.config.config import Tls
from retentiond.errors import ConfigError
from retentiond.healthcheck import is_alive
from retentiond.tell import logs as events
from retentiond.tell.metrics.registry import Exposition
from retentiond.tell.port import Certificate, Credentials, bound_socket, parse
from retentiond.tell.web import STUCK_S, DaemonStatus, Server, application, serve
from tests.support.certificates import Authority, Issued, openssl

PATHS = ("/metrics", "/healthz", "/readyz", "/api/plan", "/", "/groups/billing", "/nowhere")

PASSWORD = "grüße \N{SNOWMAN}"

OF_PROMETHEUS = ("prometheus", PASSWORD)

OF_GRAFANA = ("grafana", "another")


def hashed(password: str, prefix: str = "2b") -> str:
    """At the least cost that there is; ``2y`` is how htpasswd begins."""
    made = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
    return made.replace("$2b$", f"${prefix}$")


USERS = {"prometheus": hashed(PASSWORD), "grafana": hashed("another", "2y")}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def files(authority: Authority, tmp_path: Path) -> Tls:
    """A pair of the server's own, which may be replaced."""
    issued = authority.issue("first")
    tls = Tls(certificate=tmp_path / "tls.crt", key=tmp_path / "tls.key")
    install(issued, tls)
    return tls


def install(issued: Issued, tls: Tls) -> None:
    for source, target in ((issued.certificate, tls.certificate), (issued.key, tls.key)):
        shutil.copy(source, target.with_suffix(".new"))
        os.replace(target.with_suffix(".new"), target)


@contextmanager
def serving(
    tls: Tls | None = None,
    users: dict[str, str] | None = None,
    status: DaemonStatus | None = None,
    host: str = "127.0.0.1",
) -> Iterator[str]:
    """The base of its addresses."""
    status = status or DaemonStatus(60_000)
    app = application(status, Exposition(CollectorRegistry()))
    http = Http(host=host, port=0, tls=tls, basic_auth=users)
    server: Server = serve(app, http, status.stuck)
    server.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.port}"
    finally:
        server.stop()


def port_of(base: str) -> int:
    return int(base.rpartition(":")[2])


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.certificate)


def statuses(base: str, login: tuple[str, str] | None) -> set[int]:
    with httpx.Client(auth=httpx.BasicAuth(*login) if login else None) as client:
        return {client.get(base + path).status_code for path in PATHS}


def test_nothing_on_the_port_is_answered_without_a_password() -> None:
    with serving(users=USERS) as base:
        assert statuses(base, None) == {401}
        refused = httpx.get(f"{base}/metrics")
    assert refused.headers["www-authenticate"] == 'Basic realm="retentiond", charset="UTF-8"'
    assert refused.text == "this port asks for a user and a password\n"


def test_a_probe_without_a_password_sees_that_the_daemon_is_stuck() -> None:
    later_s = 0.0
    status = DaemonStatus(60_000, lambda: later_s)
    status.heartbeat(at_work=True)
    with serving(users=USERS, status=status) as base:
        assert httpx.get(f"{base}/healthz").status_code == 401
        later_s = STUCK_S + 1
        assert httpx.get(f"{base}/healthz").status_code == 503
        assert httpx.get(f"{base}/readyz").status_code == 401


@pytest.mark.parametrize("login", [OF_PROMETHEUS, OF_GRAFANA])
def test_each_user_is_let_in_by_the_right_password(login: tuple[str, str]) -> None:
    with serving(users=USERS) as base:
        assert statuses(base, login) == {200, 404, 503}


@pytest.mark.parametrize(
    "login",
    [
        ("prometheus", "another"),
        ("prometheus", ""),
        ("prometheus", PASSWORD + " "),
        ("Prometheus", PASSWORD),
        ("", PASSWORD),
        ("nobody", PASSWORD),
        ("prometheus", "x" * 100),
        ("prometheus", "\0"),
        ("prometheus", USERS["prometheus"]),
    ],
)
def test_nobody_else_is_let_in_also_after_a_right_one(login: tuple[str, str]) -> None:
    with serving(users=USERS) as base:
        assert statuses(base, login) == {401}
        assert statuses(base, OF_PROMETHEUS) == {200, 404, 503}
        assert statuses(base, login) == {401}


@pytest.mark.parametrize(
    "header", ["", "Basic", "Basic !", "Basic bm8tY29sb24=", "Bearer abc", "Basic /zo=", "basic"]
)
def test_a_header_that_is_no_login_is_refused(header: str) -> None:
    with serving(users=USERS) as base:
        assert httpx.get(f"{base}/metrics", headers={"authorization": header}).status_code == 401


def test_a_password_may_hold_colons() -> None:
    assert parse("basic dTphOmI6") == Credentials("u", b"a:b:")


def test_what_bcrypt_does_not_look_at_does_not_count() -> None:
    """As with htpasswd, whose hashes of long passwords must be good for something."""
    with serving(users={"u": hashed("x" * 72)}) as base:
        assert statuses(base, ("u", "x" * 80)) == {200, 404, 503}
        assert statuses(base, ("u", "x" * 71)) == {401}


def test_a_password_is_hashed_once_and_a_wrong_one_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked: list[bytes] = []
    check = bcrypt.checkpw

    def counting(password: bytes, against: bytes) -> bool:
        checked.append(password)
        return check(password, against)

    monkeypatch.setattr(bcrypt, "checkpw", counting)
    with serving(users=USERS) as base:
        for _ in range(3):
            httpx.get(f"{base}/healthz", auth=OF_PROMETHEUS)
            httpx.get(f"{base}/healthz", auth=("prometheus", "wrong"))
            httpx.get(f"{base}/healthz", auth=("nobody", "wrong"))
    assert checked.count(PASSWORD.encode()) == 1
    assert checked.count(b"wrong") == 6  # also where there is no such user: it takes as long


@pytest.mark.long
def test_guesses_wait_for_each_other_and_hold_up_nobody_who_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guessing, released = threading.Event(), threading.Event()
    check = bcrypt.checkpw

    def slow(password: bytes, against: bytes) -> bool:
        if password == b"guess":
            guessing.set()
            assert released.wait(30)
        return check(password, against)

    monkeypatch.setattr(bcrypt, "checkpw", slow)
    with serving(users=USERS) as base:
        assert httpx.get(f"{base}/metrics", auth=OF_PROMETHEUS).status_code == 200
        guesses = [
            threading.Thread(
                target=lambda: httpx.get(f"{base}/metrics", auth=("nobody", "guess"), timeout=60)
            )
            for _ in range(50)  # more than there are threads for answers
        ]
        for guess in guesses:
            guess.start()
        try:
            assert guessing.wait(30)
            assert httpx.get(f"{base}/metrics", auth=OF_PROMETHEUS).status_code == 200
        finally:
            released.set()
            for guess in guesses:
                guess.join()


def test_the_port_speaks_tls_and_nothing_else(authority: Authority, files: Tls) -> None:
    with serving(files) as base:
        assert httpx.get(f"{base}/healthz", verify=trusting(authority)).text == "ok\n"
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(f"{base}/healthz")
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{base}/healthz".replace("https", "http"))


def test_old_versions_of_tls_are_refused(files: Tls) -> None:
    context = Certificate(files.certificate, files.key).context
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def shown(base: str, authority: Authority) -> str:
    """The name in the certificate that a new connection is shown."""
    with httpx.Client(verify=trusting(authority)) as client, client.stream("GET", base) as answer:
        found = answer.extensions["network_stream"].get_extra_info("ssl_object").getpeercert()
    ((((_, name),),)) = found["subject"]
    return str(name)


def test_a_renewed_certificate_is_shown_without_a_restart(authority: Authority, files: Tls) -> None:
    with serving(files) as base, capture_logs() as logs:
        assert shown(base, authority) == "first"
        install(authority.issue("second"), files)
        assert shown(base, authority) == "second"
        assert shown(base, authority) == "second"
    assert [line["event"] for line in logs] == [events.CERTIFICATE_RENEWED]


def test_a_half_renewed_certificate_leaves_the_old_one_and_is_said_once(
    authority: Authority, files: Tls
) -> None:
    second = authority.issue("second")
    with serving(files) as base, capture_logs() as logs:
        shutil.copy(second.certificate, files.certificate)  # its key is still to come
        assert [shown(base, authority) for _ in range(3)] == ["first"] * 3
        install(second, files)
        assert shown(base, authority) == "second"
        files.key.unlink()
        assert [shown(base, authority) for _ in range(2)] == ["second"] * 2
    assert [line["event"] for line in logs] == [
        events.CERTIFICATE_REFUSED,
        events.CERTIFICATE_RENEWED,
        events.CERTIFICATE_REFUSED,
    ]
    assert logs[0]["error"] == (
        "http.tls: the key does not belong to the certificate; give the pair that was made together"
    )


def test_a_certificate_that_can_not_be_used_is_an_error_of_the_configuration(
    authority: Authority, files: Tls, tmp_path: Path
) -> None:
    good, key, absent = files.certificate, files.key, tmp_path / "absent"
    encrypted, text = tmp_path / "encrypted", tmp_path / "text"
    openssl("pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", encrypted)
    text.write_text("no certificate")
    other = authority.issue("other").key
    for certificate, its_key, sentence in (
        (absent, key, f"http.tls.certificate: {absent} can't be read (No such file or directory)"),
        (good, absent, f"http.tls.key: {absent} can't be read (No such file or directory)"),
        (good, other, "http.tls: the key does not belong to the certificate; "),
        (text, key, "http.tls: expected a certificate and its key, both as PEM and without a "),
        (good, encrypted, "http.tls: expected a certificate and its key, both as PEM and without "),
    ):
        with pytest.raises(ConfigError) as refused:
            Certificate(certificate, its_key)
        assert str(refused.value).startswith(sentence)
        assert "\n" not in str(refused.value)


def test_a_container_sees_that_the_process_lives_however_its_port_is_secured(files: Tls) -> None:
    for tls, users in ((None, None), (files, None), (None, USERS), (files, USERS)):
        with serving(tls, users) as base:
            assert is_alive(port_of(base))
        assert not is_alive(port_of(base))


@pytest.mark.parametrize(
    ("host", "loopbacks"),
    [
        ("0.0.0.0", ["127.0.0.1", "[::1]"]),
        ("::", ["127.0.0.1", "[::1]"]),
        ("127.0.0.1", ["127.0.0.1"]),
        ("::1", ["[::1]"]),
    ],
)
def test_a_host_can_be_asked_on_its_addresses_by_the_container_s_probe_too(
    host: str, loopbacks: list[str]
) -> None:
    with serving(host=host) as base:
        for loopback in loopbacks:
            assert httpx.get(f"http://{loopback}:{port_of(base)}/healthz").status_code == 200
        assert is_alive(port_of(base))


@pytest.mark.parametrize(
    ("error", "listens"), [(errno.EAFNOSUPPORT, True), (errno.EADDRINUSE, False)]
)
def test_only_where_there_is_no_ipv6_it_listens_without(error: int, listens: bool) -> None:
    def make(family: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(error, os.strerror(error))
        return socket.socket(family)

    if listens:
        with closing(bound_socket("0.0.0.0", 0, make)) as listener:
            assert listener.family == socket.AF_INET
    else:
        with pytest.raises(OSError, match="in use"):
            bound_socket("0.0.0.0", 0, make)

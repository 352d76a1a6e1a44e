"""`rediss://`: everything that speaks to Redis verifies its certificate, or nothing does."""

import asyncio
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from flower.utils.broker import Broker
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from ops.local.embedded.redis import EmbeddedRedis
from schemas.errors import QueueUnavailable
from schemas.settings import Settings
from tests.ops.conftest import Here
from workers.app import make_app
from workers.connection import probe
from workers.queues import length


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`ca.pem`; of it `здесь` for this machine and `elsewhere` for another; `stranger` of nobody."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*arguments: str) -> None:
        subprocess.run(
            ["/usr/bin/env", "openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=600
        )

    key = ("-newkey", "rsa:2048", "-nodes", "-days", "2")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=A house of its own")
    openssl("req", "-x509", *key, "-keyout", "stranger.key", "-out", "stranger.pem", "-subj", "/CN=127.0.0.1")
    for name, host in (("здесь", "IP:127.0.0.1"), ("elsewhere", "DNS:redis.example.org")):
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-addext", f"subjectAltName={host}")
        openssl(
            "req", "-x509", *key, *signed, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", "/CN=r"
        )
    return folder


@contextmanager
def encrypted(certificates: Path, name: str, port: int) -> Iterator[int]:
    """The port of a front that has this certificate and passes everything on to `port`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / f"{name}.pem", certificates / f"{name}.key")

    def copy(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        finally:
            source.close()
            target.close()

    def serve(client: socket.socket) -> None:
        try:
            inside = context.wrap_socket(client, server_side=True)
        except OSError:
            return
        behind = socket.create_connection(("127.0.0.1", port))
        threading.Thread(target=copy, args=(behind, inside), daemon=True).start()
        copy(inside, behind)

    def listen() -> None:
        while True:
            try:
                client, _ = front.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as front:
        threading.Thread(target=listen, daemon=True).start()
        yield front.getsockname()[1]


def as_workers(settings: Settings) -> None:
    """As workers, the clock, and the HTTP API's wake-ups do."""
    with make_app(settings) as app:
        length(app, "backscroll.ingest")


def as_flower(settings: Settings) -> None:
    """As Flower's page of queues does."""
    with make_app(settings) as app:
        url = app.connection().as_uri(include_password=True)
        options = {"broker_options": {"socket_timeout": 5}, "broker_use_ssl": app.conf.broker_use_ssl}
        asyncio.run(Broker(url, **options).queues(["backscroll.ingest"]))


@pytest.mark.parametrize(
    "ask", [as_workers, as_flower, probe], ids=["workers", "flower", "readyz and doctor"]
)
@pytest.mark.parametrize(
    ("certificate", "options", "trusted"),
    [
        ("stranger", "", False),
        ("здесь", "?ssl_ca_certs={ca}", True),
        ("elsewhere", "?ssl_ca_certs={ca}", False),
        ("elsewhere", "?ssl_ca_certs={ca}&ssl_check_hostname=false", True),
    ],
)
def test_a_certificate_is_verified_by_whoever_asks(
    certificates: Path,
    redis: EmbeddedRedis,
    ask: Callable[[Settings], None],
    certificate: str,
    options: str,
    trusted: bool,
) -> None:
    password, _, address = redis.url.removeprefix("redis://:").partition("@")
    with encrypted(certificates, certificate, int(address.partition(":")[2].partition("/")[0])) as port:
        query = options.format(ca=certificates / "ca.pem")
        url = f"rediss://:{password}@127.0.0.1:{port}/0{query}"
        settings = Settings(_env_file=None, redis_url=url)
        if trusted:
            ask(settings)
        else:
            with pytest.raises((OperationalError, RedisError, QueueUnavailable), match="certificate"):
                ask(settings)


@pytest.mark.parametrize(
    ("arguments", "role"),
    [
        (("doctor",), "MAINTENANCE_"),
        (("api",), ""),
    ],
)
def test_an_option_that_postgres_does_not_know_is_named_whatever_reads_the_url(
    here: Here, arguments: tuple[str, ...], role: str
) -> None:
    url = "postgresql://app:geheim@db.example.org:6543/chat?statement_cache_size=0"
    told = here(*arguments, **{f"BACKSCROLL_{role}DATABASE_URL": url})
    assert told.returncode == 4
    assert f"BACKSCROLL_{role}DATABASE_URL: has the option statement_cache_size" in told.stderr
    assert "geheim" not in told.stderr

"""A task that could not be acknowledged holds up no other, and comes back; one that is on its way is not lost."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from kombu import Message, Queue
from pydantic import SecretStr
from redis.exceptions import TimeoutError as RedisTimeoutError

from schemas.settings import Settings
from tests.processes.nodes import RedisProcess
from workers.app import REDIS_TRANSPORT, make_app
from workers.queues import ACCEPT, INGEST, wake_up


def test_a_worker_takes_another_task_after_one_that_redis_did_not_let_it_acknowledge(
    settings: Settings, tmp_path: Path
) -> None:
    # Given a worker's connection with the one task in hand that it may have
    server = RedisProcess(tmp_path)
    try:
        settings = settings.model_copy(update={"redis_url": SecretStr(server.url)})
        with make_app(settings) as app, app.connection_for_read() as connection:
            channel = connection.default_channel
            taken: list[Message] = []
            channel.basic_qos(0, 1, False)
            consumer = app.amqp.TaskConsumer(
                channel, queues=[Queue(INGEST.full_name)], on_message=taken.append
            )
            with consumer:
                wake_up(app, "ingest", times=2)
                connection.drain_events(timeout=5)
                assert len(taken) == 1
                assert not channel.qos.can_consume()
                # When Redis does not answer as the task is done
                server.kill("SIGSTOP")
                try:
                    with pytest.raises(RedisTimeoutError):
                        taken[0].ack()
                finally:
                    server.kill("SIGCONT")
                # Then the next one is taken
                assert channel.qos.can_consume()
                connection.drain_events(timeout=5)
                assert len(taken) == 2
    finally:
        server.end()


TIMEOUT_SECONDS = 1


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REDIS_TRANSPORT, "socket_timeout", TIMEOUT_SECONDS)


@contextmanager
def held_up(port: int) -> Iterator[int]:
    """Stand between Redis and its clients on a port: the rest of a long answer comes late."""

    def copy(source: socket.socket, target: socket.socket, *, late: bool) -> None:
        # either end may be closed at any moment
        with source, target, suppress(OSError):
            while piece := source.recv(1 << 16):
                target.sendall(piece)
                if late and len(piece) == 1 << 16:
                    time.sleep(TIMEOUT_SECONDS + 1)
                    late = False

    def serve() -> None:
        while True:
            try:
                client, _ = front.accept()
            except OSError:
                return
            behind = socket.create_connection(("127.0.0.1", port))
            for source, target, late in ((client, behind, False), (behind, client, True)):
                threading.Thread(
                    target=copy, args=(source, target), kwargs={"late": late}, daemon=True
                ).start()

    with socket.create_server(("127.0.0.1", 0)) as front:
        threading.Thread(target=serve, daemon=True).start()
        yield front.getsockname()[1]
        front.shutdown(socket.SHUT_RDWR)


def test_a_task_whose_rest_is_long_on_its_way_is_taken(settings: Settings, tmp_path: Path) -> None:
    server = RedisProcess(tmp_path)
    try:
        at = urlsplit(server.url).port or 0
        with held_up(at) as port:
            url = server.url.replace(f":{at}", f":{port}")
            settings = settings.model_copy(update={"redis_url": SecretStr(url)})
            with make_app(settings) as app, app.connection_for_read() as connection:
                taken: list[Message] = []
                consumer = app.amqp.TaskConsumer(
                    connection.default_channel, queues=[Queue(ACCEPT.full_name)], on_message=taken.append
                )
                # Given a payload that Redis sends in many pieces
                messages = [{"content": "щ好🎺" * 100_000}]
                app.send_task("backscroll.ingest", kwargs={"messages": messages}, queue=ACCEPT.full_name)
                # When a machine pauses on the way, the payload comes
                with consumer:
                    connection.drain_events(timeout=2)
                assert taken[0].payload[1] == {"messages": messages}
                taken[0].ack()
    finally:
        server.end()

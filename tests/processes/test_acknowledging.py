"""A task that could not be acknowledged holds up no other, and comes back."""

from pathlib import Path

import pytest
from kombu import Message, Queue
from pydantic import SecretStr
from redis.exceptions import TimeoutError as RedisTimeoutError

from schemas.settings import Settings
from tests.processes.nodes import RedisProcess
from workers.app import make_app
from workers.queues import INGEST, wake_up


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

"""One worker of a deployment that is killed, started again and told to end, by the fixtures of pytest-celery."""

import time

from celery import Celery
from pytest_celery import CeleryTestSetup

from tests.ops.running import until
from tests.processes.conftest import SECONDS, SOFT_SECONDS, Deployment, talk
from tests.processes.nodes import WorkerProcess

CHAT = "test:nodes"


def answers(app: Celery) -> set[str]:
    """The queues whose workers answer a ping."""
    # by a connection of its own: stories before have cut those that the application keeps
    with app.connection_for_write() as connection:
        replies = app.control.ping(timeout=5, connection=connection)
    return {name.partition("@")[0] for reply in replies for name in reply}


def test_a_worker_is_killed_started_again_and_ends_with_its_task_done(
    celery_setup: CeleryTestSetup, deployment: Deployment
) -> None:
    assert celery_setup.ready(docker=True)
    assert len(celery_setup.worker_cluster) == len(deployment.workers)
    worker = next(node for node in celery_setup.worker_cluster if node.name() == "summarize")
    assert isinstance(worker, WorkerProcess)
    until(lambda: "summarize" in answers(celery_setup.app), "it answers", SECONDS)
    # When it is killed, then it is gone, and what comes meanwhile waits
    worker.kill()
    assert worker.container.status == "exited"
    assert "summarize" not in answers(celery_setup.app)
    deployment.accept_and_place(CHAT, talk(10))
    # When it is started again, then it does that
    worker.restart()
    worker.assert_log_exists("ready.", timeout=int(SECONDS))
    until(lambda: "summarize" in answers(celery_setup.app), "it answers again", SECONDS)
    with deployment.locked("conversation_sessions"):
        deployment.make_due()
        celery_setup.app.send_task("backscroll.summarize", queue="backscroll.summarize")
        deployment.wait_until_stuck("conversation_sessions")
        # and told to end, it finishes what it holds, which nothing can interrupt and takes longer than it should
        worker.kill("SIGTERM")
        time.sleep(SOFT_SECONDS + 0.5)
        assert worker.runs
    until(lambda: not worker.runs, "ended", SECONDS)
    assert "Unrecoverable" not in worker.logs()
    assert deployment.progress(CHAT).summarized == 2
    worker.restart()

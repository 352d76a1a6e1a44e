"""The Celery application and the schedule of its clock: `backscroll worker NAME` and `backscroll beat` run them.

Every setting that is not Celery's default has its reason here.
"""

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from celery import Celery
from celery.schedules import schedstate
from celery.schedules import schedule as interval
from kombu import Queue
from redis.connection import parse_url

from schemas.errors import SettingsError
from schemas.load_settings import load_settings
from schemas.server_urls import Sentinels, sentinels
from schemas.settings import Settings
from workers import envelope, queues
from workers.connection import Amqp
from workers.queues import BACKFILL, SWEEP

TASKS = ["workers.tasks"]

# Without a timeout a hung Redis blocks the sender for ever.
TIMEOUTS = {"socket_timeout": 5, "socket_connect_timeout": 2}
REDIS_TRANSPORT: dict[str, Any] = {
    # A task not acknowledged after this time goes to another worker; longer than any time limit.
    "visibility_timeout": 600,
    # Check for such tasks often: with the defaults it took 91 s after a worker's death.
    "unacked_restore_interval": 10,
    "unacked_restore_throttle": 1,
    # The lock of that check: by default, a worker that dies meanwhile blocks the others for 5 minutes.
    "unacked_mutex_expire": 20,
    **TIMEOUTS,
    "socket_keepalive": True,
    "health_check_interval": 25,
}


def to_master(behind: Sentinels) -> dict[str, Any]:
    """Return the transport's options that find Redis by its Sentinels."""
    return {"master_name": behind.master_name, "sentinel_kwargs": {**TIMEOUTS, **behind.sentinel_options}}


def make_app(settings: Settings) -> Celery:
    """Make a Celery application on the Redis that the settings name; it connects at its first use."""
    if settings.redis_url is None:
        raise SettingsError(
            "BACKSCROLL_REDIS_URL is not set and no embedded Redis runs: start one with `backscroll up`"
        )
    url = settings.redis_url.get_secret_value()
    behind = sentinels(url)
    options: Mapping[str, Any] = behind.options if behind else parse_url(url)  # type: ignore[no-untyped-call]
    app = Celery(
        "backscroll",
        broker=";".join(behind.urls) if behind else url.partition("?")[0],
        include=[*TASKS, "workers.signals"],
        amqp=Amqp,
    )
    app.conf.update(
        # No result backend: the database records what was done.
        task_ignore_result=True,
        # A task is acknowledged when it is done, so that a dead worker's task goes to another …
        task_acks_late=True,
        worker_prefetch_multiplier=1,
        # … but the job runner counts the attempts: redelivery by the broker loops for ever on a task that kills.
        task_reject_on_worker_lost=False,
        task_acks_on_failure=True,
        task_acks_on_timeout=True,
        broker_transport_options=REDIS_TRANSPORT | (to_master(behind) if behind else {}),
        # verification of certificates; not in the URL, where Flower would not see it
        broker_use_ssl={k: v for k, v in options.items() if k.startswith("ssl_")} or False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_channel_error_retry=True,
        broker_connection_timeout=2,
        # Only JSON: a pickle from the queue would be code.
        task_serializer="json",
        accept_content=["json"],
        # Route by queue, never by exchange: a named exchange drops tasks in silence once Redis lost its data.
        task_create_missing_queues=True,
        task_default_queue=queues.INGEST.full_name,
        task_queues=[Queue(queue.full_name) for queue in queues.QUEUES.values()],
        # On TERM a busy worker has this long to finish, then returns its tasks. An idle one would sleep
        # as long without consuming anything.
        worker_soft_shutdown_timeout=30,
        worker_enable_soft_shutdown_on_idle=False,
        # With the default of 4 s, on a busy machine each child would be killed before it is up, endlessly.
        worker_proc_alive_timeout=60,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_send_task_events=True,
        task_send_sent_event=True,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        beat_schedule=beat_schedule(settings),
        beat_max_loop_interval=max(1.0, min(5.0, settings.sweep_seconds)),
        timezone="UTC",
    )
    return app


def __getattr__(name: str) -> Celery:
    # `celery -A workers.app` looks up `app`: settings are read then, not when a test imports this module.
    if name != "app":
        raise AttributeError(name)
    try:
        made = make_app(load_settings())
    except SettingsError as error:
        # Celery's command line would wrap it in a traceback; 4 as in `ops/exit_codes.py`
        sys.stderr.write(f"Error: {error}\n")
        raise SystemExit(4) from None
    globals()["app"] = made
    return made


PRUNE_SECONDS = 3600.0


class Every(interval):  # type: ignore[misc] # Celery ships no types
    """An interval that survives a clock set back: Celery's own would stop until the clock has caught up."""

    def is_due(self, last_run_at: datetime) -> schedstate:
        """Return whether the entry is due, and the seconds until the next check."""
        if self.maybe_make_aware(last_run_at) > self.maybe_make_aware(self.now()):
            return schedstate(is_due=True, next=self.seconds)
        return super().is_due(last_run_at)


def beat_schedule(settings: Settings) -> dict[str, Any]:
    """Return Celery beat's schedule.

    No entry expires: a worker whose clock is ahead of beat's would drop every sweep. `sweep` skips those that
    have piled up after an outage.
    """
    return {
        "sweep": {
            "task": envelope.SWEEP,
            "schedule": Every(settings.sweep_seconds),
            "options": {"queue": SWEEP.full_name},
        },
        "prune": {
            "task": envelope.PRUNE,
            "schedule": Every(PRUNE_SECONDS),
            "options": {"queue": BACKFILL.full_name},
        },
    }

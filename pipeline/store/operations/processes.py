"""SQL of what each running process states that it runs with."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection

from pipeline.store.connections.statements import run

GONE_SECONDS = 45
"""A process that was not seen for so long is gone: it has missed four of its own writes."""
_STATE = """
    INSERT INTO processes (kind, host, pid, settings) VALUES (:kind, :host, :pid, :settings)
    ON CONFLICT (kind, host, pid) DO UPDATE SET settings = excluded.settings, seen_at = now(),
        began_at = CASE WHEN processes.settings = excluded.settings THEN processes.began_at ELSE now() END
"""
_END = """
    DELETE FROM processes WHERE (kind, host, pid, settings) = (:kind, :host, :pid, :settings)
        OR seen_at < now() - interval '1 day'
"""
_RUNNING = """
    SELECT kind, host, pid, settings FROM processes WHERE seen_at > now() - make_interval(secs => :gone)
    ORDER BY began_at DESC, kind, host, pid
"""


class Process(NamedTuple):
    """A process, such as `api` or `worker embed`, and its `Settings.stated`."""

    kind: str
    host: str
    pid: int
    settings: Mapping[str, Any]


def state(connection: Connection, process: Process, *, ends: bool = False) -> None:
    """Record that a process runs, or `ends`; then also forget those that went long ago without saying so."""
    run(connection, _END if ends else _STATE, **process._asdict())


def running(connection: Connection) -> list[Process]:
    """Return the processes that were seen lately, those that began last first."""
    return [Process(**row._mapping) for row in run(connection, _RUNNING, gone=GONE_SECONDS)]

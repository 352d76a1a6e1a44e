"""Kinds of background jobs: the one list that queues, commands, the store and erasure read."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of job; its `str` is its name in the database, queues and commands."""

    name: str
    # the worker queue that serves it (workers/queues.py)
    queue: str
    # the participle in a task's result: "3 summarized"
    done: str
    # an operator may drop it: only what makes something of accepted messages
    droppable: bool = False
    # a change of its object discards results in flight, and erasing the object deletes the job
    fenced_by_change: bool = False

    def __str__(self) -> str:
        return self.name


INGEST = Kind(name="ingest", queue="ingest", done="placed")
"""Place a chat's arrivals; its row stays for as long as the chat does, and only an operator revives it."""
EMBED = Kind(name="embed", queue="embed", done="embedded", droppable=True, fenced_by_change=True)
SUMMARIZE = Kind(
    name="summarize", queue="summarize", done="summarized", droppable=True, fenced_by_change=True
)
ROLLUP = Kind(name="rollup", queue="summarize", done="rolled up", droppable=True)
EXTRACT = Kind(
    name="extract", queue="summarize", done="read for facts", droppable=True, fenced_by_change=True
)
"""Learn facts from a session, or compare a learned memory with what is known once it has a vector."""
BACKFILL = Kind(name="backfill", queue="backfill", done="continued", droppable=True)
FORGET = Kind(name="forget", queue="backfill", done="continued")
LANGUAGE = Kind(name="language", queue="backfill", done="looked at")
"""Detect a chat's language if nobody declares it, and index its words anew."""
DIGEST = Kind(name="digest", queue="summarize", done="sent")

_ALL = (INGEST, EMBED, SUMMARIZE, ROLLUP, EXTRACT, BACKFILL, FORGET, LANGUAGE, DIGEST)
KINDS = {kind.name: kind for kind in _ALL}
FENCED_BY_CHANGE = [kind for kind in KINDS.values() if kind.fenced_by_change]
DROPPABLE = frozenset(kind.name for kind in KINDS.values() if kind.droppable)

NEEDS = {
    SUMMARIZE.name: ("session_memory_enabled", "session_summarization_enabled"),
    ROLLUP.name: ("session_memory_enabled", "session_summarization_enabled", "rollups_enabled"),
    EXTRACT.name: ("session_memory_enabled", "memory_learning_enabled"),
} | dict.fromkeys(("answers", "hyde", "memory"), ("session_memory_enabled",))
"""The settings without which something is not done: jobs and backfills of a kind then wait, whatever made them due, as
do the vectors of sessions and memories (`memory`)."""

ARRIVAL = "arrival"
"""A quarantined message, which could not be placed: a dead letter, no job."""
PAYLOAD = "payload"
"""A queued payload that could not be accepted: a dead letter, no job."""

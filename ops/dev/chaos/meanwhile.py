"""An operator's errands while faults happen: backfills, and a person and a chat to forget."""

import time
from collections.abc import Callable
from contextlib import closing

from ops.dev.chaos.cast import API_TENANT, PAYLOAD_TENANT, Cast
from ops.dev.chaos.traffic import FORGOTTEN_CHAT, FORGOTTEN_SENDER
from pipeline.erasure import forget
from pipeline.ingest.policy import SessionPolicy
from pipeline.operations import backfill
from pipeline.store.database import Database
from schemas.backfills import BackfillKind, BackfillRequest
from schemas.errors import Retryable
from schemas.forgetting import Subject

# Slow enough to go on through many faults.
ROWS_PER_SECOND = 100.0
PATIENCE_SECONDS = 30.0


class Errands:
    """Errands, each with its turn among so many faults; sweeps find their work."""

    def __init__(self, cast: Cast, faults: int) -> None:
        self._cast = cast
        self.backfills = self.forgotten = 0
        user = Subject(kind="user", sender_id=FORGOTTEN_SENDER)
        chat = Subject(kind="chat", chat_id=FORGOTTEN_CHAT)
        self._turns: list[tuple[float, Callable[[Database], None]]] = [
            (0.15 * faults, lambda database: self._backfill(database, API_TENANT, "embed")),
            (0.3 * faults, lambda database: self._forget(database, user)),
            (0.45 * faults, lambda database: self._backfill(database, PAYLOAD_TENANT, "sessionize")),
            (0.6 * faults, lambda database: self._forget(database, chat)),
            (0.75 * faults, lambda database: self._backfill(database, API_TENANT, "summarize")),
        ]

    def run(self, fault: int) -> None:
        """Start what is due before this fault; tried until it is taken, as an operator would."""
        while self._turns and self._turns[0][0] <= fault:
            _, errand = self._turns.pop(0)
            deadline = time.monotonic() + PATIENCE_SECONDS
            with closing(Database.from_settings(self._cast.settings)) as database:
                while True:
                    try:
                        errand(database)
                        break
                    except Retryable:
                        if time.monotonic() > deadline:
                            raise
                        time.sleep(0.2)

    def _backfill(self, database: Database, tenant_id: str, kind: BackfillKind) -> None:
        settings = self._cast.settings
        current = backfill.Current(
            rules=SessionPolicy.of(settings),
            summary_version=settings.session_summary_version,
            min_messages=settings.session_min_messages,
        )
        request = BackfillRequest(kind=kind, missing_only=False, rate_per_second=ROWS_PER_SECOND)
        backfill.start(database, tenant_id, request, current)
        self.backfills += 1

    def _forget(self, database: Database, subject: Subject) -> None:
        forget.start(database, API_TENANT, subject)
        self.forgotten += 1

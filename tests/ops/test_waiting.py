"""`import --wait` says why nothing moves, as far as that is known."""

import io
import signal

import pytest
from rich.console import Console

from ops.console import waiting
from ops.console.waiting import interrupts_deferred
from pipeline.ingest.accept import accept
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from tests.conftest import TENANT, message
from tests.harness.pipeline import rows


@pytest.mark.parametrize(
    ("change", "told", "not_told"),
    [
        (None, "1 wait for a worker: do workers run", "are claimed"),
        (
            "claimed = wanted, due_at = '2199-01-01 10:20:30+00'",
            "or has died, and then another one does them once their leases end, by 10:20:30 UTC",
            "do workers run",
        ),
    ],
)
def test_what_is_waited_for_is_said(
    database: Database, monkeypatch: pytest.MonkeyPatch, change: str | None, told: str, not_told: str
) -> None:
    accept(database, TENANT, ChatIn(chat_id="test:чат"), [message(0, "Привет 👋")])
    if change is not None:
        rows(database, f"UPDATE jobs SET {change}")
    monkeypatch.setattr(waiting, "STALL_SECONDS", -1)
    written = io.StringIO()
    waiting.await_memory(
        database,
        TENANT,
        ["test:чат"],
        Console(file=written, width=1000),
        shown=False,
        pause=lambda _: None,
        limit_seconds=1,
    )
    assert told in written.getvalue()
    assert not_told not in written.getvalue()


def test_it_waits_until_it_is_let_through() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts_deferred() as let_through:
        let_through()
        signal.raise_signal(signal.SIGINT)
        done.append("what was under way")
        let_through()
        done.append("what came after")
    assert done == ["what was under way"]


def test_the_second_does_not_wait_and_afterwards_all_is_as_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interrupts_deferred():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before

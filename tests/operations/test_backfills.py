"""A backfill that does what another does is not started by accident, says who started it, and how long it takes."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from pipeline.ingest.accept import accept
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.operations import backfill
from pipeline.operations.backfill_kinds import Current
from pipeline.store.connections.database import Database
from pipeline.store.jobs import backfill_rows
from schemas.backfills import STEADY_SECONDS, Backfill, BackfillRequest
from schemas.messages import ChatIn
from tests.commands.conftest import Run, run  # noqa: F401
from tests.conftest import TENANT, message
from tests.harness.pipeline import current, embed_all, look, place

EMBED = BackfillRequest(kind="embed")


@pytest.fixture
def now(rules: SessionPolicy) -> Current:
    return current(rules)


def start(database: Database, request: BackfillRequest, now: Current, **options: object) -> Backfill:
    return backfill.start(database, TENANT, request, now, **options)  # type: ignore[arg-type]


def test_the_same_is_not_started_again_while_it_runs_or_is_paused(database: Database, now: Current) -> None:
    first = start(database, EMBED, now, by="the dashboard")
    # at another pace it is still the same
    again = start(database, EMBED.model_copy(update={"rate_per_second": 5.0, "batch_size": 7}), now)
    assert (again.id, again.was_running, again.started_by) == (first.id, True, "the dashboard")
    backfill.change_state(database, TENANT, first.id, "paused")
    assert start(database, EMBED, now).id == first.id
    # another chat, kind or time is another, and so is what is wanted in spite of it
    for request in (
        BackfillRequest(kind="embed", chat_id="test:1"),
        BackfillRequest(kind="embed", missing_only=False),
        BackfillRequest(kind="summarize"),
    ):
        assert not start(database, request, now).was_running
    assert start(database, EMBED, now, again=True).id > first.id
    # and what has ended is in nobody's way
    ended = start(database, BackfillRequest(kind="answers"), now)
    backfill.change_state(database, TENANT, ended.id, "cancelled")
    assert start(database, BackfillRequest(kind="answers"), now).id > ended.id


def test_of_two_who_start_it_at_once_one_does(database: Database, now: Current) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: start(database, EMBED, now), range(8)))
    assert {one.id for one in made} == {made[0].id}
    assert [one.was_running for one in made].count(False) == 1


def test_the_command_says_that_it_runs_and_who_started_it(run: Run) -> None:  # noqa: F811
    assert run("backfills", "start", "embed", "--json").json["was_running"] is False
    again = run("backfills", "start", "embed")
    assert again.code == 0
    assert "Nothing is started: backfill 1 of cli does the same; --again starts another." in again.out
    assert run("backfills", "start", "embed", "--json").json["was_running"] is True
    assert run("backfills", "start", "embed", "--again", "--json").json["id"] == 2
    listed = run("backfills", "list", "--json").json["backfills"]
    assert [(one["id"], one["started_by"]) for one in listed] == [(2, "cli"), (1, "cli")]
    assert "cli" in run("backfills", "list").out


def running(seen: int, pending: int, began: list[float] | None) -> Backfill:
    """A backfill of 1,000 rows whose rate is measured since then."""
    cursor = {"source": "x"} | ({"began": began} if began else {})
    at = datetime.fromtimestamp(0, UTC)
    times = {"created_at": at, "updated_at": at, "finished_at": None}
    counts = {"total": 1000, "seen": seen, "raised": seen, "pending": pending}
    return Backfill(id=1, request=EMBED, state="running", cursor=cursor, error=None, **times, **counts)


def test_the_time_left_is_estimated_from_what_was_done_since_the_first_row() -> None:
    def left(one: Backfill, at: float) -> timedelta | None:
        return one.eta(datetime.fromtimestamp(at, UTC))

    # Given one that waited for 500 s until its first 10 rows were done
    began = [500.0, 10]
    # Then nothing is said before a rate holds
    assert left(running(1000, 1000, None), 500) is None
    assert left(running(1000, 900, began), 500 + STEADY_SECONDS - 1) is None
    assert left(running(1000, 985, began), 600) is None
    assert "estimating the time left" in running(1000, 985, began).progress()
    # and then at that rate: 90 rows in 30 s leave 900, at 300 s
    assert left(running(1000, 900, began), 530) == timedelta(seconds=300)
    assert left(running(1000, 0, began), 530) == timedelta(0)


def test_a_rate_is_measured_from_the_first_row_that_was_done_and_anew_after_a_pause(
    database: Database, rules: SessionPolicy, now: Current, policy: Policy
) -> None:
    accept(database, TENANT, ChatIn(chat_id="test:1"), [message(n) for n in range(6)])
    place(database, rules)
    embed_all(database)
    request = BackfillRequest(kind="embed", batch_size=2, missing_only=False)
    made = start(database, request, now)

    def began() -> list[float]:
        look(database, now, policy)
        with database.tenant(TENANT) as connection:
            stored = backfill_rows.get(connection, made.id)
        assert stored is not None
        return list((stored.cursor or {}).get("began", []))

    # what is due is not done
    assert began() == began() == []
    embed_all(database)
    assert began()[1] >= 1
    for wish in ("paused", "running"):
        backfill.change_state(database, TENANT, made.id, wish)
    with database.tenant(TENANT) as connection:
        stored = backfill_rows.get(connection, made.id)
    assert stored is not None
    assert "began" not in (stored.cursor or {})

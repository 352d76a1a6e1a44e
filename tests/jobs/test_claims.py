"""Claims cost the same however much is owed, lock what they take, and let nobody wait behind a flood."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from time import monotonic, sleep

import psycopg
import pytest
from sqlalchemy import Connection

from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.ingest import accept
from pipeline.jobs import runner
from pipeline.jobs.runner import Policy
from pipeline.store.connections.database import Database
from pipeline.store.jobs import claims, jobs
from pipeline.store.jobs.claims import Claimed, Turn, claim
from pipeline.store.jobs.jobs import Claim
from schemas.errors import LeaseLost
from schemas.messages import ChatIn
from tests.conftest import TENANT, message
from tests.harness.jobs import done, failing, owe, pass_time, row, rows

FILL = """
    INSERT INTO jobs (tenant_id, kind, key, lane, priority, due_at)
    SELECT %(tenant)s || t, 'embed', 'message:' || n, n %% %(lanes)s, %(priority)s,
        now() + make_interval(secs => %(delay)s)
    FROM generate_series(1, %(tenants)s) t CROSS JOIN generate_series(1, %(rows)s) n
"""


@pytest.fixture
def superuser(postgres: EmbeddedPostgres, database_name: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres.superuser_dsn(database_name), autocommit=True) as connection:
        yield connection


def fill(superuser: psycopg.Connection, tenant: str, rows: int, **named: float) -> None:
    """Put so many rows in for each of so many tenants, called `tenant1` and so on."""
    defaults: dict[str, float] = {"tenants": 1, "lanes": 10, "priority": 0, "delay": 0}
    given = {"tenant": tenant, "rows": rows} | defaults | named
    superuser.execute(
        "INSERT INTO tenants (tenant_id) SELECT %(tenant)s || n FROM generate_series(1, %(tenants)s) n", given
    )
    superuser.execute(FILL, given)
    superuser.execute("VACUUM ANALYZE jobs")


def take(connection: Connection, batch: int = 32, after: Turn | None = None) -> Claimed:
    return claim(connection, "embed", batch=batch, lease_seconds=60, max_attempts=3, after=after)


def claimed(database: Database, batch: int = 32, after: Turn | None = None) -> Claimed:
    with database.maintenance() as connection:
        return take(connection, batch, after)


def test_a_claim_among_many_tenants_locks_what_it_takes_and_another_takes_as_much(
    database: Database, superuser: psycopg.Connection
) -> None:
    # Given fewer rows of each tenant than a claim takes
    fill(superuser, "tenant", rows=20, tenants=50)
    with database.maintenance() as first:
        mine = take(first)
        # When others look while it is not committed
        free = superuser.execute(
            "SELECT count(*) FROM (SELECT FROM jobs FOR UPDATE SKIP LOCKED) free"
        ).fetchone()
        yours = claimed(database)
    # Then all but its batch was free, and a second claim was full
    assert free == (50 * 20 - 32,)
    assert (len(mine.rows), len(yours.rows)) == (32, 32)
    assert not {(r.tenant_id, r.key) for r in mine.rows} & {(r.tenant_id, r.key) for r in yours.rows}


def test_live_work_goes_before_what_an_import_brought(
    database: Database, superuser: psycopg.Connection
) -> None:
    fill(superuser, "door", rows=1000, lanes=1, priority=jobs.LATER)
    with database.tenant("door1") as connection:
        jobs.enqueue(connection, "door1", "embed", ["message:live"], lane="test:1")
    found = claimed(database)
    assert "message:live" in {r.key for r in found.rows}
    assert len(found.rows) == 32


def test_tenants_take_turns_over_claims_that_are_smaller_than_their_number(
    database: Database, superuser: psycopg.Connection
) -> None:
    fill(superuser, "tenant", rows=10, tenants=40)
    turn, served = None, []
    for _ in range(5):
        found = claimed(database, batch=8, after=turn)
        turn = found.turn
        served += [r.tenant_id for r in found.rows]
    assert len(served) == len(set(served)) == 40


def test_chats_take_turns_over_claims_that_are_smaller_than_their_number(
    database: Database, superuser: psycopg.Connection
) -> None:
    fill(superuser, "tenant", rows=400, lanes=40)
    turns: dict[str, Turn] = {}
    lanes: list[int] = []

    def handle(tenant: str, claims: Sequence[Claim]) -> set[str]:
        lanes.extend(int(c.key.removeprefix("message:")) % 40 for c in claims)
        return done(database)(tenant, claims)  # type: ignore[return-value]

    policy = Policy(batch=8, lease_seconds=60, max_attempts=3)
    for _ in range(5):
        runner.run(database, "embed", handle, policy, turns=turns)
    assert sorted(lanes) == list(range(40))


def test_what_waits_for_a_later_moment_hides_nothing_that_is_due(
    database: Database, superuser: psycopg.Connection
) -> None:
    # Given many more tenants and chats than a claim walks, whose work is put off
    fill(superuser, "a-later", rows=20, tenants=100, lanes=20, delay=3600)
    fill(superuser, "b-later", rows=500, lanes=500, delay=3600)
    fill(superuser, "c-due", rows=50, lanes=1)
    # When somebody claims, then what is due is found, as much as fits
    found = claimed(database, batch=8)
    assert [r.tenant_id for r in found.rows] == ["c-due1"] * 8
    assert len(claimed(database, batch=64).rows) == 42


# What is wanted anew while somebody is at it


def wait_until_stuck(superuser: psycopg.Connection, running: "Future[object]") -> None:
    """Wait until somebody waits for the other's transaction."""
    deadline = monotonic() + 30
    while superuser.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() == (0,):
        assert not running.done()
        assert monotonic() < deadline
        sleep(0.01)


def finish(database: Database, mine: Claim) -> None:
    with database.tenant(TENANT) as connection:
        jobs.finish(connection, [mine])


def test_what_is_raised_beside_a_finish_stays_owed_whichever_gets_the_lock(
    database: Database, superuser: psycopg.Connection
) -> None:
    # Given a claim, and a change of the same object that is not committed yet
    owe(database, "session:1")
    mine = claimed(database).rows[0]
    with ThreadPoolExecutor(1) as pool:
        with database.tenant(TENANT) as connection:
            jobs.enqueue(connection, TENANT, "embed", ["session:1"])
            # When the worker finishes meanwhile, and the change commits after the worker has looked
            finishing = pool.submit(finish, database, mine)
            wait_until_stuck(superuser, finishing)
        # Then its result counts, and the change is owed
        finishing.result(30)
        found = row(database, "session:1")
        assert (found["due"], found["claimed"], found["attempts"]) == (True, None, 0)
        # and so it is when the worker is first
        mine = claimed(database).rows[0]
        with database.tenant(TENANT) as connection:
            jobs.finish(connection, [mine])
            raising = pool.submit(owe, database, "session:1")
            wait_until_stuck(superuser, raising)
        raising.result(30)
    found = row(database, "session:1")
    assert (found["due"], found["token"]) == (True, None)
    # and whoever had it before cannot finish what is owed now
    with pytest.raises(LeaseLost):
        finish(database, mine)


def test_finished_work_leaves_no_row_but_the_one_of_each_chat(database: Database) -> None:
    owe(database, "message:1")
    owe(database, "test:1", kind="ingest")
    for kind in ("embed", "ingest"):
        runner.run(database, kind, done(database), Policy(batch=10, lease_seconds=60, max_attempts=3))
    assert not rows(database, "message:1")
    assert row(database, "test:1")["due_at"] is None


@pytest.mark.parametrize(("kind", "key"), [("embed", "session:1"), ("ingest", "test:1")])
def test_work_that_fails_for_the_last_time_is_not_given_up_when_something_newer_is_wanted_but_placing_is(
    database: Database, kind: str, key: str
) -> None:
    owe(database, key, kind=kind)

    def handle(_tenant: str, _claims: Sequence[Claim]) -> set[str]:
        owe(database, key, kind=kind)
        raise ValueError("broken")

    once = Policy(batch=10, lease_seconds=60, max_attempts=1)
    runner.run(database, kind, handle, once)
    # in a chat more comes all the time
    assert (row(database, key)["dead_at"] is not None) == (kind == "ingest")
    # and with nothing newer it is given up
    pass_time(database)
    runner.run(database, kind, failing(ValueError("broken")), once)
    assert row(database, key)["dead_at"] is not None


def test_work_whose_workers_died_is_not_given_up_when_something_newer_is_wanted(database: Database) -> None:
    owe(database, "session:1", "session:2")
    claimed(database)
    owe(database, "session:1")
    pass_time(database)
    with database.maintenance() as connection:
        assert claims.mark_exhausted_dead(connection, max_attempts=1) == {(TENANT, "embed"): 1}
    assert (row(database, "session:1")["dead_at"], row(database, "session:1")["due"]) == (None, True)
    assert row(database, "session:2")["dead_at"] is not None


def test_what_an_import_brings_is_placed_later_than_live_talk_and_in_its_chats_lane(
    database: Database,
) -> None:
    accept.accept(database, TENANT, ChatIn(chat_id="test:old"), [message(1)], settle=timedelta(minutes=1))
    accept.accept(database, TENANT, ChatIn(chat_id="test:now"), [message(1)])
    old, now = row(database, "test:old"), row(database, "test:now")
    assert (old["priority"], now["priority"]) == (jobs.LATER, jobs.LIVE)
    assert old["lane"] != now["lane"]
    # and a live message in a chat that is being imported makes it urgent
    accept.accept(database, TENANT, ChatIn(chat_id="test:old"), [message(2)])
    assert row(database, "test:old")["priority"] == jobs.LIVE

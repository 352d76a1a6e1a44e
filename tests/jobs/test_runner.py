"""The ledger: what is owed is done once, whatever dies, and nobody waits for somebody else's trouble."""

from collections.abc import Sequence, Set

import pytest
from pydantic import ValidationError
from sqlalchemy import text

from pipeline.jobs import runner
from pipeline.jobs.runner import Policy
from pipeline.store.connections.database import Database
from pipeline.store.jobs import claims, jobs
from pipeline.store.jobs import claims as store_claims
from pipeline.store.jobs.jobs import Claim
from schemas.errors import BudgetSpent, DatabaseUnavailable, LeaseLost, ProviderUnavailable
from schemas.sessions import Summary
from tests.conftest import TENANT
from tests.harness.jobs import done, failing, owe, pass_time, row, rows

POLICY = Policy(batch=10, lease_seconds=60, max_attempts=3)


def test_what_is_wanted_anew_while_it_is_done_is_looked_for_at_once(database: Database) -> None:
    # Given a job that is wanted once more, and whose wake-up finds it held
    owe(database, "привет")

    def handle(tenant: str, claims: Sequence[Claim]) -> Set[str]:
        if claims[0].trace_id is None:
            with database.tenant(tenant) as connection:
                jobs.enqueue(connection, tenant, "embed", ["привет"], trace_id="meanwhile")
            assert runner.run(database, "embed", handle, POLICY).claimed == 0
        return done(database)(tenant, claims)

    # Then whoever held it wakes the next, until all is done
    assert runner.run(database, "embed", handle, POLICY).more
    assert not runner.run(database, "embed", handle, POLICY).more
    assert rows(database, "привет") == []


def test_what_changes_while_it_is_done_loses_no_attempt(database: Database) -> None:
    owe(database, "message:1")

    def handle(tenant: str, claims: Sequence[Claim]) -> Set[str]:
        with database.tenant(tenant) as connection:
            jobs.fence(connection, tenant, ["message:1"])
        return done(database)(tenant, claims)

    # Given a message that is edited each time while its vector is made
    for _ in range(POLICY.max_attempts + 1):
        runner.run(database, "embed", handle, POLICY)
        pass_time(database)
    # Then one failure after that is its first
    runner.run(database, "embed", failing(ValueError("broken")), POLICY)
    found = row(database, "message:1")
    assert (found["attempts"], found["dead_at"]) == (1, None)


def test_a_worker_whose_lease_ran_out_cannot_save_over_its_successor(database: Database) -> None:
    owe(database, "session:1")
    saved = []

    def slow(tenant: str, claims: Sequence[Claim]) -> Set[str]:
        pass_time(database)
        assert runner.run(database, "embed", done(database), POLICY).finished == 1
        with pytest.raises(LeaseLost), database.tenant(tenant) as connection:
            connection.execute(text("UPDATE tenants SET settings = '{\"saved\": 1}'"))
            jobs.finish(connection, claims)
        saved.append(True)
        return set()

    runner.run(database, "embed", slow, POLICY)
    assert saved
    with database.tenant(TENANT) as connection:
        assert connection.scalar(text("SELECT settings FROM tenants")) == {}


def test_failing_work_is_tried_again_later_and_then_given_up_with_its_error(database: Database) -> None:
    owe(database, "message:1")
    for attempt in (1, 2):
        runner.run(database, "embed", failing(ValueError("broken")), POLICY)
        found = row(database, "message:1")
        assert (found["attempts"], found["due"], found["dead_at"]) == (attempt, False, None)
        pass_time(database)
    runner.run(database, "embed", failing(ValueError("broken")), POLICY)
    found = row(database, "message:1")
    assert found["due_at"] is None
    assert found["dead_at"] is not None
    assert found["last_error"] == "ValueError: broken"
    # until it changes
    owe(database, "message:1")
    found = row(database, "message:1")
    assert (found["dead_at"], found["attempts"], found["due"]) == (None, 0, True)


def test_the_error_that_is_kept_does_not_say_what_somebody_said(database: Database) -> None:
    owe(database, "message:1")
    with pytest.raises(ValidationError) as wrong:
        Summary(summary="Kim lives in Oslo.", topics=["flat", 3])  # type: ignore[list-item]
    runner.run(database, "embed", failing(wrong.value), POLICY)
    error = str(row(database, "message:1")["last_error"])
    assert error == "ValidationError: topics.1: Input should be a valid string"


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (DatabaseUnavailable("it is restarting"), 2),
        (ProviderUnavailable("429", retry_after=40), 40),
        # a budget may be raised before the next day
        (BudgetSpent("spent", retry_after=50_000), 3600),
    ],
)
def test_postgres_is_asked_again_soon_a_provider_when_it_says_and_a_budget_within_the_hour(
    database: Database, error: Exception, seconds: float
) -> None:
    owe(database, "message:1")
    runner.run(database, "embed", failing(error), POLICY)
    with database.tenant(TENANT) as connection:
        delay = connection.scalar(text("SELECT extract(epoch FROM due_at - now())::float8 FROM jobs"))
    assert seconds - 2 < delay <= seconds
    assert row(database, "message:1")["attempts"] == 0


def test_a_process_that_is_stopped_gives_back_what_it_held(database: Database) -> None:
    owe(database, "message:1")
    with pytest.raises(SystemExit):
        runner.run(database, "embed", failing(SystemExit()), POLICY)
    found = row(database, "message:1")
    assert (found["attempts"], found["claimed"], found["due"]) == (0, None, True)


@pytest.mark.parametrize("max_attempts", [3, 12])
def test_a_row_that_kills_its_workers_takes_no_other_with_it_and_holds_up_few(
    database: Database, max_attempts: int
) -> None:
    # Given a batch of 128 in which one row kills whoever does it
    owe(database, *(f"message:{n}" for n in range(127)), "яд")
    sizes: list[int] = []
    for _ in range(200):
        with database.maintenance() as connection:
            claimed = store_claims.claim(
                connection, "embed", batch=128, lease_seconds=60, max_attempts=max_attempts
            ).rows
        sizes.append(len(claimed))
        if any(claim.key == "яд" for claim in claimed):
            pass_time(database)
        elif claimed:
            done(database)(TENANT, claimed)
        else:
            break
    # Then it alone is given up, and the others did not wait for one claim each where there are attempts for it
    with database.maintenance() as connection:
        assert claims.mark_exhausted_dead(connection, max_attempts=max_attempts) == {(TENANT, "embed"): 1}
        assert connection.scalar(text("SELECT count(*) FROM jobs WHERE due_at IS NOT NULL")) == 0
    assert sizes[0] == 128
    assert max_attempts < 5 or len(sizes) < 30


def test_two_rows_that_may_have_killed_their_worker_are_never_tried_beside_each_other(
    database: Database,
) -> None:
    # Given two rows of two kinds that were under way in one process when it died
    owe(database, "session:7", kind="summarize")
    owe(database, "memory:好", kind="extract")
    with database.maintenance() as connection:
        for kind in ("summarize", "extract"):
            assert store_claims.claim(connection, kind, batch=1, lease_seconds=60, max_attempts=3).rows
    pass_time(database)
    owe(database, "memory:нова", kind="extract")
    beside: list[runner.Outcome] = []

    def try_the_first(tenant: str, claims: Sequence[Claim]) -> Set[str]:
        # When a thread beside it looks for work
        beside.append(runner.run(database, "extract", done(database), POLICY))
        beside.append(runner.run(database, "extract", done(database), POLICY))
        return done(database)(tenant, claims)

    assert runner.run(database, "summarize", try_the_first, POLICY).finished == 1
    # Then it gets what is new, and not what might kill the first, or be killed by it again
    assert [outcome.claimed for outcome in beside] == [1, 0]
    assert row(database, "memory:好")["attempts"] == 1
    # and once the first has ended the other one is tried
    assert runner.run(database, "extract", done(database), POLICY).finished == 1


def test_tenants_whose_turn_has_not_come_by_half_of_the_lease_are_left_for_another_run(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tenant in ("a", "b", "c"):
        owe(database, "message:1", tenant=tenant)
    now = [0.0]
    monkeypatch.setattr(runner, "monotonic", lambda: now[0])

    def handle(tenant: str, claims: Sequence[Claim]) -> Set[str]:
        now[0] += 20
        if tenant == "a":
            raise ValueError("broken")
        return done(database)(tenant, claims)

    # and the failure of one leaves the others alone
    outcome = runner.run(database, "embed", handle, POLICY)
    assert (outcome.finished, outcome.failed, outcome.more) == (1, 1, True)
    assert not rows(database, "message:1", tenant="b")
    left = row(database, "message:1", tenant="c")
    assert (left["due"], left["claimed"], left["attempts"]) == (True, None, 0)

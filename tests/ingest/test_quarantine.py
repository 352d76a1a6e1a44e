"""One message that cannot be placed never stops its chat, and a fault that is not a message's blames none."""

from sqlalchemy import text

from pipeline.ingest import accept, place
from pipeline.jobs import runner
from pipeline.operations.sweep import sweep
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.conftest import POLICY, SESSION_POLICY, TENANT, message
from tests.harness.jobs import pass_time, row
from tests.harness.refusals import refuse
from tests.harness.sessions import expected, stored
from tests.waiting import rounds

CHAT = ChatIn(chat_id="test:1")


def turn(database: Database) -> runner.Outcome:
    """One try at what is due, however long a failure would have it wait."""
    outcome = runner.run(database, "ingest", place.placer(database, SESSION_POLICY), POLICY)
    pass_time(database)
    return outcome


def aside(database: Database) -> list[tuple[object, ...]]:
    with database.tenant(TENANT) as connection:
        found = connection.execute(
            text("""
                SELECT m.external_id, a.error, a.trace_id FROM arrivals a
                JOIN messages m ON m.tenant_id = a.tenant_id AND m.id = a.message_id
                WHERE a.quarantined_at IS NOT NULL ORDER BY m.external_id
            """)
        )
        return [tuple(each) for each in found]


def test_a_message_that_cannot_be_placed_stands_aside(database: Database, settings: Settings) -> None:
    refuse(settings)
    given = [message(n, sender_name="Mallory" if n == 4 else "Ann") for n in range(10)]
    accept.accept(database, TENANT, CHAT, given, trace_id="the-request")
    assert turn(database).failed == 1  # everything is tried together first
    assert aside(database) == []
    tried = turn(database)
    assert (tried.finished, "embed" in tried.follows) == (1, True)
    assert aside(database) == [("m4", "RaiseException: no session may be made of this", "the-request")]
    assert row(database, "test:1")["attempts"] == 0
    # and stays there, while what comes later is placed
    sweep(database, SESSION_POLICY, max_attempts=3)
    assert turn(database).claimed == 0
    later = message(11)
    accept.accept(database, TENANT, CHAT, [later])
    assert turn(database).finished == 1
    assert stored(database) == expected([m for m in (*given, later) if m.sender_name == "Ann"])


def test_a_fault_that_befalls_every_message_blames_none(database: Database, settings: Settings) -> None:
    refuse(settings, "true")
    accept.accept(database, TENANT, CHAT, [message(n) for n in range(3 * place.MAX_BLAMED_PER_TURN)])
    for _ in rounds("it is given up"):
        if not turn(database).claimed:
            break
    assert aside(database) == []
    found = row(database, "test:1")
    assert found["dead_at"] is not None
    assert found["last_error"] == "RaiseException: no session may be made of this"

"""Whatever order messages come in, the stored sessions are those of the pure function."""

from datetime import timedelta

from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import text
from structlog.testing import capture_logs

from pipeline.ingest import accept
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn, MessageIn
from tests.conftest import EPOCH, TENANT, message
from tests.harness.pipeline import place, rows
from tests.harness.sessions import expected, stored

CHAT = ChatIn(chat_id="test:1")


@st.composite
def conversations(draw: st.DrawFn) -> list[list[MessageIn]]:
    """Batches of messages in random order, with duplicates, around gaps of just 30 and 60 minutes."""
    minutes = draw(
        st.lists(
            st.one_of(
                st.integers(0, 400), st.sampled_from([0, 29.99, 30, 30.01, 60, 60.01, 90, 120, 120.01, 150])
            ),
            min_size=1,
            max_size=30,
        )
    )
    made = [
        message(
            minute,
            id=f"m{number}",
            sender_name=draw(st.sampled_from(["Ann", "Bob", "Cy"])),
            session_key=(key := draw(st.sampled_from(["", "", "k"]))),
            thread=draw(st.sampled_from([None, None, "7", "8"])),
            closes_session=bool(key) and draw(st.integers(0, 4)) == 0,
            position=draw(st.integers(0, 2)),
        )
        for number, minute in enumerate(minutes)
    ]
    shuffled = draw(st.permutations([*made, *draw(st.lists(st.sampled_from(made), max_size=5))]))
    cuts = sorted(draw(st.sets(st.integers(1, len(shuffled)), max_size=6)) | {len(shuffled)})
    return [list(shuffled[start:end]) for start, end in zip([0, *cuts], cuts, strict=False)]


@given(batches=conversations())
@hypothesis_settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_order_of_arrival_gives_the_same(database: Database, batches: list[list[MessageIn]]) -> None:
    with database.tenant(TENANT) as connection:
        connection.execute(text("DELETE FROM chats"))
        connection.execute(text("DELETE FROM jobs"))
    with capture_logs() as lines:
        for batch in batches:
            accept.accept(database, TENANT, CHAT, batch)
            place(database)
    # what is told of a session is true, and told once: it opens, and closes after that
    states: dict[int, str] = {}
    changes = {"session_opened": "", "session_closed": "open", "session_reopened": "closed"}
    for line in lines:
        if (before := changes.get(line["event"])) is not None:
            assert states.get(line["session_id"], "") == before, line
            states[line["session_id"]] = "closed" if line["event"] == "session_closed" else "open"
    existing = dict(rows(database, "SELECT id, status FROM conversation_sessions WHERE status <> 'merged'"))  # type: ignore[arg-type]
    assert {session_id: states[session_id] for session_id in existing} == existing  # type: ignore[index]
    everything = [m for batch in batches for m in batch]
    assert stored(database) == expected(everything)
    assert rows(database, "SELECT 1 FROM arrivals") == []
    unique = {m.external_id for m in everything}
    assert rows(database, "SELECT message_count FROM chats") == [(len(unique),)]


def test_the_last_session_of_a_chat_stays_open_until_it_was_quiet_for_the_gap(database: Database) -> None:
    ((now,),) = rows(database, "SELECT now()")
    minutes_ago = (now - EPOCH) / timedelta(minutes=1)
    accept.accept(database, TENANT, CHAT, [message(minutes_ago - 45), message(minutes_ago - 10)])
    place(database)
    assert [row[-1] for row in stored(database)] == ["closed", "open"]


def test_a_late_message_within_the_gap_opens_a_session_again_and_says_so(database: Database) -> None:
    # Given a session that ended 20 minutes ago, and was closed by its agent's marker
    ((now,),) = rows(database, "SELECT now()")
    minutes_ago = (now - EPOCH) / timedelta(minutes=1)

    def hand_over(minute: float, **fields: object) -> list[str]:
        with capture_logs() as lines:
            accept.accept(database, TENANT, CHAT, [message(minute, **fields)])
            place(database)
        return [line["event"] for line in lines if line["event"].startswith("session_")]

    assert hand_over(minutes_ago - 45) == ["session_opened", "session_closed"]
    # an earlier message changes nothing of that it has ended
    assert hand_over(minutes_ago - 50) == []
    # one that is still within the gap does
    assert hand_over(minutes_ago - 20) == ["session_reopened"]
    counted = rows(database, "SELECT sum(value) FROM daily_counters WHERE name = 'sessions_closed'")
    assert counted == [(1,)]

"""What a message sets going: which jobs follow when sessions end, where nothing may follow, and what is kept out."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from pipeline.ingest import accept, session_ranges
from pipeline.ingest.place import ARRIVALS_AT_ONCE, placer
from pipeline.ingest.policy import SessionPolicy
from pipeline.ingest.pruned import MessageLimits
from pipeline.jobs import runner
from pipeline.people import membership, suppression
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn, MessageIn
from tests.conftest import POLICY, SESSION_POLICY, TENANT, message
from tests.test_pipeline import place, rows

CHAT, SILENT = ChatIn(chat_id="test:1"), ChatIn(chat_id="test:2", memory=False)
EVERYTHING = replace(SESSION_POLICY, facts=True)
JOBS = """
    SELECT kind, priority, round(extract(epoch FROM due_at - now()) / 10) * 10 FROM jobs
    WHERE kind IN ('summarize', 'extract') AND due_at IS NOT NULL ORDER BY kind DESC
"""


def placed(database: Database, policy: SessionPolicy, *, settle: timedelta | None = None) -> object:
    """The jobs of a session that has ended: `(kind, priority, due in about so many seconds)`."""
    accept.accept(database, TENANT, CHAT, [message(0), message(1)], settle=settle)
    accept.accept(database, TENANT, SILENT, [message(0)])
    place(database, policy)
    assert rows(database, "SELECT count(*) FROM arrivals") == [(0,)]
    return rows(database, JOBS)


@pytest.mark.parametrize(
    ("policy", "jobs"),
    [
        (EVERYTHING, [("summarize", 0, 0), ("extract", 0, 0)]),
        (replace(EVERYTHING, summaries=False), [("extract", 0, 0)]),
        (replace(EVERYTHING, facts=False), [("summarize", 0, 0)]),
        (replace(EVERYTHING, summaries=False, facts=False), []),
        # late messages are waited for
        (replace(EVERYTHING, debounce_seconds=300), [("summarize", 0, 300), ("extract", 0, 300)]),
    ],
)
def test_an_ended_session_is_summarized_and_learned_from_as_the_settings_say(
    database: Database, policy: SessionPolicy, jobs: object
) -> None:
    assert placed(database, policy) == jobs


def test_facts_are_looked_for_after_the_summary_unless_nothing_waits(database: Database) -> None:
    placed(database, replace(EVERYTHING, debounce_seconds=300))
    apart = "SELECT max(due_at) - min(due_at) FROM jobs WHERE kind IN ('summarize', 'extract')"
    assert rows(database, apart) == [(timedelta(seconds=session_ranges.AFTER_SUMMARY_SECONDS),)]


def test_an_imported_chat_is_summarized_once_it_has_settled_behind_all_others(database: Database) -> None:
    jobs = placed(database, EVERYTHING, settle=timedelta(minutes=10))
    assert jobs == [("summarize", 1, 600), ("extract", 1, 600)]


def test_a_session_that_goes_on_is_summarized_when_it_has_grown_that_much(database: Database) -> None:
    long = replace(EVERYTHING, gap=timedelta(days=10_000), rolling_messages=3, rolling_tokens=10_000)
    assert placed(database, long) == []
    accept.accept(database, TENANT, CHAT, [message(2)])
    place(database, long)
    assert rows(database, JOBS) == [("summarize", 0, 0), ("extract", 0, 0)]


def test_a_chat_whose_memory_is_off_has_no_sessions_however_they_are_split(database: Database) -> None:
    placed(database, EVERYTHING)
    with database.tenant(TENANT) as connection:
        for chat_id in (SILENT.chat_id, "test:unknown"):
            session_ranges.sessionize_anew(connection, TENANT, chat_id, EVERYTHING)
        # the other's are split again, and its one session is as it was
        session_ranges.sessionize_anew(connection, TENANT, CHAT.chat_id, EVERYTHING)
    sessions = "SELECT chat_id, message_count, revision FROM conversation_sessions"
    assert rows(database, sessions) == [(CHAT.chat_id, 2, 1)]


def test_what_one_turn_cannot_place_is_due_at_once_and_the_kinds_of_work_that_follow_are_told(
    database: Database,
) -> None:
    accept.accept(database, TENANT, CHAT, [message(n / 100) for n in range(ARRIVALS_AT_ONCE + 1)])
    outcomes = [runner.run(database, "ingest", placer(database, EVERYTHING), POLICY) for _ in range(3)]
    assert [outcome.claimed for outcome in outcomes] == [1, 1, 0]
    assert [outcome.follows for outcome in outcomes] == [
        {"ingest", "embed", "summarize", "extract", "language"},
        {"embed", "summarize", "extract"},
        set(),
    ]
    assert rows(database, "SELECT message_count FROM conversation_sessions") == [(ARRIVALS_AT_ONCE + 1,)]
    assert rows(database, "SELECT count(*) FROM jobs WHERE kind = 'ingest' AND due_at IS NOT NULL") == [(0,)]


# On the way in


def test_whoever_is_not_remembered_is_a_member_without_a_name(database: Database) -> None:
    suppression.remember_user(database, TENANT, "test:dee", remembered=False)
    said = [message(0), message(1, sender_id="test:dee")]
    assert accept.accept(database, TENANT, CHAT, said) == accept.Accepted(new=1, duplicates=0, kept_out=1)
    found = membership.show(database, TENANT, CHAT.chat_id)
    assert (found.members, found.unnamed) == (["test:ann"], True)


def test_messages_are_counted_as_new_known_or_kept_out(database: Database) -> None:
    suppression.remember_user(database, TENANT, "test:dee", remembered=False)
    one, dees = message(0), message(1, sender_id="test:dee")
    for given, counted in (
        ([one, one], (1, 1, 0)),
        ([one, message(2), dees], (1, 1, 1)),
        ([dees, dees], (0, 0, 2)),
        ([one], (0, 1, 0)),
        ([], (0, 0, 0)),
    ):
        accepted = accept.accept(database, TENANT, CHAT, given)
        assert (accepted.new, accepted.duplicates, accepted.kept_out) == counted


def test_the_event_loop_takes_neither_what_ends_a_session_nor_what_may_have_been_pruned(
    database: Database,
) -> None:
    plain, closing = message(0, session_key="k"), message(1, session_key="k", closes_session=True)
    old = MessageLimits(age=timedelta(days=1))

    def taken(*said: MessageIn, limits: MessageLimits = accept.UNLIMITED) -> accept.Accepted | None:
        return asyncio.run(accept.try_accept(database, TENANT, CHAT, said, limits=limits, trace_id=None))

    accept.accept(database, TENANT, CHAT, [message(9)])
    assert taken(plain, closing) is None
    assert taken(plain, limits=old) is None
    assert taken(closing, limits=old) is None
    assert rows(database, "SELECT count(*) FROM messages") == [(1,)]

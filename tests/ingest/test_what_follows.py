"""What a message sets going: which jobs follow when sessions end, where nothing may follow, and what is kept out."""

import asyncio
import contextlib
from dataclasses import replace
from datetime import timedelta

import pytest

from pipeline.erasure import edits
from pipeline.ingest import accept, session_ranges
from pipeline.ingest.accept import MessageLimits
from pipeline.ingest.place import ARRIVALS_AT_ONCE, placer
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.jobs import runner
from pipeline.people import suppression
from pipeline.store.connections.database import Database
from schemas.messages import MAX_CONTENT_BYTES, MAX_NAME_CHARS, ChatIn, MessageIn
from schemas.settings import Settings
from tests.conftest import EPOCH, POLICY, SESSION_POLICY, TENANT, message
from tests.harness.pipeline import place, rows

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


@pytest.mark.parametrize(("debounce", "apart"), [(300, session_ranges.AFTER_SUMMARY_SECONDS), (0, 0)])
def test_facts_are_looked_for_after_the_summary_unless_nothing_waits(
    database: Database, debounce: float, apart: float
) -> None:
    placed(database, replace(EVERYTHING, debounce_seconds=debounce))
    due = "SELECT due_at, due_at <= now() FROM jobs WHERE kind IN ('summarize', 'extract') ORDER BY kind"
    (extract, is_due), (summarize, _) = rows(database, due)
    assert (extract - summarize, is_due) == (timedelta(seconds=apart), not debounce)  # type: ignore[operator]


def test_an_imported_chat_is_summarized_once_it_has_settled_behind_all_others(database: Database) -> None:
    jobs = placed(database, EVERYTHING, settle=timedelta(minutes=10))
    assert jobs == [("summarize", 1, 600), ("extract", 1, 600)]


def test_a_session_that_goes_on_is_summarized_when_it_has_grown_that_much(database: Database) -> None:
    long = replace(EVERYTHING, gap=timedelta(days=10_000), rolling_messages=3, rolling_tokens=10_000)
    assert placed(database, long) == []
    accept.accept(database, TENANT, CHAT, [message(2)])
    place(database, long)
    assert rows(database, JOBS) == [("summarize", 0, 0), ("extract", 0, 0)]


def test_a_session_of_a_chat_whose_memory_is_off_meanwhile_is_not_summarized(database: Database) -> None:
    for n, policy in enumerate((replace(EVERYTHING, gap=timedelta(days=10_000)), EVERYTHING)):
        assert rows(database, JOBS) == []
        for chat_id, memory in ((CHAT.chat_id, True), ("test:3", not n)):
            accept.accept(database, TENANT, ChatIn(chat_id=chat_id, memory=memory), [message(n)])
        place(database, policy)
    due = "SELECT DISTINCT key FROM jobs WHERE kind IN ('summarize', 'extract')"
    assert rows(database, due) == [("session:1",)]


def test_what_has_no_words_is_not_embedded(database: Database) -> None:
    accept.accept(database, TENANT, CHAT, [message(0, ""), message(1)])
    place(database)
    assert rows(database, "SELECT count(*) FROM jobs WHERE kind = 'embed'") == [(1,)]


def test_a_chat_whose_memory_is_off_has_no_sessions_however_they_are_split(database: Database) -> None:
    placed(database, EVERYTHING)
    with database.tenant(TENANT) as connection:
        for chat_id in (SILENT.chat_id, "test:unknown"):
            session_ranges.sessionize_anew(connection, TENANT, chat_id, EVERYTHING)
        # the other's are split again, and its one session is as it was
        session_ranges.sessionize_anew(connection, TENANT, CHAT.chat_id, EVERYTHING)
    sessions = "SELECT chat_id, message_count, revision FROM conversation_sessions ORDER BY started_at"
    assert rows(database, sessions) == [(CHAT.chat_id, 2, 1)]
    # until the settings cut them otherwise
    with database.tenant(TENANT) as connection:
        short = replace(EVERYTHING, gap=timedelta(seconds=30), ttl=timedelta(seconds=40))
        session_ranges.sessionize_anew(connection, TENANT, CHAT.chat_id, short)
    assert rows(database, sessions) == [(CHAT.chat_id, 1, 2), (CHAT.chat_id, 1, 1)]


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


def test_an_edit_does_not_wait_for_what_is_kept_out(database: Database) -> None:
    suppression.remember_user(database, TENANT, "test:dee", remembered=False)
    accept.accept(database, TENANT, CHAT, [message(0)])
    edits.edit(database, TENANT, edits.NewText(CHAT.chat_id, "late", "Oh.", EPOCH), SESSION_POLICY)
    assert rows(database, "SELECT count(*) FROM pending_changes") == [(1,)]
    accept.accept(database, TENANT, CHAT, [message(2, sender_id="test:dee", id="late")])
    assert rows(database, "SELECT count(*) FROM pending_changes") == [(0,)]


def test_messages_are_counted_as_new_known_or_kept_out(database: Database) -> None:
    suppression.remember_user(database, TENANT, "test:dee", remembered=False)
    one, dees = message(0), message(1, sender_id="test:dee")
    long = message(3, sender_name=(MAX_NAME_CHARS - 1) * "a" + "…")
    for given, counted in (
        ([one, one], (1, 1, 0, 0)),
        ([one, message(2), dees], (1, 1, 1, 0)),
        ([dees, dees], (0, 0, 2, 0)),
        ([one], (0, 1, 0, 0)),
        ([], (0, 0, 0, 0)),
        # and of the new ones those that were cut
        ([message(4), long, message(5, "a" * MAX_CONTENT_BYTES)], (3, 0, 0, 1)),
        ([long], (0, 1, 0, 0)),
    ):
        accepted = accept.accept(database, TENANT, CHAT, given)
        assert (accepted.new, accepted.duplicates, accepted.kept_out, accepted.cut) == counted


def test_the_event_loop_takes_neither_what_ends_a_session_nor_what_may_have_been_pruned(
    settings: Settings,
) -> None:
    plain, closing = message(0, session_key="k"), message(1, session_key="k", closes_session=True)
    with contextlib.closing(Database.from_settings(settings, ready=1)) as database:
        accept.accept(database, TENANT, CHAT, [message(8)])
        accept.accept(database, TENANT, CHAT, [message(9)])

        def taken(*said: MessageIn, limits: MessageLimits = accept.UNLIMITED) -> accept.Accepted | None:
            return asyncio.run(accept.try_accept(database, TENANT, CHAT, said, limits=limits, trace_id=None))

        assert taken(plain, closing) is None
        assert taken(closing) is None
        assert taken(plain, limits=MessageLimits(age=timedelta(days=1))) is None
        # nor what may have to be cut, beside what need not
        size = MAX_CONTENT_BYTES // 4
        long = message(2, "x" * (size + 1))
        assert taken(plain, long) is None
        assert taken(message(2, sender_name=(MAX_NAME_CHARS - 1) * "a" + "…")) is None
        assert rows(database, "SELECT count(*) FROM messages") == [(2,)]
        # anything else it takes, and what is there already
        assert taken(message(2, "x" * size)) == accept.Accepted(new=1, duplicates=0, kept_out=0, cut=0)
        assert taken(plain, plain) == taken(plain, message(3)) == accept.Accepted(new=1, duplicates=1)
        # also where some are not remembered
        suppression.remember_user(database, TENANT, "test:dee", remembered=False)
        assert taken(message(4)) is None
        accept.accept(database, TENANT, CHAT, [message(4)])
        assert taken(message(5)) == accept.Accepted(new=1, duplicates=0)
        assert taken(message(6, sender_id="test:dee")) is None
    # without a connection that is ready nothing is stored, and nothing else is said
    with contextlib.closing(Database.from_settings(settings)) as database:
        assert taken(message(7)) is None

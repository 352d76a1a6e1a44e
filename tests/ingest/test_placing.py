"""Chats are placed together at a cost that does not grow with what is around them, and none holds up another."""

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace

import psycopg

from pipeline.ingest import accept
from pipeline.ingest.place import placer
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs import runner
from pipeline.store.chats.chats import Chat
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.conftest import POLICY, SESSION_POLICY, TENANT, message
from tests.test_pipeline import place, rows

CHAT = ChatIn(chat_id="test:1")


@contextmanager
def locked(settings: Settings, chat_id: str) -> Iterator[None]:
    """Somebody else has the chat, as a deletion does."""
    with psycopg.connect(settings.database_url.get_secret_value()) as other:
        other.execute("SELECT set_config('app.tenant_id', %s, true)", (TENANT,))
        held = other.execute("SELECT 1 FROM chats WHERE chat_id = %s FOR UPDATE", (chat_id,)).fetchall()
        assert len(held) == 1
        yield


def once(database: Database) -> runner.Outcome:
    return runner.run(database, "ingest", placer(database, SESSION_POLICY), POLICY)


# Fairness


def test_live_messages_of_a_chat_are_placed_before_those_of_its_import(database: Database) -> None:
    accept.accept(database, TENANT, CHAT, [message(n) for n in range(600)])
    rows(database, "UPDATE arrivals SET priority = 1 RETURNING 1")
    accept.accept(database, TENANT, CHAT, [message(9000, id="live")])
    once(database)
    assert rows(database, "SELECT count(*), min(priority) FROM arrivals") == [(101, 1)]


# Locks


def test_a_locked_chat_is_put_off_and_the_others_are_placed(database: Database, settings: Settings) -> None:
    # Given five chats, one of which somebody else has
    for number in range(5):
        accept.accept(database, TENANT, ChatIn(chat_id=f"test:{number}"), [message(0)])
    with locked(settings, "test:2"):
        outcome = once(database)
        # Then four are, and the fifth has lost no attempt
        assert (outcome.claimed, outcome.failed) == (5, 0)
        assert rows(database, "SELECT chat_id FROM arrivals") == [("test:2",)]
        assert rows(
            database,
            """SELECT key, attempts, claimed, due_at > now(), last_error FROM jobs
            WHERE kind = 'ingest' AND due_at IS NOT NULL""",
        ) == [("test:2", 0, None, True, "the chat is locked by somebody else")]
    rows(database, "UPDATE jobs SET due_at = now() WHERE due_at IS NOT NULL RETURNING 1")
    place(database)
    assert rows(database, "SELECT count(*) FROM arrivals") == [(0,)]
    assert rows(database, "SELECT DISTINCT last_error FROM jobs WHERE kind = 'ingest'") == [(None,)]


def test_a_chat_whose_claim_was_lost_takes_no_other_with_it(database: Database) -> None:
    for number in range(3):
        accept.accept(database, TENANT, ChatIn(chat_id=f"test:{number}"), [message(0)])
    handle = placer(database, SESSION_POLICY)

    def late(tenant_id: str, claims: Sequence[runner.Claim]) -> Set[str]:
        rows(database, "UPDATE jobs SET token = token + 1000 WHERE key = 'test:1' RETURNING 1")
        return handle(tenant_id, claims)

    outcome = runner.run(database, "ingest", late, POLICY)
    assert outcome.claimed == 3
    assert rows(database, "SELECT chat_id FROM arrivals") == [("test:1",)]


class _LongerInDirectChats(SessionPolicy):
    """A policy by a chat's kind, as somebody may write one."""

    def for_chat(self, chat: Chat) -> SessionPolicy:
        return replace(self, gap=2 * self.gap) if chat.kind == "direct" else self


def test_a_chat_s_own_pause_cuts_its_sessions(database: Database) -> None:
    longer = _LongerInDirectChats(**vars(SESSION_POLICY))
    for chat_id, kind in (("test:group", "group"), ("test:direct", "direct")):
        chat = ChatIn.model_validate({"chat_id": chat_id, "kind": kind})
        accept.accept(database, TENANT, chat, [message(0), message(50)])
    place(database, longer)
    cut = "SELECT chat_id, count(*) FROM conversation_sessions GROUP BY 1 ORDER BY 1"
    assert rows(database, cut) == [("test:direct", 1), ("test:group", 2)]

"""Linking the senders of one person: what follows the person, what parts again, and what is never lost."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Event

import pytest
from sqlalchemy import text

from pipeline.erasure import forget
from pipeline.ingest import accept
from pipeline.memories import statements
from pipeline.operations import transfer
from pipeline.operations.retention import prune, retention_of
from pipeline.people import identities, suppression
from pipeline.recall import build_context
from pipeline.store.connections.database import Database
from schemas.errors import Retryable
from schemas.memories import MemoryFilter, MemoryIn
from schemas.messages import ChatIn, MessageIn
from schemas.payloads import ContextQuery
from schemas.people import Subject
from schemas.settings import Settings
from tests.conftest import message
from tests.harness.pipeline import forget_all, speaks
from tests.waiting import SECONDS, rounds

PHONE, WORK = ChatIn(chat_id="telegram:1", kind="direct"), ChatIn(chat_id="slack:1", kind="direct")
DEFAULTS = Settings(_env_file=None)


def knows(database: Database, tenant: str, user: str, content: str, **fields: object) -> str:
    given = {"scope": "user", "user_id": user, "content": content} | fields
    return statements.remember(database, tenant, MemoryIn.model_validate(given)).outcome


def shown(database: Database, tenant: str, user: str, chat: str = PHONE.chat_id) -> set[str]:
    query = ContextQuery(chat_id=chat, query="What do I like?", user_id=user, profile="ask", explain=True)
    found = build_context(database, tenant, query, embedder=None, settings=DEFAULTS)
    return {m.preview for m in found.memories or []}


def forgotten(database: Database, tenant: str, sender: str) -> dict[str, int]:
    receipt = forget.start(database, tenant, Subject(kind="user", sender_id=sender))
    forget_all(database)
    return forget.get(database, tenant, receipt.id).counts


@pytest.fixture
def ann(shared: Database, tenant: str) -> str:
    """Ann, on two platforms, with a memory learned under each id and one under her name."""
    speaks(shared, tenant, PHONE, "telegram:ann", "I like tea")
    speaks(shared, tenant, WORK, "slack:ann", "I like ink")
    knows(shared, tenant, "telegram:ann", "likes tea", learned_in=PHONE.chat_id)
    knows(shared, tenant, "slack:ann", "likes ink", learned_in=WORK.chat_id)
    return tenant


def test_memories_follow_the_person_and_part_again_as_they_came(shared: Database, ann: str) -> None:
    for sender in ("telegram:ann", "slack:ann"):
        assert identities.link(shared, ann, sender, "ann").outcome == "linked"
        assert identities.link(shared, ann, sender, "ann").outcome == "unchanged"
    knows(shared, ann, "ann", "likes to be called Annie")
    everything = {"likes tea", "likes ink", "likes to be called Annie"}
    for any_id in ("ann", "telegram:ann", "slack:ann"):
        assert shown(shared, ann, any_id) == shown(shared, ann, any_id, WORK.chat_id) == everything
    user = identities.unlink(shared, ann, "slack:ann").user
    assert (user.user_id, user.senders) == ("ann", ["telegram:ann"])
    assert shown(shared, ann, "telegram:ann") == {"likes tea", "likes to be called Annie"}
    assert shown(shared, ann, "slack:ann", WORK.chat_id) == {"likes ink"}
    assert identities.unlink(shared, ann, "slack:ann").outcome == "unchanged"
    identities.unlink(shared, ann, "telegram:ann")
    with shared.tenant(ann) as connection:
        assert connection.scalar(text("SELECT count(*) FROM users")) == 0


def test_merged_users_are_one_by_either_id(shared: Database, ann: str) -> None:
    identities.link(shared, ann, "telegram:ann", "ann")
    identities.link(shared, ann, "slack:ann", "annie")
    assert identities.merge(shared, ann, "annie", "ann").outcome == "merged"
    assert identities.merge(shared, ann, "slack:ann", "telegram:ann").outcome == "unchanged"
    for any_id in ("ann", "annie", "telegram:ann", "slack:ann"):
        assert identities.show(shared, ann, any_id).senders == ["annie", "slack:ann", "telegram:ann"]
        assert shown(shared, ann, any_id) == {"likes tea", "likes ink"}


def test_an_export_and_forgetting_take_a_person_under_every_id(shared: Database, ann: str) -> None:
    identities.link(shared, ann, "telegram:ann", "ann")
    identities.link(shared, ann, "slack:ann", "ann")
    assert forget.plan(shared, ann, Subject(kind="user", sender_id="slack:ann"))["messages"] == 2
    exported = list(transfer.export_user(shared, ann, "slack:ann"))
    assert {r["content"] for r in exported if r["record"] == "message"} == {"I like tea", "I like ink"}
    assert {r["content"] for r in exported if r["record"] == "memory"} == {"likes tea", "likes ink"}
    counts = forgotten(shared, ann, "slack:ann")
    assert (counts["messages"], counts["memories"], counts["links"]) == (2, 2, 3)
    assert left(shared, ann, ["ann", "likes", "I like"]) == []
    for sender, chat in (("telegram:ann", PHONE), ("slack:ann", WORK)):
        # redelivered
        assert speaks(shared, ann, chat, sender, "I like tea") == 0
        # a statement that comes again, under whichever of her ids
        assert knows(shared, ann, sender, "likes tea") == "kept_out"
        assert knows(shared, ann, sender, "likes anything", said_at="2026-03-02T18:00:00Z") == "kept_out"
        # what she says from now on is hers, and learned anew
        assert knows(shared, ann, sender, f"likes coffee, says {sender}") == "new"
        assert identities.show(shared, ann, sender).senders == []


def left(database: Database, tenant: str, words: Sequence[str]) -> list[str]:
    """Where of all these tables a word is still found."""
    found = []
    for table in ("users", "user_senders", "chat_members", "messages", "memories", "forget_receipts", "jobs"):
        with database.tenant(tenant) as connection:
            whole = str(connection.scalar(text(f"SELECT jsonb_agg(to_jsonb(t)) FROM {table} t")))
        found += [f"{word} in {table}" for word in words if word in whole]
    return found


def test_who_is_switched_off_is_so_under_every_id(shared: Database, ann: str) -> None:
    identities.link(shared, ann, "telegram:ann", "ann")
    suppression.remember_user(shared, ann, "telegram:ann", remembered=False)
    assert knows(shared, ann, "ann", "likes cake") == "kept_out"
    # whoever turns out to be the same person is off as well
    identities.link(shared, ann, "slack:ann", "ann")
    assert speaks(shared, ann, WORK, "slack:ann", "and cake", 2) == 0
    assert not suppression.is_remembered(shared, ann, "slack:ann")
    assert not identities.show(shared, ann, "ann").remembered
    suppression.remember_user(shared, ann, "ann", remembered=True)
    assert speaks(shared, ann, WORK, "slack:ann", "and cake", 2) == 1
    assert knows(shared, ann, "telegram:ann", "likes cake") == "new"


def test_memories_of_a_chat_that_is_off_or_gone_are_not_written(shared: Database, ann: str) -> None:
    accept.accept(shared, ann, ChatIn(chat_id="test:off", memory=False), [message(0)])
    assert knows(shared, ann, "telegram:ann", "likes rain", learned_in="test:off") == "kept_out"
    forget.start(shared, ann, Subject(kind="chat", chat_id=WORK.chat_id))
    forget_all(shared)
    for content in ("likes ink", "likes pens"):
        past = {"learned_in": WORK.chat_id, "said_at": "2026-03-02T18:00:00Z"}
        assert knows(shared, ann, "slack:ann", content, **past) == "kept_out"
    assert knows(shared, ann, "slack:ann", "likes ink") == "kept_out"


def test_the_cap_of_memories_is_the_persons(shared: Database, ann: str) -> None:
    for n in range(5):
        knows(shared, ann, "telegram:ann", f"fact {n}", importance=n)
        knows(shared, ann, "slack:ann", f"other fact {n}", importance=n)
    identities.link(shared, ann, "slack:ann", "telegram:ann")
    keep = replace(retention_of(DEFAULTS), memories_per_user=4)
    assert prune(shared, ann, keep)["memories_over_user_cap"] == 8
    kept = statements.listing(shared, ann, MemoryFilter(user_id="slack:ann"))
    assert {m.content for m in kept} == {f"{which} {n}" for n in (3, 4) for which in ("fact", "other fact")}


# Who is in a chat


CHAT = ChatIn(chat_id="test:1")


def accepted(database: Database, tenant: str, messages: list[MessageIn]) -> int:
    for _ in rounds("the messages are accepted"):
        with suppress(Retryable):
            return accept.accept(database, tenant, CHAT, messages).new
    return 0


def test_whoever_speaks_while_they_are_forgotten_is_a_member(shared: Database, tenant: str) -> None:
    bot = message(2, sender_id="test:bot", role="assistant")
    accepted(shared, tenant, [message(0), message(1, sender_id="test:bob"), bot])
    begun = Event()

    def speak() -> None:
        for number in range(10):
            if number == 5:
                # what was accepted before goes
                assert begun.wait(SECONDS)
            said = message(0, id=f"later-{number}", sent_at="2126-01-01T00:00:00Z")
            accepted(shared, tenant, [said])

    with ThreadPoolExecutor(1) as pool:
        speaking = pool.submit(speak)
        try:
            forget.start(shared, tenant, Subject(kind="user", sender_id="test:ann"))
        finally:
            begun.set()
        forget_all(shared)
        speaking.result(SECONDS)
    # and a bot is none
    assert identities.show_members(shared, tenant, CHAT.chat_id).members == ["test:ann", "test:bob"]

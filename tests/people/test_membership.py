"""Who is in a chat is noted with every message, whoever else is storing at the time."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

from pipeline.erasure import forget
from pipeline.ingest import accept
from pipeline.people import membership
from pipeline.store.connections.database import Database
from schemas.errors import Retryable
from schemas.messages import ChatIn, MessageIn
from schemas.people.forgetting import Subject
from tests.conftest import SESSION_POLICY, message
from tests.test_pipeline import run

CHAT = ChatIn(chat_id="test:1")


def accepted(database: Database, tenant: str, messages: list[MessageIn]) -> int:
    while True:
        try:
            return accept.accept(database, tenant, CHAT, messages).new
        except Retryable:
            continue


def test_bots_and_systems_are_not_members(shared: Database, tenant: str) -> None:
    roles = ("user", "assistant", "system", "tool")
    accept.accept(
        shared, tenant, CHAT, [message(n, sender_id=f"test:{r}", role=r) for n, r in enumerate(roles)]
    )
    assert membership.show(shared, tenant, CHAT.chat_id).members == ["test:user"]


def test_whoever_speaks_while_they_are_forgotten_is_a_member(shared: Database, tenant: str) -> None:
    accepted(shared, tenant, [message(0), message(1, sender_id="test:bob")])
    begun = Event()

    def speak() -> None:
        for number in range(10):
            if number == 5:
                # what was accepted before goes
                begun.wait()
            said = message(0, id=f"later-{number}", sent_at="2126-01-01T00:00:00Z")
            accepted(shared, tenant, [said])

    with ThreadPoolExecutor(1) as pool:
        speaking = pool.submit(speak)
        try:
            forget.start(shared, tenant, Subject(kind="user", sender_id="test:ann"))
        finally:
            begun.set()
        run(shared, "forget", forget.forgetter(shared, SESSION_POLICY))
        speaking.result()
    assert "test:ann" in membership.show(shared, tenant, CHAT.chat_id).members
